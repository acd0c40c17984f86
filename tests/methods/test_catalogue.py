"""The catalogue: complete, comparable in one call, and true about what methods cost and promise."""

import pytest
import torch

import nbsal
from nbsal.methods import catalogue
from nbsal.methods.base import REGISTER, LayerMethod, Method, register
from nbsal.methods.cost import Cost
from nbsal.methods.reference.thermostat import CaptumModel
from nbsal.passes import trace
from nbsal.support.errors import UnknownName
from nbsal.testing.passes import cost_is_true
from nbsal.testing.promises import SINGLE, signs_are_as_promised, targets_matter_as_promised
from tests import axioms, matrix
from tests.cases import cases
from tests.raising import refuses

TEXTS = ["A warm and funny film.", "The plot is a bore, endlessly dull.", "Good food, good people, good grief."]


@pytest.fixture(scope="module")
def results(reviews):
    """All methods on three texts."""
    return nbsal.compare(reviews, catalogue.names(), TEXTS, progress=False)


def test_every_method_is_described():
    table = catalogue.table()
    assert list(table.index) == catalogue.names()
    assert table[["family", "paper", "cost", "promise"]].map(len).min().min() > 0


def test_incomplete_registrations_are_refused():
    for argument, given in (("cost", {"promise": {"signed"}}), ("promise", {"cost": Cost(1)})):
        with refuses(argument):
            register("new", family="gradient", needs=set(), paper="-", **given)(type("New", (Method,), {}))
    with refuses("promise", UnknownName) as caught:
        register("new", family="gradient", needs=set(), paper="-", promise={"signed", "perfect"})
    assert caught.value.value == "perfect" and "signed" in caught.value.valid and "new" not in REGISTER


@pytest.mark.some(10)
@pytest.mark.parametrize("name", catalogue.names())
def test_costs_are_the_passes_that_are_run(reviews, name):
    cost_is_true(nbsal.Explainer(reviews, name), TEXTS[0])


@pytest.mark.full
@cases("name", catalogue.names())
def test_properties_of_single_explanations_hold(results, name):
    for saliency in results[name]:
        for promised in catalogue.create(name).promise & set(SINGLE):
            assert SINGLE[promised](saliency, 0), promised


@pytest.mark.some(10)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", catalogue.names())
def test_signs_and_targets_are_as_promised(load, results, name):
    """Each method says whether its scores may be negative, and whether they depend on the target."""
    explain = nbsal.Explainer(load("bert"), matrix.method(name))
    by_text = [{label: explain(text, label) for label in range(3)} for text in axioms.TEXTS[:2]]
    signs_are_as_promised(explain, [*results[name], *(saliency for row in by_text for saliency in row.values())])
    targets_matter_as_promised(explain, by_text)


def relative_gap(explain, text):
    """The gap between the sum of the scores and the change from the baseline, divided by the sum of absolute scores."""
    saliency = explain(text)
    if "gap" in saliency.provenance:
        gap = saliency.provenance["gap"]
    else:
        program = CaptumModel(trace.record(explain.subject, explain.subject.encode(text), needs=()), 0)
        with torch.no_grad():
            gap = float(saliency.scores.sum() - (program(program.ids) - program(program.baseline)))
    return abs(gap) / abs(saliency.scores).sum()


COMPLETENESS = {"sums_to_change", "sums_to_change_on_average", "not_complete"}
COMPLETE = [name for name in catalogue.names() if catalogue.create(name).promise & COMPLETENESS]
MANY = {"gradient-shap": {"samples": 2000}}


@pytest.mark.parametrize("name", COMPLETE)
def test_sums_are_as_promised(load, name):
    """Up to the errors of sampling and discretisation."""
    (promised,) = catalogue.create(name).promise & COMPLETENESS
    gap = relative_gap(nbsal.Explainer(load("bert"), name, **MANY.get(name, {})), axioms.TEXTS[0])
    assert gap < 0.05 if promised != "not_complete" else gap > 0.05


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
