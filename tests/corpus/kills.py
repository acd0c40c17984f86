"""Kills runs at random moments and goes on: `python -m tests.corpus.kills 20`.

A tiny model explains texts in many small shards, in a process of its own that is killed (SIGKILL) and begun again, each
time at another moment, until it was killed so often; then it may end. Printed are the shards that were listed at each
kill, and whether the files are in the end those of a run that nobody killed, byte for byte.
"""

import argparse
import json
import multiprocessing
import random
import tempfile
import time
from pathlib import Path

from tests import zoo

ROWS, SHARD = 160, 4


def texts() -> list[str]:
    """Sentences of many lengths, some of them nothing to explain."""
    generator = random.Random(0)
    words = " ".join(zoo.CORPUS).split()
    lengths = [0 if row % 7 == 5 else generator.randrange(1, 30) for row in range(ROWS)]
    return [" ".join(generator.choices(words, k=length)) for length in lengths]


def files(out: Path) -> dict[str, bytes]:
    """The dataset, and the list of it."""
    return {path.name: path.read_bytes() for path in out.iterdir() if path.name != "_lock.json"}


def run(checkpoint: Path, out: Path, ready) -> None:
    """One run, as a process of its own."""
    import warnings

    import torch

    import nbsal
    from nbsal import corpus

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    explain = nbsal.Explainer(nbsal.load(checkpoint), "gradcam")
    ready.set()
    corpus.explain(explain, texts(), out, shard_rows=SHARD, progress=False)


class Runs:
    """Processes that share what they import, so that beginning one is cheap."""

    def __init__(self, checkpoint: Path) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(
            ["transformers.models.bert.modeling_bert", "nbsal.corpus", "pandas", "dask.system", "tests.zoo"]
        )
        self.checkpoint = checkpoint

    def begin(self, out: Path):
        """A process that has its model and is about to explain."""
        ready = self.context.Event()
        process = self.context.Process(target=run, args=(self.checkpoint, out, ready))
        process.start()
        assert ready.wait(120)
        return process

    def finish(self, out: Path) -> float:
        """A run to its end, and the seconds it took."""
        process, start = self.begin(out), time.monotonic()
        process.join(120)
        assert process.exitcode == 0
        return time.monotonic() - start

    def kill(self, out: Path, after: float) -> int:
        """A run that is killed after so many seconds; how many shards are listed then."""
        process = self.begin(out)
        process.join(after)
        process.kill()
        process.join()
        manifest = out / "_manifest.json"
        return len(json.loads(manifest.read_bytes())["shards"]) if manifest.exists() else 0


def killed(runs: Runs, folder: Path, times: int, seed: int = 0) -> tuple[list[int], bool]:
    """Shards listed at each kill, and whether the files are those of a run that was not killed."""
    whole, broken, shards = folder / "whole", folder / "broken", ROWS // SHARD
    seconds = runs.finish(whole)
    idle = runs.finish(whole)  # nothing is left to do, and nothing may change
    generator, listed = random.Random(seed), [0]
    for left in range(times, 0, -1):
        # Some of what remains is to be left for the kills that come.
        work = (seconds - idle) * (1 - listed[-1] / shards)
        listed.append(runs.kill(broken, generator.uniform(0, idle + 1.6 * work / left)))
    runs.finish(broken)
    return listed[1:], files(whole) == files(broken)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("kills", type=int)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(zoo.save(Path(folder), "bert", "sequence"))
        listed, same = killed(runs, Path(folder), given.kills, given.seed)
    print(f"killed {given.kills} times, when of {ROWS // SHARD} shards there were {listed}")
    print(f"files equal those of an unkilled run: {same}")


if __name__ == "__main__":
    main()
