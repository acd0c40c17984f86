"""Methods on encoder-decoders that write replies: what the decoder takes from the encoder, and from the reply so far.

A decoder's block first attends to its own positions, then crosses: it attends to the source. Attention and relevance
are therefore followed down the decoder, and what crosses is followed on through the encoder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.methods.attention import (
    GAE,
    AttentionCAM,
    AttentionGradCAM,
    RawAttention,
    Rollout,
    identity,
    normalise_rows,
    scale_to_1,
)
from nbsal.methods.base import LayerMethod, Method
from nbsal.methods.decoding import Decoded
from nbsal.methods.perturbation import Perturbation, Random
from nbsal.methods.reference.published import CheferGAE
from nbsal.methods.relevance import LRP, AttnLRP, PartialLRP, TransformerAttribution
from nbsal.model import sides
from nbsal.model.subject import Subject
from nbsal.passes.trace import Trace
from nbsal.support.errors import LanguageHeadError, ModelError


@dataclass(frozen=True)
class Maps:
    """One tensor a block, [batch, ..., query, key]: of the encoder, of the decoder, and of what crosses to it."""

    source: list[Tensor]
    own: list[Tensor]
    cross: list[Tensor]

    def each(self, change: Callable[[Tensor], Tensor]) -> "Maps":
        """The same of every map."""
        return Maps(*([change(tensor) for tensor in tensors] for tensors in (self.source, self.own, self.cross)))


def maps_of(trace: Trace, values: Mapping[int, Tensor]) -> Maps:
    """The maps of a trace by kind; a model computes all of its encoder first, then two in each block of its decoder."""
    ordered, depth = [values[number] for number in sorted(values)], trace.subject.depth
    return Maps(ordered[:depth], ordered[depth::2], ordered[depth + 1 :: 2])


def deciding(trace: Trace) -> Tensor:
    """The decoder's positions that the targets are read from, [batch, decision, position], in float32 at least."""
    dtype = torch.promote_types(trace.logits.dtype, torch.float32)
    places = [sorted({index[0] for index, _ in decision.target.terms}) for decision in trace.decisions]
    size = trace.logits.shape[1]
    rows = trace.logits.new_zeros(len(places), max(map(len, places)), size, dtype=dtype)
    for text, at in enumerate(places):
        rows[text, range(len(at)), at] = 1
    return rows


def follow(rows: Tensor, maps: Maps, share: float = 1.0) -> Tensor:
    """Rows of the decoder's positions followed down both sides, [batch, decision, position of source and reply].

    At each map a position keeps `share` of what it has, and the positions that it attends to get as much by the map.
    """
    source = rows.new_zeros(*rows.shape[:2], maps.cross[0].shape[-1])
    for own, cross in zip(reversed(maps.own), reversed(maps.cross), strict=True):
        source = source + share * rows @ cross
        rows = share * rows
        rows = share * (rows + rows @ own)
    for attention in reversed(maps.source):
        source = share * (source + source @ attention)
    return torch.cat([source, rows], -1)


def without_deciding(scores: Tensor, start: Tensor) -> Tensor:
    """The scores of all decisions, [batch, position], without what each has at its own position."""
    size = scores.shape[-1] - start.shape[-1]
    others = torch.cat([torch.ones_like(scores[..., :size]), (start == 0).to(scores)], -1)
    return (scores * others).sum(1)


def evidence(trace: Trace, attention: Mapping[int, Tensor], like: Tensor) -> Maps:
    """Attention, or its relevance, times its gradient where that is positive, averaged over heads."""
    products = {number: trace.attention_grad[number] * values for number, values in attention.items()}
    return maps_of(trace, products).each(lambda product: product.relu().mean(1).to(like))


class Whole(Method):
    """A method that reads the maps of all blocks of both sides at once."""

    by_block = False


@dataclass(frozen=True)
class CrossingRawAttention(Whole, RawAttention):
    """The last block's attention to the source and to the reply so far, half each."""

    def scores(self, trace: Trace) -> Tensor:
        maps = maps_of(trace, trace.attention)
        last = torch.cat([maps.cross[-1], maps.own[-1]], -1).mean(1) / 2
        return (deciding(trace).to(last) @ last).sum(1)


@dataclass(frozen=True)
class CrossingRollout(Whole, Rollout):
    """Attention multiplied through all blocks; half of what a block passes on is the residual connection's."""

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding(trace)
        maps = maps_of(trace, trace.attention).each(lambda attention: attention.mean(1).to(rows))
        return follow(rows, maps, share=0.5).sum(1)


@dataclass(frozen=True)
class CrossingGAE(Whole, GAE):
    """Attention with a positive gradient, accumulated through the decoder, the crossings and the encoder."""

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding(trace)
        return without_deciding(follow(rows, evidence(trace, trace.attention, rows)), rows)


@dataclass(frozen=True)
class CrossingCheferGAE(Whole, CheferGAE):
    """The published rule 10: what crosses is weighted by the transposed relevance of the decoder's own positions."""

    def scores(self, trace: Trace) -> Tensor:
        start = deciding(trace)
        maps = evidence(trace, trace.attention, start)
        source, reply = identity(maps.source[0])[None], identity(maps.own[0])[None]
        crossed = torch.zeros_like(maps.cross[0])
        for attention in maps.source:
            source = source + attention @ source
        for own, cross in zip(maps.own, maps.cross, strict=True):
            crossed = crossed + own @ crossed
            reply = reply + own @ reply
            crossed = crossed + _normalised(reply).mT @ cross @ _normalised(source)
        return without_deciding(start @ torch.cat([crossed, reply], -1), start)


@dataclass(frozen=True)
class CrossingTransformerAttribution(Whole, TransformerAttribution):
    """Relevance of attention times its gradient, where positive, accumulated like GAE."""

    def resolve(self, subject: Subject) -> "CrossingTransformerAttribution":
        if self.start_layer != 0:
            message = f"start_layer={self.start_layer}, but {subject.name} has two stacks of blocks. Leave it out."
            raise ModelError(message, part="blocks")
        return super().resolve(subject)

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding(trace)
        maps = trace.relevance_maps(self.rules, self.attention_filter(trace)).attention
        return follow(rows, evidence(trace, maps, rows)).sum(1)


@dataclass(frozen=True)
class CrossingPartialLRP(Whole, PartialLRP):
    """Relevance of the last block's attention to the source and to the reply so far, propagated no further down."""

    def scores(self, trace: Trace) -> Tensor:
        maps = maps_of(trace, trace.relevance_maps(self.rules).attention)
        last = torch.cat([maps.cross[-1], maps.own[-1]], -1).relu().mean(1)
        return (deciding(trace).to(last) @ last).sum(1)


class LastMaps(Whole):
    """A method that reads the decoder's last map, over source and reply, averaged over queries."""

    def queries(self, trace: Trace) -> Tensor:
        """The weight of each query: those of the decoder's tokens alike, [batch, query]."""
        sizes = torch.tensor([sum(row.types) for row in trace.encoded], device=trace.logits.device)
        inside = torch.arange(trace.logits.shape[1], device=sizes.device) < sizes[:, None]
        return inside.to(trace.logits) / sizes[:, None]

    def last(self, trace: Trace, values: Mapping[int, Tensor]) -> Tensor:
        """The last crossing map beside the decoder's own, [batch, head, query, source and reply]."""
        maps = maps_of(trace, values)
        return torch.cat([maps.cross[-1], maps.own[-1]], -1)


@dataclass(frozen=True)
class CrossingAttentionCAM(LastMaps, AttentionCAM):
    """Gradient of the target at the last block's attention, averaged over heads and queries; negatives are dropped."""

    def scores(self, trace: Trace) -> Tensor:
        gradient = self.last(trace, trace.attention_grad).mean(1)
        return (gradient * self.queries(trace)[..., None]).sum(1).relu()


@dataclass(frozen=True)
class CrossingAttentionGradCAM(LastMaps, AttentionGradCAM):
    """The last block's attention, each head weighted by its mean gradient; scaled to the range from 0 to 1."""

    def maps(self, trace: Trace) -> Tensor:
        attention, gradient = self.last(trace, trace.attention), self.last(trace, trace.attention_grad)
        queries = self.queries(trace)
        keys = torch.cat(
            [torch.ones_like(queries[:, :1]).expand(-1, gradient.shape[-1] - queries.shape[1]), queries], 1
        )
        # Padding keys have a gradient, though no attention: leave them out.
        weight = (gradient * queries[:, None, :, None] * (keys > 0)[:, None, None]).sum((2, 3))
        return (weight[..., None, None] * attention).mean(1).relu()

    def scores(self, trace: Trace) -> Tensor:
        maps = self.maps(trace)
        for text_map, row in zip(maps, trace.encoded, strict=True):
            scale_to_1(text_map[: sum(row.types)], row)
        return (deciding(trace).to(maps) @ maps).sum(1)


ADAPTED: dict[type[Method], type[Method]] = {
    RawAttention: CrossingRawAttention,
    Rollout: CrossingRollout,
    GAE: CrossingGAE,
    CheferGAE: CrossingCheferGAE,
    AttentionCAM: CrossingAttentionCAM,
    AttentionGradCAM: CrossingAttentionGradCAM,
    PartialLRP: CrossingPartialLRP,
    TransformerAttribution: CrossingTransformerAttribution,
}
FITTING = (LayerMethod, Perturbation, Random)  # methods that ask nothing of the layout of blocks
RELEVANCE = (LRP, AttnLRP)  # these propagate to both sides as they are


def obstacle(method: Method, subject: Subject) -> str:
    """Why a method cannot explain an encoder-decoder that writes replies, as what it does; "" if nothing is known.

    >>> import nbsal
    >>> obstacle(nbsal.GradCAM(), nbsal.load("demo/reviews"))
    ''
    """
    fitting = type(method) in (*ADAPTED, *ADAPTED.values(), *RELEVANCE) or isinstance(method, FITTING)
    if subject.task != sides.REPLY or fitting:
        return ""
    if isinstance(method, Decoded):
        return "reads hidden layers by the LM head, which reads the decoder, but the source is in the encoder"
    return "reads one stack of blocks, but this model has two, an encoder and a decoder"


def resolve(method: Method, subject: Subject) -> Method:
    """A method with all defaults for a subject; of an encoder-decoder, the form that follows both of its sides."""
    if reason := obstacle(method, subject):
        if isinstance(method, Decoded):
            choice = f"Use {method.method.name}, or the lens of an answer, which reads the decoder"
            raise LanguageHeadError(f"{subject.name}: {method.name} {reason}. {choice}.", part="lm_head")
        choice = f"Use one of: {', '.join(each.name for each in ADAPTED)}, attn-lrp, a gradient method or occlusion"
        raise ModelError(f"{subject.name}: {method.name} {reason}. {choice}.", part="stacks")
    kind = ADAPTED.get(type(method)) if subject.task == sides.REPLY else None
    return (method if kind is None else kind(**vars(method))).resolve(subject)


def _normalised(relevance: Tensor) -> Tensor:
    """The rows of what was added to the identity, scaled to sum 1, with the identity."""
    own = identity(relevance)
    return normalise_rows(relevance - own) + own
