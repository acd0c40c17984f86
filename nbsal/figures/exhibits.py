"""One figure or table of a paper, by number, and how a build draws it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from matplotlib.figure import Figure

from nbsal.explain.explainer import Explainer
from nbsal.figures.build import Build
from nbsal.figures.pages import Page
from nbsal.support.errors import InputError
from nbsal.support.lazy import Styler
from nbsal.support.validation import Text

EMBEDDED_MODEL = "Embedded model on benchmark data"
BUNDLED_SAMPLES = "Computed on the bundled samples"
USER_MODEL = "User's model on benchmark data"
TEXTS_SEARCHED = 400  # for an example
MAX_PREDICTIONS = 40  # until an example is correctly classified


@dataclass(frozen=True)
class Product:
    """A finished exhibit: its parts with their captions, and a note on the models and texts behind it."""

    parts: Sequence[tuple[str, "Figure | Styler | Page"]]
    source_note: str


@dataclass(frozen=True)
class Exhibit:
    """A figure or table of a paper.

    `paper` says what the paper shows in it, `make` draws it, and `needs` says which models and data reproduce the
    paper's own version; empty if every build does.
    """

    number: str
    title: str
    paper: str
    make: Callable[[Build], Product]
    needs: str


Source = tuple[str, str]  # a table and the description of its texts


def source_note(build: Build, *sources: Source) -> str:
    """Describe the models and texts behind an exhibit."""
    user_models = bool(sources) and all(table in build.models for table, _ in sources)
    kind = BUNDLED_SAMPLES if not build.has_benchmarks else USER_MODEL if user_models else EMBEDDED_MODEL
    return f"{kind}: {'; '.join(build.describe_source(table, texts) for table, texts in sources)}."


def example(build: Build, table: str, label: int, min_words: int = 8, max_words: int = 60) -> Text:
    """Return the first correctly classified text of a class, with a readable number of words if possible.

    If no text of readable length is correctly classified, the longest of the others is returned.
    """
    subject = build.subject(table)
    rows = build.rows(table, max_texts=TEXTS_SEARCHED)
    assert rows.labels is not None, "only labelled tables have examples by class"
    predict = Explainer(subject, "raw-attention")
    texts = [text for text, gold in zip(rows.texts, rows.labels, strict=True) if gold == label]
    readable = [text for text in texts if min_words <= _count_words(text) <= max_words]
    others = sorted((text for text in texts if text not in readable), key=_count_words, reverse=True)
    for text in islice((*readable, *others), MAX_PREDICTIONS):
        if predict(text).prediction == subject.labels[label]:
            return text
    name = subject.labels[label]
    raise InputError(
        f"No text of {rows.description} is correctly classified as {name}. Use another model or more texts.",
        argument="label",
        value=name,
    )


def _count_words(text: Any) -> int:
    return len((text if isinstance(text, str) else " ".join(text)).split())
