"""Columns of stored explanations as arrays with one entry per text, without an object per text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def names(column: Any) -> Array:
    """A column of strings that repeat; equal strings are one object."""
    encoded = column.combine_chunks().dictionary_encode()
    distinct = np.array([*encoded.dictionary.to_pylist(), None], object)
    column_names: Array = distinct[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return column_names


def largest(column: Any) -> Array:
    """The largest entry of each list, rounded to 4 digits; NaN for an empty list."""
    starts, values = flatten(column)
    maxima = np.full(len(column), np.nan)
    filled = np.diff(starts) > 0
    if filled.any():
        maxima[filled] = [round(value, 4) for value in np.maximum.reduceat(values, starts[:-1][filled]).tolist()]
    return maxima


def flatten(column: Any) -> tuple[Array, Array]:
    """Where each list of a column begins, with the end of the last one, and the entries of all lists."""
    lists = column.combine_chunks()
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), lists.flatten().to_numpy(zero_copy_only=False)
