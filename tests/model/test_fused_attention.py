"""Means over heads of maps that fused attention does not show equal those of maps written out."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from nbsal.model.running import fused_attention
from nbsal.model.running.fused_attention import FusedRecorder
from tests import axioms


def record(*args, **settings):
    with FusedRecorder() as recorder:
        scaled_dot_product_attention(*args, **settings)
    return recorder


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, heads, 7, 5).double() for heads in (4, 2, 2))
    return query, key, value, torch.randn(2, 1, 7, 7).double()


@pytest.mark.parametrize("chunk", [1, 2**19])
def test_means_over_heads_equal_those_of_whole_maps(inputs, chunk, monkeypatch):
    monkeypatch.setattr(fused_attention, "CHUNK", chunk)
    query, key, value, mask = inputs
    recorder = record(query, key, value, attn_mask=mask, scale=0.3, enable_gqa=True)
    (call,) = recorder.calls
    weights = (0.3 * query @ key.repeat_interleave(2, 1).mT + mask).softmax(-1).requires_grad_()
    mixed = weights @ value.repeat_interleave(2, 1)
    arriving = torch.randn_like(mixed)
    arriving[:, :, 3:] = 0
    (gradient,) = torch.autograd.grad(mixed, weights, arriving)
    assert recorder.readable and axioms.relative(call.mixed, mixed.detach()) < 1e-12
    assert axioms.relative(call.mean(), weights.detach().mean(1)) < 1e-12
    assert axioms.relative(call.mean_gradient(arriving), gradient.mean(1)) < 1e-12
    assert axioms.relative(call.mean_evidence(arriving), (gradient * weights.detach()).relu().mean(1)) < 1e-12


def test_a_local_window_is_computed_of_what_it_sees(inputs, monkeypatch):
    """Also where a query sees nothing, as padding does: no number of its row counts."""
    monkeypatch.setattr(fused_attention, "CHUNK", 2 * 4 * 7 * 2)
    query, key, value, _ = inputs
    at = torch.arange(7)
    mask = torch.zeros(2, 1, 7, 7).masked_fill((at[:, None] - at).abs() > 1, torch.finfo(torch.float32).min)
    mask[1, :, 5:], mask[1, :, :, 5:] = torch.finfo(torch.float32).min, torch.finfo(torch.float32).min
    (call,) = record(query, key, value, attn_mask=mask.double(), enable_gqa=True).calls
    weights = (query @ key.repeat_interleave(2, 1).mT / 5**0.5 + mask).softmax(-1)
    seen = [(queries, keys) for queries, keys in call.chunks()]
    assert [(keys.start, keys.stop) for _, keys in seen] == [(0, 3), (1, 5), (3, 7), (5, 7)]
    mixed = weights @ value.repeat_interleave(2, 1)
    for ours, truth in ((call.mix(), mixed), (call.mean()[:, None], weights.mean(1, keepdim=True))):
        assert axioms.relative(ours[0], truth[0]) < 1e-12 and axioms.relative(ours[1, :, :5], truth[1, :, :5]) < 1e-12


@pytest.mark.parametrize("settings", [{"is_causal": True}, {"attn_mask": torch.ones(7, 6, dtype=torch.bool)}])
def test_what_maps_cannot_be_computed_of_is_not_readable(inputs, settings):
    query, key, value = inputs[0], *(tensor[:, :, :6].repeat_interleave(2, 1) for tensor in inputs[1:3])
    assert not record(query, key, value, **settings).readable


@pytest.mark.parametrize("chunk", [1, 2**19])
def test_a_causal_mask_is_left_to_fused_attention(inputs, chunk, monkeypatch):
    """Which computes half as much; several gradients share the map of a text."""
    monkeypatch.setattr(fused_attention, "CHUNK", chunk)
    query, key, value = (tensor[:1] for tensor in inputs[:3])
    low = torch.finfo(torch.float64).min
    mask = torch.zeros(1, 1, 7, 7).double().masked_fill(torch.ones(7, 7, dtype=torch.bool).triu(1), low)
    (call,) = record(query, key, value, attn_mask=mask, enable_gqa=True).calls
    weights = (query @ key.repeat_interleave(2, 1).mT / 5**0.5 + mask).softmax(-1)
    assert call.causal and call.mask is None and max(keys.stop for _, keys in call.chunks()) == 7
    assert axioms.relative(call.mixed, weights @ value.repeat_interleave(2, 1)) < 1e-12
    assert axioms.relative(call.rows(torch.tensor([2, 6])), weights[:, :, [2, 6]]) < 1e-12
    arriving = torch.randn(3, 4, 7, 5).double()
    expected = (weights * (arriving @ value.repeat_interleave(2, 1).mT)).relu().mean(1)
    assert axioms.relative(call.mean_evidence(arriving), expected) < 1e-12
    mask[0, 0, 6, 0] = low  # it hides something else, too
    (other,) = record(query, key, value, attn_mask=mask, enable_gqa=True).calls
    assert not other.causal and not other.mean()[0, 6, 0]


def test_one_head_of_keys_and_one_row_of_a_mask_serve_all(inputs, monkeypatch):
    monkeypatch.setattr(fused_attention, "CHUNK", 1)
    query, key, value, mask = inputs
    (call,) = record(query, key[:, :1], value[:, :1], attn_mask=mask[:, :, :1]).calls
    weights = (query @ key[:, :1].mT / 5**0.5 + mask[:, :, :1]).softmax(-1)
    assert axioms.relative(call.mean(), weights.mean(1)) < 1e-12
    expected = (weights * (query @ value[:, :1].mT)).relu().mean(1)
    assert axioms.relative(call.mean_evidence(query), expected) < 1e-12


def test_products_of_half_precision_do_not_overflow(inputs):
    query, key, value, _ = (tensor.to(torch.float16) for tensor in inputs)
    key = key.repeat_interleave(2, 1)
    (call,) = record(300 * query, 300 * key, value.repeat_interleave(2, 1), scale=1e-4).calls
    weights = (1e-4 * (300 * query).double() @ (300 * key).double().mT).softmax(-1)
    assert call.mean().dtype == torch.float16
    assert axioms.relative(call.mean(), weights.mean(1)) < 2e-3
