"""Attention methods against plain loops over blocks, and the variants that give what programs published."""

import pytest
import torch

import nbsal
from nbsal.methods import alti
from nbsal.passes import plan, trace
from tests import axioms
from tests.raising import refuses_part

TEXT = axioms.TEXTS[0]


def test_rollout(load):
    subject = load("bert")
    record = trace.record(subject, subject.encode(TEXT), needs={"attention"})
    product = torch.eye(len(record.encoded[0])).double()
    for block in range(3):
        step = record.attention[block][0].mean(0) + torch.eye(len(product)).double()
        product = (step / step.sum(-1, keepdim=True)) @ product
    scores = nbsal.Explainer(subject, "rollout")(TEXT).scores
    assert axioms.relative(scores, product[0]) < 1e-12 and scores.sum() == pytest.approx(1)


@pytest.mark.some(5)
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra", "deberta-v2", "mpnet", "distilbert", "albert"])
def test_alti_reads_the_modules_of_the_stock_block(load, architecture, second):
    """The contributions of all positions add up to the output of the block."""
    subject = load(architecture)
    saliency = nbsal.Explainer(subject, "alti", second_norm=second)(TEXT)
    assert (saliency.scores >= 0).all() and saliency.scores.sum() == pytest.approx(1)
    parts, block = alti.PARTS[subject.model.config.model_type], subject.blocks[0]
    calls = {}
    hooks = [
        block.get_submodule(path).register_forward_hook(lambda m, a, o, path=path: calls.update({path: (a[0], o)}))
        for path in (parts.out, parts.norm, parts.second)
    ]
    last = 2 if architecture == "albert" else 0  # ALBERT calls one block three times, and hooks record the last call
    record = trace.record(subject, subject.encode(TEXT), needs={"attention"})
    for hook in hooks:
        hook.remove()
    x, attention = record.hidden[last][0], record.attention[last][0]
    values = block.get_submodule(parts.value)(x).unflatten(-1, (subject.heads, -1))
    mixed = torch.einsum("hij,jhd->ihd", attention, values).reshape(x.shape)
    assert axioms.relative(mixed.detach(), calls[parts.out][0].reshape(x.shape).detach()) < 1e-10
    states = calls[parts.norm][0][0]
    assert axioms.relative(calls[parts.out][1].reshape(x.shape).detach() + x, states.detach()) < 1e-10
    output = calls[parts.norm][1][0]
    again = parts.feed_forward(block, output) + output
    assert axioms.relative(again.detach(), calls[parts.second][0][0].detach()) < 1e-10
    assert alti._centred(x).mean(-1).abs().max() < 1e-12


def test_alti_refuses_other_blocks(load):
    with refuses_part("post-norm blocks"):
        nbsal.Explainer(load("gpt2"), "alti")


@pytest.mark.parametrize("head", ["sequence", "span"])
@pytest.mark.parametrize("architecture", ["roberta", "bert"])
def test_published_variants_count_robertas_positions_from_zero(load, architecture, head):
    subject = load(architecture, head)
    text = ("Who wrote it?", "The film is a joy.") if head == "span" else "A warm and funny joy."
    inputs = subject.inputs(subject.encode(text))
    from_zero = inputs | {"position_ids": torch.arange(inputs["input_ids"].shape[1])[None]}
    for name, model_inputs in (("raw-attention@published", from_zero), ("raw-attention", inputs)):
        with torch.no_grad():
            logits = subject.logits(model_inputs)[0]
        probabilities = nbsal.Explainer(subject, name)(text).probabilities
        assert axioms.relative(probabilities, logits.softmax(0 if head == "span" else -1)) < 1e-12


@pytest.mark.parametrize("name", ["attcat@published", "lrp@published"])
@pytest.mark.parametrize("head", ["sequence", "span"])
def test_published_variants_give_gpt2_the_exact_gelu(load, name, head):
    subject, exact = load("gpt2", head), load("gpt2", head, activation_function="gelu")
    text = ("Who wrote it?", "The film is a joy.") if head == "span" else TEXT
    published, truth = (nbsal.Explainer(model, name)(text) for model in (subject, exact))
    assert axioms.relative(published.probabilities, truth.probabilities) < 1e-12
    assert axioms.relative(published.scores, truth.scores) < 1e-9
    plain = nbsal.Explainer(subject, name.partition("@")[0])(text)
    assert axioms.relative(plain.probabilities, truth.probabilities) > 1e-6, "the model itself was changed"
    weights = zip(
        nbsal.Explainer(subject, name).method_subject.model.parameters(), subject.model.parameters(), strict=True
    )
    assert all(published.data_ptr() == weight.data_ptr() for published, weight in weights)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", ["raw-attention", "rollout", "attention-cam", "attcat", "gae"])
@pytest.mark.parametrize("limit", [2**60, 0])
def test_decoders_in_half_precision_are_explained(load, monkeypatch, name, limit):
    """Some compute attention in float32."""
    monkeypatch.setattr(plan, "LIMIT", limit)
    whole = nbsal.Explainer(load("llama", "sequence"), name)(TEXT)
    half = nbsal.Explainer(load("llama", "sequence", dtype="bfloat16"), name)(TEXT)
    assert abs(half.scores).max() > 0 and axioms.relative(half.scores, whole.scores) < 0.1
