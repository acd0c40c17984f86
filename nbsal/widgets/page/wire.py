"""Results packed for the page: tokens and scores as little-endian arrays.

The page decodes them in `frontend/src/page/decode.ts`; no other code reads these bytes. A token takes ten bytes, each
of its scores four more; the name of a token is sent only if the text does not tell it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from nbsal.explain.explained import Explanation, Floats
from nbsal.methods.lazy import Subject, tokenize
from nbsal.model.text.tokens import Row
from nbsal.render.headline import percent
from nbsal.render.html import visible
from nbsal.widgets.content.legends import legends

LARGEST = float(np.finfo(np.float32).max)
TYPES = "<i4", "<i4", "<u2"  # of starts, ends and flags
LIKELIEST = 12  # outcomes that are listed
_SPAN = re.compile(r"\[(\d+):(\d+)\]$")
_WORD_STARTS = "Ġ▁ "  # how tokenizers mark the space before a word


def tokens(row: Row) -> dict[str, Any]:
    """Pack the tokens of a text: where each starts and ends in its part of the text, and its flags."""
    content = set(row.content)
    inside_words = {i for word in row.words for i in word.tokens[1:]}
    places = []
    part = end_so_far = 0
    for i, (start, end) in enumerate(row.offsets):
        if i in content:
            if row.segments[i] > part:
                part, end_so_far = row.segments[i], 0
        else:
            start = end = end_so_far  # an empty span between its neighbours
        end_so_far = max(end_so_far, end)
        text = row.parts[part][start:end]
        name = None if i in content and _is_spelled(row.tokens[i], text) else row.tokens[i]
        places.append(TokenPlace(part, start, end, i not in inside_words, i not in content, name))
    return pack(row.parts, places, row.dropped > 0)


class TokenPlace(NamedTuple):
    """Where a token is in its part, whether it begins a word, whether it is special, its name if no text tells it."""

    part: int
    start: int
    end: int
    first: bool
    special: bool
    name: str | None


def pack(parts: Sequence[str], places: Sequence[TokenPlace], cut: bool = False) -> dict[str, Any]:
    """Pack tokens at their places in texts.

    `starts` and `ends` are int32 and count UTF-16 units, as a page does. The flags, two bytes each, hold from the
    lowest bit on: whether the token begins a word, whether it is special (not scored), and its part.
    """
    positions = list(map(utf16_positions, parts))
    packed: list[list[int]] = [[], [], []]
    names = {}
    for i, (part, start, end, first, special, name) in enumerate(places):
        packed[0].append(positions[part][start])
        packed[1].append(positions[part][end])
        packed[2].append(first | special << 1 | part << 2)
        if name is not None:
            names[i] = name
    starts, ends, flags = (np.array(values, kind).tobytes() for values, kind in zip(packed, TYPES, strict=True))
    return {
        "parts": list(parts),
        "count": len(places),
        "starts": starts,
        "ends": ends,
        "flags": flags,
        "names": names,
        "cut": cut,
    }


def scores(rows: Sequence[Floats]) -> bytes:
    """Pack rows of scores as little-endian float32; NaN becomes 0."""
    clean = [np.nan_to_num(np.asarray(row, float)).clip(-LARGEST, LARGEST) for row in rows]
    return b"".join(row.astype("<f4").tobytes() for row in clean)


def decision(explanation: Explanation, subject: Subject | None = None) -> dict[str, Any]:
    """The model's decision, which part of it is explained, and notes needed to judge the picture."""
    span = _SPAN.search(explanation.target)
    listed_outcomes = outcomes(explanation, subject)
    labels = {explanation.prediction, explanation.target, *(name for name, _ in listed_outcomes)}
    names = {label: name for label in labels if (name := explanation.display_name(label)) != label}
    return {
        "caption": explanation.caption(),
        "prediction": explanation.prediction,
        "target": explanation.target,
        "method": explanation.method,
        "layer": explanation.provenance.get("parameters", {}).get("layer"),
        "names": names,
        "probabilities": listed_outcomes,
        "percentages": [percent(share) for _, share in listed_outcomes],
        "confidence": explanation.confidence,
        "answer": [int(span[1]), int(span[2])] if span and explanation.probabilities.ndim == 2 else None,
        "signed": explanation.signed,
        "unit": visible(explanation.unit),
        "legends": legends(explanation.row, np.atleast_2d(explanation.scores)),
        "notes": explanation.notes(),
        "settings": explanation.settings(),
    }


def outcomes(explanation: Explanation, subject: Subject | None) -> list[tuple[str, float]]:
    """The likeliest outcomes with their probabilities; without a subject only the prediction has a name."""
    probabilities = explanation.probabilities
    if probabilities.ndim != 1 or not probabilities.size:
        return []
    if subject is None:
        return [(explanation.prediction, float(probabilities.max()))]
    best = listed(explanation, subject.labels)
    names = subject.labels or {i: tokenize.token_name(subject.tokenizer, i) for i in best}
    return [(names[i], float(probabilities[i])) for i in best]


def listed(explanation: Explanation, labels: Sequence[str]) -> list[int]:
    """The indices of the outcomes that are listed, the likeliest first: at most twelve, and the explained class."""
    best = np.argsort(-explanation.probabilities, kind="stable")
    first = [int(i) for i in best[:LIKELIEST]]
    return first + [int(i) for i in (best[LIKELIEST:] if labels else ()) if labels[i] == explanation.target]


def utf16_positions(text: str) -> list[int]:
    """The number of UTF-16 units before each character, and before the end."""
    widths: Iterable[int] = (2 if ord(character) > 0xFFFF else 1 for character in text)
    return [0, *np.cumsum(list(widths), dtype=int).tolist()]


def _is_spelled(token: str, text: str) -> bool:
    """Whether the text a token covers tells the token's name."""
    return token.removeprefix("##").lstrip(_WORD_STARTS).casefold() == text.lstrip().casefold()
