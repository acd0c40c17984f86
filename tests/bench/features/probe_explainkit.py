"""What explainkit can do."""

import explainkit
import numpy as np
import torch
from explainkit.viz import heatmap_html

from tests.bench.features import models
from tests.bench.features.registry import partly

METHODS = ("occlusion", "surrogate", "shap", "lime")


def _predict(texts):
    return torch.from_numpy(models.logits(texts)).double().softmax(-1).numpy()


def _explain(text=models.LONG, method="occlusion", **settings):
    return explainkit.Explainer(_predict).explain(text, method=method, **settings)


def methods(folder):
    for method in METHODS:
        assert np.isfinite(_explain(method=method).scores).all()
    return f"{len(METHODS)}: {', '.join(METHODS)}"


def offsets(folder):
    result = _explain(models.TYPED)
    return f"{[result.text[start:end] for start, end in result.spans]}"


def words(folder):
    return f"units {_explain(models.TYPED).tokens}"


def shapley(folder):
    assert _explain(method="shap").scores != _explain(method="lime").scores
    return "through shap and lime"


def black_box(folder):
    assert np.isfinite(_explain().scores).all()
    return "a function of texts to probabilities"


def save(folder):
    results = [_explain(), _explain(models.SHORT)]
    explainkit.dump_explanations(results, folder / "results.jsonl")
    assert list(explainkit.load_explanations(folder / "results.jsonl")) == results
    return "JSON lines"


def html(folder):
    page = heatmap_html(_explain("A <b>warm</b> film"))
    assert "<b>" not in page and "script" not in page
    return "coloured words, escaped"


def faithfulness(folder):
    result = _explain()
    assert np.isfinite([explainkit.aopc(result, _predict), explainkit.sufficiency(result, _predict, k=2)]).all()
    return "AOPC, comprehensiveness, sufficiency, deletion curves, and shuffled scores beside them"


def audit(folder):
    results = explainkit.Explainer(_predict).explain_batch([models.SHORT, models.LONG])
    tokens = explainkit.token_importance(
        results, [1 - result.predicted_class for result in results], correct_only=False
    )
    assert {token.token for token in tokens} >= {"warm", "dull"}
    return partly("adds up the scores of chosen texts by word; no word is hidden or tested")


def counterfactuals(folder):
    change = explainkit.synonym_strategy({"warm": "dull", "funny": "long"})
    report = explainkit.robustness_probe(explainkit.Explainer(_predict), [models.SHORT], change, top_k=3)
    return partly(f"words replaced from a table that the caller writes; {len(report.results)} text tried")
