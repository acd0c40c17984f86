"""Attention methods: what the heads look at, with and without the gradient of the target.

Where several positions decide (both ends of a span), each is explained on its own and the scores are added.
"""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.methods.base import Method, register
from nbsal.trace import Trace


def identity(like: Tensor) -> Tensor:
    """The identity, one for each text: [position, position]."""
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def rolled_out(maps: list[Tensor], start: int = 0) -> Tensor:
    """The maps of blocks from `start` on, multiplied up: later blocks stand on the left."""
    joined = maps[start]
    for block in maps[start + 1 :]:
        joined = block @ joined
    return joined


def row_normalised(maps: Tensor) -> Tensor:
    """Every query's entries scaled to sum 1; padding queries have none."""
    return maps / maps.sum(-1, keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)


def deciding_rows(maps: Tensor, trace: Trace) -> Tensor:
    """The rows of the positions that the decision is read from, [batch, position]; the mean where all are."""
    found = []
    for i, (row, places) in enumerate(zip(trace.encoded, trace.decision_positions(), strict=True)):
        found.append(maps[i, : len(row)].mean(0) if places is None else maps[i, places].sum(0))
    return torch.stack(found)


@register(
    "raw-attention",
    family="attention",
    needs={"attention"},
    paper="Bahdanau et al. 2015",
    cost="1",
    promise="0 or more; sums to 1 for each deciding position; not about the target",
)
@dataclass(frozen=True)
class RawAttention(Method):
    """What the deciding position attends to in the last block, averaged over heads."""

    def scores(self, trace: Trace) -> Tensor:
        return deciding_rows(trace.attention[trace.subject.depth - 1].mean(1), trace)


@register(
    "rollout",
    family="attention",
    needs={"attention"},
    paper="Abnar and Zuidema 2020",
    cost="1",
    promise="0 or more; sums to 1 for each deciding position; not about the target",
)
@dataclass(frozen=True)
class Rollout(Method):
    """Attention followed through all blocks, half of each block's information being what was there before."""

    def scores(self, trace: Trace) -> Tensor:
        maps = [trace.attention[b].mean(1) for b in range(trace.subject.depth)]
        return deciding_rows(rolled_out([row_normalised(m + identity(m)) for m in maps]), trace)


@register(
    "attention-cam",
    family="attention",
    needs={"attention_grad"},
    paper="Song et al. 2024",
    cost="1, and 1 backward",
    promise="0 or more; about the target",
)
@dataclass(frozen=True)
class AttentionCAM(Method):
    """Where more attention in the last block would speak for the target, over all heads and queries."""

    per_end = True

    def scores(self, trace: Trace) -> Tensor:
        gradient = trace.attention_grad[trace.subject.depth - 1]
        return (gradient.mean(1) * _real_queries(trace)).sum(1).relu()


@register(
    "attention-gradcam",
    family="attention",
    needs={"attention", "attention_grad"},
    paper="Chefer et al. 2021",
    cost="1, and 1 backward",
    promise="0 to 1 for each deciding position; about the target",
)
@dataclass(frozen=True)
class AttentionGradCAM(Method):
    """The last block's attention, each head weighted by the mean gradient at it; scaled to 0..1."""

    per_end = True

    def maps(self, trace: Trace) -> Tensor:
        """The weighted map [batch, query, key], what speaks against the target dropped."""
        last = trace.subject.depth - 1
        attention, gradient = trace.attention[last], trace.attention_grad[last]
        queries = _real_queries(trace)[:, None]  # padding keys have a gradient, though no attention: leave them out
        weight = (gradient * queries * queries.mT).sum((2, 3))
        return (weight[..., None, None] * attention).mean(1).relu()

    def scores(self, trace: Trace) -> Tensor:
        maps, found = self.maps(trace), []
        for i, row in enumerate(trace.encoded):
            own = maps[i, : len(row), : len(row)]
            low, high = own.min(), own.max()
            if high == low:
                warnings.warn(
                    f"attention-gradcam finds no evidence at all in {row.text!r:.60}: its scores are zero.",
                    stacklevel=2,
                )
            maps[i, : len(row), : len(row)] = (own - low) / (high - low).clamp_min(torch.finfo(own.dtype).tiny)
            found.append(maps[i])
        return deciding_rows(torch.stack(found), trace)


@register(
    "attcat",
    family="attention",
    needs={"attention", "hidden", "hidden_grad"},
    paper="Qiang et al. 2022",
    cost="1, and 1 backward",
    promise="signed; about the target",
)
@dataclass(frozen=True)
class AttCAT(Method):
    """Gradient times activation at every block's input, weighted by how much attention the position gets there."""

    def layers(self, depth: int) -> set[int]:
        return set(range(depth))

    def scores(self, trace: Trace) -> Tensor:
        found = torch.zeros_like(trace.hidden[0][..., 0])
        queries = _real_queries(trace)
        for block in range(trace.subject.depth):
            impact = (trace.hidden[block] * trace.hidden_grad[block]).sum(-1)
            found += impact * (trace.attention[block].mean(1) * queries).sum(1)
        return found


@register(
    "gae",
    family="attention",
    needs={"attention", "attention_grad"},
    paper="Chefer et al. 2021a",
    cost="1, and 1 backward",
    promise="0 or more; about the target; 0 at the deciding position itself",
)
@dataclass(frozen=True)
class GAE(Method):
    """Attention that speaks for the target, added up through the blocks."""

    per_end = True

    def scores(self, trace: Trace) -> Tensor:
        joined = identity(trace.attention[0]).expand_as(trace.attention[0][:, 0])
        for block in range(trace.subject.depth):
            evidence = (trace.attention_grad[block] * trace.attention[block]).relu().mean(1)
            joined = joined + evidence @ joined
        # The deciding position's own entry is mostly the identity it began with, and says nothing.
        return deciding_rows(joined * (1 - identity(joined)), trace)


def _real_queries(trace: Trace) -> Tensor:
    """The share of each query in a mean over a text's own queries, [batch, query, 1]."""
    lengths = trace.lengths()
    inside = torch.arange(trace.encoded.longest, device=lengths.device) < lengths[:, None]
    return (inside.to(trace.logits) / lengths[:, None])[..., None]
