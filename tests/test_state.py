"""Explanations leave the model and the process unchanged, even after an error."""

import functools

import pytest
import torch

import nbsal
from nbsal.methods import alti, catalogue
from nbsal.methods.reference.published import FirstRow
from nbsal.testing.state import OUTCOMES, Broken, is_restored, snapshot
from nbsal.testing.tiny_models import MASK
from tests import axioms, matrix

ARCHITECTURES = ("bert", "deberta-v2", "mpnet", "albert", "llama")


@pytest.fixture(scope="module")
def shared(load):
    """shared(architecture) -> one subject for all tests of this file, since each must leave it unchanged."""
    return functools.cache(load)


@pytest.mark.some(10)
@pytest.mark.filterwarnings("ignore:attention-gradcam")
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("name", catalogue.names())
def test_methods_restore_everything(shared, name, outcome):
    method = matrix.method(name)  # with few samples
    number = catalogue.names().index(name)
    for architecture in (ARCHITECTURES[number % 5], ARCHITECTURES[(number + 2) % 5]):
        if architecture == "deberta-v2" and method.family == "relevance" and method.rules.mask:
            continue  # it adds no mask to its attention scores
        if name in ("alti", "decompx") and architecture not in alti.PARTS:
            continue
        if name == "pa-lrp" and architecture == "deberta-v2":
            continue  # its positions act on attention scores alone
        if isinstance(method, FirstRow) and architecture == "llama":
            continue  # its first position attends only to itself
        subject = shared(architecture)
        is_restored(subject, nbsal.Explainer(subject, method), outcome)


@pytest.mark.some(8)
@pytest.mark.parametrize("kind", [Broken, KeyboardInterrupt])
@pytest.mark.parametrize("name", [name for name in catalogue.names() if "forward" in catalogue.create(name).needs])
def test_methods_that_run_the_model_restore_everything(shared, name, kind):
    """The model raises in its second forward pass, after the trace was recorded."""
    architecture = ("bert", "albert", "llama")[len(name) % 3]
    subject, calls = shared(architecture), []

    def raise_in_second_call(module, args, output):
        calls.append(module)
        if len(calls) == 2:
            raise kind

    handle = subject.model.register_forward_hook(raise_in_second_call)
    before = snapshot(subject)
    with pytest.raises(kind):
        nbsal.Explainer(subject, name)(axioms.TEXTS[0])
    assert snapshot(subject) == before, architecture
    handle.remove()


def test_frozen_models_stay_frozen_and_give_the_same_scores(load):
    subject = load("bert")
    explain = nbsal.Explainer(subject, "gradcam", layer=1)
    trainable = explain(axioms.TEXTS[0]).scores
    subject.model.requires_grad_(False)
    try:
        frozen = explain(axioms.TEXTS[0]).scores
        assert not any(parameter.requires_grad for parameter in subject.model.parameters())
    finally:
        subject.model.requires_grad_(True)
    assert axioms.relative(frozen, trainable) < 1e-12


@pytest.mark.parametrize("name", ["decoded-gradcam", "smooth", "deeplift-shap", "occlusion@thermostat", "mask-lrp"])
@pytest.mark.parametrize("outside", [torch.no_grad, torch.inference_mode])
def test_explanations_inside_no_grad(load, outside, name):
    explain = nbsal.Explainer(load("bert"), name, **({"mask": MASK} if name == "mask-lrp" else {}))
    inside = explain(axioms.TEXTS[0]).scores
    with outside():
        assert axioms.relative(explain(axioms.TEXTS[0]).scores, inside) < 1e-12
