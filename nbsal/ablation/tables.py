"""Which units of a text stay, for some subsets of them: [subset, unit], true where a unit stays."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nbsal.support.arrays import Flags, Floats

Order = Sequence[int] | NDArray[np.int64]


def without(count: int, *sets: Iterable[int]) -> Flags:
    """All units but those of each set.

    >>> without(3, [], [0, 2]).astype(int).tolist()
    [[1, 1, 1], [0, 1, 0]]
    """
    table = np.ones((len(sets), count), dtype=bool)
    for subset, hidden in zip(table, sets, strict=True):
        subset[list(hidden)] = False
    return table


def every(count: int) -> Flags:
    """Every subset of some units: unit i is in subset s where bit i of s is set."""
    table: Flags = (np.arange(2**count)[:, None] & (1 << np.arange(count))) > 0
    return table


def drawn(random: Floats, keep: float) -> Flags:
    """The units that stay with a probability, by a random number from 0 to 1 for each of every subset."""
    table: Flags = random >= 1 - keep
    return table


def only(count: int, *sets: Iterable[int]) -> Flags:
    """Only the units of each set."""
    return ~without(count, *sets)


def without_first(order: Order, sizes: Iterable[int]) -> Flags:
    """All units but the first ones of an order, [size, unit].

    >>> without_first([2, 0, 1], [0, 1, 3]).astype(int).tolist()
    [[1, 1, 1], [1, 1, 0], [0, 0, 0]]
    """
    return without(len(order), *(order[:size] for size in sizes))


def only_first(order: Order, sizes: Iterable[int]) -> Flags:
    """Only the first units of an order, [size, unit]."""
    return ~without_first(order, sizes)
