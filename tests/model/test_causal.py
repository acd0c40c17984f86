"""Causal models with experts, sinks, other norms or no attention: what runs, and what is refused in words."""

import pytest
import torch

import nbsal
from nbsal.support.errors import ModelError
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses_part

EXPERTS = ("mixtral", "qwen3-moe", "gpt-oss")
MODELS = (*EXPERTS, "gemma2", "gemma3", "cohere", "opt", "mamba", "falcon")
IDS = [5, 9, 12, 33, 7, 8]


def loaded(name, dtype=torch.float32):
    return nbsal.load(zoo.model(name, "causal").to(dtype), tokenizer=zoo.tokenizer(zoo.OTHER_DECODERS[name][2]))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["gradcam", "gradxact", "integrated", "occlusion"])
def test_gradients_and_occlusion(name, method):
    # Above the embeddings, Grad-CAM is about 0 here: scaling a state does not change what the norm after it gives.
    layer = {"layer": 0} if method == "gradcam" else {}
    axioms.batch_equals_singles(nbsal.Explainer(loaded(name), method, **layer), axioms.TEXTS[:2])


def test_a_sink_is_no_position():
    subject = loaded("gpt-oss")
    encoded = subject.encode_ids([IDS])
    maps = nbsal.trace.record(subject, encoded, needs={"attention", "attention_grad"})
    assert all(weights.shape[-2:] == (6, 6) for weights in maps.attention.values())
    sums = torch.stack([*maps.attention.values()]).sum(-1)
    assert bool((sums < 1).all()) and float(sums.min()) < 0.99  # what the sink takes is not shared out
    assert any(bool(gradient.any()) for gradient in maps.attention_grad.values())
    subject.model.set_attn_implementation("eager")
    with torch.no_grad():
        truth = subject.model(**subject.inputs(encoded), output_attentions=True).attentions
    for block, weights in enumerate(truth):
        assert axioms.relative(maps.attention[block], weights) < 1e-6


@cases("name", EXPERTS)
def test_relevance_through_experts_and_experts_in_float64_are_refused(name):
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(loaded(name), "lrp").ids(IDS)
    assert caught.value.part
    with refuses_part("dtype"):
        nbsal.Explainer(loaded(name, torch.float64), "gradcam").ids(IDS)


def test_models_without_plain_attention():
    for method in ("rollout", "gae"):
        with refuses_part("attention"):
            nbsal.Explainer(loaded("mamba"), method).ids(IDS)


@cases("stream", [False, True])
def test_falcon_with_alibi_computes_maps_of_another_model(stream):
    model = zoo.model("falcon", "causal", alibi=True, new_decoder_architecture=False)
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("bytes"))
    with refuses_part("attention maps"):
        nbsal.trace.record(subject, subject.encode_ids([IDS]), needs={"attention"}, stream=stream)


def test_the_attention_of_falcon_is_that_of_the_model():
    subject = loaded("falcon")
    encoded = subject.encode_ids([IDS])
    maps = nbsal.trace.record(subject, encoded, needs={"attention"}).attention
    assert subject.model.config._attn_implementation == "sdpa"
    subject.model.config._attn_implementation = "eager"
    with torch.no_grad():
        truth = subject.model(**subject.inputs(encoded), output_attentions=True).attentions
    for block, weights in enumerate(truth):
        assert axioms.relative(maps[block], weights) < 1e-6
