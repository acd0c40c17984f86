"""The part of a text around some of its words, with its words shaded by their scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbsal.explain.saliency import Saliency
from nbsal.render import html
from nbsal.render.headline import percent
from nbsal.render.html import ScoredSpan

EXCERPT = 160  # characters
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def excerpt(saliency: Saliency, positions: Sequence[int]) -> list[list[Any]]:
    """The text around the first of some tokens: [text, share of the strongest word, has one of the tokens] a piece."""
    row = saliency.row
    segment = row.segments[positions[0]]
    text = row.parts[segment]
    start, end = _window(text, row.offsets[positions[0]][0])
    scores = saliency.word_scores
    largest = max((abs(score) for score in scores), default=0.0) or 1.0
    words = [
        (max(word.start, start) - start, min(word.end, end) - start, score / largest, "")
        for word, score in zip(row.words, scores, strict=True)
        if word.segment == segment and word.start < end and word.end > start
    ]
    offsets = [row.offsets[i] for i in positions if row.segments[i] == segment]
    pieces, span_start = [], start
    for span in html.scored_spans(text[start:end], words):
        span_end = span_start + len(span.text)
        marked = span.score is not None and any(first < span_end and last > span_start for first, last in offsets)
        pieces.append([span.text, float(np.round(span.score or 0.0, 3)), marked])
        span_start = span_end
    return [*[[ELLIPSIS, 0.0, False]] * (start > 0), *pieces, *[[ELLIPSIS, 0.0, False]] * (end < len(text))]


def excerpt_spans(pieces: Sequence[Sequence[Any]]) -> list[ScoredSpan]:
    """The pieces of an excerpt, with what their shades say."""
    return [
        ScoredSpan(
            text,
            share or None,
            f"{percent(abs(share), 0)} of the strongest word, {'for' if share > 0 else 'against'}" if share else "",
            chosen=bool(marked),
        )
        for text, share, marked in pieces
    ]


def _window(text: str, position: int) -> tuple[int, int]:
    """Start and end of the excerpt around a position; it starts at a word if there is a space."""
    start = max(0, position - EXCERPT // 2)
    if start:
        start = text.find(" ", start, position) + 1 or start
    return start, min(len(text), start + EXCERPT)
