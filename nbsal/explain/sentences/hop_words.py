"""What of the scores of a part of a reply came through earlier words of the reply, and what hiding these changes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbsal.ablation import tables
from nbsal.ablation.texts import REMOVE
from nbsal.explain.prompt.reading import PromptWithReply, Unit
from nbsal.explain.scoring.hops import Hops
from nbsal.explain.scoring.lazy import ReplyExperiment
from nbsal.explain.sentences.evidence import MOST_PARTS, spaced_words
from nbsal.explain.sentences.function_words import is_function_word
from nbsal.support.arrays import Floats

SHOWN = 4  # words of a hop
LEAST = 0.02  # share from which a word is shown


@dataclass(frozen=True)
class HopWord:
    """A word of the reply that carried scores, with its tokens where it stands first, and its share of the scores."""

    text: str
    tokens: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class Route:
    """The share that came through the reply, and the words that carried most at each hop, equal ones as one.

    `without` is the log-probability of the part without the first word of the first hop, and `others` are those without
    each other word, where these were hidden. The word just before the part is in neither, since the model reads the
    part there. `needs` is what the first word depends on, as a sentence names it.
    """

    share: float
    hops: tuple[tuple[HopWord, ...], ...]
    without: float | None = None
    others: tuple[float, ...] = ()
    needs: str = ""

    @property
    def words(self) -> tuple[HopWord, ...]:
        """The words of the first hop."""
        return self.hops[0] if self.hops else ()


def find_route(reading: PromptWithReply, scores: Floats, followed: Hops, tokens: Sequence[int]) -> Route:
    """What came through the reply to some tokens, each of which counts by the size of its `scores` before the hops."""
    at, words = list(tokens), mentions(reading)
    sizes = np.abs(scores[at]).sum(1)
    weights = sizes / sizes.sum() if sizes.any() else sizes
    share = float(followed.arrived[1:, at].sum(0) @ weights)
    passed = np.abs(followed.carried[:-1, at])  # what the last hop left was read by none
    by_hop = np.einsum("hpt,p->ht", passed, weights)
    hops = tuple(_words(words, shares) for shares in by_hop)
    if followed.without is None or not (hops and hops[0]):
        return Route(share, hops)
    beside = {min(at) - 1, *at[:-1]}
    left = {
        name: float(row[at].sum())
        for (name, places), row in zip(words.items(), followed.without, strict=True)
        if beside.isdisjoint(token for place in places for token in place)
    }
    return Route(share, hops, left.pop(hops[0][0].text, None), tuple(left.values()))


def mentions(reading: PromptWithReply) -> dict[str, list[list[int]]]:
    """The words of a reply that say something, each with the tokens of every place where it stands."""
    words: dict[str, tuple[str, list[list[int]]]] = {}
    for word in spaced_words(reading):
        text = reading.reply[reading.reply_spans[word[0]][0] : reading.reply_spans[word[-1]][1]].strip()
        if not is_function_word(text):
            words.setdefault(text.casefold(), (text, []))[1].append(word)
    return dict(words.values())


def hide_words(experiment: ReplyExperiment) -> Floats | None:
    """The log-probability of each token of a reply without each of its words; None if there is no other to compare."""
    reading, words = experiment.reading, mentions(experiment.reading)
    if reading.prompt.source_size or not 1 < len(words) <= MOST_PARTS:
        return None
    units = [
        Unit("reply", name, -1, (0, 0), tuple(reading.start + token for word in places for token in word))
        for name, places in words.items()
    ]
    table = tables.without(len(units), *([number] for number in range(len(units))))
    return experiment.with_units(units, REMOVE).numbers(table)


def _words(words: dict[str, list[list[int]]], shares: Floats) -> tuple[HopWord, ...]:
    """The words with the largest shares of a hop."""
    sums = [
        HopWord(name, tuple(places[0]), float(sum(shares[place].sum() for place in places)))
        for name, places in words.items()
    ]
    return tuple(sorted((word for word in sums if word.share >= LEAST), key=lambda word: -word.share)[:SHOWN])
