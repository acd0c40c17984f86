"""A table of explained texts: its entries, its filters and its order, one page of it, and what they come to."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from nbsal.explain.saliency import Saliency
from nbsal.model.text.token_text import token_text
from nbsal.render import html
from nbsal.render.headline import Phrase, percent
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural
from nbsal.widgets.content.excerpts import excerpt
from nbsal.widgets.content.table_columns import Array, Columns, confidence, strongest_word

PAGE = 12  # texts on a page
COLUMNS = ("number", "text", "prediction", "confidence", "label", "top")
NAMED = 3  # classes that the sentence names
LONGEST = 40  # characters of a class
Remark = tuple[str, str]  # what is said of a text: "corrected", "broken" or "", and the words


@dataclass(frozen=True, eq=False)
class Listing:
    """The texts of what is chosen in a panel, in the panel's order, and what is said of them."""

    heading: list[Phrase]
    numbers: Sequence[int] | None  # None: all texts, in their order
    places: Callable[[Saliency], list[int]]  # the positions of the chosen words in a text
    remark: Callable[[int], Remark | None]
    sentence: list[Phrase] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """A row of the table: one explained text, its strongest word, and the text around it as `excerpt` cuts it."""

    number: int
    prediction: str
    confidence: float | None  # values and spans have none
    label: str | None
    top: str  # as the table names it
    against: bool  # whether the strongest word speaks against what is explained
    pieces: list[list[Any]]
    remark: Remark | None = None

    @property
    def name(self) -> str:
        """The prediction as the table names it."""
        return html.label(self.prediction, LONGEST)

    @property
    def misclassified(self) -> bool:
        return self.label is not None and self.label != self.prediction


@dataclass(frozen=True)
class Filters:
    """Which texts are listed, and in which order."""

    sort: str = "number"
    descending: bool = False
    label: str | None = None
    wrong: bool = False
    token: str = ""
    cell: Sequence[str] | None = None  # a label and a prediction
    listing: Listing | None = None

    @property
    def part(self) -> str:
        """The part of a word, or the words, that the texts contain."""
        return token_text(self.token.strip())

    @property
    def by_number(self) -> bool:
        """Whether every text is listed, in the order of the texts."""
        return self == Filters(token=self.token, listing=self.listing) and not self.part and self.chosen is None

    @property
    def chosen(self) -> Sequence[int] | None:
        """The numbers of the texts that are chosen in a panel, in its order, if any are."""
        return None if self.listing is None else self.listing.numbers

    def scope(self, columns: Columns) -> Array:
        """The numbers of the texts with that label, that prediction and that part, of those that are chosen."""
        fits = np.ones(len(columns), bool)
        if self.chosen is not None:
            fits = np.isin(np.arange(len(columns)), np.array(self.chosen, int))
        if self.cell is not None:
            label, prediction = self.cell
            fits &= (columns.values("label") == label) & (columns.values("prediction") == prediction)
        if self.label is not None:
            fits &= np.array(columns.values("prediction") == self.label, bool)
        if self.part:
            fits &= columns.containing(self.part)
        return np.flatnonzero(fits)

    def arrange(self, scope: Array, columns: Columns) -> Array:
        """The numbers of the texts that are listed, of those in scope, in their order."""
        numbers = scope[columns.misclassified()[scope]] if self.wrong else scope
        if self.sort == "number" and not self.descending and self.chosen is not None:
            listed = set(numbers.tolist())
            return np.array([number for number in self.chosen if number in listed], int)
        if self.sort == "number" or (self.sort == "label" and not columns.is_labelled):
            return numbers[::-1] if self.sort == "number" and self.descending else numbers
        values = columns.values(self.sort)[numbers]
        if self.sort == "confidence":
            values = values.astype(float)  # NaN is sorted last
        if not self.descending:
            return numbers[np.argsort(values, kind="stable")]
        return numbers[::-1][np.argsort(values[::-1], kind="stable")][::-1]

    def page(
        self,
        columns: Columns,
        saliencies: Sequence[Saliency],
        total: int,
        number: int,
        opened: int | None,
        labels: Sequence[str],
    ) -> "TablePage":
        """The page of that number, or the last one, with a text that is to be opened."""
        scope = self.scope(columns)
        listed = self.arrange(scope, columns)
        if opened is not None and opened not in listed:
            is_waiting = opened >= len(columns)  # to be explained
            opened = None if is_waiting or not len(listed) else int(listed[0])
        text = None if opened is None else saliencies[opened]
        count = total if self.by_number else len(listed)
        number = min(number, max(0, count - 1) // PAGE)
        first, end = number * PAGE, min((number + 1) * PAGE, count)
        rows = [make_entry(at, saliencies[at], columns.label(at), self.listing) for at in listed[first:end].tolist()]
        waiting = range(max(first, len(listed)), end)
        return TablePage(self, columns, scope, listed, len(columns), total, number, rows, waiting, opened, text, labels)


@dataclass(frozen=True, eq=False)
class TablePage:
    """One page of the table, and the text that is opened.

    `scope` are the numbers of the texts with the class and the word that the filters ask for, `numbers` those of the
    texts that are listed. `rows` are those on the page, `waiting` the texts after them that are not explained yet.
    In place of a text that is not listed, the first one that is listed is opened.
    """

    filters: Filters
    columns: Columns
    scope: Array
    numbers: Array
    explained: int
    total: int  # texts
    page: int
    rows: Sequence[Entry]
    waiting: Sequence[int]
    opened_number: int | None
    opened: Saliency | None
    labels: Sequence[str]  # classes to filter by

    @property
    def table(self) -> "TablePage":
        """Itself, as of every result that has a table."""
        return self

    @property
    def listed(self) -> int:
        """The number of texts that are listed, with those that are not explained yet where all are listed."""
        return self.total if self.filters.by_number else len(self.numbers)

    @cached_property
    def errors(self) -> Array:
        """The numbers of the texts in scope whose prediction differs from their label."""
        return self.scope[self.columns.misclassified()[self.scope]]

    @property
    def pages(self) -> int:
        return max(0, self.listed - 1) // PAGE + 1

    def position(self) -> str:
        """Which page this is, and of how many texts; texts are numbered from 0 as in Python, pages from 1."""
        return f"page {self.page + 1} of {self.pages} · {plural(self.listed, 'text')}" if self.listed else "no text"

    def caption(self) -> str:
        """How many texts are misclassified, or what is predicted for them."""
        if not len(self.scope):
            return f"No text matches{self._so_far()}." if self.explained else "No text is explained yet."
        return self._error_sentence() if self.columns.is_labelled else self._class_sentence()

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each explained text that is listed."""
        values = {name: self.columns.values(name)[self.numbers].tolist() for name in COLUMNS}
        values["confidence"] = [None if np.isnan(share) else share for share in values["confidence"]]
        return pandas.DataFrame(list(zip(*values.values(), strict=True)), columns=list(COLUMNS))

    def _error_sentence(self) -> str:
        count, texts = len(self.errors), f"{plural(len(self.scope), 'text')}{self._scope_words()}"
        if not count:
            label = "has another label" if self.filters.label else "is predicted differently from its label"
            return f"None of {texts} {label}."
        share = percent(count / len(self.scope))
        lead = f"{count} of {texts} {are(count)} predicted differently from {'its' if count == 1 else 'their'} label"
        if self.filters.label is not None:
            lead = f"{count} of {texts} {'has' if count == 1 else 'have'} another label"
        return f"{lead} ({share}){self._predicted()}."

    def _predicted(self) -> str:
        """What the model predicts for the misclassified texts."""
        if self.filters.label is not None:
            return ""
        (label, most), *_ = self._counts(self.errors).most_common(1)
        if len(self.errors) == 1:
            return f"; it is predicted {label}"
        return f"; {'all' if most == len(self.errors) else most} of them are predicted {label}"

    def _class_sentence(self) -> str:
        count, texts = len(self.scope), plural(len(self.scope), "text")
        counts = self._counts(self.scope).most_common()
        if self.filters.label is not None:
            every = f"{plural(self.explained, 'text')}{self._so_far()}"
            with_word = f" and {'contains' if count == 1 else 'contain'} {self._word()}" if self.filters.part else ""
            return f"{count} of {every} {are(count)} predicted {self.filters.label}{with_word}."
        if len(counts) == 1:
            lead = f"All {texts}" if len(self.scope) > 1 else "The text"
            return f"{lead}{self._scope_words()} {are(len(self.scope))} predicted {counts[0][0]}."
        (label, most), *others = counts[:NAMED]
        listed = [f"{most} of {texts}{self._scope_words()} {are(most)} predicted {label}"]
        listed += [f"{count} {name}" for name, count in others]
        if rest := sum(count for _, count in counts[NAMED:]):
            listed.append(f"{rest} otherwise")
        return f"{', '.join(listed)}."

    def _counts(self, numbers: Array) -> Counter[str]:
        """For how many of some texts each class is predicted."""
        return Counter(self.columns.values("prediction")[numbers].tolist())

    def _scope_words(self) -> str:
        """Of which texts a number is."""
        predicted = f" predicted {self.filters.label}" if self.filters.label is not None else ""
        return f"{self._so_far()}{predicted}{f' with {self._word()}' if self.filters.part else ''}"

    def _so_far(self) -> str:
        return " explained so far" if self.explained < self.total else ""

    def _word(self) -> str:
        return f"“{html.label(self.filters.token.strip())}”"


def are(count: int) -> str:
    """The verb of so many things."""
    return "is" if count == 1 else "are"


def make_entry(number: int, saliency: Saliency, label: str | None, listing: Listing | None = None) -> Entry:
    top, positions = strongest_word(saliency)
    share = confidence(saliency)
    against = float(saliency.scores[positions].sum()) < 0
    marked = [] if listing is None else listing.places(saliency)
    pieces = [
        [text, score, is_marked and bool(marked)] for text, score, is_marked in excerpt(saliency, marked or positions)
    ]
    remark = None if listing is None else listing.remark(number)
    name = html.label(top)
    return Entry(number, saliency.prediction, None if np.isnan(share) else share, label, name, against, pieces, remark)
