"""Methods on encoder-decoders that write replies: what the decoder takes from the encoder, and from the reply so far.

A decoder's block first attends to its own positions, then crosses: it attends to the source. Attention and relevance
are therefore followed down the decoder, and what crosses is followed on through the encoder.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.methods.attention import (
    GAE,
    AttentionCAM,
    AttentionGradCAM,
    EncoderDecoderMaps,
    RawAttention,
    Rollout,
    deciding_positions,
    identity,
    maps_of,
    normalise_rows,
)
from nbsal.methods.base import LayerMethod, Method
from nbsal.methods.decoding import Decoded
from nbsal.methods.perturbation import Perturbation, Random
from nbsal.methods.propagation import (
    GIM,
    LRP,
    AttnLRP,
    PartialLRP,
    PositionAwareLRP,
    TransformerAttribution,
)
from nbsal.methods.reference.published import CheferGAE
from nbsal.model import encoder_decoder
from nbsal.model.subject import Subject
from nbsal.passes.trace import Trace
from nbsal.support.errors import LanguageHeadError, ModelError


def follow(rows: Tensor, maps: EncoderDecoderMaps, share: float = 1.0) -> Tensor:
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


def evidence(trace: Trace, attention: Mapping[int, Tensor], like: Tensor) -> EncoderDecoderMaps:
    """Attention, or its relevance, times its gradient where that is positive, averaged over heads."""
    products = {number: trace.attention_grad[number] * values for number, values in attention.items()}
    return maps_of(trace, products).each(lambda product: product.relu().mean(1).to(like))


@dataclass(frozen=True)
class CrossingRollout(Rollout):
    """Attention multiplied through all blocks; half of what a block passes on is the residual connection's."""

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding_positions(trace)
        maps = maps_of(trace, trace.attention).each(lambda attention: attention.mean(1).to(rows))
        return follow(rows, maps, share=0.5).sum(1)


@dataclass(frozen=True)
class CrossingGAE(GAE):
    """Attention with a positive gradient, accumulated through the decoder, the crossings and the encoder."""

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding_positions(trace)
        return without_deciding(follow(rows, evidence(trace, trace.attention, rows)), rows)


@dataclass(frozen=True)
class CrossingCheferGAE(CheferGAE):
    """The published rule 10: what crosses is weighted by the transposed relevance of the decoder's own positions."""

    def scores(self, trace: Trace) -> Tensor:
        start = deciding_positions(trace)
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
class CrossingTransformerAttribution(TransformerAttribution):
    """Relevance of attention times its gradient, where positive, accumulated like GAE."""

    def resolve(self, subject: Subject) -> "CrossingTransformerAttribution":
        if self.start_layer != 0:
            message = f"start_layer={self.start_layer}, but {subject.name} has two stacks of blocks. Leave it out."
            raise ModelError(message, part="blocks")
        return super().resolve(subject)

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding_positions(trace)
        maps = trace.relevance_maps(self.rules, self.attention_filter(trace)).attention
        return follow(rows, evidence(trace, maps, rows)).sum(1)


ADAPTED: dict[type[Method], type[Method]] = {
    Rollout: CrossingRollout,
    GAE: CrossingGAE,
    CheferGAE: CrossingCheferGAE,
    TransformerAttribution: CrossingTransformerAttribution,
}
# These read both sides as they are.
READY: tuple[type[Method], ...] = (
    *(RawAttention, AttentionCAM, AttentionGradCAM),
    *(PartialLRP, LRP, AttnLRP, PositionAwareLRP, GIM),
)
FITTING = (LayerMethod, Perturbation, Random)  # methods that ask nothing of the layout of blocks


def obstacle(method: Method, subject: Subject) -> str:
    """Why a method cannot explain an encoder-decoder that writes replies, as what it does; "" if nothing is known."""
    fitting = type(method) in (*ADAPTED, *ADAPTED.values(), *READY) or isinstance(method, FITTING)
    if subject.task != encoder_decoder.REPLY or fitting:
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
        names = ", ".join(each.name for each in (*ADAPTED, *READY))
        choice = f"Use one of: {names}, a gradient method or occlusion"
        raise ModelError(f"{subject.name}: {method.name} {reason}. {choice}.", part="stacks")
    kind = ADAPTED.get(type(method)) if subject.task == encoder_decoder.REPLY else None
    return (method if kind is None else kind(**vars(method))).resolve(subject)


def _normalised(relevance: Tensor) -> Tensor:
    """The rows of what was added to the identity, scaled to sum 1, with the identity."""
    own = identity(relevance)
    return normalise_rows(relevance - own) + own
