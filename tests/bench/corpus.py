"""The cost of explaining a corpus: `python -m tests.bench.corpus`.

Texts of random words (with Zipf weights: 1/k for the k-th word) are explained with Grad-CAM of the embedded review
model. Rows have

- tokens per second of CPU time, beside those of a plain loop of `explain(text)` and of the model's forward pass alone,
  which are measured on a sample;
- the time for the arithmetic of the forward pass, and of the backward pass to the explained layer: matrix products at
  the rate at which this machine multiplies matrices of the model's sizes;
- the peak resident memory after the first 500 texts and at the end;
- bytes per token in the files.

It runs once, whatever the number of rounds.
"""

import random
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from pyarrow import parquet

import nbsal
from nbsal import corpus
from nbsal.corpus.folder.manifest import TOKENS
from nbsal.corpus.shards import token_batches
from nbsal.samples import base
from tests.bench import table
from tests.bench.measure import cpu, products, reset_peak, resident
from tests.bench.table import Row, at_least, at_most, cost, spread

SHORT = (8, 40)
FIRST = 500  # texts after which memory should hardly grow


def texts(count, shortest, longest, seed=0):
    """Random words of one token each; two tokens of each text are special."""
    vocabulary = base.tokenizer().get_vocab()
    words = sorted((w for w in vocabulary if w.isascii() and w.isalpha() and len(w) > 2), key=vocabulary.get)
    weights = 1 / np.arange(1, len(words) + 1)
    generator = np.random.default_rng(seed)
    drawn = generator.choice(words, size=count * longest, p=weights / weights.sum())
    lengths = generator.integers(shortest - 2, longest - 1, count)
    ends = lengths.cumsum()
    return [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def rate(size, seconds=2.0):
    """Floating-point operations per second of CPU time in a matrix product [2048, width] x [width, inner]."""
    left, right = torch.randn(2048, size[0]), torch.randn(size)
    torch.mm(left, right)
    start, count = time.process_time(), 0
    while time.process_time() < start + seconds:
        torch.mm(left, right)
        count += 1
    return count * 2 * left.numel() * size[1] / (time.process_time() - start)


def timed(work):
    """Wall-clock seconds, seconds of CPU time, and the result of the work."""
    start, result = time.perf_counter(), []
    seconds = cpu(lambda: result.append(work()))
    return time.perf_counter() - start, seconds, result[0]


@torch.inference_mode()
def forwards(explain, many) -> float:
    """Tokens per second of CPU time of the model's forward pass alone, in the batches of a corpus."""
    subject = explain.subject
    rows = subject.encode(many)
    inputs = [subject.inputs(rows.select(places)) for places in token_batches(rows, TOKENS["cpu"])]
    return sum(map(len, rows)) / cpu(lambda: [subject.model(**batch) for batch in inputs])


def bytes_of_texts(folder) -> int:
    """The size of the texts in the files of a corpus."""
    groups = [parquet.ParquetFile(path).metadata.row_group(0) for path in Path(folder).glob("*.parquet")]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in ("text", "pair"))


def measure_lengths(explain, many, looped, out, name, goals) -> list[Row]:
    """All measurements for texts of one range of lengths.

    `looped` is the number of texts in the loop; `goals` are the ratios to reach to the loop and to the arithmetic.
    """
    first = []

    def progress(done, total):
        if done >= FIRST and not first:
            first.append(resident("VmHWM"))

    explain.map(many[:50], progress=False)
    reset_peak()
    seconds, cpu_seconds, explained = timed(lambda: corpus.explain(explain, iter(many), out, progress=progress))
    peak = resident("VmHWM")
    some = random.Random(0).sample(many, min(looped, len(many)))
    loop, loop_cpu, saliencies = timed(lambda: [explain(text) for text in some])
    size = sum(len(saliency.row) for saliency in saliencies)
    lengths = [len(ids) for ids in explained.to_frame(["token_ids"])["token_ids"]]
    config = explain.subject.model.config
    # Measured right after, because other programs share the machine.
    flops = rate((config.hidden_size, config.intermediate_size))
    forward, backward = (work / flops for work in products(explain.subject, lengths, explain.method.layer))
    speed, looping, arithmetic = explained.tokens / cpu_seconds, size / loop_cpu, forward + backward
    alone = forwards(explain, some)
    full = explained.size / explained.tokens
    bare = (explained.size - bytes_of_texts(out)) / explained.tokens
    share = f"forward {forward / cpu_seconds:.0%} of the CPU time; with the backward {arithmetic / cpu_seconds:.0%}"
    arithmetic_goal = at_least(goals[1], 100 * forward / cpu_seconds, " %") if goals[1] else {}
    return [
        Row(
            f"a corpus of {len(many):,} texts of {name} tokens, tokens per second of CPU time",
            ours=f"{speed:,.0f}: {explained.tokens:,} tokens in {seconds:.0f} s, {cpu_seconds:.0f} s of CPU time",
            peer=f"a loop of explain(text): {looping:,.0f}",
            floor=f"{explained.tokens / arithmetic:,.0f} (arithmetic at {flops / 1e9:.0f} GFLOP/s)",
            ratio=f"{spread(speed / looping)}, on the clock {explained.tokens / seconds * loop / size:.2f}",
            **at_least(goals[0], speed / looping),
        ),
        Row("  compared with the arithmetic", ratio=share, **arithmetic_goal),
        Row("  compared with the model's forward pass alone", floor=f"{alone:,.0f}", ratio=f"{speed / alone:.0%}"),
        cost(f"  memory growth after the first {FIRST} texts", peak - (first or [peak])[0], "MB", 300, digits=0),
        Row("  peak memory", f"{peak:.0f} MB"),
        Row("  bytes per token in the files", f"{full:.2f}; {bare:.2f} without the texts", **at_most(6, full)),
    ]


def results(rounds: int = 1, quick: bool = False) -> list[Row]:
    """Rows for short texts and for texts of all lengths."""
    torch.set_num_threads(1)
    counts, longest = ((60, 60), 100) if quick else ((2_000, 600), 600)
    explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam", layer=None)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        ranges = ((*SHORT, 200, (2.5, None)), (5, longest, 100, (1, 70)))
        for count, (low, high, looped, goals) in zip(counts, ranges, strict=True):
            name, out = f"{low} to {high}", f"{folder}/{high}"
            rows += measure_lengths(explain, texts(count, low, high), looped, out, name, goals)
    return rows


if __name__ == "__main__":
    table.main(results, __doc__)
