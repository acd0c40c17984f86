"""What shapiq can do."""

import numpy as np
import shapiq

from tests.bench.features import models
from tests.bench.features.registry import partly

WORDS = models.SHORT.split()
EXCLUDED = {"Approximator"}


def _game(coalitions):
    texts = [" ".join(np.where(coalition, WORDS, "[MASK]")) for coalition in np.atleast_2d(coalitions)]
    return models.logits(texts)[:, 1]


def _explain(kind="KernelSHAP", **settings):
    return getattr(shapiq, kind)(n=len(WORDS), random_state=0, **settings).approximate(budget=32, game=_game)


def _pairs():
    return _explain("KernelSHAPIQ", max_order=2, index="k-SII")


def methods(folder):
    names = [name for name in shapiq.approximator.__all__ if isinstance(getattr(shapiq.approximator, name), type)]
    return f"{len(names)} approximators"


def words(folder):
    assert len(_explain().get_n_order_values(1)) == len(WORDS)
    return partly("whatever units the caller's function hides")


def shapley(folder):
    exact = shapiq.ExactComputer(n_players=len(WORDS), game=_game)("SV").get_n_order_values(1)
    for kind in ("KernelSHAP", "PermutationSamplingSV", "SVARM"):
        assert np.isfinite(_explain(kind).get_n_order_values(1)).all()
    assert np.allclose(_explain().get_n_order_values(1), exact, atol=1e-3)
    return "Kernel SHAP, permutations, SVARM and others; exact ones"


def black_box(folder):
    assert _explain().get_n_order_values(1).any()
    return partly("a function of coalitions, which the caller turns into texts")


def save(folder):
    values = _pairs()
    values.save(folder / "values.json")
    assert np.allclose(shapiq.InteractionValues.load(folder / "values.json").values, values.values)
    return "JSON"


def interactions(folder):
    pairs = _pairs().get_n_order_values(2)
    triples = _explain("SHAPIQ", max_order=3, index="STII").get_n_order_values(3)
    assert np.abs(pairs).max() > 0 and np.abs(triples).max() > 0
    return "of any order, by several indices; drawn as networks"


def modalities(folder):
    x = np.random.default_rng(0).normal(size=(50, 3))
    explain = shapiq.TabularExplainer(lambda rows: rows[:, 0] * 2 + rows[:, 1] * rows[:, 2], x, index="k-SII")
    assert np.isfinite(explain.explain(x[0], budget=8).values).all()
    return "tables and trees"
