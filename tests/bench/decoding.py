"""The cost of decoded Grad-CAM at all layers, in forward passes of the same model: `python -m tests.bench.decoding`.

A random bert-base on 4 texts of 64 tokens, one thread, CPU time. Ours is compared with captum as an expert calls it,
with all layers in one call and the softmax of the LM head on whole batches. The two alternate, and the ratio of each
round is reported.
"""

import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
import transformers
from captum.attr import LayerGradientXActivation

import nbsal
from nbsal.model.tokens import Encoded
from nbsal.model.tokens import Row as TextRow
from tests.bench.measure import cpu, head_products, products
from tests.bench.table import Row, at_most, markdown, parser, spread

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


def peak(work) -> float:
    """The peak growth of the process in MB while the work runs, sampled."""
    statm, page = Path("/proc/self/statm"), 4096
    resident = lambda: int(statm.read_text().split()[1]) * page / 1e6  # noqa: E731
    start, samples, done = resident(), [0.0], threading.Event()

    def watch():
        while not done.wait(0.002):
            samples.append(resident() - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return max(samples)


def import_times(rounds: int) -> tuple[float, float]:
    """Median seconds of `python -c pass` and of `python -c 'import nbsal'`, which alternate."""
    commands = {name: [sys.executable, "-c", name] for name in ("pass", "import nbsal")}
    seconds = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True)
            seconds[name].append(time.perf_counter() - start)
    return statistics.median(seconds["pass"]), statistics.median(seconds["import nbsal"])


def decoded_states(trace, depth) -> int:
    """The number of hidden states that line 9 has to decode: those with a score above zero."""
    return sum(int((nbsal.GradCAM(layer=layer).scores(trace) > 0).sum()) for layer in range(depth + 1))


def measure_in_turn(works, forward, rounds: int) -> dict[str, list[float]]:
    """The cost of each work in forward passes, one value per round."""
    forward()
    costs = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            unit = min(cpu(forward), cpu(forward))
            costs[name].append(cpu(work) / unit)
    return costs


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """The cost of all layers, with captum and with ours, and the time to import nbsal."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batch, length = (2, 16) if quick else (4, 64)
    config = transformers.BertConfig()
    model = transformers.BertForSequenceClassification(config).eval()
    lm = transformers.BertForMaskedLM(config).eval()
    subject = nbsal.load(model, lm=lm)
    encoded = rows(batch, length, config.vocab_size)
    inputs = subject.inputs(encoded)
    ids = inputs["input_ids"]

    def forward():
        with torch.no_grad():
            model(**inputs)

    works = {
        CAPTUM: lambda: captum_layers(model, lm, ids),
        "line 9": lambda: our_layers(subject, encoded),
        "eq. 6": lambda: our_layers(subject, encoded, form="per_token"),
        "line 9, coarse": lambda: our_layers(subject, encoded, coarse=True),
        "trace alone": lambda: nbsal.trace.record(subject, encoded),
    }
    truth, ours = works[CAPTUM](), works["line 9"]()
    difference = float((truth - ours).abs().max() / truth.abs().max())
    print(f"largest difference between ours and captum: {difference:.1e} of the largest score")
    forwards = measure_in_turn(works, forward, rounds)
    peaks = {name: peak(work) for name, work in works.items()}
    size = f"all {subject.depth + 1} layers of {batch} x {length} tokens"
    print(f"{size}, in forward passes: median of {rounds} rounds, range, peak memory")
    for name, ratios in forwards.items():
        print(f"  {name:32} {spread(ratios):24} {peaks[name]:7.0f} MB")
    costs = {name: f"{spread(ratios)} forward passes, {peaks[name]:.0f} MB more" for name, ratios in forwards.items()}
    forward_flops, backward_flops = products(subject, [length] * batch, 0)
    trace_flops = forward_flops + backward_flops
    states = {
        "line 9": decoded_states(nbsal.trace.record(subject, encoded), subject.depth),
        "eq. 6": (subject.depth + 1) * batch * length,
    }
    rows_by_form = [
        Row(
            f"decoded Grad-CAM, {size}, {form}",
            ours=costs[form],
            peer=f"{CAPTUM}: {costs[CAPTUM]}",
            floor=f"{(trace_flops + head_products(subject, count)) / forward_flops:.2f} forward passes",
            ratio=spread([theirs / ours for theirs, ours in zip(forwards[CAPTUM], forwards[form], strict=True)]),
            **(at_most(2.3, forwards[form], " forward passes") if form == "line 9" else {}),
        )
        for form, count in states.items()
    ]
    return [*rows_by_form, import_row()]


def import_row() -> Row:
    """The time that `import nbsal` adds to the start of Python."""
    bare, whole = import_times(7)
    print(f"python -c pass {bare:.3f} s, python -c 'import nbsal' {whole:.3f} s, {whole - bare:+.3f} s")
    added = at_most(0.15, whole - bare, " s")
    return Row("import nbsal, compared with python -c pass", f"{whole - bare:.3f} s", floor="0 s", **added)


def main() -> None:
    options = parser(".decoding", __doc__).parse_args()
    print(markdown(results(options.rounds, options.quick)))


if __name__ == "__main__":
    main()
