"""Estimates of Shapley values: exact where they can be, closer with more coalitions, and paired."""

from dataclasses import replace

import numpy as np
import pytest

import nbsal
from nbsal.ablation import tables
from nbsal.methods import shapley
from nbsal.methods.shapley import ExactShapley, KernelShap, Shapley, exact_values
from tests import axioms
from tests.cases import cases

TEXT = "The film is a joy to see, now."


def parts_of(count):
    return [(i,) for i in range(count)]


@pytest.fixture(scope="module")
def row(reviews):
    return reviews.encode(TEXT)[0]


def rough(count, seed=0, numbers=2):
    """A game of which nothing is known: a random number for each coalition."""
    return np.random.default_rng(seed).normal(size=(2**count, numbers))


def of_pairs(table, seed=0):
    """The value of each coalition in a game of what single units and pairs add, and the Shapley values."""
    draw, count = np.random.default_rng(seed), table.shape[1]
    single, pairs = draw.normal(size=count), np.triu(draw.normal(size=(count, count)), 1)
    present = table.astype(float)
    values = present @ single + ((present @ pairs) * present).sum(1)
    return values[:, None], single + (pairs.sum(0) + pairs.sum(1)) / 2


def estimate(method, row, game):
    """An estimate in a game with a number for each coalition."""
    count = int(np.log2(len(game)))
    table = method.coalitions(row, parts_of(count))
    return method.unit_scores(table, game[table @ (1 << np.arange(count))])


def error(method, row, game):
    exact = exact_values(tables.every(int(np.log2(len(game)))), game)
    return np.linalg.norm(estimate(method, row, game) - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("count", [8, 12])
def test_two_paired_orders_are_exact_for_pairs_of_units(row, count):
    """What comes before a unit in an order comes after it in the other."""
    for method, exact in ((Shapley(2), True), (Shapley(2, antithetic=False), False)):
        table = method.coalitions(row, parts_of(count))
        values, truth = of_pairs(table)
        assert (axioms.relative(method.unit_scores(table, values)[0], truth) < 1e-9) is exact


@pytest.mark.parametrize("count", [8, 12])
def test_paired_coalitions_are_exact_for_pairs_of_units(row, count):
    table = KernelShap(2 * count + 8).coalitions(row, parts_of(count))
    values, truth = of_pairs(table)
    assert axioms.relative(KernelShap(2 * count + 8).unit_scores(table, values)[0], truth) < 1e-9


@cases("count", range(1, 11))
def test_a_kernel_with_all_coalitions_is_exact(row, count):
    for samples in (2**count, 2**count + 1, 5000):
        method = KernelShap(max(4, samples))
        assert len(method.coalitions(row, parts_of(count))) == 2**count == method.count(count)
        assert error(method, row, rough(count)) < 1e-9


def check_text(load, method):
    """Against exact values on a text of ten tokens."""
    explain = nbsal.Explainer(load("bert"), method)
    text = " ".join("abcdefghij")
    assert len(explain.subject.encode(text)[0].content) == 10
    exact = nbsal.Explainer(explain.subject, ExactShapley())(text)
    saliency = explain(text)
    assert abs(saliency.provenance["gap"]) < 1e-6
    return axioms.relative(saliency.scores, exact.scores)


def test_the_error_falls_with_the_budget(load, row):
    assert 1e-6 < check_text(load, KernelShap(1000)) < check_text(load, KernelShap(30)) < 1
    budgets = (30, 100, 300, 900)
    errors = [np.mean([error(KernelShap(b, seed=seed), row, rough(10)) for seed in range(5)]) for b in budgets]
    assert errors == sorted(errors, reverse=True) and errors[-1] < errors[0] / 4


@pytest.mark.parametrize("count", [5, 8, 9, 12, 40, 600])
@pytest.mark.parametrize("samples", [4, 5, 29, 100, 255])
def test_no_coalition_is_drawn_twice(row, count, samples):
    """Each has its complement, and the whole text and nothing are there."""
    for seed in range(5):
        table = KernelShap(samples, seed=seed).coalitions(row, parts_of(count))
        drawn = {coalition.tobytes() for coalition in table}
        assert len(drawn) == len(table) == min(2**count, samples - samples % 2)
        assert {coalition.tobytes() for coalition in ~table} == drawn
        assert table.all(1).sum() == 1


def test_sizes_are_drawn_in_proportion_to_the_kernel(row):
    """Small coalitions and large ones first: all of them, if there are no more."""
    sizes = np.concatenate([KernelShap(100, seed=seed).coalitions(row, parts_of(12)).sum(1) for seed in range(40)])
    drawn = np.bincount(sizes, minlength=13)[1:7] / 40
    drawn[-1] /= 2
    assert drawn[0] == 12 and drawn.sum() == pytest.approx(49)
    rest = shapley.kernel_mass(12)[1:] * 37 / shapley.kernel_mass(12)[1:].sum()
    assert np.abs(drawn[1:] - rest).max() < 0.5


def test_estimates_are_of_all_numbers_and_add_up(row):
    game = rough(9, numbers=3)
    for method in (Shapley(4), KernelShap(60)):
        scores = estimate(method, row, game)
        assert np.allclose(scores.sum(1), game[-1] - game[0])
        assert np.allclose(scores.sum(0), estimate(method, row, game.sum(1, keepdims=True))[0])
        assert not np.allclose(estimate(replace(method, seed=1), row, game), scores)


def test_exact_shapley_values():
    table = ExactShapley().coalitions(None, parts_of(8))
    values, truth = of_pairs(table)
    assert np.allclose(ExactShapley().unit_scores(table, values)[0], truth)
    assert isinstance(Shapley().for_reply(10), ExactShapley) and Shapley(3).for_reply(11) == Shapley(3)
