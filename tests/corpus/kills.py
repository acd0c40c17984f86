"""Runs in processes of their own, which are killed at random moments and resumed."""

import json
import random
import time
from pathlib import Path

from tests import zoo
from tests.corpus.processes import forkserver

ROWS, SHARD = 160, 4
LATEST = 0.05  # seconds from the end of a shard to a kill; a shard takes less


def texts() -> list[str]:
    """Random texts of many lengths, some of them empty."""
    generator = random.Random(0)
    words = " ".join(zoo.CORPUS).split()
    lengths = [0 if row % 7 == 5 else generator.randrange(1, 30) for row in range(ROWS)]
    return [" ".join(generator.choices(words, k=length)) for length in lengths]


def files(out: Path) -> dict[str, bytes]:
    """The content of all files except the lock."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.name != "_lock.json"}


def run(checkpoint: Path, out: Path, ready, replies: bool = False) -> None:
    """One run over texts or replies, in a process of its own; sets `ready` once the model is loaded."""
    import warnings

    import torch

    import nbsal
    from nbsal import corpus

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    explain = nbsal.Explainer(nbsal.load(checkpoint), "ridge" if replies else "gradcam")
    settings = {"shard_rows": SHARD, "progress": False}
    ready.set()
    if replies:
        corpus.explain_replies(explain, texts(), out, do_sample=True, seed=1, max_new_tokens=2, **settings)
    else:
        corpus.explain(explain, texts(), out, **settings)


class Runs:
    """Runs of one model, each in a process of its own."""

    def __init__(self, checkpoint: Path, replies: bool = False) -> None:
        self.context = forkserver()
        self.checkpoint = checkpoint
        self.replies = replies

    def start(self, out: Path):
        """A process that has loaded its model and is about to explain."""
        ready = self.context.Event()
        process = self.context.Process(target=run, args=(self.checkpoint, out, ready, self.replies))
        process.start()
        assert ready.wait(120)
        return process

    def finish(self, out: Path) -> None:
        """Run to the end."""
        process = self.start(out)
        process.join(120)
        assert process.exitcode == 0

    def kill(self, out: Path, least: int, after: float) -> int:
        """Kill a run some seconds after that many shards are finished; returns the number of shards in the manifest."""
        process = self.start(out)
        while process.is_alive() and finished(out) < least:
            time.sleep(0.002)
        process.join(after)
        process.kill()
        process.join()
        return finished(out)


def finished(out: Path) -> int:
    """The number of shards in the manifest."""
    manifest = out / "_manifest.json"
    return len(json.loads(manifest.read_bytes())["shards"]) if manifest.exists() else 0


def killed(runs: Runs, folder: Path, times: int, seed: int = 0) -> tuple[list[int], bool]:
    """Finished shards at each kill, and whether the files are those of an uninterrupted run."""
    whole, interrupted, shards = folder / "whole", folder / "interrupted", ROWS // SHARD
    runs.finish(whole)
    runs.finish(whole)  # a second run has nothing to do and must not change anything
    generator, counts = random.Random(seed), [0]
    for left in range(times, 0, -1):
        # Leave some of the remaining shards for the next kills.
        least = counts[-1] + generator.randint(0, (shards - counts[-1]) // (left + 1))
        counts.append(runs.kill(interrupted, least, generator.uniform(0, LATEST)))
    runs.finish(interrupted)
    return counts[1:], files(whole) == files(interrupted)
