"""Quantised models: gradients, attention and occlusion run on them as they are; relevance is refused by name."""

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.errors import ModelError
from tests import wrapped, zoo

TEXT = wrapped.TEXTS[0]


def bitsandbytes(**settings):
    pytest.importorskip("bitsandbytes", reason="needs the extra peers")
    return transformers.BitsAndBytesConfig(**settings)


def quanto():
    pytest.importorskip("optimum.quanto", reason="needs the extra peers")
    return transformers.QuantoConfig(weights="int8")


def torchao():
    quantization = pytest.importorskip("torchao.quantization", reason="needs the extra peers")
    return transformers.TorchAoConfig(quantization.Int8WeightOnlyConfig())


KINDS = {"8 bits": lambda: bitsandbytes(load_in_8bit=True), "quanto": quanto, "torchao": torchao}


def quantised(folder, settings):
    """A tiny classifier whose rows the libraries can divide into blocks."""
    zoo.model("bert", "sequence", hidden_size=64, intermediate_size=64).save_pretrained(folder)
    model = transformers.BertForSequenceClassification.from_pretrained(folder, quantization_config=settings)
    return model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantised_model_is_explained_as_it_is(tmp_path, kind):
    model = quantised(tmp_path, KINDS[kind]())
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))
    inputs = subject.inputs(subject.encode(wrapped.TEXTS))
    with torch.no_grad():
        assert torch.equal(subject.logits(inputs), model(**inputs).logits)
    exact = nbsal.load(tmp_path, tokenizer=zoo.tokenizer("wordpiece"))
    for method in ("gradcam", "gradxact", "integrated", "occlusion", "rollout", "gae"):
        scores, truth = (nbsal.Explainer(each, method)(TEXT).scores for each in (subject, exact))
        assert np.corrcoef(scores, truth)[0, 1] > 0.9
    for method in ("lrp", "attn-lrp", "transformer-attribution"):
        with pytest.raises(ModelError) as caught:
            nbsal.Explainer(subject, method)
        assert caught.value.part == "quantization"


def test_4_bit_weights_on_the_cpu_are_refused(tmp_path):
    model = quantised(tmp_path, bitsandbytes(load_in_4bit=True))
    before = [parameter.shape for parameter in model.parameters()]
    with pytest.raises(ModelError) as caught:
        nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))
    assert caught.value.part == "quantization"
    assert [parameter.shape for parameter in model.parameters()] == before  # nothing has run
