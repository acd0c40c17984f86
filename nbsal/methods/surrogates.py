"""Surrogate methods, which fit a linear model of the target to random coalitions of units and score by its slopes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbsal.ablation import tables
from nbsal.methods.base import register, satisfies, setting
from nbsal.methods.cost import SAMPLES, Cost
from nbsal.methods.facts import Facts
from nbsal.methods.perturbation import PENALTY, TRIALS, Coalitions, Perturbation, Unit, ridge_slopes
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Floats
from nbsal.support.validation import positive_number, seed_number

ROUNDS = 10_000  # of a lasso over all units
PRECISION = 1e-10  # of a slope, relative to the largest one


@dataclass(frozen=True)
class Surrogate(Perturbation):
    """A linear model of the target, fitted to `samples` coalitions in which each unit stays with probability `keep`.

    Coalition i is drawn from the seed and i alone, so texts with equally many units have the same coalitions.
    """

    fewest_units = 2

    samples: int = setting(64, positive_number)
    keep: float = setting(0.5, satisfies("between 0 and 1", lambda x: 0 < x < 1))
    seed: int = setting(0, seed_number)

    def count(self, size: int) -> int:
        return self.samples

    def coalitions(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        generators = (np.random.RandomState((self.seed + i) % 2**32) for i in range(self.samples))
        return tables.drawn(np.stack([generator.random_sample(len(parts)) for generator in generators]), self.keep)


@register(
    "contextcite",
    paper="Cohen-Wang et al. 2024",
    cost=Cost(1 + TRIALS + SAMPLES, at_most=True),
    promise={"signed", "about_target", "zero_at_special", "seeded"},
)
@dataclass(frozen=True)
class ContextCite(Surrogate):
    """Coefficients of a lasso regression, which is 0 at units that add little.

    As in Cohen-Wang et al.: the penalty `alpha` is on standardised coalitions and on the target per token, and of a
    reply's tokens the logarithm of the odds is explained. For a part of a reply that is the sum over its tokens, where
    the published program takes the odds of the part as a whole; it hides with `way="text"`.

    `way` replaces hidden tokens: "remove", "mask", "pad" or a token id; `level` is what is hidden: "token" or "word".

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.ContextCite())
    >>> explain("A warm and funny film.").top(1)["token"].item()
    'funny'
    """

    facts = Facts("ContextCite (lasso)", look=25)

    linear = False
    number = "logit-prob"

    alpha: float = setting(0.01, PENALTY)

    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        return lasso_slopes(coalitions.astype(float), values, self.alpha).T

    def sum_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        scores: Floats = values.shape[1] * self.unit_scores(coalitions, values.mean(1, keepdims=True))[0]
        return scores


@register(
    "ridge",
    paper="-",
    cost=Cost(1 + TRIALS + SAMPLES, at_most=True),
    promise={"signed", "about_target", "zero_at_special", "seeded"},
)
@dataclass(frozen=True)
class Ridge(Surrogate):
    """Coefficients of a ridge regression with the penalty `ridge` and an unpenalised intercept.

    Unlike a lasso it keeps small effects, and the scores of several targets add up to those of their sum.

    `way` replaces hidden tokens: "remove", "mask", "pad" or a token id; `level` is what is hidden: "token" or "word".

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Ridge())
    >>> explain("A warm and funny film.").top(1)["token"].item()
    'funny'
    """

    facts = Facts("Ridge regression", look=26)

    ridge: float = setting(1.0, PENALTY)

    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        return ridge_slopes(coalitions.astype(float), values, np.ones(len(coalitions)), self.ridge).T


def lasso_slopes(points: Floats, values: Floats, alpha: float) -> Floats:
    """The slopes of a lasso regression on standardised points with an unpenalised intercept, for each column of values.

    They minimise the mean square error / 2 + alpha x the sum of their sizes, by coordinate descent, and are returned
    for the points as they are.
    """
    spread = points.std(0)
    varies = spread > 0
    scaled = np.where(varies, (points - points.mean(0)) / np.where(varies, spread, 1.0), 0.0)
    products = scaled.T @ scaled / len(points)
    pulls = scaled.T @ (values - values.mean(0)) / len(points)  # of the error on each slope, at slopes of 0
    slopes = np.zeros_like(pulls)
    moves = np.ones(pulls.shape[1], dtype=bool)  # each column stops by itself, whatever the others are
    for _ in range(ROUNDS):
        before = slopes.copy()
        for unit in np.flatnonzero(varies):
            pull = pulls[unit] - products[unit] @ slopes + slopes[unit]
            slopes[unit] = np.where(moves, np.sign(pull) * np.maximum(np.abs(pull) - alpha, 0), slopes[unit])
        change, size = (np.abs(table).max(0, initial=0) for table in (slopes - before, slopes))
        moves &= change > PRECISION * np.maximum(1.0, size)
        if not moves.any():
            break
    original: Floats = slopes / np.where(varies, spread, 1.0)[:, None]
    return original
