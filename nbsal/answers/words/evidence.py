"""What leaving out sources changes in a reply: measured once, saved with the answer, and said by every sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbsal.answers.lazy import Hiding
from nbsal.answers.prompt.reading import BEST, Reading, Unit
from nbsal.methods.lazy import tokenize
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import ModelError
from nbsal.support.progress import Meter

LEAST = 0.1  # fall of a log-probability from which a source matters
NEAR = 0.5  # share of the largest fall from which another one counts too
SENTENCES = 32  # most sentences that are left out one by one, where there are no documents
JOINTS = ":.,-/'’&"  # between words without a space: "9:05", "well-known"
Mask = Flags
Place = tuple[int, int | None]  # a source, and the number of a sentence of it, or None for all of it


@dataclass(frozen=True, eq=False)
class Evidence:
    """The log-probability of each token of a reply with all sources, and with some left out.

    `without` has a row for each place: every source that the model reads and, where there are no documents, their
    sentences. `documents` are the rows of documents, and `nothing` is without all of them, or without all sources where
    there are none. `instead` is the likeliest token without a place, blank where it is the reply's own. `way` says how
    sources are left out.
    """

    places: tuple[Place, ...]
    documents: tuple[int, ...]
    logprob: Floats
    nothing: Floats
    without: Floats
    instead: tuple[tuple[str, ...], ...]
    way: str

    @property
    def candidates(self) -> list[int]:
        """The rows of what a sentence can name: sentences where they were left out, else sources."""
        split = {source for source, sentence in self.places if sentence is not None}
        return [i for i, (source, sentence) in enumerate(self.places) if sentence is not None or source not in split]

    @property
    def falls(self) -> Floats:
        """By how much each token's log-probability falls without the documents, or 0 where the question matters more.

        It is the mean of the fall without all of them and that without the one it needs most. Where there are no
        documents, it is the latter of the sentences, of which the last one counts as the question.
        """
        told = self.documents or tuple(self.candidates[:-1] or self.candidates)
        single: Floats = self.logprob - self.without[list(told)].min(0)
        falls = (single + self.logprob - self.nothing) / 2 if self.documents else single
        questions = [self.logprob - self.without[row] for row in self.candidates if row not in told]
        new = np.where(falls >= NEAR * np.max([np.zeros_like(falls), *questions], axis=0), falls, 0.0)
        return new if new.max() >= LEAST else falls

    @property
    def by_source(self) -> dict[int, Floats]:
        """The log-probabilities without each source."""
        return {
            source: row for (source, sentence), row in zip(self.places, self.without, strict=True) if sentence is None
        }


def hides(units: Sequence[Unit], place: Place) -> Mask:
    """Which of some sentences a place holds."""
    source, sentence = place
    mine: Mask = np.array([unit.source for unit in units]) == source
    return mine if sentence is None else mine & (mine.cumsum() - 1 == sentence)


def passes(hiding: Hiding) -> int:
    """How many texts `measure` runs."""
    return len(_places(hiding)) + 2


def measure(hiding: Hiding, meter: Meter | None = None) -> Evidence | None:
    """Score a reply with and without its sources; `hiding` is of sentences. None if that is impossible."""
    places = _places(hiding)
    if not places:
        return None
    table = subsets(hiding)
    try:
        values, best = hiding.values(table, meter), hiding.values(table, number=BEST)[2:].astype(int)
    except ModelError:  # with so much hidden, some models have nothing to attend to
        return None
    sources = hiding.reading.prompt.sources
    tokenizer, own = hiding.subject.tokenizer, hiding.reading.reply_ids
    names = {index: tokenize.token_name(tokenizer, index) for index in np.unique(best).tolist()}
    instead = tuple(
        tuple("" if index == token else names[index] for index, token in zip(row, own, strict=True))
        for row in best.tolist()
    )
    documents = tuple(i for i, (source, _) in enumerate(places) if sources[source].kind == "document")
    return Evidence(places, documents, values[0], values[1], values[2:], instead, hiding.way)


def subsets(hiding: Hiding) -> Mask:
    """What `measure` runs, as subsets of sentences: all of them, none of the documents, and all but each place."""
    units, documents = hiding.units, _in_documents(hiding)
    nothing = ~documents if documents.any() else np.zeros(len(units), dtype=bool)
    return np.array([np.ones(len(units), dtype=bool), nothing, *(~hides(units, place) for place in _places(hiding))])


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


def spaced_words(reading: Reading) -> list[list[int]]:
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


def _places(hiding: Hiding) -> tuple[Place, ...]:
    units = hiding.units
    places: list[Place] = [(source, None) for source in sorted({unit.source for unit in units})]
    if not _in_documents(hiding).any() and len(places) < len(units) <= SENTENCES:
        for source, _ in list(places):
            count = sum(unit.source == source for unit in units)
            places += [(source, sentence) for sentence in range(count) if count > 1]
    return tuple(places)


def _in_documents(hiding: Hiding) -> Mask:
    sources = hiding.reading.prompt.sources
    return np.array([sources[unit.source].kind == "document" for unit in hiding.units], dtype=bool)
