"""Attention and relevance methods exactly as the authors' programs computed them, bugs included.

They reproduce published numbers. `@published` is the program of the Mask-LRP authors, `@chefer` that of Chefer et al.;
both set the score of the first position to 0, except in GAE. The former counts RoBERTa's positions from 0, so it
explains a different model from the one that was trained. Always report these variants under their full names.
"""

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
from nbsal.methods.base import Method, register
from nbsal.methods.cost import Cost
from nbsal.methods.relevance import LRP, MaskLRP, PartialLRP, TransformerAttribution
from nbsal.model.subject import Subject
from nbsal.passes.lrp.mode import AttentionFilter, unfiltered
from nbsal.passes.lrp.rules import CHEFER_RULES, PUBLISHED
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError

SONG = "Song et al. 2024, as in the released code"
CHEFER = "Chefer et al. 2021a (CVPR), as in the released code"
PASSES = Cost(2, relevance=1)
GRADIENT = Cost(2, backwards=1, relevance=1)


class AsPublished(Method):
    """A method that runs models the way the program of the Mask-LRP authors did."""

    by_block = False

    def subject_for(self, subject: Subject) -> Subject:
        return super().subject_for(subject).as_published


class FirstRow(AsPublished):
    """A method of that program that reads the attention of the first position, whose own entry is set to 0."""

    spans: ClassVar[bool] = True  # whether spans are read this way too; the others use the mean over all rows

    def resolve(self, subject: Subject) -> Self:
        if subject.causal and (self.spans or subject.task != "span"):
            message = (
                f"{self.name} reads the attention of the first position, which sees only itself in causal models such "
                f"as {subject.name}. Use {self.name.partition('@')[0]} instead."
            )
            raise ModelError(message, part="first position")
        return super().resolve(subject)


def first_zeroed(scores: Tensor) -> Tensor:
    """The scores with 0 at the first position."""
    return torch.cat((torch.zeros_like(scores[:, :1]), scores[:, 1:]), 1)


def mean_rows(maps: Tensor, trace: Trace) -> Tensor:
    """The mean over the queries of each text, [batch, position]."""
    return torch.stack([maps[i, : len(row)].mean(0) for i, row in enumerate(trace.encoded)])


@register(
    "raw-attention@published",
    family="attention",
    needs={"attention"},
    paper=SONG,
    promise={"nonnegative", "zero_at_first", "not_about_target"},
)
@dataclass(frozen=True)
class PublishedRawAttention(FirstRow, RawAttention):
    """Attention of the first position, its own score set to 0; for spans the mean over all rows, for each end."""

    per_end = True
    spans = False

    def scores(self, trace: Trace) -> Tensor:
        maps = trace.attention[trace.subject.depth - 1].mean(1).clone()
        maps[:, 0, 0] = 0
        return mean_rows(maps, trace) if trace.subject.task == "span" else maps[:, 0]


@register(
    "rollout@published",
    family="attention",
    needs={"attention"},
    paper=SONG,
    promise={"nonnegative", "zero_at_first", "not_about_target"},
)
@dataclass(frozen=True)
class PublishedRollout(FirstRow, Rollout):
    """Attention of the first position, its own score set to 0; for spans the mean over all rows, for each end."""

    per_end = True
    spans = False

    def scores(self, trace: Trace) -> Tensor:
        maps = [trace.attention[block].mean(1) for block in range(trace.subject.depth)]
        rollout = roll_out([normalise_rows(m + identity(m)) for m in maps]).clone()
        rollout[:, 0, 0] = 0
        return mean_rows(rollout, trace) if trace.subject.task == "span" else rollout[:, 0]


@register(
    "attention-cam@published",
    family="attention",
    needs={"attention_grad"},
    paper=SONG,
    promise=AttentionCAM.promise | {"zero_at_first"},
)
@dataclass(frozen=True)
class PublishedAttentionCAM(AsPublished, AttentionCAM):
    """The default method with the score of the first position set to 0."""

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "attention-gradcam@published",
    family="attention",
    needs={"attention", "attention_grad"},
    paper=SONG,
    promise=AttentionGradCAM.promise | {"zero_at_first"},
)
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


@register(
    "gae@chefer",
    family="attention",
    needs={"attention", "attention_grad"},
    paper="Chefer et al. 2021b (ICCV), rule 10",
)
@dataclass(frozen=True)
class CheferGAE(GAE):
    """The same as the default, except where a decoder attends to an encoder (see `nbsal.methods.crossing`)."""


@register("attcat@published", family="attention", needs={"attention", "hidden", "hidden_grad"}, paper=SONG)
@dataclass(frozen=True)
class PublishedAttCAT(AsPublished, AttCAT):
    """The same as the default, since the authors' code does what their paper says."""


@register(
    "lrp@published",
    family="relevance",
    needs=set(),
    paper=SONG,
    cost=PASSES,
    promise={"signed", "about_target", "zero_at_first"},
)
@dataclass(frozen=True)
class PublishedLRP(AsPublished, LRP):
    """Relevance under the published rules, with the score of the first position set to 0."""

    rules = PUBLISHED

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "lrp@chefer",
    family="relevance",
    needs=set(),
    paper=CHEFER,
    cost=PASSES,
    promise={"signed", "about_target", "zero_at_first"},
)
@dataclass(frozen=True)
class CheferLRP(LRP):
    """Relevance under the older rules of Chefer et al., with the score of the first position set to 0."""

    rules = CHEFER_RULES
    by_block = False

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "partial-lrp@published",
    family="relevance",
    needs=set(),
    paper=SONG,
    cost=PASSES,
    promise={"nonnegative", "about_target", "zero_at_first"},
)
@dataclass(frozen=True)
class PublishedPartialLRP(AsPublished, PartialLRP):
    """Relevance under the published rules, with the score of the first position set to 0."""

    rules = PUBLISHED

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "partial-lrp@chefer",
    family="relevance",
    needs=set(),
    paper=CHEFER,
    cost=PASSES,
    promise={"nonnegative", "about_target", "zero_at_first"},
)
@dataclass(frozen=True)
class CheferPartialLRP(PartialLRP):
    """Relevance under the older rules of Chefer et al., with the score of the first position set to 0."""

    rules = CHEFER_RULES
    by_block = False

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "transformer-attribution@published",
    family="relevance",
    needs={"attention_grad"},
    paper=SONG,
    cost=GRADIENT,
    promise={"nonnegative", "about_target"},
)
@dataclass(frozen=True)
class PublishedTransformerAttribution(AsPublished, TransformerAttribution):
    """Rollout of normalised rows, with the first position's own entry set to 0."""

    rules = PUBLISHED

    def scores(self, trace: Trace) -> Tensor:
        rollout = roll_out([normalise_rows(maps) for maps in self.maps(trace)], self.start_layer).clone()
        rollout[:, 0, 0] = 0
        return deciding_rows(rollout, trace)


@register(
    "transformer-attribution@chefer",
    family="relevance",
    needs={"attention_grad"},
    paper=CHEFER,
    cost=GRADIENT,
    promise={"nonnegative", "about_target"},
)
@dataclass(frozen=True)
class CheferTransformerAttribution(TransformerAttribution):
    """Rollout of normalised rows, with the first position's score replaced by the smallest one."""

    rules = PUBLISHED
    by_block = False

    def scores(self, trace: Trace) -> Tensor:
        scores = deciding_rows(roll_out([normalise_rows(m) for m in self.maps(trace)], self.start_layer), trace)
        for i, row in enumerate(trace.encoded):
            scores[i, 0] = scores[i, : len(row)].min()
        return scores


@dataclass(frozen=True)
class Unscaled:
    """Attention filter of the published mask, which only affects the blocks below and leaves the map unhalved."""

    mask: object

    def __call__(self, block: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
        selected = torch.as_tensor(self.mask.selected[block]).to(relevance)  # type: ignore[attr-defined]
        return 2 * relevance, relevance * selected[None, :, None, None]


@register(
    "mask-lrp@published",
    family="relevance",
    needs={"attention_grad"},
    paper=SONG,
    cost=GRADIENT,
    promise={"nonnegative", "about_target"},
)
@dataclass(frozen=True)
class PublishedMaskLRP(AsPublished, MaskLRP):
    """Mask-LRP as in the authors' program: no rescaling, and maps read before the mask and not halved."""

    rules = PUBLISHED

    def attention_filter(self, trace: Trace) -> AttentionFilter:
        return unfiltered if self.mask is None else Unscaled(self.mask)

    def scores(self, trace: Trace) -> Tensor:
        return PublishedTransformerAttribution.scores(self, trace)  # type: ignore[arg-type]


@register(
    "mask-lrp@equations",
    family="relevance",
    needs={"attention_grad", "relevance"},
    paper="Song et al. 2024, equations 9-10",
    promise={"nonnegative", "about_target"},
)
@dataclass(frozen=True)
class EquationsMaskLRP(MaskLRP):
    """The paper's equations to the letter: maps are read after the mask, and blocks without a head pass nothing on."""

    read: str = "after"
    empty: str = "block"
    joint: bool = True
