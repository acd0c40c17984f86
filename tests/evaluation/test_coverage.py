"""Simulations: how often intervals contain the truth, and how often tests reject what is true."""

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from nbsal.evaluation.curve import Curve
from nbsal.evaluation.permutation import holm, margin_p, sign_flip_p
from nbsal.support.intervals import LARGE, margin_interval, mean_interval, mean_p, t_quantile, t_tails
from tests.cases import cases

COVERAGE = 0.935, 0.965
ERRORS = 3  # standard errors of a simulation that are tolerated


def predictions(generator, shape):
    """Whether the prediction is right after one explainer's top tokens, minus the same for another explainer."""
    chance = generator.random(shape)
    return 1.0 * (chance < 0.3) - 1.0 * (chance > 0.85)


@dataclass
class Population:
    """Differences of two explainers, their mean, their largest possible size, and the range of coverage that is met."""

    draw: Any
    mean: float
    largest: float | None = None
    coverage: tuple[float, float] = COVERAGE


# Ranges beyond COVERAGE are what these intervals miss by, from 8 texts on.
POPULATIONS = [
    Population(lambda g, s: g.normal(0.3, 1, s), 0.3),
    Population(lambda g, s: g.exponential(1, s), 1.0, coverage=(0.930, 0.965)),
    Population(predictions, 0.15, 1, (0.935, 0.985)),
    Population(lambda g, s: g.lognormal(0, 1, s), np.exp(0.5), coverage=(0.885, 0.965)),
]


def covers(low, high, truth):
    return (low <= truth + 1e-12) & (high >= truth - 1e-12)


def error(share, simulations):
    return ERRORS * np.sqrt(share * (1 - share) / simulations)


@cases("population", POPULATIONS)
def test_margins_have_the_stated_coverage_and_error_rate(population):
    simulations = 1000
    for texts in (8, 16, 30):
        generator = np.random.default_rng(0)
        values = population.draw(generator, (simulations, texts))
        low, high = margin_interval(values, population.largest)
        swapped = values * generator.choice([-1, 1], values.shape)
        covered, rejected = covers(low, high, population.mean).mean(), (margin_p(swapped) < 0.05).mean()
        least, most = population.coverage
        assert least - error(least, simulations) <= covered <= most + error(most, simulations)
        assert rejected <= 0.05 + error(0.05, simulations)
        small = mean_p(values) < 0.05
        assert population.largest or np.array_equal(small, (low > 0) | (high < 0))


@cases("texts", [8, 16, 30, 100])
def test_accuracies_have_the_stated_coverage(texts):
    """Exact, by all numbers of right predictions; a single accuracy may miss because their number is whole."""
    samples = np.tri(texts + 1, texts, -1)  # one for each number of right predictions
    low, high = mean_interval(samples, (0, 1))
    assert (high - low > 0.03).all() and (low >= 0).all() and (high <= 1).all()
    coverage = []
    for accuracy in np.linspace(0.5, 0.95, 91):
        chance = [comb(texts, k) * accuracy**k * (1 - accuracy) ** (texts - k) for k in range(texts + 1)]
        coverage.append(np.dot(chance, covers(low, high, accuracy)))
    assert 0.945 <= np.mean(coverage) <= 0.965 and min(coverage) > 0.88


@cases("texts", [8, 30])
def test_ratios_have_the_stated_coverage(texts):
    """Recall over answers of 1 to 20 tokens."""
    generator, covered = np.random.default_rng(3), 0
    for _ in range(1000):
        sizes = generator.integers(1, 21, texts)
        hits = generator.binomial(sizes, 0.7)
        curve = Curve.from_values([20], (hits / sizes)[None, None], range(texts), sizes)
        covered += covers(*curve.interval((0, 1)), 0.7)
    assert COVERAGE[0] - error(0.05, 1000) <= covered / 1000 <= COVERAGE[1] + error(0.05, 1000)


def test_few_equal_and_missing_values_have_documented_intervals():
    nan, one, two, same = [np.nan, 1.0, 0.5], [0.25], [0.0, 0.5], [0.25] * 8
    for interval in (lambda v: mean_interval(v, (0, 1)), lambda v: margin_interval(v, 1)):
        assert np.isnan(interval(nan)).all() and np.isnan(interval([])).all()
        for values, width in ((one, 0.9), (two, 0.9), (same, 0.3)):
            low, high = interval(values)
            assert -1 <= low < np.mean(values) < high <= 1 and high - low > width
    for values in (one, same, nan, []):
        assert np.isnan(mean_interval(values)).all() and np.isnan(margin_interval(values)).all()
    rows = np.array([[0.0] * 4, [1.0] * 4, [np.nan, 1, 1, 1]])
    assert margin_p(rows)[:2].tolist() == [1.0, 2 / 2**4] and np.isnan(margin_p(rows)[2])
    assert margin_p([[3.0]]).tolist() == [1.0] and margin_p([[3.0, 4.0]]).item() >= 0.5


@cases("size", [3, 19, 20, 400])
def test_signs_are_flipped_exactly_or_by_sampling(size):
    margins = np.random.default_rng(4).normal(0.3, 1, (2, size))
    p = sign_flip_p(margins)
    signs = np.random.default_rng(5).choice([-1, 1], (4000, size))
    extreme = np.abs(signs @ margins.T) >= np.abs(margins.sum(-1)) - 1e-9
    assert np.allclose(p, extreme.mean(0), atol=0.03)
    assert np.array_equal(sign_flip_p(margins), p) and np.array_equal(sign_flip_p(-margins), p)
    assert (p * 2**size % 1 == 0).all() if size < 20 else (p * 10_000 % 1 < 1e-6).all()


def test_adjusted_values_are_those_of_holm():
    assert holm([0.5, 0.01, np.nan, 0.03]).tolist()[:2] == [0.5, 0.03]
    assert holm([0.01, 0.05, np.nan], 10).tolist()[:2] == pytest.approx([0.1, 0.45]), "eight more were not computed"
    assert np.isnan(holm([0.5, np.nan])[1]) and holm([0.5, 0.9]).tolist() == [1.0, 1.0] and holm([]).tolist() == []


@cases("freedom", [1, 2, 3, 7, 30, 871, 30_000])
def test_student_t_equals_scipy(freedom):
    t = np.array([0.0, 0.4, 2.0, 7.0])
    tolerance = 1e-9 if freedom < LARGE else 1e-4
    assert np.allclose(t_tails(t, freedom), 2 * stats.t.sf(t, freedom), atol=tolerance)
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=10 * tolerance)
