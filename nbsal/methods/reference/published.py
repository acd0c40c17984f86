"""Attention and relevance methods exactly as the authors' programs computed them, bugs included.

They reproduce published numbers. `@published` is the program of the Mask-LRP authors, `@chefer` that of Chefer et al.;
both set the score of the first position to 0, except in GAE. The former counts RoBERTa's positions from 0, so it
explains a different model from the one that was trained. Always report these variants under their full names.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from nbsal.methods.attention import (
    GAE,
    AttCAT,
    AttentionCAM,
    AttentionGradCAM,
    RawAttention,
    Rollout,
    deciding_rows,
    identity,
    normalise_rows,
    roll_out,
)
from nbsal.methods.base import Method, register, setting
from nbsal.methods.cost import Cost
from nbsal.methods.propagation import EMPTY, LRP, READ, MaskLRP, PartialLRP, TransformerAttribution
from nbsal.model.subject import Subject
from nbsal.passes.lrp.rules import CHEFER_RULES, PUBLISHED
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError

SONG = "Song et al. 2024, as in the released code"
CHEFER = "Chefer et al. 2021a (CVPR), as in the released code"


class AsPublished(Method):
    """A method that runs models the way the program of the Mask-LRP authors did."""

    paper = SONG
    by_block = False

    def subject_for(self, subject: Subject) -> Subject:
        return super().subject_for(subject).as_published


def first_zeroed(scores: Tensor) -> Tensor:
    """The scores with 0 at the first position."""
    return torch.cat((torch.zeros_like(scores[:, :1]), scores[:, 1:]), 1)


class FirstZeroed(Method):
    """A method that sets the score of the first position to 0."""

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))  # type: ignore[safe-super]


class OtherRules(FirstZeroed):
    """Relevance under other rules than the default ones, in a forward pass of its own."""

    needs = frozenset[str]()
    cost = Cost(2, relevance=1)
    by_block = False


class FirstRow(AsPublished):
    """A method of that program that reads the attention of the first position."""

    spans: ClassVar[bool] = True  # whether spans are read this way too

    def resolve(self, subject: Subject) -> Self:
        if subject.causal and (self.spans or subject.task != "span"):
            message = (
                f"{self.name} reads the attention of the first position, which sees only itself in causal models such "
                f"as {subject.name}. Use {self.name.partition('@')[0]} instead."
            )
            raise ModelError(message, part="first position")
        return super().resolve(subject)


class FirstRowOrMean(FirstRow):
    """Attention of the first position, its own score set to 0; for spans the mean over all rows, for each end."""

    per_end = True
    spans = False

    @abstractmethod
    def map(self, trace: Trace) -> Tensor:
        """The map whose rows are read, [batch, query, key]; it is overwritten."""

    def scores(self, trace: Trace) -> Tensor:
        maps = self.map(trace)
        maps[:, 0, 0] = 0
        if trace.subject.task != "span":
            return maps[:, 0]
        return torch.stack([maps[i, : len(row)].mean(0) for i, row in enumerate(trace.encoded)])


@register("raw-attention@published", promise={"nonnegative", "zero_at_first", "not_about_target"})
@dataclass(frozen=True)
class PublishedRawAttention(FirstRowOrMean, RawAttention):
    """Attention of the first position, its own score set to 0; for spans the mean over all rows, for each end."""

    def map(self, trace: Trace) -> Tensor:
        return trace.attention[trace.subject.depth - 1].mean(1)


@register("rollout@published", promise={"nonnegative", "zero_at_first", "not_about_target"})
@dataclass(frozen=True)
class PublishedRollout(FirstRowOrMean, Rollout):
    """Attention of the first position, its own score set to 0; for spans the mean over all rows, for each end."""

    def map(self, trace: Trace) -> Tensor:
        maps = [trace.attention[block].mean(1) for block in range(trace.subject.depth)]
        return roll_out([normalise_rows(m + identity(m)) for m in maps])


@register("attention-cam@published", promise=AttentionCAM.promise | {"zero_at_first"})
@dataclass(frozen=True)
class PublishedAttentionCAM(FirstZeroed, AsPublished, AttentionCAM):
    """The default method with the score of the first position set to 0."""


@register("attention-gradcam@published", promise=AttentionGradCAM.promise | {"zero_at_first"})
@dataclass(frozen=True)
class PublishedAttentionGradCAM(FirstRow, AttentionGradCAM):
    """Scaled to the range from 0 to 1, or NaN where the map is constant; the first position's score is set to 0."""

    def scores(self, trace: Trace) -> Tensor:
        maps = self.maps(trace)
        for i, row in enumerate(trace.encoded):
            text_map = maps[i, : len(row), : len(row)]
            low, high = text_map.min(), text_map.max()
            text_map[:] = (text_map - low) / (high - low)
        return first_zeroed(maps[:, 0])


@register("gae@chefer", paper="Chefer et al. 2021b (ICCV), rule 10")
@dataclass(frozen=True)
class CheferGAE(GAE):
    """The same as the default, except where a decoder attends to an encoder (see `nbsal.methods.crossing`)."""


@register("attcat@published")
@dataclass(frozen=True)
class PublishedAttCAT(AsPublished, AttCAT):
    """The same as the default, since the authors' code does what their paper says."""


@register("lrp@published", promise={"signed", "about_target", "zero_at_first"})
@dataclass(frozen=True)
class PublishedLRP(AsPublished, OtherRules, LRP):
    """Relevance under the published rules, with the score of the first position set to 0."""

    rules = PUBLISHED


@register("lrp@chefer", paper=CHEFER, promise={"signed", "about_target", "zero_at_first"})
@dataclass(frozen=True)
class CheferLRP(OtherRules, LRP):
    """Relevance under the older rules of Chefer et al., with the score of the first position set to 0."""

    rules = CHEFER_RULES


@register("partial-lrp@published", promise={"nonnegative", "about_target", "zero_at_first"})
@dataclass(frozen=True)
class PublishedPartialLRP(AsPublished, OtherRules, PartialLRP):
    """Relevance under the published rules, with the score of the first position set to 0."""

    rules = PUBLISHED


@register("partial-lrp@chefer", paper=CHEFER, promise={"nonnegative", "about_target", "zero_at_first"})
@dataclass(frozen=True)
class CheferPartialLRP(OtherRules, PartialLRP):
    """Relevance under the older rules of Chefer et al., with the score of the first position set to 0."""

    rules = CHEFER_RULES


@dataclass(frozen=True)
class NormalisedAttribution(TransformerAttribution):
    """Transformer attribution that rolls out normalised rows, under the published rules."""

    needs = frozenset({"attention_grad"})
    cost = Cost(2, backwards=1, relevance=1)
    promise = frozenset({"nonnegative", "about_target"})
    rules = PUBLISHED
    by_block = False

    def rollout(self, trace: Trace) -> Tensor:
        """The product of all maps, [batch, query, key]."""
        return roll_out([normalise_rows(maps) for maps in self.maps(trace)], self.start_layer)


@register("transformer-attribution@published")
@dataclass(frozen=True)
class PublishedTransformerAttribution(AsPublished, NormalisedAttribution):
    """Rollout of normalised rows, with the first position's own entry set to 0."""

    def scores(self, trace: Trace) -> Tensor:
        rollout = self.rollout(trace)
        rollout[:, 0, 0] = 0
        return deciding_rows(rollout, trace)


@register("transformer-attribution@chefer", paper=CHEFER)
@dataclass(frozen=True)
class CheferTransformerAttribution(NormalisedAttribution):
    """Rollout of normalised rows, with the first position's score replaced by the smallest one."""

    def scores(self, trace: Trace) -> Tensor:
        scores = deciding_rows(self.rollout(trace), trace)
        for i, row in enumerate(trace.encoded):
            scores[i, 0] = scores[i, : len(row)].min()
        return scores


@register("mask-lrp@published")
@dataclass(frozen=True)
class PublishedMaskLRP(PublishedTransformerAttribution, MaskLRP):
    """Mask-LRP as in the authors' program: no rescaling, and maps read before the mask and not halved."""

    def pass_on(self, block: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
        assert self.mask is not None, "resolve the method first"
        selected = torch.as_tensor(self.mask.selected[block]).to(relevance)
        return 2 * relevance, relevance * selected[None, :, None, None]


@register("mask-lrp@equations", paper="Song et al. 2024, equations 9-10", promise={"nonnegative", "about_target"})
@dataclass(frozen=True)
class EquationsMaskLRP(MaskLRP):
    """The paper's equations to the letter: maps are read after the mask, and blocks without a head pass nothing on."""

    read: str = setting("after", READ)
    empty: str = setting("block", EMPTY)
    joint: bool = True
