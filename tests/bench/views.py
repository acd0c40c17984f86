"""What the commands and the views cost in Python: `python -m tests.bench.views`.

Seconds of CPU time of one thread; of commands, those of the new process. The views of a corpus show 100,000 texts,
which are 1,000 explained texts a hundred times over; growth is the peak of the resident memory beyond what the process
held before. Heads are those of a random BERT of 24 blocks, 16 heads and width 128, at 512 tokens: its Mask-LRP
explanation is measured apart from what the view computes beside it. The host cost of a corpus is that of a model so
small that its arithmetic counts for little.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import psutil
import torch

import nbsal
from nbsal import corpus
from nbsal.corpus.folder.manifest import Manifest
from nbsal.corpus.folder.storage import Storage
from nbsal.corpus.parquet import to_bytes, to_cells
from nbsal.corpus.shards import shard_of
from nbsal.samples import base
from nbsal.widgets import Browse, Clouds, Heads, Highlight
from tests.bench import table
from tests.bench.corpus import SHORT, texts
from tests.bench.measure import cpu, grown, random_bert
from tests.bench.table import Row, cost
from tests.browser import bench

NBSAL = (sys.executable, "-m", "nbsal.cli")
SHARD = 1000


def command(*arguments: str) -> float:
    """Seconds of CPU time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*NBSAL, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lab_address(folder: Path) -> float:
    """Seconds of CPU time until `nbsal lab` prints its address."""
    with subprocess.Popen([*NBSAL, "lab", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as lab:
        process = psutil.Process(lab.pid)
        assert lab.stdout is not None
        while b"token=" not in lab.stdout.readline():
            pass
        seconds = sum(process.cpu_times()[:2])
        for started in [*process.children(recursive=True), process]:
            started.terminate()
    return float(seconds)


def large_corpus(folder: Path, count: int, explain: nbsal.Explainer) -> corpus.Corpus:
    """A corpus of so many texts, which repeat the explanations of its first shard."""
    many = texts(min(count, SHARD), *SHORT)
    explained = list(corpus.explain(explain, many, folder, progress=False))
    storage = Storage(folder)
    manifest = Manifest.read(storage)
    assert manifest is not None
    for number in range(1, count // SHARD):
        cells = to_cells(manifest.plan, number * SHARD, many, [{"gradcam": saliency} for saliency in explained])
        data = to_bytes(manifest.plan, cells)
        shard = shard_of(number, number * SHARD, many, cells, data)
        storage.write(shard.name, data)
        manifest.shards[number] = shard
    manifest.write(storage)
    return corpus.open(folder)


def corpus_views(folder: Path, count: int) -> list[Row]:
    """Rows for the views of a large corpus."""
    stored = large_corpus(folder, count, nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam", layer=None))
    work = {
        "Browse(...).to_html()": lambda: Browse(stored).to_html(),
        "corpus.clouds()": stored.clouds,
        "Clouds(...).to_html()": lambda: Clouds(stored).to_html(),
    }
    rows = []
    for name, run in work.items():
        seconds, growth = grown(run)
        rows.append(cost(f"{name} of {count:,} texts", seconds, "s", 5))
        rows.append(cost("  memory growth", growth, "MB", 200, digits=0))
    return rows


def random_model(blocks: int, heads: int, width: int) -> nbsal.Subject:
    """A random BERT that reads with the embedded tokenizer."""
    sizes = {"hidden_size": width, "num_hidden_layers": blocks, "num_attention_heads": heads}
    return random_bert(**base.CONFIG | sizes | {"intermediate_size": 2 * width})


def heads_view(blocks: int, words: int) -> list[Row]:
    """Rows for Heads: its parts, and the explanation that it shows."""
    subject, text = random_model(blocks, 16, 128), " ".join(["good"] * words)
    view = Heads(subject, text="good", head=[1, 2]).wait()
    inputs = {name: getattr(view, name) for name in view.inputs} | {"text": text}
    saliency = nbsal.Explainer(subject, "gradcam")(text)
    parts = cpu(lambda: [part.compute(saliency, inputs, None) for part in view.parts.values()])
    explain = view.explainer_for(inputs)
    return [
        cost(f"Heads of {blocks} x 16 heads at {words + 2} tokens, without the scores", parts, "s", 1.5),
        cost("  its scores (Mask-LRP)", cpu(lambda: explain(text)), "s"),
    ]


def picture(rounds: int, words: int) -> Row:
    """A row for `to_png` of a text of different words."""
    vocabulary = sorted(word for word in base.tokenizer().get_vocab() if word.isascii() and word.isalpha())
    drawn = np.random.default_rng(0).choice(vocabulary, words, replace=False)
    view = Highlight(bench.saliency_of(list(drawn))).wait()
    seconds = [cpu(view.to_png) for _ in range(rounds + 1)][1:]
    return cost(f"to_png of {words + 2} tokens", seconds, "s", 0.7)


def host_cost(folder: Path, count: int) -> Row:
    """A row for what a corpus run costs beside the model's arithmetic."""
    explain, many = nbsal.Explainer(random_model(1, 1, 16), "gradcam", layer=0), texts(count, *SHORT)
    corpus.explain(explain, many[:100], folder / "warm", progress=False)
    seconds = cpu(lambda: corpus.explain(explain, many, folder / "host", progress=False))
    return cost("host cost of a corpus run", 1000 * seconds / count, "ms a text", 0.5)


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """Rows for the commands and the views."""
    torch.set_num_threads(1)
    starts = [command("explain", "A warm and funny film.") for _ in range(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        addresses = [lab_address(Path(folder) / "lab") for _ in range(rounds)]
        return [
            cost("nbsal explain", starts, "s", 5),
            cost("nbsal lab, to its address", addresses, "s", 3),
            *corpus_views(Path(folder) / "large", 2000 if quick else 100_000),
            *heads_view(2 if quick else 24, 62 if quick else 510),
            picture(rounds, 62 if quick else 510),
            host_cost(Path(folder), 200 if quick else 5000),
        ]


if __name__ == "__main__":
    table.main(results, __doc__)
