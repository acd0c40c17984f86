"""How alike two rankings, or two sets of their first items, are."""

from collections.abc import Iterable, Sequence

import numpy as np

from nbsal.support.errors import InputError
from nbsal.support.validation import checked


@checked
def kendall(first: Sequence[int], second: Sequence[int]) -> float:
    """Kendall's tau of two rankings of the same items: 1 for equal rankings, -1 for opposite ones.

    >>> kendall([3, 1, 2], [3, 1, 2]), kendall([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    """
    if len(first) < 2 or sorted(first) != sorted(second):
        message = (
            f"kendall compares two rankings of the same items, at least two, not {first!r:.40} and {second!r:.40}."
        )
        raise InputError(message, argument="second", value=second)
    rank_in_second = {item: rank for rank, item in enumerate(second)}
    ranks = np.array([rank_in_second[item] for item in first])
    # Row by row, because a table of all pairs would be large.
    discordant = sum(int((ranks[i + 1 :] < rank).sum()) for i, rank in enumerate(ranks))
    return 1 - 4 * discordant / (len(ranks) * (len(ranks) - 1))


def jaccard(first: Iterable[int], second: Iterable[int]) -> float:
    """The Jaccard index of two collections: the size of their intersection over that of their union."""
    a, b = set(first), set(second)
    return len(a & b) / len(a | b)
