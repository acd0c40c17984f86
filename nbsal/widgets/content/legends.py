"""What stands beside a row of scores: how it divides between words and special tokens, and which word is the strongest.

A live page says the same of what it computes, in `frontend/src/live/legends.ts`.
"""

from typing import Any

import numpy as np

from nbsal.explain.explained import Floats
from nbsal.model.text.tokens import Row
from nbsal.render.headline import name_in_sentence, percent
from nbsal.render.scores import score_text

MOST = 0.5  # share of the score on special tokens above which a reader is warned
ALMOST_ALL = 0.8  # of that share
LISTED = 8  # special tokens in a tooltip


def legend(row: Row, scores: Floats) -> dict[str, Any]:
    """The words and shares beside a row of scores."""
    scores = np.nan_to_num(scores)
    content = set(row.content)
    special = [i for i in range(len(row)) if i not in content]
    sizes = np.abs(scores)
    total, on_special = float(sizes.sum()), float(sizes[special].sum())
    share = on_special / total if total else 0.0
    return {
        "special": round(share, 4),
        "shares": [f"{percent(1 - share, 0)} of the score on words", f"{percent(share, 0)} on special tokens"],
        "tokens": ", ".join(f"{row.tokens[i]} {score_text(float(scores[i]))}" for i in special[:LISTED]),
        "warning": _warning(row, sizes, special, on_special) if share > MOST else "",
        "strongest": _strongest(row, scores),
    }


def _warning(row: Row, sizes: Floats, special: list[int], on_special: float) -> str:
    most = [row.tokens[i] for i in special if sizes[i] > ALMOST_ALL * on_special]
    where = f", almost all on {most[0]}" if most else ""
    return f"Most of the score lies on special tokens{where}. Colours compare the words alone."


def _strongest(row: Row, scores: Floats) -> dict[str, list[str]]:
    """The word with the largest score, and that of the largest token, each with that score."""
    words = [(list(word.tokens), word.text) for word in row.words]
    covered = {i for tokens, _ in words for i in tokens}
    words += [([i], row.tokens[i]) for i in row.content if i not in covered]
    by_token = [([i], text) for tokens, text in words for i in tokens]
    return {level: _largest(units, scores) for level, units in (("word", words), ("token", by_token))}


def _largest(units: list[tuple[list[int], str]], scores: Floats) -> list[str]:
    sums = [(float(scores[tokens].sum()), text) for tokens, text in units]
    score, text = max(sums, key=lambda unit: abs(unit[0]), default=(0.0, ""))
    return [name_in_sentence(text), score_text(score)] if score else ["", ""]
