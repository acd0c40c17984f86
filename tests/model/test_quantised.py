"""Quantised models: gradients, attention and occlusion run as they are, relevance on a dequantised copy if any."""

import copy
import warnings

import numpy as np
import pytest
import torch

import nbsal
from tests import wrapped, zoo
from tests.cases import cases
from tests.raising import refuses_part

TEXT = wrapped.TEXTS[0]


KINDS = {"8 bits": wrapped.bitsandbytes, "quanto": wrapped.quanto, "torchao": wrapped.torchao}
RELEVANCE = ("lrp", "attn-lrp", "transformer-attribution")
WEIGHTS = (*RELEVANCE, "alti", "ifr")  # they read weights


@cases("kind", KINDS)
def test_a_quantised_model_is_explained_as_it_is(tmp_path, kind):
    model = wrapped.quantised(tmp_path, KINDS[kind]())
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))
    inputs = subject.inputs(subject.encode(wrapped.TEXTS))
    with torch.no_grad():
        assert torch.equal(subject.logits(inputs), model(**inputs).logits)
    exact = nbsal.load(tmp_path, tokenizer=zoo.tokenizer("wordpiece"))
    for method in ("gradcam", "gradxact", "integrated", "occlusion", "rollout", "gae"):
        scores, truth = (nbsal.Explainer(each, method)(TEXT).scores for each in (subject, exact))
        assert np.corrcoef(scores, truth)[0, 1] > 0.9
    for method in () if kind == "8 bits" else WEIGHTS:
        with refuses_part("quantization"):
            nbsal.Explainer(subject, method)


def test_relevance_of_8_bits_is_that_of_the_dequantised_model(tmp_path):
    model = wrapped.quantised(tmp_path, wrapped.bitsandbytes())
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))
    plain = nbsal.load(copy.deepcopy(model).dequantize().eval(), tokenizer=zoo.tokenizer("wordpiece"))
    inputs = subject.inputs(subject.encode(wrapped.TEXTS))
    with torch.no_grad():
        before = subject.logits(inputs)
        size = before.abs().max()
        assert (plain.logits(inputs) - before).abs().max() < 0.1 * size  # inputs of layers are not rounded there
    for method in WEIGHTS:
        saliency, truth = (nbsal.Explainer(each, method)(TEXT) for each in (subject, plain))
        assert np.array_equal(saliency.scores, truth.scores)
        assert "dequantised" in saliency.provenance["weights"] and "weights" not in truth.provenance
    with torch.no_grad():
        assert torch.equal(subject.logits(inputs), before)
    assert {type(weight).__name__ for weight in model.parameters()} >= {"Int8Params"}


def test_4_bit_weights_on_the_cpu_are_refused(tmp_path):
    model = wrapped.quantised(tmp_path, wrapped.bitsandbytes(load_in_4bit=True))
    before = [parameter.shape for parameter in model.parameters()]
    with refuses_part("quantization"):
        nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))
    assert [parameter.shape for parameter in model.parameters()] == before  # nothing has run


class Stored(torch.Tensor):
    """A weight of which only linear layers know what it stands for, as torchao stores it."""

    def __new__(cls, weight):
        return torch.Tensor._make_wrapper_subclass(cls, weight.shape, dtype=weight.dtype)

    def __init__(self, weight):
        self.weight = weight

    def __tensor_flatten__(self):
        return ["weight"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Stored(inner["weight"])

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.linear:
            return function(args[0], args[1].weight, *args[2:], **kwargs or {})
        return super().__torch_function__(function, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return Stored(args[0].weight)
        raise NotImplementedError(function)


def stored_in_place():
    model = zoo.model("bert", "sequence")
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight = torch.nn.Parameter(Stored(module.weight.detach()), requires_grad=False)
    return model


def test_weights_that_were_quantised_in_place_are_noticed():
    subject = nbsal.load(stored_in_place(), tokenizer=zoo.tokenizer("wordpiece"))
    exact = nbsal.load(zoo.model("bert", "sequence"), tokenizer=subject.tokenizer)
    for method in ("gradcam", "integrated", "gae", "rollout", "occlusion"):
        scores, truth = (nbsal.Explainer(each, method)(TEXT).scores for each in (subject, exact))
        assert np.allclose(scores, truth, atol=1e-6)
    for method in (*WEIGHTS, "decompx", "partial-lrp"):
        with refuses_part("quantization"):
            nbsal.Explainer(subject, method)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_layers_that_pass_no_gradients_are_noticed():
    model = torch.ao.quantization.quantize_dynamic(zoo.model("bert", "sequence"), {torch.nn.Linear})
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm="tied")
    for method in ("gradcam", "integrated", "deeplift-shap", "gae", "attention-cam", "decoded-gradcam"):
        with refuses_part("gradients"):
            nbsal.Explainer(subject, method)
    with refuses_part("quantization"):
        nbsal.Explainer(subject, "lrp")
    assert nbsal.Explainer(subject, "rollout")(TEXT).scores.any()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*lm=")  # an LM head would not help
        explain = nbsal.Explainer(nbsal.load(model, tokenizer=subject.tokenizer))
    assert explain.method.name == "occlusion" and explain(TEXT).scores.any()
