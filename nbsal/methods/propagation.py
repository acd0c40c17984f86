"""Layer-wise relevance propagation, and the methods of Chefer et al. and Song et al. that build on it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from nbsal.methods.attention import beside, deciding_positions, deciding_rows, has_two_sides, identity
from nbsal.methods.base import Method, one_of, register, satisfies, setting
from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.passes.changed_gradients import ATTN_LRP, GradientRules
from nbsal.passes.lrp.mode import AttentionFilter, unfiltered
from nbsal.passes.lrp.rules import DEFAULT, Rules
from nbsal.passes.positions import position_tables
from nbsal.passes.stream import Block
from nbsal.passes.trace import Trace
from nbsal.support.errors import InputError, ModelError, UnknownName
from nbsal.support.validation import whole_number

READ, EMPTY = one_of("before", "after"), one_of("pass", "block")  # checks of Mask-LRP's settings


@dataclass(frozen=True)
class RelevanceMethod(Method):
    """A method that reads relevance under its rules, by default in float64 on a copy of the model.

    `dtype="mixed"` multiplies in float32 where the summands of a product are all positive, which moves scores by some
    millionths; "float64" multiplies in float64 everywhere. "model" is the model's own precision, in which relevance is
    noisy below the top blocks if that is float32.
    """

    rules: ClassVar[Rules] = DEFAULT
    contrasts: ClassVar[bool] = True  # whether the scores of a difference of outputs have a meaning
    family = "relevance"
    per_end = True
    by_block = True

    dtype: str = setting("mixed", one_of("mixed", "float64", "model"))

    def resolve(self, subject: Subject) -> Self:
        if self.dtype == "model" and subject.dtype in (torch.bfloat16, torch.float16):
            message = (
                f"dtype='model', but {subject.name} is in half precision, too coarse for relevance. Use 'float64'."
            )
            raise InputError(message, argument="dtype", value=self.dtype)
        return super().resolve(subject)

    def subject_for(self, subject: Subject) -> Subject:
        plain = subject.merged
        if self.dtype == "model":
            return plain
        return plain.mixed if self.dtype == "mixed" else plain.double

    def total(self, trace: Trace) -> Tensor:
        contrast = next((each.target for each in trace.decisions if each.target.is_contrast), None)
        if contrast is not None and not self.contrasts:
            message = (
                f"{self.name} explains single outputs, and {contrast.label!r} is a difference of outputs, whose parts "
                "cancel. Explain each output by itself, or the difference by attn-lrp, integrated or occlusion."
            )
            raise InputError(message, argument="target", value=contrast.label)
        return super().total(trace)

    def attention_filter(self, trace: Trace) -> AttentionFilter:
        """How relevance is changed where attention is multiplied with the values."""
        return unfiltered


@register(
    "lrp",
    needs={"relevance"},
    paper="Voita et al. 2019",
    cost=Cost(1, relevance=1),
    promise={"signed", "about_target", "sums_to_1_per_decision", "conserves_relevance"},
)
@dataclass(frozen=True)
class LRP(RelevanceMethod):
    """Relevance of the embedding at each position."""

    facts = Facts("LRP", look=17)

    shares = "graph"
    contrasts = False

    def scores(self, trace: Trace) -> Tensor:
        return trace.first_block("relevance", rules=self.rules)["relevance"].sum(-1)


@dataclass(frozen=True)
class InputXGradient(RelevanceMethod):
    """Relevance of the embedding at each position as its product with a changed gradient (see `GradientRules`).

    No sum is divided by, so float32 suffices: "mixed" is the precision of the model's own weights, or float32 of a
    model in half precision, whose blocks are converted while they run.
    """

    shares = "pass"
    linear = True
    per_end = False

    @property
    def gradients(self) -> GradientRules:
        """How the gradients of the model are changed."""
        return ATTN_LRP

    def subject_for(self, subject: Subject) -> Subject:
        plain = subject.merged
        if self.dtype == "float64":
            plain = plain.double
        elif plain.dtype in (torch.bfloat16, torch.float16):
            plain = plain.single
        return plain.with_gradients(self.gradients)

    def layers(self, depth: int) -> set[int]:
        return {0}

    def scores(self, trace: Trace) -> Tensor:
        embedding = trace.first_block("hidden", "hidden_grad")
        return (embedding["hidden"] * embedding["hidden_grad"]).sum(-1)


@register(
    "attn-lrp",
    needs={"hidden", "hidden_grad"},
    paper="Achtibat et al. 2024",
    cost=Cost(1, backwards=1),
    promise={"signed", "about_target", "sums_to_output_less_absorbed"},
)
@dataclass(frozen=True)
class AttnLRP(InputXGradient):
    """Relevance of the embedding at each position under the rules of AttnLRP, which also propagate through softmax.

    Relevance begins with the explained output, a logit or a difference of logits. The provenance says what biases and
    softmax have `absorbed`: with it, the scores sum to the output.

    >>> import nbsal
    >>> saliency = nbsal.Explainer(nbsal.load("demo/reviews"), "attn-lrp")("A joy.")
    >>> round(float(saliency.scores.sum() + saliency.provenance["absorbed"]), 1)  # the logit
    3.2
    """

    facts = Facts(
        "AttnLRP",
        "Carries the output back through the whole model: what each word adds or takes, in two passes. A good start.",
        look=21,
        recommended=1,
        start="why a transformer decided or replied so: signed, about two passes",
        default_for={"decisions": 1, "replies": 1},
        replies=2,
    )

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        absorbed = trace.values - self.total(trace).sum(1)
        pairs = zip(super().notes(trace), absorbed.tolist(), strict=True)
        return [note | {"absorbed": rest} for note, rest in pairs]


@register(
    "pa-lrp",
    needs=set(),
    paper="Bakish et al. 2025",
    cost=Cost(2, backwards=1),
    promise={"signed", "about_target"},
)
@dataclass(frozen=True)
class PositionAwareLRP(InputXGradient):
    """Relevance of the token at each position under the rules of AttnLRP, plus the size of that of the position itself.

    Where positions rotate queries and keys, every block has its own relevance at cosines and at sines, whose sizes are
    added. Sizes have no sign, so the scores do not sum to the output; the provenance says how much of their sum is that
    of `positions`.
    """

    facts = Facts("PA-LRP (tokens and positions)", look=31)

    contrasts = False
    shares = "graph"
    linear = False
    by_block = False

    def layers(self, depth: int) -> set[int]:
        return set()

    def resolve(self, subject: Subject) -> Self:
        if not position_tables(subject.model):
            message = f"{subject.name} has no positions that are separate from its tokens. Use attn-lrp."
            raise ModelError(message, part="positions")
        return super().resolve(subject)

    def scores(self, trace: Trace) -> Tensor:
        tokens, positions = trace.separate()
        return tokens + positions

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        _, positions = trace.separate()
        pairs = zip(super().notes(trace), positions.sum(1).tolist(), strict=True)
        return [note | {"positions": size} for note, size in pairs]


@register(
    "gim",
    needs={"hidden", "hidden_grad"},
    paper="Edin et al. 2025",
    cost=Cost(1, backwards=1),
    promise={"signed", "about_target"},
)
@dataclass(frozen=True)
class GIM(InputXGradient):
    """Gradient times embedding, with a gradient that is changed at softmax, products and norms.

    Where attention is sure of a key, the gradient of softmax is close to 0; that of a softmax with a raised
    `temperature` is not. Both factors of a product share its gradient, and the scale of norms counts as a constant. The
    scores do not sum to the output, and a position that attention ignores altogether may have a score.
    """

    facts = Facts("GIM", look=30)

    temperature: float = setting(2.0, satisfies("more than 0", lambda x: x > 0))

    @property
    def gradients(self) -> GradientRules:
        return GradientRules(temperature=self.temperature)


@register(
    "partial-lrp",
    needs={"relevance"},
    paper="Voita et al. 2019",
    cost=Cost(1, relevance=1),
    promise={"nonnegative", "about_target", "conserves_relevance"},
)
@dataclass(frozen=True)
class PartialLRP(RelevanceMethod):
    """Relevance of the last block's attention, propagated no further down."""

    facts = Facts("Partial LRP", look=18)

    shares = "graph"
    contrasts = False

    def scores(self, trace: Trace) -> Tensor:
        if has_two_sides(trace):
            last = beside(trace, trace.relevance_maps(self.rules).attention)
        else:
            last = next(trace.blocks("relevance", "attention_relevance", rules=self.rules))["attention_relevance"]
        return deciding_rows(last.relu().mean(1), trace)


@register(
    "transformer-attribution",
    needs={"attention_grad", "relevance"},
    paper="Chefer et al. 2021a (CVPR)",
    cost=Cost(1, backwards=1, relevance=1),
    promise={"nonnegative", "about_target", "conserves_relevance"},
)
@dataclass(frozen=True)
class TransformerAttribution(RelevanceMethod):
    """Relevance of attention times its gradient, where positive, rolled out through the blocks."""

    facts = Facts(
        "Transformer attribution",
        "Follows relevance and attention through all blocks to the words. Positive scores only.",
        look=8,
        recommended=7,
    )

    start_layer: int = 0

    def resolve(self, subject: Subject) -> Self:
        start = whole_number(self.start_layer, "start_layer")
        if start not in range(subject.depth):
            raise UnknownName("start_layer", start, range(subject.depth))
        return replace(super().resolve(subject), start_layer=start)

    def blocks(self, trace: Trace) -> Iterator[Block]:
        """What the method reads of every block, from the last to the first."""
        parts = ("relevance", "mean_relevance_evidence")
        return trace.blocks(*parts, rules=self.rules, attention_filter=self.attention_filter(trace))

    def maps(self, trace: Trace) -> list[Tensor]:
        """One map per block, [batch, query, key]: the identity plus the evidence for the target."""
        evidence = [block["mean_relevance_evidence"] for block in self.blocks(trace)][::-1]
        return [identity(each) + each for each in evidence]

    def scores(self, trace: Trace) -> Tensor:
        rows = deciding_positions(trace).sum(1, keepdim=True)
        for block in islice(self.blocks(trace), trace.subject.depth - self.start_layer):
            rows = rows + rows @ block["mean_relevance_evidence"].to(rows)
        return rows[:, 0]


@register(
    "mask-lrp",
    needs={"attention_grad", "relevance"},
    paper="Song et al. 2024",
    cost=Cost(1, backwards=1, relevance=1),
    promise={"nonnegative", "about_target", "conserves_relevance"},
)
@dataclass(frozen=True)
class MaskLRP(TransformerAttribution):
    """Transformer attribution in which only heads that follow syntax or position pass relevance on.

    `read` says whether a block's map is read "before" its own mask is applied (then the mask only affects the blocks
    below) or "after". `empty` says whether a block without a selected head lets all relevance "pass" or stops it
    ("block"). `weighted` counts a head once for each relation it follows. `joint` divides by the absolute value of the
    sum instead of the sum of absolute values, as in the paper's equation; this does not conserve relevance where the
    two parts have different signs.
    """

    facts = Facts(
        "Mask-LRP",
        "Passes relevance through the attention heads you choose; use it with the heads view.",
        look=1,
        recommended=8,
        explains_replies=False,
    )

    mask: Any = None  # a HeadMask, which `resolve` checks; None: the subject's mask
    read: str = setting("before", READ)
    renormalise: bool = True
    empty: str = setting("pass", EMPTY)
    weighted: bool = False
    joint: bool = False

    def resolve(self, subject: Subject) -> Self:
        mask = subject.mask if self.mask is None else self.mask
        if mask is None:
            message = (
                f"{self.name} needs a head mask. Pass mask=nbsal.heads.discover(subject, parses) to "
                f"nbsal.Explainer(subject, {self.name!r}, mask=...)."
            )
            raise InputError(message, argument="mask", value=mask)
        if not isinstance(mask, HeadMask):
            message = f"mask must be a HeadMask, not {type(mask).__name__}. Convert an array with HeadMask.from_array."
            raise InputError(message, argument="mask", value=mask)
        if mask.shape != (subject.depth, subject.heads):
            message = (
                f"mask has the shape {mask.shape}, but the model has {subject.depth} blocks of {subject.heads} heads."
            )
            raise InputError(message, argument="mask", value=mask)
        return replace(super().resolve(subject), mask=mask)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"mask": self.mask and repr(self.mask)}

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        assert self.mask is not None, "resolve the method first"
        return [note | {"heads": np.argwhere(self.mask.selected).tolist()} for note in super().notes(trace)]

    def attention_filter(self, trace: Trace) -> AttentionFilter:
        return self.pass_on

    def pass_on(self, block: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
        """The relevance that the map of a block is read from, and what its selected heads pass on."""
        assert self.mask is not None, "resolve the method first"
        parts = [torch.as_tensor(part[block]).to(relevance) for part in self.mask.parts(self.weighted)]
        if not any(part.any() for part in parts):
            passed = relevance if self.empty == "pass" else torch.zeros_like(relevance)
        else:
            shares = [relevance * part[None, :, None, None] for part in parts]
            passed = self._rescale(relevance, shares) if self.renormalise else torch.stack(shares).sum(0)
        return (relevance if self.read == "before" else passed), passed

    def _rescale(self, relevance: Tensor, shares: list[Tensor]) -> Tensor:
        """Scale the shares so that their sum has the same total as the block's relevance."""
        total = _sum(relevance)
        sums = [_sum(share) for share in shares]
        size = torch.stack(sums).sum(0).abs() if self.joint else torch.stack(sums).abs().sum(0)
        scales = [torch.where(part * size == 0, 0.0, part.abs() / size * (total / part)) for part in sums]
        return torch.stack([share * scale for share, scale in zip(shares, scales, strict=True)]).sum(0)


def _sum(relevance: Tensor) -> Tensor:
    return relevance.sum((1, 2, 3), keepdim=True)
