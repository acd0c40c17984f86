"""Shapley values of units: over random orders, from all coalitions, and as slopes fitted to some of them.

The Shapley value of a unit is the change of the target when it joins those before it, averaged over all orders.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from nbsal.ablation import tables
from nbsal.methods.base import register, setting
from nbsal.methods.cost import SAMPLES, UNITS, Cost
from nbsal.methods.facts import Facts
from nbsal.methods.perturbation import TRIALS, Coalitions, Perturbation, Unit
from nbsal.methods.rng import text_rng
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.validation import positive_number

EXACT = 10  # units of a reply for which Shapley values are computed from all coalitions
FEWEST = 4  # coalitions of Kernel SHAP: the whole text, nothing, and a pair
LARGEST = 30  # units of a coalition, beyond which there are more coalitions than anyone can run
SPARSE = 4  # times as many coalitions as are drawn, beyond which a repeated draw is rare


def exact_values(coalitions: Coalitions, values: Floats) -> Floats:
    """The Shapley values of the units, [number, unit], from the numbers of `tables.every`, [coalition, number]."""
    count = coalitions.shape[1]
    # In that share of all orders, the units of a coalition of some size come first and then the unit at hand.
    shares = np.array([1 / (count * math.comb(count - 1, size)) for size in range(count)])
    scores = np.empty((values.shape[1], count))
    for unit in range(count):
        without = np.flatnonzero(~coalitions[:, unit])
        changes = values[without + (1 << unit)] - values[without]
        scores[:, unit] = shares[coalitions[without].sum(1)] @ changes
    return scores


@register(
    "shapley",
    paper="Castro et al. 2009",
    cost=Cost(2 + TRIALS + SAMPLES * (UNITS - 1), at_most=True),
    promise={"signed", "about_target", "sums_to_change", "reports_gap", "zero_at_special", "seeded"},
)
@dataclass(frozen=True)
class Shapley(Perturbation):
    """Change of the target when a unit joins those before it in a random order, averaged over orders (Shapley value).

    `antithetic` pairs every order with its reverse, which lowers the error at the same cost; of an odd number of
    orders, the last has no partner. The values are exact where there are no more coalitions than the orders could ask
    for, and of up to ten units of a reply.

    `way` replaces hidden tokens: "remove", "mask", "pad" or a token id; `level` is what is hidden: "token" or "word".

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Shapley(samples=3))
    >>> bool(abs(explain("A joy.").provenance["gap"]) < 1e-6)
    True
    """

    facts = Facts(
        "Shapley values",
        "Shares the change fairly among the words, over random orders. Thorough and slow.",
        look=4,
        recommended=9,
        replies=6,
    )

    complete = True

    samples: int = setting(25, positive_number)
    antithetic: bool = True
    seed: int = 0

    def is_exact(self, count: int) -> bool:
        """Whether all coalitions of `count` units are no more than the distinct ones that the orders may have."""
        return bool(2**count <= 2 + self.samples * (count - 1))

    def count(self, size: int) -> int:
        return int(2**size) if self.is_exact(size) else self.samples * (size + 1)

    def coalitions(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        if self.is_exact(len(parts)):
            return tables.every(len(parts))
        rng, orders = text_rng(self.seed, row), list[NDArray[np.int64]]()
        while len(orders) < self.samples:
            orders.append(rng.permutation(len(parts)))
            if self.antithetic:
                orders.append(orders[-1][::-1])
        sizes = range(len(parts) + 1)
        return np.concatenate([tables.only_first(order, sizes) for order in orders[: self.samples]])

    def for_reply(self, count: int) -> Perturbation:
        return ExactShapley(way=self.way, level=self.level) if count <= EXACT else self

    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        if self.is_exact(coalitions.shape[1]):
            return exact_values(coalitions, values)
        steps = coalitions.reshape(self.samples, -1, coalitions.shape[1])
        joining = steps[:, 1:] & ~steps[:, :-1]
        changes = np.diff(values.reshape(*steps.shape[:2], -1), axis=1)
        scores: Floats = np.einsum("stn,stu->nu", changes, joining.astype(float)) / self.samples
        return scores


@dataclass(frozen=True)
class ExactShapley(Perturbation):
    """Shapley values from all coalitions, for the few units of a reply: no order is left out."""

    complete = True
    name, paper, facts = Shapley.name, Shapley.paper, Shapley.facts
    cost, promise = Cost(2**EXACT, at_most=True), Shapley.promise - {"seeded"}

    orders: str = "all"

    def count(self, size: int) -> int:
        return int(2**size)

    def coalitions(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        return tables.every(len(parts))

    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        return exact_values(coalitions, values)


def _enough_samples(value: int, name: str) -> int:
    if positive_number(value, name) < FEWEST:
        message = f"{name} must be at least {FEWEST}, not {value}: the whole text, nothing, and a pair."
        raise InputError(message, argument=name, value=value)
    return value


@register(
    "kernel-shap",
    paper="Lundberg and Lee 2017",
    cost=Cost(TRIALS + SAMPLES, at_most=True),
    promise={"signed", "about_target", "sums_to_change", "reports_gap", "zero_at_special", "seeded"},
)
@dataclass(frozen=True)
class KernelShap(Perturbation):
    """Slopes of a linear model of the target whose weights make them Shapley values (Lundberg and Lee).

    The model is fitted to `samples` different coalitions: the whole text, nothing, and pairs of a coalition and its
    complement, which are drawn by the sizes that weigh most. The slopes sum to the change between the first two. With
    a budget for all coalitions they are the exact Shapley values; with a smaller one they come closer than random
    orders with as many. Pass at least twice as many `samples` as a text has units: with fewer, the fit is not unique.

    `way` replaces hidden tokens: "remove", "mask", "pad" or a token id; `level` is what is hidden: "token" or "word".

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.KernelShap(samples=40))
    >>> explain("A warm and funny film.").top(1)["token"].item()
    'funny'
    """

    facts = Facts("Kernel SHAP", look=28)

    complete = True

    samples: int = setting(100, _enough_samples)
    seed: int = 0

    def count(self, size: int) -> int:
        return min(self.samples, int(2**size))

    def coalitions(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        count = len(parts)
        if 2**count <= self.samples:
            return tables.every(count)
        rng, expected = text_rng(self.seed, row), self._expected(count)
        # Each size gets its expected number of pairs, rounded up or down by one random number for all of them.
        numbers = np.diff(np.floor(expected.cumsum().round(9) + rng.random()), prepend=0)
        drawn = (pair for size, number in enumerate(numbers, 1) for pair in draw_pairs(rng, count, size, int(number)))
        table = tables.without(count, [], *drawn)
        return np.concatenate((table, ~table))

    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        count, sizes = coalitions.shape[1], coalitions.sum(1)
        start = values[sizes == 0][0]
        change = values[sizes == count][0] - start
        inner = (sizes > 0) & (sizes < count)
        weights = kernel_mass(count) / self._expected(count)
        roots = np.sqrt(weights[np.minimum(sizes, count - sizes)[inner] - 1])[:, None]
        # With the change shared evenly, the rest of the slopes must sum to 0. The rows of the design do, so the
        # shortest of the best solutions, which lstsq returns, does as well.
        shares = sizes[inner, None] / count
        outcomes = values[inner] - start - shares * change
        slopes = np.linalg.lstsq(roots * (coalitions[inner] - shares), roots * outcomes)[0]
        scores: Floats = (slopes + change / count).T
        return scores

    def _expected(self, count: int) -> Floats:
        return expected_pairs(count, min(self.samples // 2, 2 ** (count - 1)) - 1)


def kernel_mass(count: int) -> Floats:
    """The weight of all coalitions of a size, and of their complements, for each size up to half of all units."""
    sizes = np.arange(1, count // 2 + 1)
    weights: Floats = np.where(2 * sizes == count, 1, 2) / (sizes * (count - sizes))
    return weights


def expected_pairs(count: int, pairs: int) -> Floats:
    """How many pairs of a coalition and its complement are drawn of each size, on average, without repetition.

    They are in proportion to `kernel_mass`; a size with too few pairs for that has all of them.
    """
    mass = kernel_mass(count)
    expected = np.zeros_like(mass)
    for i in range(len(mass)):  # smaller sizes are used up first
        shares = (pairs - expected.sum()) * mass[i:] / mass[i:].sum()
        if shares[0] < pair_count(count, i + 1):
            expected[i:] = shares
            break
        expected[i] = pair_count(count, i + 1)
    return expected


def pair_count(count: int, size: int) -> int:
    """The number of pairs of a coalition of that size and its complement; of large ones, a lower bound."""
    return math.comb(count, min(size, LARGEST)) // (2 if 2 * size == count else 1)


def draw_pairs(rng: np.random.Generator, count: int, size: int, number: int) -> Iterable[tuple[int, ...]]:
    """The units of some different coalitions of that size, none of which is the complement of another."""
    available = pair_count(count, size)
    if available <= SPARSE * number:
        # Of half of all units, the first ones in this order contain unit 0; their complements do not.
        every = list(islice(combinations(range(count), size), available))
        return [every[i] for i in rng.choice(available, number, replace=False)]
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < number:
        members = rng.permutation(count)
        first, second = (tuple(sorted(part.tolist())) for part in (members[:size], members[size:]))
        drawn[min(first, second) if 2 * size == count else first] = None
    return drawn
