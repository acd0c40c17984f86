"""What a text costs beside the stock model: `python -m tests.bench.single`.

One text and some texts of demo/reviews, one thread, CPU time. The stock model runs as transformers runs it. Occlusion
of a random Llama that classifies, of 6 blocks and width 384, is compared with itself without the reuse of what precedes
the hidden token.
"""

import copy
from unittest import mock

import numpy as np
import torch
import transformers

import nbsal
from nbsal.ablation import reuse as reused
from tests import zoo
from tests.bench import table
from tests.bench.measure import cpu
from tests.bench.table import Row, at_least, at_most, spread

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
    texts = nbsal.data.load("samples/reviews")["text"].tolist()[: 4 if quick else 48]
    explain = nbsal.Explainer(subject, "gradcam", layer=5)
    frozen = subject.model.requires_grad_(False)
    batches = [subject.inputs(subject.encode(texts[i : i + 32])) for i in range(0, len(texts), 32)]

    def stock():
        inputs = subject.inputs(subject.encode(TEXT))
        states = frozen.get_input_embeddings()(inputs.pop("input_ids")).requires_grad_()
        frozen(inputs_embeds=states, **inputs).logits[0, 0].backward()

    def stock_corpus():
        with torch.no_grad():
            for inputs in batches:
                frozen(**inputs)

    def corpus():
        explain.map(texts, batch_size=32, progress=False)

    one = [quickest(lambda: explain(TEXT)) / quickest(stock) for _ in range(rounds)]
    gain = [quickest(stock_corpus) / quickest(corpus) for _ in range(rounds)]
    work = f"gradcam at layer 5 of {len(texts)} texts"
    return [
        *rows,
        shares("gradcam at layer 5 of one text, demo/reviews", one, "a stock forward and backward pass", 0.65),
        Row(work, f"{spread(gain)} times as quick as stock forward passes", **at_least(1.3, gain)),
    ]


def shares(work: str, ratios: list[float], whole: str, goal: float) -> Row:
    """The row of a cost as a share of another."""
    return Row(work, f"{spread(ratios)} of {whole}", **at_most(goal, ratios))


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
    ids = [2, *(10 + i * i % 61 for i in range(length - 2)), 3]
    explain, scores, ratios = nbsal.Explainer(decoder(), "occlusion"), [], []
    explain.ids(ids)  # a first run takes longer
    for _ in range(rounds):
        seconds = cpu(lambda: scores.append(explain.ids(ids).scores))
        with mock.patch.object(reused, "LEAST_SAVED", float("inf")):
            ratios.append(seconds / cpu(lambda: scores.append(explain.ids(ids).scores)))
    difference = np.abs(scores[0] - scores[1]).max() / np.abs(scores[1]).max()
    whole = f"the time without reuse; scores differ by {difference:.1e} of the largest"
    return shares(f"occlusion of a decoder's text of {length} tokens", ratios, whole, goal)


if __name__ == "__main__":
    table.main(results, __doc__)
