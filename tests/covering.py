"""Covering arrays: few combinations of parameters in which every value, or every pair of values, occurs."""

from collections.abc import Hashable, Sequence
from itertools import combinations


def array(cells: Sequence[tuple[Hashable, ...]]) -> set[int]:
    """The indices of cells to run: of two parameters each value occurs, of three or more each pair of values.

    >>> sorted(array([(a, b) for a in "xyz" for b in "uvw"]))
    [0, 4, 8]
    """
    strength = min(2, max(1, len(cells[0]) - 1))
    parts = [set(combinations(enumerate(cell), strength)) for cell in cells]
    missing = set().union(*parts)
    chosen: set[int] = set()
    while missing:
        best = max(range(len(cells)), key=lambda index: len(parts[index] & missing))
        chosen.add(best)
        missing -= parts[best]
    return chosen
