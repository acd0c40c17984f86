"""How time and memory grow: `python -m tests.bench.growth [--only tokens layers ...]`.

Tokens, layers, the vocabulary, labels and the number of texts grow one at a time, for methods of every family, the
games, clouds and pages of a corpus. Each measurement is the CPU time of one thread in a process of its own, after a
first small run, and the growth of its resident memory beyond what it held then. A row gives the exponent of a fit
(time = c * size ** exponent, by least squares of logarithms), and that between the two largest sizes, where fixed costs
count least; the goal is what the computation itself asks for, which that may exceed by SLACK.
"""

import copy
import gc
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import nbsal
from nbsal import corpus
from nbsal.samples import base
from nbsal.widgets import Browse, Clouds
from tests.bench import table
from tests.bench.corpus import SHORT, texts
from tests.bench.measure import alone, cpu, grown
from tests.bench.table import Row, at_most, cost, line, missing
from tests.bench.views import large_corpus

SLACK, LEAST_MB = 0.25, 5
SHORTEST = 0.3  # seconds of a measurement; shorter work is repeated, and its least time counts
TEXTS = (100, 1000, 10_000, 100_000)
TOKENS = (64, 256, 1024, 4096)
LONGEST, ALTI_LENGTH = 4096, 2048
AXES = ("tokens", "layers", "vocabulary", "labels", "texts", "goals")
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
LONG = ("raw-attention", "rollout", "attention-cam", "attention-gradcam", "attcat", "gae", "transformer-attribution")
METHODS = ("gradcam", "decoded-gradcam", "rollout", "gae", "transformer-attribution", "alti", "occlusion", "games")
START = "forkserver"
multiprocessing.get_context(START).set_forkserver_preload(["tests.bench.views"])  # imported once
Work = Callable[[], Any]


@dataclass(frozen=True)
class Series:
    """One kind of work at growing sizes: `prepare` returns what is measured at a size, and a smaller run before it."""

    name: str
    axis: str
    sizes: Sequence[int]
    order: float  # the exponent that the computation asks for
    prepare: Callable[[int], tuple[Work, Work]]


def model(layers: int = 6, labels: int = 2, vocabulary: int = 0, kind: str = "bert", width: int = 64) -> nbsal.Subject:
    """A random model with an LM head and the tokenizer of the embedded models, for texts of any length."""
    torch.manual_seed(0)
    tokenizer = copy.deepcopy(base.tokenizer())
    tokenizer.model_max_length = LONGEST
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 32}
    sizes |= {"vocab_size": vocabulary or len(tokenizer), "intermediate_size": 2 * width, "num_labels": labels}
    sizes |= {"max_position_embeddings": LONGEST}
    family = "Bert" if kind == "bert" else "ModernBert"
    config = getattr(transformers, f"{family}Config")(**sizes, **({} if kind == "bert" else SPECIAL))
    classifier, lm = (
        getattr(transformers, f"{family}For{head}")(config).eval() for head in ("SequenceClassification", "MaskedLM")
    )
    return nbsal.load(classifier, lm=lm, tokenizer=tokenizer)


def tiny() -> nbsal.Subject:
    """A model whose arithmetic counts for little."""
    return model(layers=1, width=32)


def text_of(tokens: int) -> str:
    """A text of so many tokens, two of them special."""
    return texts(1, tokens, tokens)[0]


def explaining(
    subject: nbsal.Subject, name: str, many: list[str], first: list[str], **settings: Any
) -> tuple[Work, Work]:
    """The explanations of texts by a method, or both games of one, and those of a first run."""
    if name == "games":
        explain = nbsal.Explainer(subject, "gradcam")
        run = partial(nbsal.evaluation.games, {"gradcam": explain}, progress=False)
    else:
        settings = settings or ({"dtype": "model"} if name == "transformer-attribution" else {})
        run = partial(nbsal.Explainer(subject, name, **settings).map, progress=False)
    return partial(run, many), partial(run, first)


def of_text(name: str, axis: str, size: int, **settings: Any) -> tuple[Work, Work]:
    """One text, whose tokens grow, or the model's layers, labels or vocabulary."""
    tokens = size if axis == "tokens" else 64
    subject = model(**settings, **({} if axis == "tokens" else {axis: size}))
    return explaining(subject, name, [text_of(tokens)], [text_of(16)])


def of_texts(name: str, count: int) -> tuple[Work, Work]:
    """Many texts, explained by a tiny model, or both games of one method."""
    many = texts(count, *SHORT)
    return explaining(tiny(), name, many, many[:8])


def of_clouds(count: int) -> tuple[Work, Work]:
    """Clouds of explanations in memory, a hundred of them time and again."""
    explained = list(nbsal.Explainer(tiny(), "gradcam").map(texts(100, *SHORT), progress=False))
    return partial(nbsal.clouds.rank, explained * (count // 100)), partial(nbsal.clouds.rank, explained)


def of_storing(count: int) -> tuple[Work, Work]:
    """Explaining a corpus with a tiny model and storing it."""
    folder, many = Path(tempfile.mkdtemp()), texts(count, *SHORT)
    store = partial(corpus.explain, nbsal.Explainer(tiny(), "gradcam"), progress=False)
    return partial(store, many, folder / "many"), partial(store, many[:8], folder / "few")


VIEWS: dict[str, Callable[[Any], Any]] = {
    "corpus.open(...).clouds()": lambda folder: corpus.open(folder).clouds(),
    "Browse(corpus).to_html()": lambda folder: Browse(corpus.open(folder)).to_html(),
    "Clouds(corpus).to_html()": lambda folder: Clouds(corpus.open(folder)).to_html(),
}


def of_stored(name: str, folder: Path, count: int) -> tuple[Work, Work]:
    """What shows a stored corpus; the first run shows the smallest."""
    return partial(VIEWS[name], folder / str(count)), partial(VIEWS[name], folder / "100")


def series(folder: Path) -> list[Series]:
    """What is measured; sums over pairs of tokens make it quadratic, and a forward pass for each token cubic."""
    rows = []
    alti = (*TOKENS[:-1], ALTI_LENGTH)
    for name in METHODS:
        kind = "bert" if name == "alti" else "modernbert"
        sizes = {"occlusion": TOKENS[:-2], "games": TOKENS[:-1], "alti": alti}.get(name, TOKENS)
        order = 3.0 if name == "occlusion" else 2.0
        rows.append(Series(f"{name} ({kind})", "tokens", sizes, order, partial(of_text, name, "tokens", kind=kind)))
        order = 1.0 if name == "decoded-gradcam" else 0.0  # the softmax denominator is over the vocabulary
        axes = {
            "layers": ((6, 12, 24), 1.0),
            "vocabulary": ((30_522, 128_000, 256_000), order),
            "labels": ((2, 50), 0.0),
        }
        rows += [Series(name, axis, *settings, partial(of_text, name, axis)) for axis, settings in axes.items()]
        many = TEXTS[:3] if name in ("gradcam", "decoded-gradcam", "gae") else TEXTS[:2]
        rows.append(Series(name, "texts", many, 1.0, partial(of_texts, name)))
    wide = partial(of_text, "alti", "tokens", width=128)
    rows.append(Series("alti (bert of width 128)", "tokens", alti, 2.0, wide))
    rows.append(Series("corpus.explain, gradcam", "texts", TEXTS[:3], 1.0, of_storing))
    rows.append(Series("clouds.rank", "texts", TEXTS, 1.0, of_clouds))
    return rows + [Series(name, "texts", TEXTS, 1.0, partial(of_stored, name, folder)) for name in VIEWS]


def measure(prepare: Callable[[int], tuple[Work, Work]], size: int) -> tuple[float, float]:
    """Seconds of CPU time, and by how many MB the process grew."""
    torch.set_num_threads(1)
    work, first = prepare(size)
    first()
    gc.collect()
    one, growth = grown(work)
    seconds = [one]
    while sum(seconds) < SHORTEST:
        seconds.append(cpu(work))
    return min(seconds), growth


def exponent(sizes: Sequence[int], values: Sequence[float], least: float = 0.0) -> float | None:
    """The slope of a line through the logarithms, or None if fewer than two values are above `least`."""
    points = [(size, value) for size, value in zip(sizes, values, strict=True) if value > least]
    if len(points) < 2:
        return None
    slope, _ = np.polyfit(*np.log(points).T, 1)
    return float(slope)


def sentence(what: str, sizes: Sequence[int], values: Sequence[float], least: float) -> str:
    """How some values grow, in words and numbers."""
    fit, last = exponent(sizes, values, least), exponent(sizes[-2:], values[-2:], least)
    if fit is None:
        return f"{what} is too small to say how it grows"
    end = f" ({last:.2f} at the end)" if last is not None else ""
    return f"{what} grows as the size to the power {fit:.2f}{end}"


def row_of(one: Series, rounds: int, quick: bool) -> Row:
    """The row of a series: the least time and the median growth of some rounds, each in a process of its own."""
    sizes = one.sizes[:2] if quick else one.sizes
    seconds, growth = [], []
    try:
        for size in sizes:
            times, sums = zip(*(alone(measure, one.prepare, size, start=START) for _ in range(rounds)), strict=True)
            seconds.append(min(times))
            growth.append(statistics.median(sums))
    except Exception as error:  # killed for memory, for example: the others should still run
        return missing(f"{one.name}, {one.axis}", f"{type(error).__name__}: {error}")
    cells = [f"{size:,}: {s:.3g} s, {mb:.0f} MB" for size, s, mb in zip(sizes, seconds, growth, strict=True)]
    return Row(
        f"{one.name}, {one.axis}",
        ours="; ".join(cells),
        ratio=f"{sentence('time', sizes, seconds, 0)}; {sentence('memory', sizes, growth, LEAST_MB)}",
        **at_most(one.order + SLACK, exponent(sizes[-2:], seconds[-2:]), " at the end"),
    )


def in_forwards(name: str, kind: str, tokens: int, **settings: Any) -> tuple[float, float]:
    """The cost of one explanation in forward passes of the stock model, and by how many MB the process grew."""
    subject = model(kind=kind, width=128)
    inputs = subject.inputs(subject.encode(text_of(tokens)))

    def forward() -> None:
        with torch.no_grad():
            subject.model(**inputs)

    works = explaining(subject, name, [text_of(tokens)], [text_of(16)], **settings)
    _, growth = measure(lambda _: works, tokens)
    return statistics.median(cpu(works[0]) / cpu(forward) for _ in range(3)), growth


def goals(rounds: int, quick: bool) -> list[Row]:
    """Long texts: attribution and every attention method with ModernBERT, and ALTI with BERT."""
    rows = []
    for name, kind, tokens, passes, most in [
        *((name, "modernbert", LONGEST, 4.0, 2000) for name in LONG),
        ("alti", "bert", ALTI_LENGTH, None, 1000),
    ]:
        tokens = 256 if quick else tokens
        measured = [alone(in_forwards, name, kind, tokens, start=START) for _ in range(rounds)]
        forwards, growth = zip(*measured, strict=True)
        rows.append(cost(f"{name} of {tokens:,} tokens, {kind}", forwards, "forward passes", passes))
        rows.append(cost("  memory growth", statistics.median(growth), "MB", most, digits=0))
    return rows


def results(rounds: int = 1, quick: bool = False, only: Sequence[str] = AXES) -> list[Row]:
    """A row for each series, and the goals for long texts."""
    with tempfile.TemporaryDirectory() as folder:
        for count in (TEXTS[:2] if quick else TEXTS) if "texts" in only else ():
            large_corpus(Path(folder) / str(count), count, nbsal.Explainer(tiny(), "gradcam"))
        rows = []
        for one in series(Path(folder)):
            if one.axis in only:
                rows.append(row_of(one, rounds, quick))
                print(line(rows[-1]), file=sys.stderr, flush=True)
    return rows + (goals(rounds, quick) if "goals" in only else [])


if __name__ == "__main__":
    table.main(results, __doc__, only={"nargs": "*", "default": AXES, "choices": AXES, "metavar": "AXIS"})
