"""Stored results: what exists is not computed again, and an interrupted evaluation resumes."""

import pytest

import nbsal
from nbsal.evaluation.cache import Cache
from nbsal.figures.explainers import MaskLRPWithoutEnds, PredictedEnds, by_label
from nbsal.figures.store import Store
from tests.raising import refuses

TEXTS = ["A warm and funny film.", "A dull bore of a film."]


def test_each_explainer_is_evaluated_once(reviews, tmp_path):
    calls = []

    def evaluate(explainers, **settings):
        calls.extend(explainers)
        if "lrp" in calls and fails:
            raise KeyboardInterrupt
        return nbsal.evaluation.faithfulness(explainers, **settings)

    explainers, fails = by_label(reviews, ["gae", "lrp"]), True
    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path).results("two texts", evaluate, explainers, texts=TEXTS)
    fails = False
    results = Store(tmp_path).results("two texts", evaluate, explainers, texts=TEXTS)
    assert calls == ["gae", "lrp", "lrp"] and results.explainers == ["gae", "lrp"]
    whole = nbsal.evaluation.faithfulness(explainers, TEXTS, progress=False)
    assert results.mean().equals(whole.mean())
    Store(tmp_path).results("other texts", evaluate, by_label(reviews, ["gae"]), texts=TEXTS)
    assert calls[-1] == "gae"
    with refuses("explainers"):
        Store(tmp_path).results("two texts", evaluate, {}, texts=TEXTS)


def test_clouds_are_stored(reviews, tmp_path, monkeypatch):
    explainers = by_label(reviews, ["gradcam"])
    store = Store(tmp_path)
    cloud = store.clouds("a/b", explainers, TEXTS)["gradcam"]
    assert len(store.cache.saliencies[reviews, explainers["gradcam"].method]) == 2, "games of these texts use them"
    assert cloud.weights == nbsal.clouds.rank(explainers["gradcam"].map(TEXTS, progress=False)).weights
    monkeypatch.setattr(Cache, "explain", lambda *_, **__: pytest.fail("explained again"))
    assert Store(tmp_path).clouds("a/b", explainers, TEXTS)["gradcam"].weights == cloud.weights
    assert [path.name for path in tmp_path.iterdir()] == ["a-b-gradcam.json"]


def test_labels_name_methods_layers_and_runs(masked):
    labels = ["decoded Simple l3", "Grad-CAM l2", "summed Grad-CAM l2", "lime", "random", "random mask"]
    explainers = by_label(masked, labels, 3, {"lime": {"samples": 7}})
    assert list(explainers) == labels and explainers["lime"].method.samples == 7
    layers = [explainers[label].method.layer for label in labels[:3]]
    assert layers == [3, 2, 2] and explainers["decoded Simple l3"].method.name == "decoded-simple"
    assert [run.method.seed for run in explainers["random"]] == [0, 1, 2]
    masks = [run.method.mask for run in explainers["random mask"]]
    assert len(masks) == 3 and all(mask.selected.sum() == masked.mask.selected.sum() for mask in masks)


def test_ends_of_a_span_give_themselves_a_score_of_1():
    answers, question = nbsal.load("demo/answers"), ("Who wrote it?", "Ada wrote it in spring.")
    whole, rest, ends = (
        nbsal.Explainer(answers, method)(question) for method in ("mask-lrp", MaskLRPWithoutEnds(), PredictedEnds())
    )
    difference = whole.scores - rest.scores
    predicted = set((ends.scores >= 2).nonzero()[0].tolist())
    assert set((difference > 0.5).nonzero()[0].tolist()) == predicted and difference.sum() == pytest.approx(2)
    assert set(whole.order[: len(predicted)]) == predicted
