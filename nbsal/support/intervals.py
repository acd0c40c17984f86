"""Confidence intervals of means and shares that hold for few cases as well."""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nbsal.support.arrays import Flags, Floats

LEVEL = 0.95
NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
# A small sample rarely has the long tail of its population, so its skewness is too small on average: simulated, see
# tests/evaluation/test_coverage.py.
SKEWNESS = 1.3
LARGE = 20_000  # degrees of freedom from which the normal distribution is used
EQUAL = 1e-12  # relative difference up to which values differ by rounding only
Bounds = tuple[float, float]
Interval = tuple[Floats, Floats]


def wilson_interval(share: ArrayLike, count: ArrayLike, quantile: float = NORMAL) -> Interval:
    """The Wilson interval of a share of `count` independent cases."""
    share, weight = np.asarray(share, np.float64), quantile**2 / np.asarray(count, np.float64)
    centre = (share + weight / 2) / (1 + weight)
    half = np.sqrt(np.maximum(weight * share * (1 - share) + weight**2 / 4, 0)) / (1 + weight)
    return np.clip(centre - half, 0, share), np.clip(centre + half, share, 1)


def mean_interval(values: ArrayLike, bounds: Bounds | None = None) -> Interval:
    """The 95 % interval of a mean over texts, the last axis; `bounds` are the smallest and largest possible value.

    Values that are all at one of the bounds, such as right and wrong predictions, have the Wilson interval; others a t
    interval that reaches further on the side of the longer tail. If all values are equal, the interval allows for as
    many different texts as a sample of this size misses in 5 % of cases. Without bounds it is NaN then; so is that of
    values with NaN.
    """
    values = np.asarray(values, np.float64)
    low, high = _general_interval(values, bounds)
    if bounds is None or not values.shape[-1]:
        return low, high
    smallest, largest = bounds
    binary = _all_among(values, bounds)
    share = np.clip((values.mean(-1) - smallest) / (largest - smallest), 0, 1)
    ends = (smallest + (largest - smallest) * end for end in wilson_interval(share, values.shape[-1]))
    return _where(binary, tuple(ends), (low, high))


def margin_interval(values: ArrayLike, largest: float | None = None) -> Interval:
    """The 95 % interval of the mean of paired differences; `largest` is the largest one that is possible.

    Differences of right and wrong predictions (-1, 0 and 1 times `largest`) have the interval of Agresti and Min, with
    a t quantile; others that of `mean_interval`.
    """
    values = np.asarray(values, np.float64)
    bounds = None if largest is None else (-largest, largest)
    low, high = _general_interval(values, bounds)
    if largest is None or not (count := values.shape[-1]):
        return low, high
    binary = _all_among(values, (-largest, 0, largest)) & ~_constant(values)
    better, worse = ((sign * values > largest / 2).sum(-1) + 0.5 for sign in (1, -1))
    centre, total = (better - worse) / (count + 2), count + 2
    half = t_quantile(count - 1) * np.sqrt(((better + worse) / total - centre**2) / total)
    ends = (largest * np.clip(end, -1, 1) for end in (centre - half, centre + half))
    return _where(binary, tuple(ends), (low, high))


def mean_p(values: ArrayLike) -> Floats:
    """The two-sided p-value of a mean of 0: the level at which its t interval with the longer side begins to hold 0."""
    values = np.asarray(values, np.float64)
    count, mean = values.shape[-1], values.mean(-1)
    error, shift = _error_and_shift(values)
    size, stretch = np.abs(mean), np.where(mean * shift < 0, np.abs(shift), 0)
    # The t at which size = t * error + stretch * (1 + 2 t^2).
    distance = np.maximum(size - stretch, 0)
    root = np.sqrt(error**2 + 8 * stretch * distance)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(distance == 0, 0, 2 * distance / (error + root))
    return t_tails(t, count - 1)


@lru_cache(maxsize=1024)
def t_quantile(freedom: int) -> float:
    """The quantile of Student's t distribution that leaves 2.5 % above it; infinite without a degree of freedom."""
    if freedom < 1:
        return math.inf
    low, high = 1.0, 13.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if float(t_tails(middle, freedom)) > 1 - LEVEL else (low, middle)
    return high


def t_tails(t: ArrayLike, freedom: int) -> Floats:
    """The probability that Student's t is further from 0 than `t`: the finite series for whole degrees of freedom."""
    t = np.asarray(np.abs(t), np.float64)
    if freedom < 1:
        return np.where(np.isnan(t), np.nan, 1.0)
    if freedom > LARGE:
        return np.asarray(np.vectorize(lambda value: math.erfc(value / math.sqrt(2)), otypes=[np.float64])(t))
    angle = np.arctan(t / math.sqrt(freedom))
    odd = freedom % 2
    orders = np.arange(1 + odd, freedom - 1, 2)
    # The terms are products: cos^2 * 1/2 * 3/4 ... for even degrees of freedom, cos^3 * 2/3 * 4/5 ... for odd ones.
    factors = np.cos(angle)[..., None] ** 2 * (orders / (orders + 1))
    terms = np.cumprod(np.concatenate([np.ones((*t.shape, 1)), factors], -1), -1)
    series = np.sin(angle) * terms.sum(-1)
    if odd:
        series = 2 / math.pi * (angle + (series * np.cos(angle) if freedom > 1 else 0))
    return np.asarray(np.clip(1 - series, 0, 1))


def _general_interval(values: Floats, bounds: Bounds | None) -> Interval:
    """The t interval with its longer side, inside the bounds, or that of equal values."""
    count = values.shape[-1]
    if not count:
        empty = np.full(values.shape[:-1], np.nan)
        return empty, empty
    mean, constant = values.mean(-1), _constant(values)
    error, shift = _error_and_shift(values)
    quantile = t_quantile(count - 1)
    longer = shift * (1 + 2 * quantile**2) if count > 1 else shift
    half = quantile * error if count > 1 else np.full_like(mean, np.nan)
    low, high = mean - half + np.minimum(longer, 0), mean + half + np.maximum(longer, 0)
    if bounds is None:
        return _where(constant, (np.nan, np.nan), (low, high))
    unseen = 1 - (1 - LEVEL) ** (1 / count)
    equal = mean - unseen * (mean - bounds[0]), mean + unseen * (bounds[1] - mean)
    low, high = _where(constant, equal, (low, high))
    return np.minimum(np.maximum(low, bounds[0]), mean), np.maximum(np.minimum(high, bounds[1]), mean)


def _error_and_shift(values: Floats) -> tuple[Floats, Floats]:
    """The standard error of the mean, and how far skewness moves its t interval: Johnson (1978), per 1 + 2 t^2."""
    count = values.shape[-1]
    centred = values - values.mean(-1, keepdims=True)
    squares = np.where(_constant(values), 0, (centred**2).sum(-1))
    error = np.sqrt(squares / max(count - 1, 1) / max(count, 1))
    if count < 3:
        return error, np.zeros_like(error)
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness = (centred**3).sum(-1) * count / (count - 2) / squares
    return error, SKEWNESS * np.where(squares == 0, 0, skewness) / (6 * count)


def _constant(values: Floats) -> Flags:
    return np.ptp(values, -1) <= EQUAL * np.abs(values).max(-1)  # type: ignore[no-any-return]


def _all_among(values: Floats, points: tuple[float, ...]) -> Flags:
    scale = max(map(abs, points))
    near = np.any([np.abs(values - point) <= EQUAL * scale for point in points], axis=0)
    return near.all(-1)  # type: ignore[no-any-return]


def _where(condition: Flags, first: Any, second: Any) -> Interval:
    low, high = (np.where(condition, *ends) for ends in zip(first, second, strict=True))
    return low, high
