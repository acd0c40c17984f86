"""Wire: results as they cross to the page: tokens once, scores as int16 rows in one run of bytes.

The other end is `frontend/src/decode.js`; nothing else on either side touches these bytes. A token costs two bytes, a
score two more; names of tokens are sent only where they cannot be read off the text.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nbsal.model import tokenize
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row
from nbsal.saliency import Explanation, Floats

FULL = 32767  # the int16 that stands for a row's largest size
LIKELIEST = 12  # outcomes that are listed beside the decision
_SPAN = re.compile(r"\[(\d+):(\d+)\]$")
_MARKS = "Ġ▁ "


def tokens(row: Row) -> dict[str, Any]:
    """The text as typed and, for each token, where it stands: three flags and the gap before it, then its length.

    Places count UTF-16 units, as a page does.

    >>> import nbsal
    >>> len(tokens(nbsal.load("demo/reviews").encode("A joy.")[0])["spans"])
    10
    """
    places = [_units(part) for part in row.parts]
    content = set(row.content)
    inner = {i for word in row.words for i in word.tokens[1:]}
    spans, names, segment, at = bytearray(), {}, 0, 0
    for i, offsets in enumerate(row.offsets):
        scored = i in content
        moved = scored and row.segments[i] > segment
        if moved:
            segment, at = row.segments[i], 0
        start, end = (places[segment][place] for place in offsets) if scored else (at, at)
        gap = start - at
        flags = (i not in inner) | (not scored) << 1 | moved << 2
        spans += _varint((2 * gap if gap >= 0 else -2 * gap - 1) << 3 | flags) + _varint(end - start)
        at = max(at, end)
        if not scored or not _spelt(row.tokens[i], row.parts[segment][slice(*offsets)]):
            names[i] = row.tokens[i]
    return {"parts": list(row.parts), "count": len(row), "spans": bytes(spans), "names": names, "cut": row.dropped > 0}


def scores(rows: Sequence[Floats]) -> tuple[bytes, list[float]]:
    """Rows of scores as little-endian int16, and what the largest int16 of each row stands for.

    >>> packed, scales = scores([np.array([0.5, -1.0])])
    >>> len(packed), scales
    (4, [1.0])
    """
    clean = [np.nan_to_num(np.asarray(row, float)) for row in rows]
    scales = [float(np.abs(row).max(initial=0.0)) for row in clean]
    packed = [np.rint(row / (scale or 1.0) * FULL).astype("<i2") for row, scale in zip(clean, scales, strict=True)]
    return b"".join(row.tobytes() for row in packed), scales


def decision(found: Explanation, subject: Subject | None = None) -> dict[str, Any]:
    """What the model said, what was explained of it, and what a reader must know to judge the picture."""
    span = _SPAN.search(found.target)
    return {
        "caption": found.caption(),
        "prediction": found.prediction,
        "target": found.target,
        "method": found.method,
        "layer": found.provenance.get("parameters", {}).get("layer"),
        "probabilities": outcomes(found, subject),
        "answer": [int(span[1]), int(span[2])] if span and found.probabilities.ndim == 2 else None,
        "notes": found.notes(),
    }


def outcomes(found: Explanation, subject: Subject | None) -> list[tuple[str, float]]:
    """The likeliest outcomes with their probabilities; without a subject only the decision itself has a name."""
    sure = found.probabilities
    if sure.ndim != 1 or not sure.size:
        return []
    if subject is None:
        return [(found.prediction, float(sure.max()))]
    if len(sure) <= LIKELIEST:
        return [(name, float(p)) for name, p in zip(subject.labels, sure, strict=True)]
    best = np.argsort(-sure, kind="stable")[:LIKELIEST]
    names = subject.labels or {int(i): tokenize.token_name(subject.tokenizer, int(i)) for i in best}
    return [(names[int(i)], float(sure[i])) for i in best]


def _units(text: str) -> list[int]:
    """For each character, and for the end, how many UTF-16 units stand before it."""
    widths: Iterable[int] = (2 if ord(character) > 0xFFFF else 1 for character in text)
    return [0, *np.cumsum(list(widths), dtype=int).tolist()]


def _spelt(token: str, piece: str) -> bool:
    """Whether a token's name says no more than the text it covers."""
    return token.removeprefix("##").lstrip(_MARKS).casefold() == piece.lstrip().casefold()


def _varint(number: int) -> bytes:
    """A whole number in groups of seven bits, lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
