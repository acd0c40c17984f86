"""Bootstrap samples of texts, for results that are not a mean over texts."""

from collections.abc import Hashable, Sequence

import numpy as np

from nbsal.support.intervals import Floats


def text_order(texts: Sequence[Hashable]) -> list[int]:
    """The places of the texts in an order that does not depend on the order they were passed in.

    >>> text_order(["b", "c", "a"])
    [2, 0, 1]
    """
    return sorted(range(len(texts)), key=lambda place: repr(texts[place]))


def bootstrap_weights(size: int, count: int, seed: int = 0) -> Floats:
    """The share of each of `size` texts in `count` samples with replacement: [draw, text].

    >>> bootstrap_weights(4, 2).sum(1).tolist()
    [1.0, 1.0]
    """
    places = np.random.default_rng(seed).integers(size, size=(count, size))
    return np.stack([np.bincount(row, minlength=size) for row in places]) / size
