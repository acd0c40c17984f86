"""What of the scores of a part of a reply came through earlier words of the reply, and which words carried it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.explain.scoring.hops import Hops
from nbsal.explain.sentences.evidence import spaced_words
from nbsal.support.arrays import Floats

SHOWN = 4  # words of a hop
LEAST = 0.02  # share from which a word is shown


@dataclass(frozen=True)
class HopWord:
    """A word of the reply that carried scores, with its tokens, and its share of the scores of the part."""

    text: str
    tokens: tuple[int, ...]
    share: float


@dataclass(frozen=True)
class Route:
    """The share that came through the reply, the words that carried most at each hop, and the document it came from.

    `document` is the one whose scores grew most, as a sentence names it; blank if none did.
    """

    share: float
    hops: tuple[tuple[HopWord, ...], ...]
    document: str


def find_route(reading: PromptWithReply, scores: Floats, followed: Hops, tokens: Sequence[int]) -> Route:
    """What came through the reply to some tokens, each of which counts by the size of its `scores` before the hops."""
    at, start = list(tokens), reading.start
    sizes = np.abs(scores[at]).sum(1)
    weights = sizes / sizes.sum() if sizes.any() else sizes
    share = float(followed.arrived[1:, at].sum(0) @ weights)
    passed = np.abs(followed.carried[:-1, at])  # what the last hop left was read by none
    by_hop = np.einsum("hpt,p->ht", passed, weights)
    gains = (followed.scores[at, :start] - scores[at, :start]).sum(0)
    return Route(share, tuple(_words(reading, shares) for shares in by_hop), _document(reading, gains))


def _words(reading: PromptWithReply, shares: Floats) -> tuple[HopWord, ...]:
    """The words with the largest shares of a hop."""
    reply, spans = reading.reply, reading.reply_spans
    words = [
        HopWord(reply[spans[word[0]][0] : spans[word[-1]][1]].strip(), tuple(word), float(shares[word].sum()))
        for word in spaced_words(reading)
    ]
    return tuple(sorted((word for word in words if word.share >= LEAST), key=lambda word: -word.share)[:SHOWN])


def _document(reading: PromptWithReply, gains: Floats) -> str:
    prompt = reading.prompt
    documents = [number for number, source in enumerate(prompt.sources) if source.kind == "document"]
    sums = [float(gains[np.array(prompt.owners) == number].sum()) for number in documents]
    return f"document {np.argmax(sums) + 1}" if sums and max(sums) > 0 else ""
