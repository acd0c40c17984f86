"""Surrogates are those of scikit-learn."""

import numpy as np
import pytest

import nbsal
from nbsal.methods.perturbation import units
from tests import axioms


def problem(seed, subsets=64, count=9, numbers=3):
    """Random coalitions, one unit in all of them and two always together, with noisy values."""
    draw = np.random.default_rng(seed)
    table = draw.random((subsets, count)) < 0.5
    table[:, 0] = True
    table[:, 2] = table[:, 1]
    effects = draw.normal(size=(count, numbers)) * (draw.random((count, 1)) < 0.6)
    return table, table @ effects + 0.1 * draw.normal(size=(subsets, numbers))


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
    row = load("bert").encode(axioms.TEXTS[0])[0]
    parts = units(row, "token")
    for keep in (0.5, 0.8):
        table = nbsal.ContextCite(samples=5, seed=3, keep=keep).coalitions(row, parts)
        for i, coalition in enumerate(table):
            generator = np.random.RandomState(3 + i)
            assert coalition.tolist() == generator.choice([False, True], size=len(parts), p=[1 - keep, keep]).tolist()
