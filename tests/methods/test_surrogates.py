"""Surrogates: exact on a bag of embeddings, equal to scikit-learn, and optimal by their own conditions."""

from dataclasses import replace

import numpy as np
import pytest

import nbsal
from nbsal.methods import surrogates
from nbsal.methods.perturbation import units
from nbsal.methods.shapley import ExactShapley
from nbsal.support.errors import InputError
from tests import axioms, bag
from tests.cases import cases

TEXT = axioms.TEXTS[0]


def problem(seed, subsets=64, count=9, numbers=3):
    """Random coalitions, one unit in all of them and two always together, with noisy values."""
    draw = np.random.default_rng(seed)
    table = draw.random((subsets, count)) < 0.5
    table[:, 0] = True
    table[:, 2] = table[:, 1]
    effects = draw.normal(size=(count, numbers)) * (draw.random((count, 1)) < 0.6)
    return table, table @ effects + 0.1 * draw.normal(size=(subsets, numbers))


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_lasso_meets_its_optimality_conditions(seed, alpha):
    """Where a slope is not 0, the error pulls on it with just the penalty; elsewhere with no more than that."""
    table, values = problem(seed)
    spread = table.std(0)
    slopes = surrogates.lasso_slopes(table.astype(float), values, alpha) * spread[:, None]
    scaled = np.where(spread > 0, (table - table.mean(0)) / np.where(spread > 0, spread, 1), 0)
    pulls = scaled.T @ (values - values.mean(0) - scaled @ slopes) / len(table)
    assert np.allclose(pulls[slopes != 0], alpha * np.sign(slopes[slopes != 0]), atol=1e-8)
    assert (np.abs(pulls) <= alpha + 1e-8).all() and not slopes[0].any()
    assert np.count_nonzero(slopes) > 3 and (slopes == 0).any()


def test_a_lasso_is_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model")
    table, values = problem(5)
    table[:, 2] = ~table[:, 2]  # with two equal columns, the slopes are not unique
    table[::3, 2] = table[::3, 3]
    spread = np.where(table.std(0) > 0, table.std(0), 1)
    scaled, tokens = (table - table.mean(0)) / spread, values.shape[1]
    reference = linear_model.Lasso(alpha=0.01, tol=1e-12, max_iter=100_000)
    rows = nbsal.ContextCite().unit_scores(table, values)
    for row, column in zip(rows, values.T, strict=True):
        assert np.allclose(row, reference.fit(scaled, column).coef_ / spread, atol=1e-7)
    whole = reference.fit(scaled, values.sum(1) / tokens).coef_ / spread * tokens
    assert np.allclose(nbsal.ContextCite().sum_scores(table, values), whole, atol=1e-7)
    assert not np.allclose(whole, rows.sum(0), atol=1e-3), "a lasso is not linear in its target"


def test_a_ridge_is_scikit_learns_and_linear():
    linear_model = pytest.importorskip("sklearn.linear_model")
    table, values = problem(6)
    rows = nbsal.Ridge().unit_scores(table, values)
    assert np.allclose(rows, linear_model.Ridge(alpha=1.0).fit(table.astype(float), values).coef_)
    assert np.allclose(nbsal.Ridge().sum_scores(table, values), rows.sum(0))
    assert not nbsal.ContextCite.linear and nbsal.Ridge.linear


def test_coalitions_are_those_of_the_published_program(load):
    """Coalition i is drawn from the seed + i, each unit kept with a probability."""
    row = load("bert").encode(TEXT)[0]
    parts = units(row, "token")
    for keep in (0.5, 0.8):
        table = nbsal.ContextCite(samples=5, seed=3, keep=keep).coalitions(row, parts)
        for i, coalition in enumerate(table):
            generator = np.random.RandomState(3 + i)
            assert coalition.tolist() == generator.choice([False, True], size=len(parts), p=[1 - keep, keep]).tolist()


@pytest.mark.parametrize("level", ["token", "word"])
@pytest.mark.parametrize("way", ["remove", "mask"])
@pytest.mark.parametrize("method", [nbsal.ContextCite(200, alpha=0.0), nbsal.Ridge(200, ridge=0.0)])
def test_a_bag_is_explained_exactly(method, way, level):
    """Every token contributes a known number there, so a linear model without a penalty has no error."""
    subject = bag.subject()
    row = subject.encode(TEXT)[0]
    filler = bag.contributions(subject, replace(row, ids=(subject.tokenizer.mask_token_id,)), 1).item()
    truth = np.where(row.special, 0.0, bag.contributions(subject, row, 1).numpy() - (filler if way == "mask" else 0))
    if level == "word":
        for word in row.words:
            truth[list(word.tokens)] = truth[list(word.tokens)].mean()
    saliency = nbsal.Explainer(subject, replace(method, way=way, level=level))(TEXT, target=1)
    assert axioms.relative(saliency.scores, truth) < 1e-6


def test_exact_shapley_values_are_those_of_all_orders():
    """Of a game with known values: each unit's own, and what pairs add."""
    import itertools

    draw = np.random.default_rng(0)
    own, pairs = draw.normal(size=4), draw.normal(size=(4, 4))
    table = ExactShapley().coalitions(None, [(i,) for i in range(4)])
    assert sorted(map(tuple, table.tolist())) == sorted(itertools.product([False, True], repeat=4))

    def value(members):
        return sum(own[i] for i in members) + sum(pairs[i, j] for i, j in itertools.combinations(members, 2))

    values = np.array([value(np.flatnonzero(row)) for row in table])
    truth = np.zeros(4)
    for order in itertools.permutations(range(4)):
        for at, unit in enumerate(order):
            truth[unit] += (value(sorted(order[: at + 1])) - value(sorted(order[:at]))) / 24
    assert np.allclose(ExactShapley().unit_scores(table, values[:, None])[0], truth)
    assert isinstance(nbsal.Shapley().for_reply(10), ExactShapley) and nbsal.Shapley(3).for_reply(11) == nbsal.Shapley(
        3
    )


@cases(
    "name, settings",
    [
        ("contextcite", {"alpha": -1}),
        ("contextcite", {"alpha": float("nan")}),
        ("contextcite", {"keep": 1}),
        ("contextcite", {"keep": "half"}),
        ("contextcite", {"samples": 0}),
        ("contextcite", {"seed": -1}),
        ("ridge", {"ridge": float("inf")}),
        ("ridge", {"keep": 0}),
        ("ridge", {"level": "letter"}),
        ("ridge", {"way": "text"}),
    ],
)
def test_invalid_settings_are_named(load, name, settings):
    ((argument, value),) = settings.items()
    with pytest.raises(InputError) as caught:
        nbsal.Explainer(load("bert"), name, **settings)
    assert caught.value.argument == argument and caught.value.value in (value, pytest.approx(value, nan_ok=True))
