"""Attention methods, which read the attention maps of the model, alone or with their gradients.

Where several positions decide (both ends of a span), each is explained separately and the scores are added. Methods
that go through all blocks start at the last one with the rows of the deciding positions alone, not with whole matrices.

A decoder's block beside an encoder first attends to its own positions, then crosses: it attends to the source. Methods
that read the last block alone read both maps side by side; `nbsal.methods.crossing` has those that follow all blocks.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.methods.base import Method, register
from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts
from nbsal.model import encoder_decoder
from nbsal.model.pooling import position_weights
from nbsal.model.text.tokens import Row
from nbsal.passes.stream import Block, recorded_parts, summaries
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError


@dataclass(frozen=True)
class EncoderDecoderMaps:
    """One tensor a block, [batch, ..., query, key]: of the encoder, of the decoder, and of what crosses to it."""

    source: list[Tensor]
    own: list[Tensor]
    cross: list[Tensor]

    def each(self, change: Callable[[Tensor], Tensor]) -> "EncoderDecoderMaps":
        """The same of every map."""
        return EncoderDecoderMaps(
            *([change(tensor) for tensor in tensors] for tensors in (self.source, self.own, self.cross))
        )


def maps_of(trace: Trace, values: Mapping[int, Tensor]) -> EncoderDecoderMaps:
    """The maps of a trace by kind; a model computes all of its encoder first, then two in each block of its decoder."""
    ordered, depth = [values[number] for number in sorted(values)], trace.subject.depth
    return EncoderDecoderMaps(ordered[:depth], ordered[depth::2], ordered[depth + 1 :: 2])


def has_two_sides(trace: Trace) -> bool:
    """Whether the model has an encoder and a decoder that writes replies."""
    return trace.subject.task == encoder_decoder.REPLY


def beside(trace: Trace, values: Mapping[int, Tensor]) -> Tensor:
    """The decoder's last maps, of the source and of the reply so far, side by side, [batch, head, query, key]."""
    maps = maps_of(trace, values)
    return torch.cat([maps.cross[-1], maps.own[-1]], -1)


def last_block(trace: Trace, *parts: str) -> Block:
    if not has_two_sides(trace):
        return next(trace.blocks(*parts))
    recorded = {name: beside(trace, getattr(trace, name)) for name in recorded_parts(parts)}
    return recorded | summaries(recorded, parts)


def identity(like: Tensor) -> Tensor:
    """The identity matrix that fits a batch of maps, [position, position]."""
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def roll_out(maps: list[Tensor], start: int = 0) -> Tensor:
    """Multiply the maps of all blocks from `start` on, later blocks on the left."""
    product = maps[start]
    for block in maps[start + 1 :]:
        product = block @ product
    return product


def normalise_rows(maps: Tensor) -> Tensor:
    """Scale the entries of each query to sum 1; the rows of padding queries stay 0."""
    return maps / maps.sum(-1, keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)


def deciding_rows(maps: Tensor, trace: Trace) -> Tensor:
    """Sum the rows of the deciding positions, [batch, position]; take the mean where all positions decide.

    A head that weights positions otherwise is followed by the weights of each text.
    """
    return (deciding_positions(trace).sum(1, keepdim=True).to(maps) @ maps)[:, 0]


def deciding_positions(trace: Trace) -> Tensor:
    """The weight of each deciding position, [batch, decision, position]; a decision has one position.

    In float32 at least: products through many blocks would round too much in half precision.
    """
    subject, pooling = trace.subject, trace.subject.probed_pooling
    if pooling is not None and not pooling.last_layer_only:
        raise ModelError(
            f"The head of {subject.name} reads more than its last layer, and a method that follows attention or "
            "relevance from the last layer would miss the rest. Use a gradient method or occlusion.",
            part="pooling",
        )
    dtype = torch.promote_types(trace.logits.dtype, torch.float32)
    if pooling is not None and pooling.kind not in ("first", "last", "mean"):
        weights = trace.cached("position weights", lambda: position_weights(subject, trace.encoded))
        return weights.to(dtype).diag_embed()
    positions = [at for at in trace.decision_positions() if at is not None]
    if not positions:
        return _query_weights(trace)[..., 0].to(dtype).diag_embed()
    weights = trace.logits.new_zeros(len(positions), max(map(len, positions)), _query_count(trace), dtype=dtype)
    for text, at in enumerate(positions):
        weights[text, range(len(at)), at] = 1
    return weights


class AttentionMethod(Method):
    """A method that reads attention alone, block by block."""

    family = "attention"
    needs = frozenset({"attention"})
    cost = Cost(1)
    promise = frozenset({"nonnegative", "sums_to_1_per_decision", "not_about_target"})
    by_block = True
    shares = "pass"


class AttentionGradientMethod(Method):
    """A method that reads the gradients of attention, block by block; each end of a span has its own."""

    family = "attention"
    needs = frozenset({"attention", "attention_grad"})
    cost = Cost(1, backwards=1)
    per_end = True
    by_block = True


@register("raw-attention", paper="Bahdanau et al. 2015")
@dataclass(frozen=True)
class RawAttention(AttentionMethod):
    """Attention of the deciding position in the last block, averaged over heads."""

    facts = Facts("Attention of the last block", look=13)

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding_rows(last_block(trace, "mean_attention")["mean_attention"], trace)
        return rows / 2 if has_two_sides(trace) else rows


@register("rollout", paper="Abnar and Zuidema 2020")
@dataclass(frozen=True)
class Rollout(AttentionMethod):
    """Attention multiplied through all blocks; the residual connection counts for half of each block."""

    facts = Facts("Attention rollout", look=14)

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding_positions(trace).sum(1, keepdim=True)
        for block in trace.blocks("mean_attention"):
            attention = block["mean_attention"].to(rows)
            # The rows of attention plus identity are scaled to sum 1, without a matrix for either step.
            rows = rows / (1 + attention.sum(-1))[:, None]
            rows = rows + rows @ attention
        return rows[:, 0]


@register("attention-cam", needs={"attention_grad"}, paper="Song et al. 2024", promise={"nonnegative", "about_target"})
@dataclass(frozen=True)
class AttentionCAM(AttentionGradientMethod):
    """Gradient of the target at the last block's attention, averaged over heads and queries; negatives are dropped."""

    facts = Facts("Attention CAM", look=19)

    def scores(self, trace: Trace) -> Tensor:
        gradient = last_block(trace, "mean_gradient")["mean_gradient"]
        return (gradient * _query_weights(trace)).sum(1).relu()


@register("attention-gradcam", paper="Chefer et al. 2021a (CVPR)", promise={"nonnegative", "at_most_1", "about_target"})
@dataclass(frozen=True)
class AttentionGradCAM(AttentionGradientMethod):
    """The last block's attention, each head weighted by its mean gradient; scaled to the range from 0 to 1."""

    facts = Facts("Attention Grad-CAM", look=20)

    def maps(self, trace: Trace) -> Tensor:
        """The weighted map, [batch, query, key]; evidence against the target is dropped."""
        last = last_block(trace, "attention", "attention_grad")
        attention, gradient = last["attention"], last["attention_grad"]
        queries = _query_weights(trace)[:, None]
        keys = queries.mT  # padding keys have a gradient, though no attention: leave them out
        if has_two_sides(trace):
            source = keys.new_ones(*keys.shape[:-1], gradient.shape[-1] - keys.shape[-1])
            keys = torch.cat([source, (keys > 0).to(keys)], -1)
        weight = (gradient * queries * keys).sum((2, 3))
        return (weight[..., None, None] * attention).mean(1).relu()

    def scores(self, trace: Trace) -> Tensor:
        maps = self.maps(trace)
        for text_map, row in zip(maps, trace.encoded, strict=True):
            scale_to_1(text_map[: sum(row.types)] if has_two_sides(trace) else text_map[: len(row), : len(row)], row)
        return deciding_rows(maps, trace)


@register(
    "attcat",
    family="attention",
    needs={"attention", "hidden", "hidden_grad"},
    paper="Qiang et al. 2022",
    cost=Cost(1, backwards=1),
    promise={"signed", "about_target"},
)
@dataclass(frozen=True)
class AttCAT(Method):
    """Gradient times activation at each block's input, weighted by the attention that the position receives there."""

    facts = Facts("AttCAT", look=16)

    by_block = True
    shares = "pass"

    def layers(self, depth: int) -> set[int]:
        return set(range(depth))

    def scores(self, trace: Trace) -> Tensor:
        queries = _query_weights(trace)
        scores = torch.zeros_like(queries[..., 0])
        for block in trace.blocks("mean_attention", "hidden", "hidden_grad"):
            impact = (block["hidden"] * block["hidden_grad"]).sum(-1)
            # Models in half precision compute attention in float32, or not.
            scores += impact * (queries.mT @ block["mean_attention"].to(queries))[:, 0]
        return scores


@register("gae", paper="Chefer et al. 2021b (ICCV)", promise={"nonnegative", "about_target", "zero_at_decision"})
@dataclass(frozen=True)
class GAE(AttentionGradientMethod):
    """Attention with a positive gradient, accumulated through the blocks."""

    facts = Facts(
        "GAE",
        look=9,
        start="why a model replied so, by attention and its gradient",
        default_for={"replies": 2},
        replies=3,
    )

    shares = "pass"

    def scores(self, trace: Trace) -> Tensor:
        rows = start = deciding_positions(trace)
        for block in trace.blocks("mean_evidence"):
            rows = rows + rows @ block["mean_evidence"].to(rows)
        # The deciding position's own entry is mostly the 1 that the sum starts with, so it carries no evidence.
        return (rows * (start == 0)).sum(1)


def scale_to_1(text_map: Tensor, row: Row) -> None:
    """Scale the map of a text, in place, to the range from 0 to 1."""
    low, high = text_map.min(), text_map.max()
    if high == low:
        message = f"attention-gradcam found no evidence for the target in {row.text!r:.60}: all scores are 0."
        warnings.warn(message, stacklevel=2)
    text_map[:] = (text_map - low) / (high - low).clamp_min(torch.finfo(text_map.dtype).tiny)


def _query_weights(trace: Trace) -> Tensor:
    """Weights of the mean over the queries of each text, 0 for padding, [batch, query, 1]."""
    lengths = trace.lengths()
    if has_two_sides(trace):
        lengths = lengths.new_tensor([sum(row.types) for row in trace.encoded])
    inside = torch.arange(_query_count(trace), device=lengths.device) < lengths[:, None]
    return (inside.to(trace.logits) / lengths[:, None])[..., None]


def _query_count(trace: Trace) -> int:
    """The number of queries of the last block; of a decoder beside an encoder, those of its own positions."""
    return trace.logits.shape[1] if has_two_sides(trace) else trace.encoded.longest
