"""What a text costs beside the stock model: `python -m tests.bench.single`.

One text and some texts of demo/reviews, one thread, CPU time. The stock model runs as transformers runs it. Occlusion
and the games are compared with themselves on PyTorch's own matrix products, which NBSAL_PRODUCTS=torch chooses.
Occlusion of a random Llama that classifies, of 6 blocks and width 384, is compared with itself without the reuse of
what precedes the hidden token.
"""

import copy
import os
import statistics
from unittest import mock

import numpy as np
import torch
import transformers

import nbsal
from nbsal.model import prefixes, products
from tests import zoo
from tests.bench.measure import cpu
from tests.bench.table import Row, at_least, at_most, markdown, parser, spread

TEXT = "A warm and affecting film that takes us on a charming journey, though it never quite arrives anywhere."
REPEATS = 3  # of each measurement, of which the quickest counts
LENGTHS = {64: 0.85, 256: 0.65}  # tokens of a text for a decoder: the goal of reuse, of the time without


def quickest(work) -> float:
    """Seconds of CPU time of the quickest of some runs."""
    return min(cpu(work) for _ in range(REPEATS))


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """The cost of one text, of a corpus and of occlusion."""
    torch.set_num_threads(1)
    rows = [reuse(length, goal, rounds) for length, goal in LENGTHS.items() if not quick or length == 64]
    subject = nbsal.load("demo/reviews")
    model, texts = subject.model, nbsal.data.load("samples/reviews")["text"].tolist()[: 4 if quick else 48]
    explain = nbsal.Explainer(subject, "gradcam", layer=5)
    occlude = nbsal.Explainer(subject, nbsal.Occlusion(way="mask"))
    frozen = model.requires_grad_(False)
    batches = [subject.inputs(subject.encode(texts[i : i + 32])) for i in range(0, len(texts), 32)]

    def stock():
        inputs = subject.inputs(subject.encode(TEXT))
        states = frozen.get_input_embeddings()(inputs.pop("input_ids")).requires_grad_()
        frozen(inputs_embeds=states, **inputs).logits[0, 0].backward()

    def stock_corpus():
        with torch.no_grad():
            for inputs in batches:
                model(**inputs)

    def occlusion():
        nbsal.Explainer(subject, occlude.method).map(texts[:12], progress=False)

    def games():
        nbsal.evaluation.games({"gradcam": explain}, texts[:12], progress=False)

    one = [quickest(lambda: explain(TEXT)) / quickest(stock) for _ in range(rounds)]
    corpus = [
        quickest(stock_corpus) / quickest(lambda: explain.map(texts, batch_size=32, progress=False))
        for _ in range(rounds)
    ]
    rows += [
        Row(
            "gradcam at layer 5 of one text, demo/reviews",
            ours=f"{spread(one)} of a stock forward and backward pass",
            **at_most(0.65, one),
        ),
        Row(
            f"gradcam at layer 5 of {len(texts)} texts",
            ours=f"{spread(corpus)} times as quick as stock forward passes",
            **at_least(1.3, corpus),
        ),
    ]
    for name, work in {"occlusion": occlusion, "games": games}.items():
        ratios = [_with("auto", work) / _with("torch", work) for _ in range(rounds)]
        rows.append(
            Row(f"{name}, 12 texts", ours=f"{spread(ratios)} of the time on PyTorch's own", **at_most(0.62, ratios))
        )
    return rows


def decoder() -> nbsal.Subject:
    """A random Llama that classifies, in float32."""
    torch.manual_seed(0)
    tokenizer = copy.deepcopy(zoo.tokenizer("pieces"))
    tokenizer.model_max_length = max(LENGTHS)
    sizes = {"hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 6}
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    config = transformers.LlamaConfig(vocab_size=len(tokenizer), num_labels=2, **sizes, **special)
    return nbsal.load(transformers.LlamaForSequenceClassification(config).eval(), tokenizer=tokenizer)


def reuse(length: int, goal: float, rounds: int) -> Row:
    """The time of occlusion of a decoder's text, with reuse and without, one after the other."""
    subject = decoder()
    ids = [2, *(10 + i * i % 61 for i in range(length - 2)), 3]
    explain, scores, ratios = nbsal.Explainer(subject, "occlusion"), [], []
    explain.ids(ids)  # a first run takes longer
    for _ in range(rounds):
        seconds = cpu(lambda: scores.append(explain.ids(ids).scores))
        with mock.patch.object(prefixes, "LEAST_SAVED", float("inf")):
            ratios.append(seconds / cpu(lambda: scores.append(explain.ids(ids).scores)))
    difference = np.abs(scores[0] - scores[1]).max() / np.abs(scores[1]).max()
    row = Row(
        f"occlusion of a decoder's text of {length} tokens",
        ours=f"{spread(ratios)} of the time without reuse",
        **at_most(goal, ratios),
    )
    print(f"{row.work}: {row.ours}; the scores differ by {difference:.1e} of the largest", flush=True)
    return row


def _with(setting: str, work) -> float:
    before = os.environ.get(products.SETTING, "auto")
    os.environ[products.SETTING] = setting
    seconds = statistics.median(cpu(work) for _ in range(2))
    os.environ[products.SETTING] = before
    return seconds


def main() -> None:
    options = parser(".single", __doc__).parse_args()
    print(markdown(results(options.rounds, options.quick)))


if __name__ == "__main__":
    main()
