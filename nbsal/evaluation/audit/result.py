"""The result of an audit: which words a classifier relies on, which are behind its mistakes, and where it errs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from nbsal.evaluation.audit import file, page, slices, tables, word_table
from nbsal.evaluation.permutation import CHANCE
from nbsal.render import sheet_html
from nbsal.render.exports import Exportable
from nbsal.render.sheet import Sheet
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import Figure, pandas
from nbsal.support.validation import Text, checked, plural

Span = tuple[int, int, int]  # of a word: the number of its part of a pair, its first character, and its end


@dataclass(frozen=True)
class Effect:
    """What hiding a word does in every text that has it; all sequences are in the order of `texts`, their numbers."""

    word: str
    speaks_for: int  # the class whose log-odds it raises most
    named: int  # texts in which scores name it, or hiding it corrects a mistake
    texts: tuple[int, ...]
    scores: tuple[float, ...]
    pulls: tuple[float, ...]  # change of the log-odds of the class that the word makes
    without: tuple[int, ...]  # the class that is decided without it
    random: tuple[int, ...]  # the class that is decided without a random other word of the text


@dataclass(frozen=True)
class Correction:
    """A mistake, and the smallest set of words whose hiding corrects it; no words if none does."""

    text: int
    words: tuple[str, ...]
    places: tuple[int, ...]
    exact: bool


@dataclass(frozen=True, eq=False)
@checked
class Audit(Exportable):
    """What a classifier relies on over many texts; `nbsal.audit` makes it.

    `words`, `mistakes` and `slices` are its tables, `beyond_chance` the words and slices of them. `other` is the
    audit of another model on the same texts and words.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradxact")
    >>> audit = nbsal.audit(explain, ["A dull film.", "A dull joy.", "A joy."], [0, 1, 1], least=1, progress=False)
    >>> audit.words.columns.tolist()[:4]
    ['word', 'speaks_for', 'texts', 'named']
    """

    classes: tuple[str, ...]
    texts: tuple[Text, ...]
    labels: tuple[int, ...] | None
    predictions: tuple[int, ...]
    confidences: tuple[float, ...]
    spans: tuple[tuple[Span, ...], ...]  # of the words of each text
    scores: tuple[tuple[float, ...], ...]  # of the words of each text, for the predicted class
    effects: tuple[Effect, ...]
    considered: int  # words that were tried, or could have been
    corrections: tuple[Correction, ...]
    groups: Mapping[str, tuple[str, ...]]
    provenance: Mapping[str, Any]
    other: "Audit | None" = None
    model: Any = field(default=None, repr=False, compare=False)  # to hide several words together, if any; not saved

    @cached_property
    def words(self) -> "pandas.DataFrame":
        """A row for each candidate word, the most harmful first.

        `speaks_for` is the class whose log-odds the word raises most, `pull` by how much on average, with its 95 %
        interval. `flips` are decisions that hiding it changes, `flips_random` those that hiding a random other word of
        the same texts changes; `corrects` and `breaks` are those that turn right and wrong, `excess` is how much more
        often than its labels texts with the word get the class. `p` tests the net effect: that hiding the word corrects
        more decisions than it breaks, and that texts of other classes get its class more often with it than without, or
        `p_flips`, that hiding it changes more decisions than hiding the random words. Without labels, `p` tests that
        the word pulls. `p_holm` and `p_flips_holm` are adjusted for both tests of all words that could be tried.

        `kind` says which test a word passes at 5 %. With a net effect it "misleads" the model, or it "inverts"
        decisions, those for its class and those for others. A word without one may change more decisions than random
        words: it "turns" decisions for and against if hiding it corrects at least a third of them and breaks a third
        (in texts without a word that has a net effect). Without labels it "pulls", or "turns" decisions both for its
        class and for others.
        """
        return word_table.words(self)

    @cached_property
    def mistakes(self) -> "pandas.DataFrame":
        """A row for each text that is not decided as it is labelled, with the words behind it."""
        return tables.mistakes(self)

    @cached_property
    def slices(self) -> "pandas.DataFrame":
        """Errors by length, label, prediction, first word and your groups, each against all other texts."""
        return slices.table(self)

    @property
    def beyond_chance(self) -> "tuple[pandas.DataFrame, pandas.DataFrame]":
        """The words and the slices whose effects are beyond chance, after adjusting for all that were tried.

        Words that turn decisions for and against are none: so does good evidence where labels are chance.
        """
        words, parts = self.words, self.slices
        return words[~words.kind.isin(["turns", ""])], parts[parts.p_holm <= CHANCE]

    @property
    def wrong(self) -> list[int]:
        """The numbers of the texts that are not decided as they are labelled."""
        labels = self.predictions if self.labels is None else self.labels
        return [i for i, (label, own) in enumerate(zip(labels, self.predictions, strict=True)) if label != own]

    @property
    def sentence(self) -> str:
        """The finding that matters most, in a sentence."""
        return tables.sentence(self)

    @property
    def notes(self) -> list[str]:
        """How it was computed, and what a reader must know."""
        return tables.notes(self)

    def without(self, words: Sequence[str] | str) -> "pandas.DataFrame":
        """The texts that have a word, with the decision with and without it, mistakes first."""
        return tables.without(self, self._named(words))

    def hide(self, words: Sequence[str] | str) -> Effect:
        """What hiding several words together does in every text that has any of them; they need not be candidates."""
        if self.model is None:
            message = "This audit was loaded from a file, without its model. Call nbsal.audit again."
            raise InputError(message, argument="words", value=words)
        names = [words] if isinstance(words, str) else list(words)
        there = {
            self.word(text, place).casefold() for text, spans in enumerate(self.spans) for place in range(len(spans))
        }
        for name in names or [""]:
            if name.casefold() not in there:
                raise UnknownName("words", name, sorted(there), choice="Pass words that occur in the texts.")
        effect: Effect = self.model.hide([name.casefold() for name in names])
        return effect

    def _named(self, words: Sequence[str] | str) -> list[Effect]:
        """The effects of some words that were tried, at least one."""
        names = [words] if isinstance(words, str) else list(words)
        by_word = {effect.word: effect for effect in reversed(self.effects)}
        for name in names or [""]:
            if name not in by_word:
                raise UnknownName("words", name, list(by_word))
        return [by_word[name] for name in names]

    def plot(self) -> "Figure":
        """The words that correct or break most decisions, as bars."""
        return tables.plot(self)

    def sheet(self) -> Sheet:
        """The report that is written as a page: words, slices, mistakes and examples."""
        return page.report(self)

    def _page_title(self) -> str:
        return f"Audit: {self.sentence}"

    def _as_view(self, views: Any) -> Any:
        return views.Audit(self)

    def _repr_html_(self) -> str:
        return sheet_html.render(page.summary(self))

    def __repr__(self) -> str:
        return f"Audit({plural(len(self.texts), 'text')}, {plural(len(self.effects), 'word')}: {self.sentence})"

    def save(self, path: str | Path) -> None:
        """Save in a file of its own format; `load` restores every number exactly, without any model."""
        file.save(Audit, self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load what `save` wrote."""
        audit: Self = file.load(cls, path)
        return audit

    def word(self, text: int, place: int) -> str:
        """A word of a text by its number."""
        part, start, end = self.spans[text][place]
        return self.parts(text)[part][start:end]

    def parts(self, text: int) -> tuple[str, ...]:
        """The text, or both texts of a pair."""
        whole = self.texts[text]
        return (whole,) if isinstance(whole, str) else tuple(whole)
