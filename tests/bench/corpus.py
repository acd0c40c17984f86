"""What a corpus costs: `python -m tests.bench.corpus [--texts 10000] [--most 600] [--base]`.

Texts of random words (drawn as often as words are: the k-th with weight 1/k) are explained by Grad-CAM of the embedded
review model. Printed are tokens a second; what the arithmetic alone would take, of the forward and of the backward to
the explained layer, as matrix products at the rate at which this machine multiplies matrices of the model's sizes;
what the model's forward takes alone and what a plain loop of `explain(text)` takes, both on a sample; the peak of
resident memory after the first 500 texts and after all; bytes a token in the files; and the short ones again on a
LocalCluster of one and of two processes.
`--base` takes a random bert-base. All of it runs once, however many rounds are asked for: it is long enough.
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
from tests.bench.games import subject as random_base
from tests.bench.measure import products
from tests.bench.table import Row, at_least, at_most, markdown, parser, spread

SHORT = (8, 40)


def texts(count, shortest, longest, seed=0):
    """Random words of one token each; two tokens of a text are special."""
    known = base.tokenizer().get_vocab()
    words = sorted((w for w in known if w.isascii() and w.isalpha() and len(w) > 2), key=known.get)
    weights = 1 / np.arange(1, len(words) + 1)
    generator = np.random.default_rng(seed)
    drawn = generator.choice(words, size=count * longest, p=weights / weights.sum())
    lengths = generator.integers(shortest - 2, longest - 1, count)
    ends = lengths.cumsum()
    return [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def rate(size, seconds=2.0):
    """Floating-point operations a second of CPU of a matrix product [2048, width] x [width, inner]."""
    left, right = torch.randn(2048, size[0]), torch.randn(size)
    torch.mm(left, right)
    start, count = time.process_time(), 0
    while time.process_time() < start + seconds:
        torch.mm(left, right)
        count += 1
    return count * 2 * left.numel() * size[1] / (time.process_time() - start)


class Peak:
    """The most memory that this process held, looked at ten times a second."""

    def __init__(self):
        self.most, self.first, self._done = 0, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        process = psutil.Process()
        while not self._done.wait(0.1):
            self.most = max(self.most, process.memory_info().rss)

    def progress(self, done, total):
        if done >= 500 and not self.first:
            self.first = self.most

    def stop(self):
        self._done.set()
        self._thread.join()


def timed(work):
    """Seconds on the clock, seconds of this process's CPU, and what came of it."""
    start, cpu = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - start, time.process_time() - cpu, found


@torch.inference_mode()
def forwards(explain, many) -> float:
    """Tokens a second of CPU of the model's forward alone, in the batches of a corpus."""
    subject = explain.subject
    rows = dict(enumerate(subject.encode(many)))
    inputs = [
        subject.inputs(Encoded([rows[i] for i in places], subject.text_encoder.pad_id))
        for places in token_batches(rows, TOKENS["cpu"])
    ]
    return sum(map(len, rows.values())) / timed(lambda: [subject.model(**batch) for batch in inputs])[1]


def one(explain, many, looped, out, name, goals) -> list[Row]:
    """Everything about texts of one kind of lengths; `goals` are the least ratio to the loop and to arithmetic."""
    explain.map(many[:50], progress=False)
    peak = Peak()
    seconds, cpu, opened = timed(lambda: corpus.explain(explain, iter(many), out, progress=peak.progress))
    peak.stop()
    some = random.Random(0).sample(many, min(looped, len(many)))
    loop, loop_cpu, found = timed(lambda: [explain(text) for text in some])
    size = sum(len(s.row) for s in found)
    lengths = [len(ids) for ids in opened.to_frame(["token_ids"])["token_ids"]]
    config = explain.subject.model.config
    flops = rate((config.hidden_size, config.intermediate_size))  # right after, since others use the machine too
    forward, backward = (work / flops for work in products(explain.subject, lengths, explain.method.layer))
    speed, looping, least = opened.tokens / cpu, size / loop_cpu, forward + backward
    print(f"  {opened}: {opened.tokens:,} tokens in {seconds:.0f} s, {cpu:.0f} s of CPU")
    print(f"  {speed:,.0f} tokens a second of CPU; a loop of explain(text): {looping:,.0f}; ratio", end=" ")
    print(f"{speed / looping:.2f}, on the clock {opened.tokens / seconds * loop / size:.2f}")
    shares = f"forward {forward:.1f} s, {forward / cpu:.0%} of the CPU time"
    print(f"  arithmetic alone at {flops / 1e9:.0f} GFLOP/s: {shares};", end=" ")
    print(f"with the backward {least:.1f} s, {least / cpu:.0%}")
    alone = forwards(explain, some)
    print(f"  the model's forward alone, in such batches: {alone:,.0f} tokens a second; ours {speed / alone:.0%}")
    print(f"  peak memory {peak.first / 2**20:.0f} MB after 500 texts, {peak.most / 2**20:.0f} MB after all")
    columns = "text", "pair"
    groups = [parquet.ParquetFile(path).metadata.row_group(0) for path in Path(out).glob("*.parquet")]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    written = sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in columns)
    full, bare = opened.size / opened.tokens, (opened.size - written) / opened.tokens
    print(f"  {full:.2f} bytes a token, {bare:.2f} without the texts")
    growth = (peak.most - (peak.first or peak.most)) / 2**20
    share = f"{forward / cpu:.0%} of the forward's; with the backward {least / cpu:.0%}"
    return [
        Row(
            f"a corpus of {len(many):,} texts of {name} tokens, tokens a second of CPU",
            ours=f"{speed:,.0f}",
            peer=f"a loop of explain(text): {looping:,.0f}",
            floor=f"{opened.tokens / least:,.0f} (arithmetic)",
            ratio=spread(speed / looping),
            **at_least(goals[0], speed / looping),
        ),
        *(
            [Row("  beside arithmetic", ratio=share, **at_least(goals[1], 100 * forward / cpu, " %"))]
            if goals[1]
            else []
        ),
        Row("  beside the model's forward alone", floor=f"{alone:,.0f}", ratio=f"{speed / alone:.0%} of its speed"),
        Row("  memory beyond the first 500 texts", f"{growth:.0f} MB", **at_most(300, growth, " MB")),
        Row("  bytes a token in the files", f"{full:.2f}; {bare:.2f} without the texts", **at_most(6, full)),
    ]


def clustered(explain, many, folder) -> Row:
    """The same texts on one and on two processes."""
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
        f"the same {len(many):,} short texts by two Dask processes, on the clock",
        ours=f"{seconds[2]:.1f} s",
        peer=f"one process: {seconds[1]:.1f} s",
        floor=f"{seconds[1] / 2:.1f} s",
        ratio=f"{seconds[1] / seconds[2]:.2f}",
    )


def results(
    rounds: int = 1, quick: bool = False, count: int = 10_000, most: int = 600, base: bool = False
) -> list[Row]:
    """Everything about short and about all texts, once, and short ones on two processes."""
    torch.set_num_threads(1)
    count, most = (60, 100) if quick else (count, most)
    explain = nbsal.Explainer(random_base() if base else nbsal.load("demo/reviews"), "gradcam", layer=None)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for shortest, longest, looped, goals in ((*SHORT, 200, (2.5, None)), (5, most, 100, (1, 70))):
            print(f"{shortest} to {longest} tokens")
            name, out = f"{shortest} to {longest}", f"{folder}/{longest}"
            found += one(explain, texts(count, shortest, longest), looped, out, name, goals)
        return [*found, clustered(explain, texts(count, *SHORT), Path(folder))]


def main():
    options = parser(".corpus", __doc__)
    options.add_argument("--texts", type=int, default=10_000)
    options.add_argument("--most", type=int, default=600)
    options.add_argument("--base", action="store_true")
    given = options.parse_args()
    print(markdown(results(given.rounds, given.quick, given.texts, given.most, given.base)))


if __name__ == "__main__":
    main()
