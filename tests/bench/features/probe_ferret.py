"""What ferret can do."""

import ferret
import numpy as np

from tests.bench.features import models
from tests.bench.features.registry import partly


def _benchmark():
    return ferret.Benchmark(*models.classifier())


def methods(folder):
    return f"{len(_benchmark().explainers)} explainers"


def pairs(folder):
    _benchmark().explain((models.SHORT, models.LONG), target=1, show_progress=False)


def batch(folder):
    _benchmark().explain([models.SHORT, models.LONG], target=1, show_progress=False)


def tagging(folder):
    ferret.GradientExplainer(*models.tagger())(models.SHORT, target=1)


def shapley(folder):
    for kind in ("SHAPExplainer", "LIMEExplainer"):
        assert np.isfinite(getattr(ferret, kind)(*models.classifier())(models.SHORT, target=1).scores).all()
    return "Owen values of shap; LIME"


def progress(folder):
    _benchmark().explain(models.SHORT, target=1, show_progress=True)
    return partly("a bar; an interruption loses what is done")


def html(folder):
    benchmark = _benchmark()
    table = benchmark.show_table(benchmark.explain(models.SHORT, target=1, show_progress=False))
    assert "<script" not in table.to_html()
    return "a table of all methods"


def faithfulness(folder):
    benchmark = _benchmark()
    results = benchmark.evaluate_explanations(benchmark.explain(models.SHORT, target=1, show_progress=False), target=1)
    return ", ".join(score.name for score in results[0].evaluation_scores)
