"""The same methods exactly as the papers' own programs ran them, defects included, to reproduce their rows.

`@published` is the Mask-LRP authors' program, `@chefer` that of Chefer et al.; both zero the first position. The former
counts RoBERTa's positions from 0, so that it explains another model than the one that was trained.
They stand beside the defaults and never in one table with them unmarked.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from nbsal.errors import ModelError
from nbsal.lrp.mode import AttentionFilter, unfiltered
from nbsal.lrp.rules import PUBLISHED, TWOFOLD
from nbsal.methods.attention import (
    AttCAT,
    AttentionCAM,
    AttentionGradCAM,
    RawAttention,
    Rollout,
    deciding_rows,
    identity,
    rolled_out,
    row_normalised,
)
from nbsal.methods.base import Method, register
from nbsal.methods.relevance import LRP, MaskLRP, PartialLRP, TransformerAttribution
from nbsal.model.subject import Subject
from nbsal.trace import Trace

SONG = "Song et al. 2024, as published"
CHEFER = "Chefer et al. 2021, as published"
PASSES = "2, and 1 backward, in float64"
GRADIENT = "2, and 2 backwards, in float64"


class AsPublished(Method):
    """A method that reads models as the Mask-LRP authors' program did."""

    def subject_for(self, subject: Subject) -> Subject:
        return super().subject_for(subject).as_published


class FirstRow(AsPublished):
    """One of them that reads what the first position attends to, its own entry being zeroed."""

    spans: ClassVar[bool] = True  # for spans too: the others then read the mean over all rows

    def resolve(self, subject: Subject) -> Self:
        if subject.causal and (self.spans or subject.task != "span"):
            raise ModelError(
                f"{self.name} reads what the first position attends to beside itself, which is nothing in causal "
                f"models such as {subject.name}: explain with {self.name.partition('@')[0]}."
            )
        return super().resolve(subject)


def first_zeroed(scores: Tensor) -> Tensor:
    """The scores with nothing at the first position."""
    return torch.cat((torch.zeros_like(scores[:, :1]), scores[:, 1:]), 1)


def mean_rows(maps: Tensor, trace: Trace) -> Tensor:
    """The mean over a text's own queries, [batch, position]."""
    return torch.stack([maps[i, : len(row)].mean(0) for i, row in enumerate(trace.encoded)])


@register(
    "raw-attention@published",
    family="attention",
    needs={"attention"},
    paper=SONG,
    promise="0 or more; 0 at the first position; not about the target",
)
@dataclass(frozen=True)
class PublishedRawAttention(FirstRow, RawAttention):
    """Row of the first position, which is zeroed; for spans the mean over all rows, once for each end."""

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
    promise="0 or more; 0 at the first position; not about the target",
)
@dataclass(frozen=True)
class PublishedRollout(FirstRow, Rollout):
    """Row of the first position, which is zeroed; for spans the mean over all rows, once for each end."""

    per_end = True
    spans = False

    def scores(self, trace: Trace) -> Tensor:
        maps = [trace.attention[block].mean(1) for block in range(trace.subject.depth)]
        joined = rolled_out([row_normalised(m + identity(m)) for m in maps]).clone()
        joined[:, 0, 0] = 0
        return mean_rows(joined, trace) if trace.subject.task == "span" else joined[:, 0]


@register("attention-cam@published", family="attention", needs={"attention_grad"}, paper=SONG)
@dataclass(frozen=True)
class PublishedAttentionCAM(AsPublished, AttentionCAM):
    """The default with the first position zeroed."""

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register("attention-gradcam@published", family="attention", needs={"attention", "attention_grad"}, paper=SONG)
@dataclass(frozen=True)
class PublishedAttentionGradCAM(FirstRow, AttentionGradCAM):
    """Scaled to 0..1 over the whole map, 0/0 and all; the first position is zeroed."""

    def scores(self, trace: Trace) -> Tensor:
        maps = self.maps(trace)
        for i, row in enumerate(trace.encoded):
            own = maps[i, : len(row), : len(row)]
            maps[i, : len(row), : len(row)] = (own - own.min()) / (own.max() - own.min())
        return first_zeroed(maps[:, 0])


@register("attcat@published", family="attention", needs={"attention", "hidden", "hidden_grad"}, paper=SONG)
@dataclass(frozen=True)
class PublishedAttCAT(AsPublished, AttCAT):
    """The same as the default: its authors' code does what their paper says."""


@register(
    "lrp@published",
    family="relevance",
    needs=set(),
    paper=SONG,
    cost=PASSES,
    promise="signed; 0 at the first position",
)
@dataclass(frozen=True)
class PublishedLRP(AsPublished, LRP):
    """Under the published rules, the first position zeroed."""

    rules = PUBLISHED

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "lrp@chefer",
    family="relevance",
    needs=set(),
    paper=CHEFER,
    cost=PASSES,
    promise="signed; 0 at the first position",
)
@dataclass(frozen=True)
class CheferLRP(LRP):
    """Under the older rules, each sign with its own denominator; the first position zeroed."""

    rules = TWOFOLD

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "partial-lrp@published",
    family="relevance",
    needs=set(),
    paper=SONG,
    cost=PASSES,
)
@dataclass(frozen=True)
class PublishedPartialLRP(AsPublished, PartialLRP):
    """Under the published rules, row of the first position, which is zeroed."""

    rules = PUBLISHED

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "partial-lrp@chefer",
    family="relevance",
    needs=set(),
    paper=CHEFER,
    cost=PASSES,
)
@dataclass(frozen=True)
class CheferPartialLRP(PartialLRP):
    """Under the older rules, each sign with its own denominator; the first position zeroed."""

    rules = TWOFOLD

    def scores(self, trace: Trace) -> Tensor:
        return first_zeroed(super().scores(trace))


@register(
    "transformer-attribution@published",
    family="relevance",
    needs={"attention_grad"},
    paper=SONG,
    cost=GRADIENT,
)
@dataclass(frozen=True)
class PublishedTransformerAttribution(AsPublished, TransformerAttribution):
    """Rows normalised, the first position's own entry zeroed before its row is read."""

    rules = PUBLISHED

    def scores(self, trace: Trace) -> Tensor:
        joined = rolled_out([row_normalised(maps) for maps in self.maps(trace)], self.start_layer)
        joined = joined.clone()
        joined[:, 0, 0] = 0
        return deciding_rows(joined, trace)


@register(
    "transformer-attribution@chefer",
    family="relevance",
    needs={"attention_grad"},
    paper=CHEFER,
    cost=GRADIENT,
)
@dataclass(frozen=True)
class CheferTransformerAttribution(TransformerAttribution):
    """Rows normalised, the first position's own entry replaced by the row's least."""

    rules = PUBLISHED

    def scores(self, trace: Trace) -> Tensor:
        scores = deciding_rows(rolled_out([row_normalised(m) for m in self.maps(trace)], self.start_layer), trace)
        for i, row in enumerate(trace.encoded):
            scores[i, 0] = scores[i, : len(row)].min()
        return scores


@dataclass(frozen=True)
class Unscaled:
    """The published mask: it acts below a block's own map, and that map is not halved."""

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
)
@dataclass(frozen=True)
class PublishedMaskLRP(AsPublished, MaskLRP):
    """As the authors' program runs it: no rescaling, maps read before the mask and not halved."""

    rules = PUBLISHED

    def passage(self, trace: Trace) -> AttentionFilter:
        return unfiltered if self.mask is None else Unscaled(self.mask)

    def scores(self, trace: Trace) -> Tensor:
        return PublishedTransformerAttribution.scores(self, trace)  # type: ignore[arg-type]


@register(
    "mask-lrp@equations",
    family="relevance",
    needs={"attention_grad", "relevance"},
    paper="Song et al. 2024, equations 9-10",
)
@dataclass(frozen=True)
class EquationsMaskLRP(MaskLRP):
    """The paper's equations to the letter: maps are read after the mask, and blocks without a head send nothing."""

    read: str = "after"
    empty: str = "block"
    joint: bool = True
