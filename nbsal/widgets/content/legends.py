"""What stands beside a row of scores: how it divides between words and special tokens, and its strongest words.

A live page says the same of what it computes, in `frontend/src/live/legends.ts`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from nbsal.explain.explained import MOST, Floats, share_texts, share_warning, special_share
from nbsal.explain.ranked import Ranked, Ranker
from nbsal.explain.text_sheet import strongest_heading
from nbsal.model.text.tokens import Row
from nbsal.render.headline import name_in_sentence
from nbsal.render.html import label
from nbsal.render.scores import score_text, score_texts

LEVELS = ("word", "token")
READOUT = {  # what is said under a text of a word, or of several; the page fills the gaps
    "hint": "Point at a word to see its score.",
    "sides": ("against, {}\u202f%", "{}\u202f%", "for, {}\u202f%"),
    "zero": "score 0",
    "rank": "rank {} of {}",
    "score": "score {}",
    "words": "{} words",
    "tokens": "{} tokens",
    "together": "together {}\u202f%",
}
LISTED = 8  # special tokens in a tooltip

Words = tuple[list[str], list[tuple[int, int]]]  # the words of a text, and each token with the place of its word


def legends(row: Row, rows: Iterable[Floats]) -> list[dict[str, Any]]:
    """The words and shares beside each row of scores of a text."""
    words = _words(row)
    rankers = {level: Ranker(row, level) for level in LEVELS}
    heading = {"heading": strongest_heading(row)} if row.units else {}
    clean = map(np.nan_to_num, rows)
    return [
        divided(row, scores)
        | {"strongest": _strongest(words, scores)}
        | {"ranked": {level: _ranked(ranker.strongest(scores)) | heading for level, ranker in rankers.items()}}
        for scores in clean
    ]


def _ranked(words: list[Ranked]) -> dict[str, Any]:
    """The list of the strongest words, with lengths of bars as shares of the longest."""
    numbers, power = score_texts([word.score for word in words])
    largest = abs(words[0].score) if words else 0.0
    return {
        "power": power,
        "rows": [
            {
                "name": word.name,
                "aside": word.aside,
                "number": number,
                "share": round(word.score / (largest or 1.0), 4),
                "tokens": word.tokens,
            }
            for word, number in zip(words, numbers, strict=True)
        ],
    }


def divided(row: Row, scores: Floats) -> dict[str, Any]:
    """How a row of scores divides between words and special tokens."""
    share, special = special_share(row, scores), np.flatnonzero(row.special)[:LISTED]
    return {
        "special": round(share, 4),
        "shares": share_texts(share),
        "tokens": ", ".join(f"{row.tokens[i]} {score_text(float(scores[i]))}" for i in special),
        "warning": share_warning(row, scores) if share > MOST else "",
    }


def _words(row: Row) -> Words:
    """The words of a text, and the tokens outside of words, with the place of each in that list."""
    words = [(word.text, list(word.tokens)) for word in row.words]
    covered = {i for _, tokens in words for i in tokens}
    words += [(row.tokens[i], [i]) for i in row.content if i not in covered]
    return [text for text, _ in words], [(i, place) for place, (_, tokens) in enumerate(words) for i in tokens]


def _strongest(words: Words, scores: Floats) -> dict[str, list[str]]:
    """The word with the largest score, and that of the largest token, each with that score."""
    texts, places = words
    if not texts:
        return {"word": ["", ""], "token": ["", ""]}
    tokens, owners = np.array(places).T
    sums = np.bincount(owners, scores[tokens])
    word, token = int(np.abs(sums).argmax()), int(np.abs(scores[tokens]).argmax())
    return {
        "word": _named(texts[word], float(sums[word])),
        "token": _named(texts[owners[token]], float(scores[tokens[token]])),
    }


def _named(text: str, score: float) -> list[str]:
    return [name_in_sentence(label(text)), score_text(score)] if score else ["", ""]
