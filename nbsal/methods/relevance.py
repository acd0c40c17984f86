"""Relevance methods: propagation on stock models, and what Chefer et al. and Song et al. make of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from nbsal.errors import InputError, UnknownName
from nbsal.lrp.mode import AttentionFilter, unfiltered
from nbsal.lrp.rules import ATTN, DEFAULT, Rules
from nbsal.methods.attention import deciding_rows, identity, rolled_out
from nbsal.methods.base import Method, register
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.trace import Trace
from nbsal.validation import whole_number


@dataclass(frozen=True)
class RelevanceMethod(Method):
    """A method that reads relevance under some rules, in float64 on a copy of the model unless told otherwise."""

    rules: ClassVar[Rules] = DEFAULT
    per_end = True

    dtype: str = "float64"  # "model": the model's own precision; below the top blocks float32 relevance is noisy

    def resolve(self, subject: Subject) -> Self:
        if self.dtype not in ("float64", "model"):
            raise UnknownName("dtype of relevance", self.dtype, ("float64", "model"))
        return self

    def subject_for(self, subject: Subject) -> Subject:
        return subject.double if self.dtype == "float64" else subject

    def passage(self, trace: Trace) -> AttentionFilter:
        """What happens where attention meets the values."""
        return unfiltered


@register(
    "lrp",
    family="relevance",
    needs={"relevance"},
    paper="Voita et al. 2019",
    cost="1, and 3 backwards, in float64",
    promise="signed; sums to 1 for each deciding position",
)
@dataclass(frozen=True)
class LRP(RelevanceMethod):
    """Relevance of each position's embedding, signed."""

    def scores(self, trace: Trace) -> Tensor:
        return trace.relevance_maps(self.rules).hidden[0].sum(-1)


@register(
    "attn-lrp",
    family="relevance",
    needs=set(),
    paper="Achtibat et al. 2024",
    cost="2, and 1 backward, in float64",
    promise="signed; about the target",
)
@dataclass(frozen=True)
class AttnLRP(LRP):
    """Relevance of each position's embedding under the rules of AttnLRP: all contributions, softmax expanded."""

    rules = ATTN


@register(
    "partial-lrp",
    family="relevance",
    needs={"relevance"},
    paper="Voita et al. 2019",
    cost="1, and 3 backwards, in float64",
    promise="0 or more; about the target, in the last block",
)
@dataclass(frozen=True)
class PartialLRP(RelevanceMethod):
    """Relevance of the last block's attention, followed no further down."""

    def scores(self, trace: Trace) -> Tensor:
        maps = trace.relevance_maps(self.rules).attention[trace.subject.depth - 1]
        return deciding_rows(maps.relu().mean(1), trace)


@register(
    "transformer-attribution",
    family="relevance",
    needs={"attention_grad", "relevance"},
    paper="Chefer et al. 2021",
    cost="1, and 4 backwards, in float64",
    promise="0 or more; about the target",
)
@dataclass(frozen=True)
class TransformerAttribution(RelevanceMethod):
    """Relevance of attention where its gradient agrees, rolled out through the blocks."""

    start_layer: int = 0

    def resolve(self, subject: Subject) -> Self:
        start = whole_number(self.start_layer, "start_layer")
        if start not in range(subject.depth):
            raise UnknownName("start_layer", start, range(subject.depth))
        return replace(super().resolve(subject), start_layer=start)

    def maps(self, trace: Trace) -> list[Tensor]:
        """One map a block, [batch, query, key]: the identity, and what speaks for the target."""
        relevance = trace.relevance_maps(self.rules, self.passage(trace)).attention
        found = []
        for block in range(trace.subject.depth):
            evidence = (trace.attention_grad[block] * relevance[block]).relu().mean(1)
            found.append(evidence + identity(evidence))
        return found

    def scores(self, trace: Trace) -> Tensor:
        return deciding_rows(rolled_out(self.maps(trace), self.start_layer), trace)


@dataclass(frozen=True)
class MaskSettings:
    """What flows on from a block when only selected heads pass relevance; hashable, so that traces can share it."""

    mask: HeadMask
    read: str
    renormalise: bool
    empty: str
    weighted: bool
    joint: bool

    def __call__(self, block: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
        parts = [torch.as_tensor(part[block]).to(relevance) for part in self.mask.parts(self.weighted)]
        if not any(part.any() for part in parts):
            flows = relevance if self.empty == "pass" else torch.zeros_like(relevance)
        else:
            shares = [relevance * part[None, :, None, None] for part in parts]
            flows = self._rescaled(relevance, shares) if self.renormalise else torch.stack(shares).sum(0)
        return (relevance if self.read == "before" else flows), flows

    def _rescaled(self, relevance: Tensor, shares: list[Tensor]) -> Tensor:
        """Each share scaled so that together they keep the block's total."""
        total = _sum(relevance)
        sums = [_sum(share) for share in shares]
        whole = torch.stack(sums).sum(0).abs() if self.joint else torch.stack(sums).abs().sum(0)
        scales = [torch.where(one * whole == 0, 0.0, one.abs() / whole * (total / one)) for one in sums]
        return torch.stack([share * scale for share, scale in zip(shares, scales, strict=True)]).sum(0)


def _sum(relevance: Tensor) -> Tensor:
    return relevance.sum((1, 2, 3), keepdim=True)


@register(
    "mask-lrp",
    family="relevance",
    needs={"attention_grad", "relevance"},
    paper="Song et al. 2024",
    cost="1, and 4 backwards, in float64",
    promise="0 or more; about the target; relevance keeps its total under the mask",
)
@dataclass(frozen=True)
class MaskLRP(TransformerAttribution):
    """Transformer attribution in which only heads that follow syntax or position pass relevance on.

    `read`: a block's map is read "before" its own mask acts (the mask refines what reaches the blocks below) or
    "after". `empty`: a block with no selected head lets everything "pass", or sends nothing ("block"). `weighted`
    counts a head once for each relation it follows. `joint` divides by the size of the sum instead of the sum of sizes,
    as the paper's equation has it; totals are then lost where both parts have different signs.
    """

    mask: HeadMask | None = None  # None: the subject's own
    read: str = "before"
    renormalise: bool = True
    empty: str = "pass"
    weighted: bool = False
    joint: bool = False

    def resolve(self, subject: Subject) -> Self:
        mask = subject.mask if self.mask is None else self.mask
        if mask is None:
            raise InputError(
                f"{self.name} needs a head mask: nbsal.Explainer(subject, {self.name!r}, mask=...), found by "
                f"nbsal.heads.discover(subject, parses)."
            )
        if not isinstance(mask, HeadMask):
            raise InputError(
                f"mask must be a HeadMask, not {type(mask).__name__}: an array becomes one by "
                "nbsal.heads.HeadMask.from_array(array)."
            )
        if mask.shape != (subject.depth, subject.heads):
            raise InputError(f"The head mask has the shape {mask.shape}, the model {(subject.depth, subject.heads)}.")
        if self.read not in ("before", "after"):
            raise UnknownName("reading", self.read, ("before", "after"))
        if self.empty not in ("pass", "block"):
            raise UnknownName("way to treat empty blocks", self.empty, ("pass", "block"))
        return replace(super().resolve(subject), mask=mask)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"mask": self.mask and repr(self.mask)}

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        assert self.mask is not None, "resolve the method first"
        return [{"heads": np.argwhere(self.mask.selected).tolist()} for _ in trace.encoded]

    def passage(self, trace: Trace) -> AttentionFilter:
        assert self.mask is not None, "resolve the method first"
        return MaskSettings(self.mask, self.read, self.renormalise, self.empty, self.weighted, self.joint)
