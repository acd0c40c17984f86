"""Quantised models: gradients, attention and occlusion run as they are, relevance on a dequantised copy if any."""

import copy

import numpy as np
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
