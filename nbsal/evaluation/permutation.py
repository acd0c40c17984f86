"""Permutation tests of paired differences, and the adjustment of p-values for the number of comparisons."""

import math

import numpy as np
from numpy.typing import ArrayLike

from nbsal.support.arrays import Floats
from nbsal.support.intervals import mean_p

CHANCE = 0.05  # adjusted p-value up to which a difference is beyond chance
EXACT = 20  # texts from which signs are sampled
SAMPLES = 9_999
SAMPLES_AT_ONCE = 500
ROUNDING = 1e-9  # relative difference of sums that are equal up to rounding


def margin_p(margins: ArrayLike) -> Floats:
    """The two-sided p-values of paired differences, [comparison, text]; NaN for differences with NaN.

    Each is the larger of two: that of the sign-flip permutation test, which is exact if either explainer could as well
    have been the other one on every text, and that of the mean (`intervals.mean_p`), which allows for the mean
    of skewed differences to be 0 without this.
    """
    margins = np.asarray(margins, np.float64)
    values = np.maximum(sign_flip_p(margins), mean_p(margins))
    return np.where(np.isnan(margins).any(-1), np.nan, values)


def sign_flip_p(margins: Floats) -> Floats:
    """The share of random signs of the differences for which their sum is at least as far from 0: [comparison].

    All signs are tried for fewer than 20 texts, a sample of them for more.
    """
    limits = np.abs(margins.sum(-1)) - ROUNDING * np.abs(margins).sum(-1)
    if margins.shape[-1] < EXACT:
        return np.array(
            [(np.abs(_signed_sums(row)) >= limit).mean() for row, limit in zip(margins, limits, strict=True)]
        )
    generator, extreme = np.random.default_rng(0), np.ones(len(margins))
    for start in range(0, SAMPLES, SAMPLES_AT_ONCE):
        shape = (margins.shape[-1], min(SAMPLES_AT_ONCE, SAMPLES - start))
        signs = 2.0 * generator.integers(2, size=shape, dtype=np.int8) - 1
        extreme += (np.abs(margins @ signs) >= limits[:, None]).sum(-1)
    return extreme / (SAMPLES + 1)


def fisher_p(hits: int, size: int, all_hits: int, all_size: int) -> float:
    """The probability of at least so many hits in a part if all cases were as likely to be one: Fisher's exact test.

    >>> round(fisher_p(3, 3, 3, 6), 3)
    0.05
    """
    most = min(size, all_hits)
    whole = _log_choices(all_size, size)
    terms = [
        _log_choices(all_hits, k) + _log_choices(all_size - all_hits, size - k) - whole
        for k in range(max(hits, size - (all_size - all_hits)), most + 1)
    ]
    return min(1.0, math.fsum(map(math.exp, terms)))


def gain_p(gains: int, losses: int) -> float:
    """The probability of at least so many gains if a change were as likely to be a loss: the sign test, one-sided.

    >>> gain_p(3, 1), gain_p(0, 0)
    (0.3125, 1.0)
    """
    changes = gains + losses
    return float(sum(math.comb(changes, k) for k in range(gains, changes + 1)) / 2**changes)


def _log_choices(count: int, chosen: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)


def _signed_sums(margins: Floats) -> Floats:
    """The sums with all signs but the first: turning all signs round does not change the size of a sum."""
    sums = margins[:1]
    for margin in margins[1:]:
        sums = np.concatenate([sums + margin, sums - margin])
    return sums


def holm(values: ArrayLike, count: int = 0) -> Floats:
    """The p-values of several comparisons adjusted for their number (Holm 1979); those that are NaN are no comparison.

    `count` is the number of comparisons if there were more than these.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(values, np.float64)
    order = np.argsort(values)[: int((~np.isnan(values)).sum())]  # NaN is last
    adjusted = np.full_like(values, np.nan)
    steps = values[order] * (max(count, len(order)) - np.arange(len(order)))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted
