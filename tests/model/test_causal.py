"""Causal models with experts, sinks, other norms or no attention: what runs, and what is refused in words."""

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal.support.errors import ModelError
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses_part

SIZES = {
    "vocab_size": 200, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "initializer_range": 0.15,
}  # fmt: skip
MODELS = {
    "Mixtral": ("MixtralConfig", SIZES | {"num_local_experts": 4}),
    "Qwen3Moe": (
        "Qwen3MoeConfig",
        SIZES | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8},
    ),
    "GptOss": ("GptOssConfig", SIZES | {"head_dim": 8, "num_local_experts": 4, "rope_scaling": None}),
    "Gemma2": ("Gemma2Config", SIZES | {"head_dim": 8}),
    "Gemma3": ("Gemma3TextConfig", SIZES | {"head_dim": 8}),
    "Cohere": ("CohereConfig", SIZES),
    "OPT": (
        "OPTConfig",
        {"vocab_size": 200, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
        | {"max_position_embeddings": 64, "pad_token_id": 0, "word_embed_proj_dim": 32},
    ),
    "Mamba": ("MambaConfig", {"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
    "Falcon": (
        "FalconConfig",
        {"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
}
EXPERTS = ("Mixtral", "Qwen3Moe", "GptOss")
IDS = [5, 9, 12, 33, 7, 8]


def loaded(name, dtype=torch.float32):
    config, settings = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, config)(**settings)).eval().to(dtype)
    return nbsal.load(model, tokenizer=zoo.tokenizer("pieces"))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["gradcam", "gradxact", "integrated", "occlusion"])
def test_gradients_and_occlusion(name, method):
    # Above the embeddings, Grad-CAM is about 0 here: scaling a state does not change what the norm after it gives.
    layer = {"layer": 0} if method == "gradcam" else {}
    axioms.batch_equals_singles(nbsal.Explainer(loaded(name), method, **layer), axioms.TEXTS[:2])


def test_a_sink_is_no_position():
    subject = loaded("GptOss")
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


@pytest.mark.parametrize("name", EXPERTS)
@pytest.mark.parametrize("method", ["lrp", "attn-lrp", "transformer-attribution"])
def test_relevance_through_experts_is_refused(name, method):
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(loaded(name), method).ids(IDS)
    assert caught.value.part


@cases("name", EXPERTS)
def test_experts_without_float64_are_named(name):
    with refuses_part("dtype"):
        nbsal.Explainer(loaded(name, torch.float64), "gradcam").ids(IDS)


@pytest.mark.parametrize(("name", "part"), [("Mamba", "attention"), ("Falcon", "attention maps")])
@pytest.mark.parametrize("method", ["rollout", "gae"])
def test_models_without_plain_attention(name, part, method):
    with refuses_part(part):
        nbsal.Explainer(loaded(name), method).ids(IDS)
    assert np.isfinite(nbsal.Explainer(loaded(name), "gradcam").ids(IDS).scores).all()
