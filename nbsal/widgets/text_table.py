"""A table of explained texts: its entries, its filters and its order, one page of it, and what they come to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nbsal.clouds import plain_token
from nbsal.render import html
from nbsal.render.headline import percent
from nbsal.saliency import Saliency
from nbsal.validation import plural

if TYPE_CHECKING:
    import pandas

PAGE = 12  # texts on a page
COLUMNS = ("number", "text", "prediction", "confidence", "label", "top")
NAMED = 3  # classes that the sentence names


@dataclass(frozen=True)
class Entry:
    """One text as the table sorts and filters it; `words` are its words and tokens in lower case."""

    number: int
    text: str
    prediction: str
    confidence: float | None  # values and spans have none
    label: str | None
    top: str  # the strongest word
    against: bool  # whether it speaks against what is explained
    words: frozenset[str]

    @classmethod
    def of(cls, number: int, saliency: Saliency, label: str | None) -> "Entry":
        """The entry of an explained text."""
        row, probabilities = saliency.row, saliency.probabilities
        top, top_tokens = strongest_word(saliency)
        tokens = [saliency.tokens[i] for i in row.content]
        words = {plain_token(token) for token in tokens} | {token.lower() for token in tokens}
        return cls(
            number=number,
            text=" | ".join(row.parts),
            prediction=saliency.prediction,
            confidence=round(float(probabilities.max()), 4) if probabilities.ndim == 1 and probabilities.size else None,
            label=label,
            top=top,
            against=float(saliency.scores[top_tokens].sum()) < 0,
            words=frozenset(words | {word.text.lower() for word in saliency.words}),
        )

    @property
    def misclassified(self) -> bool:
        """Whether the prediction differs from the label."""
        return self.label is not None and self.label != self.prediction


def strongest_word(saliency: Saliency) -> tuple[str, list[int]]:
    """The word with the largest score, for or against what is explained, as typed, and its tokens.

    Of equals it is the one that is ranked first.
    """
    if not saliency.words:
        first = max(saliency.order, key=lambda i: abs(saliency.scores[i]))
        return saliency.tokens[first], [first]
    scores = [word.score for word in saliency.weighed_words()]
    word = saliency.words[max(saliency.word_order, key=lambda i: abs(scores[i]))]
    return word.text, list(word.tokens)


@dataclass(frozen=True)
class Filters:
    """Which texts are listed, and in which order."""

    sort: str = "number"
    descending: bool = False
    label: str | None = None
    wrong: bool = False
    token: str = ""

    @property
    def word(self) -> str:
        """The word or token that the texts contain, as it is compared."""
        return self.token.strip().lower()

    @property
    def by_number(self) -> bool:
        """Whether every text is listed, in the order of the texts."""
        return self == Filters(token=self.token) and not self.word

    def in_scope(self, entry: Entry) -> bool:
        """Whether a text has that prediction and that word."""
        fits = self.label is None or entry.prediction == self.label
        return fits and (not self.word or self.word in entry.words)

    def arrange(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries that are listed, in their order."""
        listed = [entry for entry in entries if entry.misclassified or not self.wrong]
        return sorted(listed, key=self._key, reverse=self.descending)

    def _key(self, entry: Entry) -> tuple[bool, Any]:
        value = getattr(entry, self.sort)
        return value is None, value


@dataclass(frozen=True, eq=False)
class TablePage:
    """One page of the table, and the text that is opened.

    `scope` are the entries with the class and the word that the filters ask for, `entries` those that are listed.
    `rows` are those on the page, `waiting` the texts after them that are not explained yet.
    """

    filters: Filters
    scope: Sequence[Entry]
    entries: Sequence[Entry]
    explained: int
    total: int  # texts
    page: int
    rows: Sequence[tuple[Entry, Saliency]]
    waiting: Sequence[int]
    opened_number: int | None
    opened: Saliency | None
    labels: Sequence[str]  # classes to filter by

    @property
    def listed(self) -> int:
        """The number of texts that are listed, with those that are not explained yet where all are listed."""
        return self.total if self.filters.by_number else len(self.entries)

    @cached_property
    def errors(self) -> list[Entry]:
        """The entries whose prediction differs from their label."""
        return [entry for entry in self.scope if entry.misclassified]

    @property
    def is_labelled(self) -> bool:
        """Whether the texts have labels."""
        return any(entry.label is not None for entry in self.scope)

    def position(self) -> str:
        """Which page this is, and of how many texts; texts are numbered from 0 as in Python, pages from 1."""
        pages = -(-self.listed // PAGE)
        return f"page {self.page + 1} of {pages} · {plural(self.listed, 'text')}" if self.listed else "no text"

    def caption(self) -> str:
        """How many texts are misclassified, or what is predicted for them."""
        if not self.scope:
            return f"No text matches{self._so_far()}." if self.explained else "No text is explained yet."
        return self._error_sentence() if self.is_labelled else self._class_sentence()

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each explained text that is listed."""
        import pandas

        rows = [tuple(getattr(entry, name) for name in COLUMNS) for entry in self.entries]
        return pandas.DataFrame(rows, columns=list(COLUMNS))

    def _error_sentence(self) -> str:
        count, texts = len(self.errors), f"{plural(len(self.scope), 'text')}{self._scope_words()}"
        if not count:
            label = "has another label" if self.filters.label else "is predicted differently from its label"
            return f"None of {texts} {label}."
        share = percent(count / len(self.scope))
        lead = f"{count} of {texts} {_are(count)} predicted differently from {'its' if count == 1 else 'their'} label"
        if self.filters.label is not None:
            lead = f"{count} of {texts} {'has' if count == 1 else 'have'} another label"
        return f"{lead} ({share}){self._predicted()}."

    def _predicted(self) -> str:
        """What the model predicts for the misclassified texts."""
        if self.filters.label is not None:
            return ""
        (label, most), *_ = Counter(entry.prediction for entry in self.errors).most_common(1)
        if len(self.errors) == 1:
            return f"; it is predicted {label}"
        return f"; {'all' if most == len(self.errors) else most} of them are predicted {label}"

    def _class_sentence(self) -> str:
        count, texts = len(self.scope), plural(len(self.scope), "text")
        counts = Counter(entry.prediction for entry in self.scope).most_common()
        if self.filters.label is not None:
            every = f"{plural(self.explained, 'text')}{self._so_far()}"
            with_word = f" and {'contains' if count == 1 else 'contain'} {self._word()}" if self.filters.word else ""
            return f"{count} of {every} {_are(count)} predicted {self.filters.label}{with_word}."
        if len(counts) == 1:
            lead = f"All {texts}" if len(self.scope) > 1 else "The text"
            return f"{lead}{self._scope_words()} {_are(len(self.scope))} predicted {counts[0][0]}."
        (label, most), *others = counts[:NAMED]
        listed = [f"{most} of {texts}{self._scope_words()} {_are(most)} predicted {label}"]
        listed += [f"{count} {name}" for name, count in others]
        if rest := sum(count for _, count in counts[NAMED:]):
            listed.append(f"{rest} otherwise")
        return f"{', '.join(listed)}."

    def _scope_words(self) -> str:
        """Of which texts a number is."""
        predicted = f" predicted {self.filters.label}" if self.filters.label is not None else ""
        return f"{self._so_far()}{predicted}{f' with {self._word()}' if self.filters.word else ''}"

    def _so_far(self) -> str:
        return " explained so far" if self.explained < self.total else ""

    def _word(self) -> str:
        return f"“{html.label(self.filters.token.strip())}”"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def make_page(
    filters: Filters, entries: Sequence[Entry], saliencies: Sequence[Saliency], total: int, page: int, **others: Any
) -> TablePage:
    """The page of that number, or the last one."""
    scope = [entry for entry in entries if filters.in_scope(entry)]
    listed = filters.arrange(scope)
    count = total if filters.by_number else len(listed)
    page = min(page, max(0, count - 1) // PAGE)
    first, end = page * PAGE, min((page + 1) * PAGE, count)
    rows = [(entry, saliencies[entry.number]) for entry in listed[first:end]]
    waiting = range(max(first, len(listed)), end)
    return TablePage(filters, scope, listed, len(entries), total, page, rows, waiting, **others)
