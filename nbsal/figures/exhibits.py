"""Exhibits: a figure or table of a paper by its number, and how an edition comes by it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from nbsal.errors import InputError
from nbsal.explainer import Explainer
from nbsal.figures.build import Build
from nbsal.figures.pages import Page
from nbsal.validation import Text

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

EMBEDDED = "Embedded default on real data"
SAMPLES = "Shown on the shipped samples"
OWN = "Own model on real data"
SEARCHED = 400  # texts that are looked through for an example


@dataclass(frozen=True)
class Product:
    """What was made: parts with their captions, and what they rest on."""

    parts: Sequence[tuple[str, "Figure | Styler | Page"]]
    footing: str


@dataclass(frozen=True)
class Exhibit:
    """A figure or table, what the paper shows in it, and what the paper's own version needs."""

    number: str
    title: str
    paper: str
    make: Callable[[Build], Product]
    needs: str


def footing(edition: Build, *rested: tuple[str, str]) -> str:
    """What an exhibit rests on, by (table, what its texts are)."""
    own = all(table in edition.models for table, _ in rested) and bool(rested)
    kind = SAMPLES if not edition.real else OWN if own else EMBEDDED
    return f"{kind}. {'. '.join(edition.footing(table, said) for table, said in rested)}."


def example(edition: Build, table: str, label: int, fewest: int = 8, most: int = 60) -> Text:
    """The first text of a class that the model decides rightly, of a readable number of words; else the longest."""
    subject = edition.subject(table)
    rows = edition.rows(table, most=SEARCHED)
    assert rows.labels is not None, "only labelled tables have examples by class"
    predict = Explainer(subject, "raw-attention")
    own = [text for text, given in zip(rows.texts, rows.labels, strict=True) if given == label]
    fitting = [text for text in own if fewest <= _words(text) <= most]
    rest = sorted((text for text in own if text not in fitting), key=_words, reverse=True)
    for text in islice((*fitting, *rest), 40):
        if predict(text).prediction == subject.labels[label]:
            return text
    raise InputError(f"No text among {rows.said} is rightly taken for {subject.labels[label]}.")


def labelled(edition: Build, table: str, labels: Sequence[int]) -> list[str]:
    """Labels by name."""
    return [edition.subject(table).labels[label] for label in labels]


def _words(text: Any) -> int:
    return len((text if isinstance(text, str) else " ".join(text)).split())
