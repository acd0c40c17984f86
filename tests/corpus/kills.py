"""Texts and files of runs, and runs in processes of their own, which are killed at random moments and resumed."""

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests import zoo

ROWS, SHARD = 80, 4
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


def finished(out: Path) -> int:
    """The number of shards in the manifest."""
    manifest = out / "_manifest.json"
    return len(json.loads(manifest.read_bytes())["shards"]) if manifest.exists() else 0


def killed(run: Callable[[Path], object], out: Path, times: int, shards: int = ROWS // SHARD) -> list[int]:
    """The number of finished shards at each kill of a run, which is then run to its end.

    The processes are forked, so the run must not compute gradients: PyTorch refuses them there if it has a GPU.
    """
    generator, counts = random.Random(0), [0]
    for left in range(times, 0, -1):
        # Leave some of the remaining shards for the next kills.
        least = counts[-1] + generator.randint(0, (shards - counts[-1]) // (left + 1))
        process = multiprocessing.get_context("fork").Process(target=run, args=(out,))
        process.start()
        while process.is_alive() and finished(out) < least:
            time.sleep(0.002)
        process.join(generator.uniform(0, LATEST))
        process.kill()
        process.join()
        counts.append(finished(out))
    run(out)
    return counts[1:]


def run_and_die(work):
    """Run a function in a forked process, which is killed after it."""
    if not (child := os.fork()):
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
