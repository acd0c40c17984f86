"""Bootstrap confidence intervals of means over texts, and paired tests of two explainers on the same texts.

Texts are sampled with replacement, and everything that is compared uses the same samples. The samples depend on the
texts and a seed, not on the order of the texts.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

DRAWS = 2000
LEVEL = 0.95
Floats = NDArray[np.float64]


class Bootstrap:
    """Bootstrap samples of texts.

    `order` sorts the texts independently of the order they were passed in; `weights` has the share of each text, in
    that order, in every sample: [draw, text].

    >>> bootstrap = Bootstrap(["a joy", "a bore", "a film"])
    >>> float(bootstrap.mean([1, 0, 1])), bootstrap.draws([[1, 0, 1]]).shape
    (0.6666666666666666, (2000, 1))
    """

    def __init__(self, texts: Sequence[Hashable], count: int = DRAWS, seed: int = 0) -> None:
        self.order = sorted(range(len(texts)), key=lambda i: repr(texts[i]))
        drawn = np.random.default_rng(seed).integers(len(texts), size=(count, len(texts)))
        self.weights = np.stack([np.bincount(row, minlength=len(texts)) for row in drawn]) / len(texts)

    def mean(self, values: ArrayLike) -> Floats:
        """The mean over texts, the last axis."""
        return self._sort_texts(values).mean(-1)  # type: ignore[no-any-return]

    def draws(self, values: ArrayLike) -> Floats:
        """The mean over texts in every sample: [point, text] -> [draw, point]."""
        return self.weights @ self._sort_texts(values).T

    def _sort_texts(self, values: ArrayLike) -> Floats:
        return np.ascontiguousarray(np.asarray(values, dtype=np.float64)[..., self.order])


@dataclass(frozen=True)
class Difference:
    """The difference of two means, its confidence interval, and the p-value of its two-sided test."""

    value: float
    low: float
    high: float
    p: float


def interval(draws: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The percentile interval of draws, over their first axis.

    >>> [round(float(end), 3) for end in interval(np.linspace(0, 1, 1001))]
    [0.025, 0.975]
    """
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def difference(
    first: float, second: float, first_draws: Floats, second_draws: Floats, level: float = LEVEL
) -> Difference:
    """The paired two-sided test of two means, from their draws on the same bootstrap samples."""
    drawn = first_draws - second_draws
    low, high = interval(drawn, level)
    tail = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    return Difference(first - second, float(low), float(high), min(1.0, 2 * (tail + 1) / (len(drawn) + 1)))
