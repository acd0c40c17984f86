"""What leaving out sources changes in a reply: measured once, saved with the answer, and said by every sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from nbsal.ablation import tables
from nbsal.explain.prompt.reading import PromptWithReply, Unit
from nbsal.explain.scoring.lazy import ReplyExperiment
from nbsal.explain.sentences.outcomes import MASKED, NAMES, ONLY
from nbsal.methods.lazy import tokenize
from nbsal.model.target import BEST
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import ModelError
from nbsal.support.progress import Meter

LEAST = 0.1  # fall of a log-probability from which a source matters
NEAR = 0.5  # share of the largest fall from which another one counts too
MOST_PARTS = 32  # most sentences or words that are left out one by one, where there are no documents
JOINTS = ":.,-/'’&"  # between words without a space: "9:05", "well-known"
Mask = Flags
Place = tuple[int, int | None]  # a source, and the number of a sentence or word of it, or None for all of it
Level = Literal["sentence", "word"]


@dataclass(frozen=True)
class PartWay:
    """What is left of a part of a reply, as a log-probability, with a place hidden in one way."""

    name: str
    value: float
    likelihood: float | None = None  # of the prompt that this makes: the mean log-probability of its tokens
    whole: float | None = None  # the same of the whole prompt

    def hidden(self, name: str) -> str:
        """What is hidden for the sake of a place."""
        return f"all but {name}" if self.name == ONLY else name


@dataclass(frozen=True, eq=False)
class SourceWay:
    """The log-probabilities of a reply with each place hidden in one way, or as the only one left, [place, token].

    `likelihood` says how likely the model finds each prompt that this makes: the mean log-probability of its tokens. It
    is None where the model does not write the prompt, as in encoder-decoders.
    """

    name: str
    logprob: Floats
    likelihood: Floats | None = None

    def part(self, row: int, tokens: Sequence[int]) -> PartWay:
        """What is left of some tokens without a place."""
        likelihood = None if self.likelihood is None else float(self.likelihood[row])
        return PartWay(self.name, float(self.logprob[row, list(tokens)].sum()), likelihood)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The log-probability of each token of a reply with all sources, and with some left out.

    `without` has a row for each place: every source that the model reads and, where there are no documents, their
    sentences or words, as `level` says. `documents` are the rows of documents, and `nothing` is without all of them, or
    without all sources where there are none. `instead` is the likeliest token without a place, blank where it is the
    reply's own. `way` says how sources are left out.
    """

    places: tuple[Place, ...]
    documents: tuple[int, ...]
    logprob: Floats
    nothing: Floats
    without: Floats
    instead: tuple[tuple[str, ...], ...]
    way: str
    level: Level = "sentence"
    ways: tuple[SourceWay, ...] = ()  # in which else the places were hidden
    likelihood: float | None = None  # of the whole prompt

    def in_ways(self, row: int, tokens: Sequence[int]) -> tuple[PartWay, ...]:
        """What is left of some tokens without a place in each way."""
        ways = (*self.ways, SourceWay(MASKED, self.without))
        parts = (way.part(row, tokens) for way in sorted(ways, key=lambda way: NAMES.index(way.name)))
        return tuple(replace(part, whole=self.likelihood) for part in parts)

    @property
    def candidates(self) -> list[int]:
        """The rows of what a sentence can name: sentences or words where they were left out, else sources."""
        return nameable(self.places)

    @property
    def falls(self) -> Floats:
        """By how much each token's log-probability falls without the documents, or 0 where the question matters more.

        It is the mean of the fall without all of them and that without the one it needs most. Where there are no
        documents, it is the latter of the words, or of the sentences, of which the last one counts as the question.
        """
        parts = self.candidates if self.level == "word" else self.candidates[:-1]
        compared = self.documents or tuple(parts or self.candidates)
        single: Floats = self.logprob - self.without[list(compared)].min(0)
        falls = (single + self.logprob - self.nothing) / 2 if self.documents else single
        questions = [self.logprob - self.without[row] for row in self.candidates if row not in compared]
        new = np.where(falls >= NEAR * np.max([np.zeros_like(falls), *questions], axis=0), falls, 0.0)
        return new if new.max() >= LEAST else falls

    @property
    def by_source(self) -> dict[int, Floats]:
        """The log-probabilities without each source."""
        return {
            source: row for (source, sentence), row in zip(self.places, self.without, strict=True) if sentence is None
        }


def nameable(places: Sequence[Place]) -> list[int]:
    """The numbers of the places that a sentence can name: those in a source, or all of a source that has none."""
    split = {source for source, part in places if part is not None}
    return [i for i, (source, part) in enumerate(places) if part is not None or source not in split]


def hides(units: Sequence[Unit], place: Place) -> Mask:
    """Which of some units a place holds."""
    source, part = place
    mine: Mask = np.array([unit.source for unit in units]) == source
    return mine if part is None else mine & (mine.cumsum() - 1 == part)


def evidence_level(reading: PromptWithReply, unit: Any) -> Level:
    """What is left out of a reply's sources: their words, if these are the units, and are few, and no documents."""
    by_words = isinstance(unit, str) and unit in ("token", "word") and not reading.prompt.has_documents
    return "word" if by_words and sum(map(_says_something, reading.units("word"))) <= MOST_PARTS else "sentence"


def measure(experiment: ReplyExperiment, meter: Meter | None = None, level: Level = "sentence") -> Evidence | None:
    """Score a reply with and without its sources, whose units at that level are hidden; None if that is impossible."""
    reading, places = experiment.reading, places_of(experiment.reading, experiment.parts)
    if not places:
        return None
    table = subsets(experiment)
    try:
        values, others = experiment.numbers(table, meter=meter), likeliest(experiment, table[2:])
    except ModelError:  # with so much hidden, some models have nothing to attend to
        return None
    sources = reading.prompt.sources
    documents = tuple(i for i, (source, _) in enumerate(places) if sources[source].kind == "document")
    return Evidence(places, documents, values[0], values[1], values[2:], others, experiment.hidden, level)


def likeliest(experiment: ReplyExperiment, table: Mask) -> tuple[tuple[str, ...], ...]:
    """The likeliest token in place of each one for some subsets of units, blank where it is the reply's own."""
    best = experiment.numbers(table, BEST).astype(int)
    tokenizer = experiment.ablation.subject.tokenizer
    tokens, at = np.unique(best, return_inverse=True)
    names = np.array(list(map(partial(tokenize.token_name, tokenizer), tokens.tolist())), object)
    others = np.where(best == experiment.reading.reply_ids, "", names[at].reshape(best.shape))
    return tuple(map(tuple, others.tolist()))


def subsets(experiment: ReplyExperiment) -> Mask:
    """What `measure` runs, as subsets of units: all of them, none of the documents, and all but each place."""
    units, sources = experiment.parts, experiment.reading.prompt.sources
    documents = [number for number, unit in enumerate(units) if sources[unit.source].kind == "document"]
    places = (np.flatnonzero(hides(units, place)) for place in places_of(experiment.reading, units))
    return tables.without(len(units), [], documents or range(len(units)), *places)


def opened(evidence: Evidence, words: Sequence[Sequence[int]]) -> list[int]:
    """The tokens of the words that fall most without the sources; none if none fall."""
    falls = evidence.falls
    sizes = [float(falls[list(word)].sum()) for word in words]
    best = int(np.argmax(sizes)) if sizes else 0
    if not sizes or sizes[best] < LEAST:
        return []
    first, last = best, best
    while first > 0 and sizes[first - 1] >= NEAR * sizes[best]:
        first -= 1
    while last + 1 < len(words) and sizes[last + 1] >= NEAR * sizes[best]:
        last += 1
    return list(range(words[first][0], words[last][-1] + 1))


def carriers(evidence: Evidence, words: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The words that fall nearly as much as any, and most first; of each, its tokens that fall most first."""
    falls = evidence.falls
    sizes = {tuple(word): float(falls[list(word)].sum()) for word in words}
    least = max([LEAST / NEAR, *sizes.values()]) * NEAR
    chosen = sorted((word for word, size in sizes.items() if size >= least), key=lambda word: -sizes[word])
    return [sorted(word, key=lambda token: -falls[token]) for word in chosen]


def spaced_words(reading: PromptWithReply) -> list[list[int]]:
    """The tokens of each word of the reply, without punctuation at its ends: "9:05" is one."""
    words: list[list[int]] = []
    end, joint = -1, False
    pending: list[int] = []
    for unit in reading.reply_units("word"):
        start, stop = unit.span
        if unit.text[:1].isalnum():
            if joint and start == end and words:
                words[-1] += [*pending, *unit.tokens]
            else:
                words.append(list(unit.tokens))
            pending, joint, end = [], True, stop
        elif unit.text in JOINTS and start == end and not pending:
            pending, end = list(unit.tokens), stop
        else:
            joint = False
    return words


def places_of(reading: PromptWithReply, units: Sequence[Unit]) -> tuple[Place, ...]:
    """Every source and, where there are no documents, those of its units that say something."""
    places: list[Place] = [(source, None) for source in sorted({unit.source for unit in units})]
    if not reading.prompt.has_documents and len(places) < sum(map(_says_something, units)) <= MOST_PARTS:
        for source, _ in list(places):
            mine = [unit for unit in units if unit.source == source]
            places += [(source, i) for i, unit in enumerate(mine) if len(mine) > 1 and _says_something(unit)]
    return tuple(places)


def _says_something(unit: Unit) -> bool:
    """Whether a unit is more than punctuation."""
    return any(map(str.isalnum, unit.text))
