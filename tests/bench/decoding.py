"""The cost of decoded Grad-CAM at all layers, in forward passes of the same model: `python -m tests.bench.decoding`.

A random bert-base on 4 texts of 64 tokens, one thread, CPU time. Ours is compared with captum as an expert calls it,
with all layers in one call and the softmax of the LM head on whole batches. The two alternate, and the ratio of each
round is reported. MB is the growth of the process beyond its size after a first run.
"""

import statistics
import subprocess
import sys
import time

import torch
import transformers
from captum.attr import LayerGradientXActivation

import nbsal
from nbsal.model.text.tokens import Encoded
from nbsal.model.text.tokens import Row as TextRow
from tests.bench import table
from tests.bench.measure import grown, head_products, in_forwards, products
from tests.bench.table import Row, at_most, cost, spread

CAPTUM = "captum, all layers in one call, full softmax"


def rows(batch: int, length: int, size: int) -> Encoded:
    """A batch of random token ids without padding."""
    ids = torch.randint(1000, size, (batch, length), generator=torch.Generator().manual_seed(0)).tolist()
    flags = {"types": (0,) * length, "segments": (0,) * length, "special": (False,) * length, "mask": (1,) * length}
    tokens, offsets = tuple(map(str, range(length))), tuple((i, i + 1) for i in range(length))
    return Encoded([TextRow("x" * length, tuple(row), tokens, offsets, **flags) for row in ids], 0)


def captum_layers(model, lm, ids):
    """The scores of every token at every layer, from one call of captum and a full softmax for each layer."""
    forward = lambda inputs: model(input_ids=inputs).logits  # noqa: E731
    with torch.no_grad():
        output = model(input_ids=ids, output_hidden_states=True)
    layers = [model.bert.embeddings, *model.bert.encoder.layer]
    products = LayerGradientXActivation(forward, layers).attribute(ids, target=output.logits.argmax(-1))
    layer_scores = []
    with torch.no_grad():
        for product, states in zip(products, output.hidden_states, strict=True):
            scores = (product[0] if isinstance(product, tuple) else product).sum(-1).relu()
            logits = lm.cls(states)
            own = logits.gather(-1, ids[:, None].expand(-1, ids.shape[1], -1)) - logits.logsumexp(-1, keepdim=True)
            layer_scores.append(torch.einsum("bpt,bp->bt", own.exp_(), scores))
    return torch.stack(layer_scores)


def our_layers(subject, encoded, **settings):
    """The same scores from a single trace."""
    method = nbsal.Decoded(nbsal.GradCAM(), **settings).resolve(subject)
    return method.every_layer_scores(nbsal.trace.record(subject, encoded), range(subject.depth + 1))


def decoded_states(trace, depth) -> int:
    """The number of hidden states that line 9 has to decode: those with a score above zero."""
    return sum(int((nbsal.GradCAM(layer=layer).scores(trace) > 0).sum()) for layer in range(depth + 1))


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """The cost of all layers, with captum and with ours, and the time to import nbsal."""
    torch.set_num_threads(1)
    batch, length = (2, 16) if quick else (4, 64)
    torch.manual_seed(0)
    config = transformers.BertConfig()
    model = transformers.BertForSequenceClassification(config).eval()
    lm = transformers.BertForMaskedLM(config).eval()
    subject = nbsal.load(model, lm=lm)
    encoded = rows(batch, length, config.vocab_size)
    inputs = subject.inputs(encoded)

    def forward():
        with torch.no_grad():
            model(**inputs)

    works = {
        CAPTUM: lambda: captum_layers(model, lm, inputs["input_ids"]),
        "line 9": lambda: our_layers(subject, encoded),
        "eq. 6": lambda: our_layers(subject, encoded, form="per_token"),
        "line 9, coarse": lambda: our_layers(subject, encoded, coarse=True),
        "trace alone": lambda: nbsal.trace.record(subject, encoded),
    }
    truth, ours = works[CAPTUM](), works["line 9"]()
    difference = float((truth - ours).abs().max() / truth.abs().max())
    forwards = in_forwards(works, forward, rounds)
    size = f"all {subject.depth + 1} layers of {batch} x {length} tokens"
    backwards = products(subject, [length] * batch, 0)
    states = {
        "line 9": decoded_states(nbsal.trace.record(subject, encoded), subject.depth),
        "eq. 6": (subject.depth + 1) * batch * length,
    }
    table_rows = [Row("largest difference between ours and captum", f"{difference:.1e} of the largest score")]
    for name, costs in forwards.items():
        floor = (sum(backwards) + head_products(subject, states.get(name, 0))) / backwards[0]
        table_rows.append(
            Row(
                f"decoded Grad-CAM, {size}, {name}",
                ours=f"{spread(costs)} forward passes, {grown(works[name])[1]:.0f} MB more",
                floor=f"{floor:.2f} forward passes" if name in states else "",
                ratio=spread([theirs / own for theirs, own in zip(forwards[CAPTUM], costs, strict=True)]),
                **(at_most(2.3, costs, " forward passes") if name == "line 9" else {}),
            )
        )
    return [*table_rows, import_row()]


def import_row(rounds: int = 7) -> Row:
    """The time that `import nbsal` adds to the start of Python."""
    seconds = {"pass": [], "import nbsal": []}
    for _ in range(rounds):
        for command, times in seconds.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", command], check=True)
            times.append(time.perf_counter() - start)
    bare, whole = map(statistics.median, seconds.values())
    return cost("import nbsal, compared with python -c pass", whole - bare, "s", 0.15, digits=3, floor="0 s")


if __name__ == "__main__":
    table.main(results, __doc__)
