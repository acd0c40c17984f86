"""The words of a text as an audit counts them: equal words are one, whatever their case."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.explain.saliency import Saliency
from nbsal.methods.rng import text_rng
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Floats


@dataclass(frozen=True)
class DistinctWord:
    """A word of a text: as it is first written, all its places among the words, and all its tokens."""

    text: str
    places: tuple[int, ...]
    tokens: tuple[int, ...]


def score_of(saliency: Saliency, unit: DistinctWord) -> float:
    """The score of a word: the sum over all its places."""
    return float(sum(saliency.scores[i] for i in unit.tokens))


def units_of(row: Row) -> list[DistinctWord]:
    """The different words of a text, in order of their first place."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(row.words):
        places.setdefault(word.text.casefold(), []).append(place)
    return [
        DistinctWord(
            row.words[same[0]].text, tuple(same), tuple(token for place in same for token in row.words[place].tokens)
        )
        for same in places.values()
    ]


def log_odds(logits: Tensor) -> Floats:
    """The log-odds of every class against all others, [row, class], from logits [row, class]."""
    precise = logits.double()
    shares = precise.log_softmax(-1)
    odds = shares - torch.log1p(-shares.exp())
    # Of a likely class, 1 minus its probability would lose digits: its odds are those against the sum of the others.
    top = precise.argmax(-1, keepdim=True)
    others = precise.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True)
    values: Floats = odds.scatter(-1, top, precise.gather(-1, top) - others).numpy()
    return values


def random_words(row: Row, words: Sequence[str], count: int) -> list[str]:
    """Some words of a text, drawn at random; the same ones whenever the text is the same."""
    return [words[place] for place in text_rng(0, row).permutation(len(words))[:count]]
