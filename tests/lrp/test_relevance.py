"""Relevance propagation: conservation on stock models, refusals, and Mask-LRP's settings against loops."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.heads import HeadMask
from nbsal.passes import trace
from nbsal.passes.lrp import graph, mode, rules
from nbsal.support.errors import ModelError
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses, refuses_part

MASK = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]])


def totals(recorded, attention_filter=mode.unfiltered, chosen=rules.DEFAULT):
    """The total relevance at every layer, [layer, text]."""
    hidden = recorded.relevance_maps(chosen, attention_filter).hidden
    return torch.stack([hidden[layer].sum((1, 2)) for layer in sorted(hidden)])


RULED = ("bloom", "big-bird", "deberta", "opt", "cohere", "gemma2", "phi3")


@pytest.mark.some(3)
@pytest.mark.parametrize("name", RULED)
def test_relevance_is_conserved_in_further_architectures(checkpoints, name):
    subject = zoo.load(checkpoints, name, "causal" if name in zoo.OTHER_DECODERS else "sequence")
    recorded = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
    assert axioms.relative(totals(recorded), torch.ones(4, 4)) < 1e-6
    axioms.batch_equals_singles(nbsal.Explainer(subject, "attn-lrp"))


def test_relevance_through_a_mean_of_positions_is_conserved(load):
    subject = load("modernbert", classifier_pooling="mean")
    assert subject.pooling == "mean"
    recorded = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
    assert axioms.relative(totals(recorded), torch.ones(4, 4)) < 1e-6
    for method in ("lrp", "transformer-attribution"):
        axioms.batch_equals_singles(nbsal.Explainer(subject, method))


def test_the_relevance_of_a_span_starts_at_two(load):
    subject = load("bert", "span")
    recorded = trace.record(subject, subject.encode(("Who wrote it?", "The company.")), [(5, 6)], needs=set())
    assert axioms.relative(totals(recorded), torch.full((4, 1), 2.0)) < 1e-6


def test_a_difference_starts_as_one_relevance(load):
    """Each of its outputs has a share by its size; two relevances of 1 would cancel."""
    subject = load("bert")
    encoded = subject.encode(axioms.TEXTS)
    record = lambda target, **how: trace.record(subject, encoded, [target] * 4, {"relevance"}, **how)  # noqa: E731
    recorded, contrast = record(nbsal.contrast(0, 2)), nbsal.contrast(0, 2)
    assert axioms.relative(totals(recorded), torch.ones(4, 4)) < 1e-6
    sizes = recorded.logits[:, [0, 2]].abs()
    first, second = (sizes / sizes.sum(1, keepdim=True)).T[..., None, None]
    parts = [record(target).relevance[subject.depth] for target in (0, 2)]  # below, totals of sums are not linear
    assert axioms.relative(recorded.relevance[subject.depth], first * parts[0] + second * parts[1]) < 1e-9
    streamed = record(contrast, stream=True).first_block("relevance")["relevance"]
    assert axioms.relative(streamed, recorded.relevance[0]) < 1e-9
    explain = nbsal.Explainer(subject, "transformer-attribution")
    for alone, together in zip(axioms.TEXTS, explain.map(axioms.TEXTS, [contrast] * 4, progress=False), strict=True):
        assert axioms.relative(together.scores, explain(alone, target=contrast).scores) < 1e-9
    for method in ("lrp", "partial-lrp", "lrp@chefer", "partial-lrp@published", "pa-lrp"):
        with refuses("target"):  # nothing in them would tell the outputs apart
            nbsal.Explainer(subject, method)(axioms.TEXTS[0], target=contrast)


@pytest.mark.some(6)
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_relevance_is_conserved_whatever_heads_pass_it_on(load, architecture):
    subject = load(architecture)
    recorded = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
    assert axioms.relative(totals(recorded), torch.ones(4, 4)) < 1e-6
    for heads in (MASK, np.zeros((3, 4))):
        method = nbsal.Explainer(subject, "mask-lrp", mask=HeadMask.from_array(heads)).method
        assert axioms.relative(totals(recorded, method.attention_filter(recorded)), torch.ones(4, 4)) < 1e-6


def test_named_arguments_are_not_overlooked(load):
    subject = load("bert")
    subject.blocks[1].register_forward_hook(lambda module, args, output: torch.relu(input=output))
    with refuses_part("torch.relu"):
        nbsal.Explainer(subject, "lrp")("A joy.")


def test_fused_attention_is_refused_not_skipped(load, monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(graph.attention_maps, "eager", lambda model: nullcontext())
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(load("bert"), "lrp")(axioms.TEXTS[0])
    assert "scaled_dot_product_attention" in caught.value.part


def slow_filter(relevance, synt, pos, read, renormalise, empty, joint):
    """The attention filter of Mask-LRP at one block of one text, by loops over heads."""
    parts = [torch.stack([r * s for r, s in zip(relevance, part, strict=True)]) for part in (synt, pos)]
    if not synt.any() and not pos.any():
        propagated = relevance if empty == "pass" else relevance * 0
    elif not renormalise:
        propagated = parts[0] + parts[1]
    else:
        sums = [float(part.sum()) for part in parts]
        total = abs(sum(sums)) if joint else sum(map(abs, sums))
        scaled = [p * abs(s) / total * float(relevance.sum()) / s for p, s in zip(parts, sums, strict=True) if s]
        propagated = torch.stack(scaled).sum(0)
    return (relevance if read == "before" else propagated), propagated


SETTINGS = [
    {},
    {"read": "after"},
    {"renormalise": False},
    {"empty": "block"},
    {"joint": True},
    {"read": "after", "empty": "block", "joint": True},
]


@cases("settings", SETTINGS)
def test_settings_of_mask_lrp(load, settings):
    torch.manual_seed(0)
    synt = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    pos = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    mask = HeadMask(pos, {"nsubj": synt})
    method = nbsal.Explainer(load("bert"), "mask-lrp", mask=mask, **settings).method
    attention_filter = method.attention_filter(None)
    full = {"read": "before", "renormalise": True, "empty": "pass", "joint": False} | settings
    relevance = torch.randn(2, 4, 5, 8).double()
    for block in range(3):
        ours = attention_filter(block, relevance)
        for i in range(2):
            truth = slow_filter(relevance[i], synt[block], pos[block], **full)
            assert axioms.relative(ours[0][i], truth[0]) < 1e-9
            assert axioms.relative(ours[1][i], truth[1]) < 1e-9


def test_transformer_attribution_follows_its_formula(load):
    """Computed from the relevance and gradients of a trace, by loops over blocks and heads."""
    subject = load("bert")
    recorded = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs={"attention_grad"})
    n = len(recorded.encoded[0])
    joined = torch.eye(n).double()
    for block in range(subject.depth):
        maps = torch.eye(n).double()
        for head in range(subject.heads):
            product = recorded.attention_grad[block][0, head] * recorded.relevance_attention[block][0, head]
            maps += product.clamp_min(0) / subject.heads
        joined = maps @ joined
    ours = nbsal.Explainer(subject, "transformer-attribution")(axioms.TEXTS[0]).scores
    assert axioms.relative(ours, joined[0]) < 1e-12


def test_relevance_runs_in_float64_on_a_copy(load):
    subject = load("bert", dtype="float32")
    explain = nbsal.Explainer(subject, "lrp")
    assert explain(axioms.TEXTS[0]).scores.dtype == np.float64
    assert explain(axioms.TEXTS[0]).provenance["dtype"] == "float64" and subject.dtype == torch.float32
    rough = nbsal.Explainer(subject, "lrp", dtype="model")(axioms.TEXTS[0])
    assert rough.scores.dtype == np.float32
    both = nbsal.compare(subject, ["gradcam", "lrp"], axioms.TEXTS[:2], progress=False)
    assert {name: results[0].scores.dtype for name, results in both.items()} == {
        "gradcam": np.float32,
        "lrp": np.float64,
    }
