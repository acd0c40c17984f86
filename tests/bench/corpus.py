"""The cost of explaining a corpus: `python -m tests.bench.corpus [--texts 10000] [--longest 600] [--base]`.

Texts of random words (with Zipf weights: 1/k for the k-th word) are explained with Grad-CAM of the embedded review
model. Printed are:

- tokens per second, beside those of a plain loop of `explain(text)` and of the model's forward pass alone, which are
  measured on a sample;
- the time for the arithmetic of the forward pass, and of the backward pass to the explained layer: matrix products at
  the rate at which this machine multiplies matrices of the model's sizes;
- the peak resident memory after the first 500 texts and at the end;
- bytes per token in the files;
- the time for the short texts on a LocalCluster of one and of two processes.

`--base` uses a random bert-base. The benchmark is long, so it runs once, whatever the number of rounds.
"""

import random
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import torch
from pyarrow import parquet

import nbsal
from nbsal import corpus
from nbsal.corpus.manifest import TOKENS
from nbsal.corpus.shards import token_batches
from nbsal.model.tokens import Encoded
from nbsal.samples import base
from tests.bench.games import random_bert
from tests.bench.measure import products
from tests.bench.table import Row, at_least, at_most, markdown, parser, spread

SHORT = (8, 40)


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


class PeakMemory:
    """The peak memory of this process, sampled ten times a second; `first` is the peak after 500 texts."""

    def __init__(self):
        self.peak, self.first, self._done = 0, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        process = psutil.Process()
        while not self._done.wait(0.1):
            self.peak = max(self.peak, process.memory_info().rss)

    def progress(self, done, total):
        if done >= 500 and not self.first:
            self.first = self.peak

    def stop(self):
        self._done.set()
        self._thread.join()


def timed(work):
    """Wall-clock seconds, seconds of CPU time, and the result of the work."""
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - start, time.process_time() - cpu, result


@torch.inference_mode()
def forwards(explain, many) -> float:
    """Tokens per second of CPU time of the model's forward pass alone, in the batches of a corpus."""
    subject = explain.subject
    rows = dict(enumerate(subject.encode(many)))
    inputs = [
        subject.inputs(Encoded([rows[i] for i in places], subject.text_encoder.pad_id))
        for places in token_batches(rows, TOKENS["cpu"])
    ]
    return sum(map(len, rows.values())) / timed(lambda: [subject.model(**batch) for batch in inputs])[1]


def measure_lengths(explain, many, looped, out, name, goals) -> list[Row]:
    """All measurements for texts of one range of lengths.

    `looped` is the number of texts in the loop; `goals` are the ratios to reach to the loop and to the arithmetic.
    """
    explain.map(many[:50], progress=False)
    peak = PeakMemory()
    seconds, cpu, explained = timed(lambda: corpus.explain(explain, iter(many), out, progress=peak.progress))
    peak.stop()
    some = random.Random(0).sample(many, min(looped, len(many)))
    loop, loop_cpu, saliencies = timed(lambda: [explain(text) for text in some])
    size = sum(len(s.row) for s in saliencies)
    lengths = [len(ids) for ids in explained.to_frame(["token_ids"])["token_ids"]]
    config = explain.subject.model.config
    # Measured right after, because other programs share the machine.
    flops = rate((config.hidden_size, config.intermediate_size))
    forward, backward = (work / flops for work in products(explain.subject, lengths, explain.method.layer))
    speed, looping, arithmetic = explained.tokens / cpu, size / loop_cpu, forward + backward
    print(f"  {explained}: {explained.tokens:,} tokens in {seconds:.0f} s, {cpu:.0f} s of CPU time")
    print(f"  {speed:,.0f} tokens per second of CPU time; a loop of explain(text): {looping:,.0f}; ratio", end=" ")
    print(f"{speed / looping:.2f}, wall-clock ratio {explained.tokens / seconds * loop / size:.2f}")
    shares = f"forward pass {forward:.1f} s, {forward / cpu:.0%} of the CPU time"
    print(f"  arithmetic alone at {flops / 1e9:.0f} GFLOP/s: {shares};", end=" ")
    print(f"with the backward pass {arithmetic:.1f} s, {arithmetic / cpu:.0%}")
    alone = forwards(explain, some)
    print(f"  the model's forward pass alone, in the same batches: {alone:,.0f} tokens per second;", end=" ")
    print(f"ours {speed / alone:.0%}")
    print(f"  peak memory {peak.first / 2**20:.0f} MB after 500 texts, {peak.peak / 2**20:.0f} MB after all")
    columns = "text", "pair"
    groups = [parquet.ParquetFile(path).metadata.row_group(0) for path in Path(out).glob("*.parquet")]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    written = sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in columns)
    full, bare = explained.size / explained.tokens, (explained.size - written) / explained.tokens
    print(f"  {full:.2f} bytes per token, {bare:.2f} without the texts")
    growth = (peak.peak - (peak.first or peak.peak)) / 2**20
    share = f"{forward / cpu:.0%} for the forward pass; with the backward pass {arithmetic / cpu:.0%}"
    return [
        Row(
            f"a corpus of {len(many):,} texts of {name} tokens, tokens per second of CPU time",
            ours=f"{speed:,.0f}",
            peer=f"a loop of explain(text): {looping:,.0f}",
            floor=f"{explained.tokens / arithmetic:,.0f} (arithmetic)",
            ratio=spread(speed / looping),
            **at_least(goals[0], speed / looping),
        ),
        *(
            [Row("  compared with the arithmetic", ratio=share, **at_least(goals[1], 100 * forward / cpu, " %"))]
            if goals[1]
            else []
        ),
        Row(
            "  compared with the model's forward pass alone",
            floor=f"{alone:,.0f}",
            ratio=f"{speed / alone:.0%} of its speed",
        ),
        Row("  memory growth after the first 500 texts", f"{growth:.0f} MB", **at_most(300, growth, " MB")),
        Row("  bytes per token in the files", f"{full:.2f}; {bare:.2f} without the texts", **at_most(6, full)),
    ]


def measure_cluster(explain, many, folder) -> Row:
    """The same texts on clusters of one and of two processes."""
    from distributed import Client, LocalCluster

    seconds = {}
    for workers in (1, 2):
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            corpus.explain(explain, many[:100], folder / "warm", client=client, shard_rows=20, progress=False)
            shutil.rmtree(folder / "warm")
            out = folder / str(workers)
            seconds[workers] = timed(
                lambda out=out, client=client: corpus.explain(
                    explain, many, out, client=client, shard_rows=100, progress=False
                )
            )[0]
    same = all(
        (folder / "2" / path.name).read_bytes() == path.read_bytes() for path in (folder / "1").glob("*.parquet")
    )
    print(f"cluster: 1 process {seconds[1]:.1f} s, 2 processes {seconds[2]:.1f} s; same files: {same}")
    return Row(
        f"the same {len(many):,} short texts on two Dask processes, wall-clock time",
        ours=f"{seconds[2]:.1f} s",
        peer=f"one process: {seconds[1]:.1f} s",
        floor=f"{seconds[1] / 2:.1f} s",
        ratio=f"{seconds[1] / seconds[2]:.2f}",
    )


def results(
    rounds: int = 1, quick: bool = False, count: int = 10_000, longest: int = 600, base: bool = False
) -> list[Row]:
    """Rows for short texts, for texts of all lengths, and for short texts on two processes."""
    torch.set_num_threads(1)
    count, longest = (60, 100) if quick else (count, longest)
    explain = nbsal.Explainer(random_bert() if base else nbsal.load("demo/reviews"), "gradcam", layer=None)
    table_rows = []
    with tempfile.TemporaryDirectory() as folder:
        for low, high, looped, goals in ((*SHORT, 200, (2.5, None)), (5, longest, 100, (1, 70))):
            print(f"{low} to {high} tokens")
            name, out = f"{low} to {high}", f"{folder}/{high}"
            table_rows += measure_lengths(explain, texts(count, low, high), looped, out, name, goals)
        return [*table_rows, measure_cluster(explain, texts(count, *SHORT), Path(folder))]


def main():
    arguments = parser(".corpus", __doc__)
    arguments.add_argument("--texts", type=int, default=10_000)
    arguments.add_argument("--longest", type=int, default=600)
    arguments.add_argument("--base", action="store_true")
    options = arguments.parse_args()
    print(markdown(results(options.rounds, options.quick, options.texts, options.longest, options.base)))


if __name__ == "__main__":
    main()
