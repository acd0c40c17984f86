"""The catalogue: complete, comparable in one call, and true about what methods cost and promise."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal import trace
from nbsal.errors import UnknownName
from nbsal.methods import catalogue
from nbsal.methods.base import PROPERTIES, REGISTER, LayerMethod, register
from nbsal.methods.reference.thermostat import CaptumModel
from tests import axioms, matrix
from tests.raising import refuses

TEXTS = ["A warm and funny film.", "The plot is a bore, endlessly dull.", "Good food, good people, good grief."]
NAMES = (
    "gradcam simple gradxact smooth integrated decoded-gradcam decoded-simple decoded-gradxact raw-attention rollout "
    "attention-cam attention-gradcam attcat gae alti lrp partial-lrp transformer-attribution mask-lrp attn-lrp "
    "occlusion lime shapley gradient-shap deeplift-shap random"
).split()
THERMOSTAT = "gradxact integrated lime occlusion shapley gradient-shap deeplift-shap".split()
ALLENNLP = "simple smooth integrated".split()


@pytest.fixture(scope="module")
def results(reviews):
    """All methods on three texts."""
    return nbsal.compare(reviews, catalogue.names(), TEXTS, progress=False)


def test_every_name_is_there():
    suffixed = [f"{name}@thermostat" for name in THERMOSTAT] + [f"{name}@allennlp" for name in ALLENNLP]
    assert set(NAMES + suffixed) <= set(catalogue.names())


def test_every_method_is_described():
    table = catalogue.table()
    assert list(table.index) == catalogue.names()
    assert table[["family", "paper", "cost", "promise"]].map(len).min().min() > 0


def test_unknown_properties_are_refused():
    with refuses("promise", UnknownName) as caught:
        register("new", family="gradient", needs=set(), paper="-", promise={"signed", "perfect"})
    assert caught.value.value == "perfect" and "signed" in caught.value.valid and "new" not in REGISTER


def test_one_frame_compares_all(results, reviews):
    frame = results.to_frame()
    tokens = sum(len(row) for row in reviews.encode(TEXTS))
    assert list(frame.columns[:4]) == ["method", "text", "position", "token"]
    assert (frame.groupby("method").size() == tokens).all()
    assert list(frame["method"].unique()) == catalogue.names()
    assert np.isfinite(frame["score"]).all()
    assert not frame.duplicated(["method", "text", "position"]).any()
    compared = frame[(frame["method"] == "gradcam") & (frame["text"] == 1)]
    alone = nbsal.Explainer(reviews, "gradcam")(TEXTS[1]).scores
    assert np.allclose(compared["score"], alone, atol=1e-5 * alone.max())


@pytest.fixture
def passes(monkeypatch):
    """Rows of tokens that pass the model forwards and backwards, and passes of relevance."""
    counts = {"forward": 0, "backward": 0, "relevance": 0}
    logits, gradient, propagate = nbsal.Subject.logits, torch.autograd.grad, trace.propagate

    def count_logits(subject, inputs):
        counts["forward"] += len(inputs["input_ids"])
        return logits(subject, inputs)

    def count_gradient(outputs, inputs, *args, **kwargs):
        first = inputs if isinstance(inputs, torch.Tensor) else next(iter(inputs))
        counts["backward"] += len(first)
        return gradient(outputs, inputs, *args, **kwargs)

    def count_propagation(*args):
        counts["relevance"] += 1
        with monkeypatch.context() as relevance_alone:
            relevance_alone.setattr(torch.autograd, "grad", gradient)
            return propagate(*args)

    monkeypatch.setattr(nbsal.Subject, "logits", count_logits)
    monkeypatch.setattr(torch.autograd, "grad", count_gradient)
    monkeypatch.setattr(trace, "propagate", count_propagation)
    return counts


def check_cost(subject, method, passes):
    explain = nbsal.Explainer(subject, method)
    forwards, backwards, relevance = explain.method.cost.passes(explain.method.sizes(subject.encode(TEXTS[0])[0]))
    passes.update(dict.fromkeys(passes, 0))
    explain(TEXTS[0])
    assert (passes["backward"], passes["relevance"]) == (backwards, relevance)
    if explain.method.cost.at_most:
        assert forwards / 3 < passes["forward"] <= forwards
    else:
        assert passes["forward"] == forwards


@pytest.mark.parametrize("name", catalogue.names())
def test_costs_are_the_passes_that_are_run(reviews, name, passes):
    check_cost(reviews, name, passes)


OTHER_SETTINGS = [
    nbsal.Smooth(layer=2, samples=3),
    nbsal.Integrated(steps=7, baseline="mask"),
    nbsal.GradientShap(samples=5, baselines=("mask", "zero", "pad")),
    nbsal.DeepLiftShap(baselines=("zero",)),
    nbsal.Decoded(nbsal.Integrated(layer=3, steps=4)),
    nbsal.Occlusion(level="word", way="mask"),
    nbsal.LIME(samples=30),
    nbsal.Shapley(samples=4, level="word"),
]


@pytest.mark.parametrize("method", OTHER_SETTINGS, ids=lambda method: method.name)
def test_costs_follow_the_settings(reviews, method, passes):
    check_cost(reviews, method, passes)


def test_a_wrong_cost_is_noticed(reviews, passes, monkeypatch):
    for name, other in (("gradcam", "rollout"), ("occlusion", "lime"), ("lrp", "gradcam"), ("smooth", "integrated")):
        monkeypatch.setattr(REGISTER[name], "cost", REGISTER[other].cost)
        with pytest.raises((AssertionError, KeyError)):
            check_cost(reviews, name, passes)


# What a property says of one explanation.
SINGLE = {
    "nonnegative": lambda s: s.scores.min() >= 0,
    "at_most_1": lambda s: s.scores.max() <= 1,
    "sums_to_1": lambda s: s.scores.sum() == pytest.approx(1, abs=1e-5),
    "sums_to_1_per_decision": lambda s: s.scores.sum() == pytest.approx(1, abs=1e-5),
    "reports_gap": lambda s: s.scores.sum() == pytest.approx(sum(s.provenance.get(k, 9) for k in ("change", "gap"))),
    "same_per_type": lambda s: len({*zip(s.row.ids, s.scores.tolist(), strict=True)}) == len(set(s.row.ids)),
    "zero_at_special": lambda s: not s.scores[s.special].any(),
    "zero_at_special_in_layer_0": lambda s: not s.scores[s.special].any(),
    "zero_at_first": lambda s: s.scores[0] == 0,
    "zero_at_decision": lambda s: s.scores[0] == 0,
}


@pytest.mark.parametrize("name", catalogue.names())
def test_properties_of_single_explanations_hold(results, name):
    for saliency in results[name]:
        for promised in catalogue.create(name).promise & set(SINGLE):
            assert SINGLE[promised](saliency), promised


def test_each_property_of_single_explanations_fails_somewhere(results):
    for promised, holds in SINGLE.items():
        assert not all(holds(saliency) for saliencies in results.values() for saliency in saliencies), promised


@pytest.mark.parametrize("name", catalogue.names())
def test_signs_and_targets_are_as_promised(load, results, name):
    """Each method says whether its scores may be negative, and whether they depend on the target."""
    promise = catalogue.create(name).promise
    assert ("signed" in promise) is any(saliency.scores.min() < 0 for saliency in results[name])
    assert ("signed" in promise) is not ("nonnegative" in promise)
    explain = nbsal.Explainer(load("bert"), matrix.method(name))
    first, second = (explain(axioms.TEXTS[0], target=label).scores for label in (0, 1))
    assert ("about_target" in promise) is (not np.array_equal(first, second, equal_nan=True))
    assert ("about_target" in promise) is not ("not_about_target" in promise)


def test_seeded_methods_are_those_that_take_a_seed():
    for name in catalogue.names():
        method = catalogue.create(name)
        assert ("seeded" in method.promise) is ("seed" in method.parameters()), name


def gaps(explain, text):
    """The change from the baseline, and the gap between it and the sum of the scores."""
    saliency = explain(text)
    if "gap" in saliency.provenance:
        return saliency.provenance["change"], saliency.provenance["gap"]
    program = CaptumModel(trace.record(explain.subject, explain.subject.encode(text), needs=()), 0)
    with torch.no_grad():
        change = float(program(program.ids) - program(program.baseline))
    return change, float(saliency.scores.sum()) - change


COMPLETENESS = {"sums_to_change", "sums_to_change_on_average", "not_complete"}
COMPLETE = [name for name in catalogue.names() if catalogue.create(name).promise & COMPLETENESS]
MANY = {"gradient-shap": {"samples": 400}, "integrated": {"steps": 100}}


@pytest.mark.parametrize("name", COMPLETE)
def test_sums_are_as_promised(load, name):
    """Up to sampling and discretisation, which many samples and steps make small."""
    (promised,) = catalogue.create(name).promise & COMPLETENESS
    change, gap = gaps(nbsal.Explainer(load("bert"), name, **MANY.get(name, {})), axioms.TEXTS[0])
    assert (abs(gap) < 0.05 * abs(change)) is (promised != "not_complete"), (change, gap)


@pytest.mark.parametrize("name", catalogue.names())
def test_relevance_is_conserved_where_promised(load, name):
    method = matrix.method(name)
    if "conserves_relevance" not in method.promise:
        return
    subject = load("bert")
    record = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
    hidden = record.relevance_maps(method.rules, method.attention_filter(record)).hidden
    for layer in hidden.values():
        assert axioms.relative(layer.sum((1, 2)), torch.ones(len(axioms.TEXTS))) < 1e-6


def test_decoding_keeps_only_what_survives_it():
    for name in catalogue.names():
        if isinstance(method := catalogue.create(name), LayerMethod):
            decoded = nbsal.Decoded(method)
            assert "same_per_type" in decoded.promise and not decoded.promise & {"sums_to_1", "sums_to_change"}
            assert ("signed" in decoded.promise) is ("signed" in method.promise)


def test_every_property_is_used_and_checked():
    promised = frozenset().union(*(catalogue.create(name).promise for name in catalogue.names()))
    checked = {"signed", "about_target", "not_about_target", "seeded", "conserves_relevance", *SINGLE, *COMPLETENESS}
    assert promised == set(PROPERTIES) == checked
