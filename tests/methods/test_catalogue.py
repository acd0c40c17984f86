"""The catalogue: complete, and true about what methods cost and promise; batches and padding have no effect.

A new method is tested as soon as it is registered. One that cannot pass is named in `EXCEPTIONS` with the reason.
"""

import pytest
import torch

import nbsal
from nbsal.methods import catalogue
from nbsal.methods.base import REGISTER, LayerMethod, Method, register
from nbsal.methods.cost import Cost
from nbsal.methods.reference.thermostat import CaptumModel
from nbsal.passes import trace
from nbsal.support.errors import ModelError, UnknownName
from nbsal.testing.passes import cost_is_true
from nbsal.testing.promises import promises_hold
from tests import axioms, matrix
from tests.raising import refuses


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


@pytest.mark.some(20)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", catalogue.names())
def test_promises_and_costs_are_true(load, name):
    """Relevance is conserved only where a method says so; the other properties are those of nbsal.testing."""
    if name == "attention-gradcam@published":
        pytest.skip("divides 0 by 0 on texts without evidence (golden values cover it)")
    subject, method = load("bert"), catalogue.create(name) if name == "integrated" else matrix.method(name)
    promises_hold(nbsal.Explainer(subject, method), axioms.TEXTS[:2])
    cost_is_true(nbsal.Explainer(subject, method), axioms.TEXTS[0])
    if "conserves_relevance" in method.promise:
        record = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
        hidden = record.relevance_maps(method.rules, method.attention_filter(record)).hidden
        for layer in hidden.values():
            assert axioms.relative(layer.sum((1, 2)), torch.ones(len(axioms.TEXTS))) < 1e-6


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
MANY = {"gradient-shap": {"samples": 1000}}


@pytest.mark.parametrize("name", COMPLETE)
def test_sums_are_as_promised(load, name):
    """Up to the errors of sampling and discretisation."""
    (promised,) = catalogue.create(name).promise & COMPLETENESS
    gap = relative_gap(nbsal.Explainer(load("bert"), name, **MANY.get(name, {})), axioms.TEXTS[0])
    assert gap < 0.05 if promised != "not_complete" else gap > 0.05


def test_decoding_keeps_only_what_survives_it():
    for name in catalogue.names():
        if isinstance(method := catalogue.create(name), LayerMethod):
            decoded = nbsal.Decoded(method)
            assert "same_per_type" in decoded.promise and not decoded.promise & {"sums_to_1", "sums_to_change"}
            assert ("signed" in decoded.promise) is ("signed" in method.promise)


# Position ids that start at 0, or after padding; relative positions; local attention.
ENCODERS = ["bert", "roberta", "deberta-v2", "modernbert"]
DECODERS = ["gpt2", "llama"]
EXCEPTIONS = {
    "attention-gradcam@published": "divides 0 by 0 on texts without evidence (golden values cover it)",
    "smooth@allennlp": "is rounding noise where LayerNorms read the embeddings (test_allennlp.py tests it on Llama)",
}
# Settings that take another path through the code than the defaults.
SETTINGS = [
    nbsal.Occlusion(2, level="word"),
    nbsal.LIME(12, level="word", way="mask"),
    nbsal.Shapley(2, level="word", antithetic=False),
    nbsal.Random(level="word"),
    nbsal.Integrated(layer=1, steps=3, baseline="pad"),
    nbsal.GradientShap(layer=2, samples=3, baselines=("mask", "zero")),
    nbsal.Decoded(nbsal.Smooth(layer=1, samples=2)),
    nbsal.Decoded(nbsal.GradCAM(layer=2), form="per_token", tau=3),
    nbsal.Decoded(nbsal.Simple(layer=2), renormalise=True),
]


def pairs():
    """Every method on one architecture, in turn; with `-m full` on the others."""
    architectures = (*ENCODERS, *DECODERS)
    for number, name in enumerate(name for name in catalogue.names() if name not in EXCEPTIONS):
        for place, architecture in enumerate(architectures):
            marks = () if place == number % len(architectures) else pytest.mark.full
            yield pytest.param(architecture, name, marks=marks)


def check(explain):
    axioms.batch_equals_singles(explain, axioms.TEXTS[1:3])
    axioms.padding_is_invisible(explain, extra=20)


@pytest.mark.some(20)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("architecture", "name"), list(pairs()))
def test_batches_and_padding(load, architecture, name):
    try:
        check(nbsal.Explainer(load(architecture), matrix.method(name)))
    except ModelError as error:  # test_matrix.py tests who refuses what
        assert error.part in matrix.REASONS


@pytest.mark.parametrize("method", SETTINGS, ids=lambda method: method.name)
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_batches_and_padding_with_other_settings(load, architecture, method):
    check(nbsal.Explainer(load(architecture), method))
