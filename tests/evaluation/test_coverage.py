"""Simulations: how often intervals contain the truth, and how often tests reject what is true.

Populations stand for what is compared: areas that are multiples of a twentieth, recalls of short answers, right and
wrong predictions, changes of probabilities, log-odds with a long tail.
"""

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from nbsal.evaluation.curve import Curve
from nbsal.evaluation.permutation import holm, margin_p, sign_flip_p
from nbsal.intervals import LARGE, margin_interval, mean_interval, mean_p, t_quantile, t_tails
from tests.cases import cases

COVERAGE = 0.935, 0.965
ERRORS = 3  # standard errors of a simulation that are tolerated
LARGE_SAMPLE = 2_000_000


def flips(generator, shape):
    """When a prediction changes, in twentieths of a text; hard texts are hard for both explainers."""
    hard = 0.6 * generator.random(shape)
    first, second = (hard + 0.4 * generator.random(shape) ** power for power in (1, 0.6))
    return np.where(generator.random(shape) < 0.3, 0, np.round(20 * first) - np.round(20 * second)) / 20


def recalls(generator, shape):
    first, second = (generator.binomial(3, generator.beta(0.5, b, shape)) for b in (0.5, 0.7))
    return (first - second) / 3


def probabilities(generator, shape):
    """Most texts barely change; some lose all their probability."""
    return generator.beta(0.5, 2, shape) - generator.beta(0.4, 2.5, shape)


def rarely(draw, share):
    """Differences that are 0 except in a share of the texts."""
    return lambda generator, shape: np.where(generator.random(shape) < share, draw(generator, shape), 0.0)


def predictions(better, worse):
    """Whether the prediction is right after one explainer's top tokens, minus the same for another explainer."""

    def draw(generator, shape):
        chance = generator.random(shape)
        return 1.0 * (chance < better) - 1.0 * (chance > 1 - worse)

    return draw


@dataclass
class Population:
    """Differences of two explainers, their largest possible size, and the range of coverage that is met."""

    draw: Any
    largest: float | None = None
    coverage: tuple[float, float] = COVERAGE
    truth: float | None = None

    @cached_property
    def mean(self):
        """The true mean, for most populations that of a large sample."""
        return self.draw(np.random.default_rng(99), (LARGE_SAMPLE,)).mean() if self.truth is None else self.truth


# Ranges beyond COVERAGE are what these intervals miss by, from 8 texts on.
POPULATIONS = {
    "normal": Population(lambda g, s: g.normal(0.3, 1, s), truth=0.3),
    "even": Population(lambda g, s: g.random(s), truth=0.5, coverage=(0.935, 0.974)),
    "long tail": Population(lambda g, s: g.exponential(1, s), truth=1.0, coverage=(0.930, 0.965)),
    "tails of both signs": Population(lambda g, s: 1.3 * g.exponential(1, s) - g.exponential(1, s), truth=0.3),
    "log-normal": Population(lambda g, s: g.lognormal(0, 0.5, s), truth=np.exp(0.125)),
    "areas": Population(flips, 1),
    "areas, mostly equal": Population(rarely(flips, 0.5), 1, (0.925, 0.965)),
    "recalls": Population(recalls, 1),
    "probabilities": Population(probabilities, 2),
    "probabilities, mostly equal": Population(rarely(probabilities, 0.5), 2, (0.930, 0.965)),
    "predictions 30:15": Population(predictions(0.3, 0.15), 1, (0.935, 0.985), 0.15),
    "predictions 15:5": Population(predictions(0.15, 0.05), 1, (0.935, 1.0), 0.1),
    "predictions 40:40": Population(predictions(0.4, 0.4), 1, (0.935, 0.975), 0.0),
    "very long tail": Population(lambda g, s: g.lognormal(0, 1, s), truth=np.exp(0.5), coverage=(0.885, 0.965)),
}


def measure(population, texts, simulations, seed=0):
    """Coverage, two rates of rejection, and the width against t intervals.

    The first rate is for two explainers that are alike, the second for a mean difference of 0 that is skewed.
    """
    generator, truth = np.random.default_rng(seed), population.mean
    values = population.draw(generator, (simulations, texts))
    low, high = margin_interval(values, population.largest)
    swapped = values * generator.choice([-1, 1], values.shape)
    rejected = (margin_p(swapped) < 0.05).mean(), (mean_p(values - truth) < 0.05).mean()
    t_width = 2 * t_quantile(texts - 1) * values.std(-1, ddof=1).mean() / np.sqrt(texts)
    return covers(low, high, truth).mean(), *rejected, (high - low).mean() / t_width


def covers(low, high, truth):
    return (low <= truth + 1e-12) & (high >= truth - 1e-12)


def error(share, simulations):
    return ERRORS * np.sqrt(share * (1 - share) / simulations)


def check(name, texts, simulations):
    population = POPULATIONS[name]
    row = covered, rejected, *_ = measure(population, texts, simulations)
    low, high = population.coverage
    assert low - error(low, simulations) <= covered <= high + error(high, simulations), (name, texts, covered)
    assert rejected <= 0.05 + error(0.05, simulations), (name, texts, rejected)
    return row


@pytest.mark.some(3)
@pytest.mark.parametrize("name", POPULATIONS)
def test_margins_have_the_stated_coverage_and_error_rate(name):
    for texts in (8, 16, 30):
        check(name, texts, 2000)


@pytest.mark.full
@pytest.mark.parametrize("name", POPULATIONS)
def test_margins_in_a_large_simulation(name):
    for texts in (8, 12, 16, 19, 20, 30, 100):
        row = check(name, texts, 20_000 if texts < 16 else 5_000)
        print(f"{name:28} {texts:4}", *(f"{number:7.3f}" for number in row))


def test_percentile_intervals_of_few_texts_would_be_noticed():
    """What these intervals replaced: too narrow for 8 texts, and a test that rejects twice as often as it states."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(1000, 8))
    draws = values @ generator.multinomial(8, np.full(8, 1 / 8), 999).T / 8
    low, high = np.quantile(draws, [0.025, 0.975], axis=-1)
    covered, level = covers(low, high, 0.0).mean(), COVERAGE[0]
    assert covered < level - error(level, 1000) and 1 - covered > 0.05 + error(0.05, 1000)


def test_real_differences_are_detected():
    """Hard and easy texts are the same for both explainers: an unpaired test would miss what a paired one detects."""
    generator = np.random.default_rng(1)
    first, second = (generator.normal(size=(300, 40)) for _ in range(2))
    assert (margin_p(first + 1 - second) < 0.05).mean() > 0.95
    assert (margin_interval(first + 1 - second)[0] > 0).mean() > 0.95


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


@pytest.mark.parametrize("texts", [8, 30])
def test_areas_of_one_explainer_have_the_stated_coverage(texts):
    generator = np.random.default_rng(2)
    areas = np.round(20 * generator.beta(6, 2, (4000, texts))) / 20
    truth = (np.round(20 * generator.beta(6, 2, LARGE_SAMPLE)) / 20).mean()
    low, high = mean_interval(areas, (0, 1))
    assert COVERAGE[0] - error(0.05, 4000) <= covers(low, high, truth).mean() <= COVERAGE[1] + error(0.05, 4000)


@pytest.mark.parametrize("texts", [8, 16, 30])
def test_ratios_have_the_stated_coverage(texts):
    """Recall over answers of 1 to 20 tokens. Holding their total fixed would take what varies in both for error."""
    generator, covered, fixed = np.random.default_rng(3), 0, 0
    for _ in range(2000):
        sizes = generator.integers(1, 21, texts)
        hits = generator.binomial(sizes, 0.7)
        curve = Curve.from_values([20], (hits / sizes)[None, None], range(texts), sizes)
        covered += covers(*curve.interval((0, 1)), 0.7)
        fixed += covers(*mean_interval(hits / sizes.mean()), 0.7)
    assert COVERAGE[0] - error(0.05, 2000) <= covered / 2000 <= COVERAGE[1] + error(0.05, 2000)
    assert fixed / 2000 > 0.99


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
    assert np.isnan(holm([0.5, np.nan])[1]) and holm([0.5, 0.9]).tolist() == [1.0, 1.0] and holm([]).tolist() == []


@cases("freedom", [1, 2, 3, 7, 30, 871, 30_000])
def test_student_t_equals_scipy(freedom):
    t = np.array([0.0, 0.4, 2.0, 7.0])
    tolerance = 1e-9 if freedom < LARGE else 1e-4
    assert np.allclose(t_tails(t, freedom), 2 * stats.t.sf(t, freedom), atol=tolerance)
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=10 * tolerance)


def test_p_is_small_only_if_the_interval_excludes_0():
    values = np.random.default_rng(6).exponential(1, (2000, 9)) - 0.5
    low, high = margin_interval(values)
    small = mean_p(values) < 0.05
    assert np.array_equal(small, (low > 0) | (high < 0)) and 0.1 < small.mean() < 0.9
