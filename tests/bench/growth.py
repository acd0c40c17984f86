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
from concurrent.futures import ProcessPoolExecutor
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
from tests.bench.corpus import texts
from tests.bench.measure import cpu
from tests.bench.memory import resident
from tests.bench.table import Row, at_most, line, markdown, missing, parser, spread
from tests.bench.views import large_corpus

SLACK, LEAST_MB = 0.25, 5
SHORTEST = 0.3  # seconds of a measurement; shorter work is repeated, and its least time counts
TEXTS = (100, 1000, 10_000, 100_000)
LONGEST, ALTI_LENGTH = 4096, 2048
AXES = ("tokens", "layers", "vocabulary", "labels", "texts", "goals")
SHORT = (8, 40)  # tokens of the texts of a corpus
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
ATTENTION = ("raw-attention", "rollout", "attention-cam", "attention-gradcam", "attcat", "gae")
LONG = (*ATTENTION, "transformer-attribution")
METHODS = ("gradcam", "decoded-gradcam", "rollout", "gae", "transformer-attribution", "alti", "occlusion", "games")
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.bench.views"])  # imported once
Work = Callable[[], Any]


@dataclass(frozen=True)
class Series:
    """One kind of work at growing sizes: `prepare` returns what is measured at a size, and a smaller run before it."""

    name: str
    axis: str
    sizes: Sequence[int]
    order: float  # the exponent that the computation asks for
    prepare: Callable[[int], tuple[Work, Work]]


def model(blocks: int = 6, labels: int = 2, vocabulary: int = 0, kind: str = "bert", width: int = 64) -> nbsal.Subject:
    """A random model with an LM head and the tokenizer of the embedded models, for texts of any length."""
    torch.manual_seed(0)
    tokenizer = copy.deepcopy(base.tokenizer())
    tokenizer.model_max_length = LONGEST
    sizes = {"hidden_size": width, "num_hidden_layers": blocks, "num_attention_heads": width // 32}
    sizes |= {"vocab_size": vocabulary or len(tokenizer), "intermediate_size": 2 * width, "num_labels": labels}
    sizes |= {"max_position_embeddings": LONGEST}
    if kind == "bert":
        config: Any = transformers.BertConfig(**sizes)
        classifier, lm = transformers.BertForSequenceClassification, transformers.BertForMaskedLM
    else:
        config = transformers.ModernBertConfig(**sizes, **SPECIAL)
        classifier, lm = transformers.ModernBertForSequenceClassification, transformers.ModernBertForMaskedLM
    return nbsal.load(classifier(config).eval(), lm=lm(config).eval(), tokenizer=tokenizer)


def text_of(tokens: int) -> str:
    """A text of so many tokens, two of them special."""
    return texts(1, tokens, tokens)[0]


def explaining(subject: nbsal.Subject, name: str, text: str) -> tuple[Work, Work]:
    """The explanation of a text by a method, or both games of one."""
    if name == "games":
        explain = nbsal.Explainer(subject, "gradcam")
        play = partial(nbsal.evaluation.games, {"gradcam": explain}, progress=False)
        return (lambda: play([text])), (lambda: play([text_of(16)]))
    if name == "transformer-attribution":
        explain = nbsal.Explainer(subject, name, dtype="model")
    else:
        explain = nbsal.Explainer(subject, name)
    return (lambda: explain(text)), (lambda: explain(text_of(16)))


def of_tokens(name: str, kind: str, tokens: int, width: int = 64) -> tuple[Work, Work]:
    return explaining(model(kind=kind, width=width), name, text_of(tokens))


def of_layers(name: str, blocks: int) -> tuple[Work, Work]:
    return explaining(model(blocks=blocks), name, text_of(64))


def of_vocabulary(name: str, size: int) -> tuple[Work, Work]:
    return explaining(model(vocabulary=size), name, text_of(64))


def of_labels(name: str, labels: int) -> tuple[Work, Work]:
    return explaining(model(labels=labels), name, text_of(64))


def of_texts(name: str, count: int) -> tuple[Work, Work]:
    """Many texts, explained by a tiny model, or both games of one method."""
    explain = nbsal.Explainer(tiny(), "gradcam" if name == "games" else name)
    many = texts(count, *SHORT)
    if name == "games":
        play = partial(nbsal.evaluation.games, {"gradcam": explain}, progress=False)
        return (lambda: play(many)), (lambda: play(many[:8]))
    return (lambda: explain.map(many, progress=False)), (lambda: explain.map(many[:8], progress=False))


def tiny() -> nbsal.Subject:
    """A model whose arithmetic counts for little."""
    return model(blocks=1, width=32)


def of_clouds(count: int) -> tuple[Work, Work]:
    """Clouds of explanations in memory, a hundred of them time and again."""
    explained = list(nbsal.Explainer(tiny(), "gradcam").map(texts(100, *SHORT), progress=False))
    many = explained * (count // 100)
    return (lambda: nbsal.clouds.rank(many)), (lambda: nbsal.clouds.rank(explained))


def of_storing(count: int) -> tuple[Work, Work]:
    """Explaining a corpus with a tiny model and storing it."""
    explain, folder = nbsal.Explainer(tiny(), "gradcam"), Path(tempfile.mkdtemp())
    many = texts(count, *SHORT)
    return (
        lambda: corpus.explain(explain, many, folder / "many", progress=False),
        lambda: corpus.explain(explain, many[:8], folder / "few", progress=False),
    )


VIEWS: dict[str, Callable[[Any], Any]] = {
    "corpus.open(...).clouds()": lambda folder: corpus.open(folder).clouds(),
    "Browse(corpus).to_html()": lambda folder: Browse(corpus.open(folder)).to_html(),
    "Clouds(corpus).to_html()": lambda folder: Clouds(corpus.open(folder)).to_html(),
}


def of_stored(name: str, folder: Path, count: int) -> tuple[Work, Work]:
    """What shows a stored corpus; the first run shows the smallest."""
    return partial(VIEWS[name], folder / str(count)), partial(VIEWS[name], folder / "100")


def store(folder: Path, counts: Sequence[int]) -> None:
    """Stored corpora of those sizes."""
    for count in counts:
        large_corpus(folder / str(count), count, nbsal.Explainer(tiny(), "gradcam"))


def series(folder: Path) -> list[Series]:
    """What is measured; sums over pairs of tokens make it quadratic, and a forward pass for each token cubic."""
    orders = {"occlusion": 3.0}
    tokens = (64, 256, 1024, LONGEST)
    rows = []
    for name in METHODS:
        kind = "bert" if name == "alti" else "modernbert"
        sizes = {"occlusion": tokens[:-2], "games": tokens[:-1], "alti": (*tokens[:-1], ALTI_LENGTH)}.get(name, tokens)
        rows.append(Series(f"{name} ({kind})", "tokens", sizes, orders.get(name, 2.0), partial(of_tokens, name, kind)))
    wide = partial(of_tokens, "alti", "bert", width=128)
    rows.append(Series("alti (bert of width 128)", "tokens", (*tokens[:-1], ALTI_LENGTH), 2.0, wide))
    for name in METHODS:
        rows.append(Series(name, "layers", (6, 12, 24), 1.0, partial(of_layers, name)))
        order = 1.0 if name == "decoded-gradcam" else 0.0  # the softmax denominator is over the vocabulary
        rows.append(Series(name, "vocabulary", (30_522, 128_000, 256_000), order, partial(of_vocabulary, name)))
        rows.append(Series(name, "labels", (2, 50), 0.0, partial(of_labels, name)))
    for name in METHODS:
        many = (100, 1000, 10_000) if name in ("gradcam", "decoded-gradcam", "gae") else (100, 1000)
        rows.append(Series(name, "texts", many, 1.0, partial(of_texts, name)))
    rows.append(Series("corpus.explain, gradcam", "texts", (100, 1000, 10_000), 1.0, of_storing))
    rows.append(Series("clouds.rank", "texts", TEXTS, 1.0, of_clouds))
    rows += [Series(name, "texts", TEXTS, 1.0, partial(of_stored, name, folder)) for name in VIEWS]
    return rows


def measure(prepare: Callable[[int], tuple[Work, Work]], size: int) -> tuple[float, float]:
    """Seconds of CPU time, and by how many MB the process grew."""
    torch.set_num_threads(1)
    work, first = prepare(size)
    first()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, seconds = resident("VmRSS"), [cpu(work)]
    growth = (resident("VmHWM") - before) / 1000
    while sum(seconds) < SHORTEST:
        seconds.append(cpu(work))
    return min(seconds), growth


def measure_alone(prepare: Callable[[int], tuple[Work, Work]], size: int, rounds: int) -> tuple[float, float]:
    """The least time and the median growth of some rounds, each in a process of its own."""
    results = []
    for _ in range(rounds):
        with ProcessPoolExecutor(1, CONTEXT) as process:
            results.append(process.submit(measure, prepare, size).result())
    seconds, growth = zip(*results, strict=True)
    return min(seconds), statistics.median(growth)


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
    return f"{what} grows as the size to the power {fit:.2f}" + (
        f" ({last:.2f} at the end)" if last is not None else ""
    )


def row_of(one: Series, rounds: int, quick: bool) -> Row:
    """The row of a series."""
    sizes = one.sizes[:2] if quick else one.sizes
    try:
        results = [measure_alone(one.prepare, size, rounds) for size in sizes]
    except Exception as error:  # killed for memory, for example: the others should still run
        return missing(f"{one.name}, {one.axis}", f"{type(error).__name__}: {error}")
    seconds, growth = zip(*results, strict=True)
    cells = [f"{size:,}: {s:.3g} s, {mb:.0f} MB" for size, (s, mb) in zip(sizes, results, strict=True)]
    words = [sentence("time", sizes, seconds, 0), sentence("memory", sizes, growth, LEAST_MB)]
    last = exponent(sizes[-2:], seconds[-2:])
    return Row(
        f"{one.name}, {one.axis}",
        ours="; ".join(cells),
        ratio="; ".join(words),
        **at_most(one.order + SLACK, last, " at the end"),
    )


def in_forwards(name: str, kind: str, tokens: int) -> tuple[float, float]:
    """The cost of one explanation in forward passes of the stock model, and by how many MB the process grew."""
    subject = model(kind=kind, width=128)
    row = subject.encode(text_of(tokens))
    inputs = subject.inputs(row)

    def forward() -> None:
        with torch.no_grad():
            subject.model(**inputs)

    work, first = explaining(subject, name, row[0].text)
    _, growth = measure(lambda _: (work, first), tokens)
    return statistics.median(cpu(work) / cpu(forward) for _ in range(3)), growth


def goals(rounds: int, quick: bool) -> list[Row]:
    """Long texts: attribution and every attention method with ModernBERT, and ALTI with BERT."""
    rows = []
    cases = [(name, "modernbert", LONGEST, 4.0, 2000) for name in LONG] + [("alti", "bert", ALTI_LENGTH, None, 1000)]
    for name, kind, tokens, passes, most in cases:
        tokens = 256 if quick else tokens
        with ProcessPoolExecutor(1, CONTEXT) as process:
            results = [process.submit(in_forwards, name, kind, tokens).result() for _ in range(rounds)]
        forwards, growth = zip(*results, strict=True)
        work = f"{name} of {tokens:,} tokens, {kind}"
        goal = {} if passes is None else at_most(passes, forwards, " forward passes")
        rows.append(Row(work, f"{spread(forwards)} forward passes", **goal))
        rows.append(Row("  memory growth", f"{statistics.median(growth):.0f} MB", **at_most(most, growth, " MB")))
        print(line(rows[-2]), line(rows[-1]), sep="\n", file=sys.stderr, flush=True)
    return rows


def results(rounds: int = 1, quick: bool = False, only: Sequence[str] = AXES) -> list[Row]:
    """A row for each series, and the goals for long texts."""
    with tempfile.TemporaryDirectory() as folder:
        if "texts" in only:
            store(Path(folder), TEXTS[:2] if quick else TEXTS)
        rows = []
        for one in series(Path(folder)):
            if one.axis in only:
                rows.append(row_of(one, rounds, quick))
                print(line(rows[-1]), file=sys.stderr, flush=True)
    return rows + (goals(rounds, quick) if "goals" in only else [])


def main() -> None:
    arguments = parser(".growth", __doc__)
    arguments.add_argument("--only", nargs="*", default=AXES, choices=AXES, metavar="AXIS", help=", ".join(AXES))
    options = arguments.parse_args()
    print(markdown(results(options.rounds, options.quick, options.only)))


if __name__ == "__main__":
    main()
