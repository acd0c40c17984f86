"""A line chart as the page reads it: finished words beside the numbers that place them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbsal.render.headline import percent
from nbsal.render.scores import score_text

DIGITS = 6
MOST_STEPS = 4  # between labels of an axis
SHARES = (0, 0.25, 0.5, 0.75, 1)

Tick = tuple[float, str]


def line(name: str, area: float, probable: bool, random: bool, **points: Any) -> dict[str, Any]:
    """A curve with its legend; `points` are `at` and `values`, and `low` and `high` of a band."""
    mean = percent(area, 0) if probable else score_text(area)
    words = {"name": f"{name} \u00b7 mean {mean}", "title": f"area under the curve {area:.3f}", "random": random}
    return words | {kind: rounded(values) for kind, values in points.items() if values is not None}


def axes(lines: Sequence[dict[str, Any]], probable: bool, label: str, ticks: Sequence[Tick]) -> dict[str, Any]:
    """The range of a chart, from 0 to 1 for probabilities and else as far as its lines go, with the words on its edges.

    >>> axes([{"values": [1.0, 3.0]}], False, "words", [(0, "0")])["values"]
    ['+3.00', '+2.00', '+1.00']
    """
    low, high = (0.0, 1.0) if probable else _range(lines)
    values = [percent(value, 0) if probable and value else score_text(value) for value in (high, (low + high) / 2, low)]
    return {"low": low, "high": high, "values": values, "label": label, "ticks": [list(tick) for tick in ticks]}


def count_ticks(count: int) -> list[Tick]:
    """Up to five whole numbers from none to `count`, about evenly spaced, at their shares of the axis.

    >>> count_ticks(3)
    [(0.0, '0'), (0.3333333333333333, '1'), (0.6666666666666666, '2'), (1.0, '3')]
    """
    steps = min(MOST_STEPS, count)
    numbers = [int(count * step / steps + 0.5) for step in range(steps + 1)] if steps else [0]
    return [(number / max(count, 1), str(number)) for number in numbers]


def share_ticks() -> list[Tick]:
    return [(share, percent(share, 0)) for share in SHARES]


def rounded(values: Any) -> Any:
    return np.round(np.asarray(values, float), DIGITS).tolist()


def _range(lines: Sequence[dict[str, Any]]) -> tuple[float, float]:
    values = [value for each in lines for kind in ("values", "low", "high") for value in each.get(kind, ())]
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1, high + 1)
