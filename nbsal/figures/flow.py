"""Relevance through one block of a model, head by head (Song et al. 2024, Figure 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nbsal.figures import style
from nbsal.methods.propagation import MaskLRP
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.passes import trace
from nbsal.passes.lrp.mode import AttentionFilter, RelevanceMaps
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.validation import Text, checked


@dataclass(frozen=True, eq=False)
class Flow:
    """Relevance of each token at the output and the input of a block, and of each head before and after the mask.

    >>> import nbsal
    >>> len(through_block(nbsal.load("demo/reviews"), "A joy.", 2).heads_before_mask)
    12
    """

    block: int
    tokens: tuple[str, ...]
    target: str
    output: Floats  # [token], at the output of the block
    heads_before_mask: Floats  # [head], where attention is applied to the values
    heads_after_mask: Floats  # [head], what the mask lets through
    input: Floats  # [token], at the input of the block
    input_without_mask: Floats  # [token], at the input without any mask
    roles: tuple[int, ...]  # [head], indices into `nbsal.figures.style.ROLES`

    @property
    def residual(self) -> float:
        """Relevance that bypasses attention through the residual connection."""
        return float(self.output.sum() - self.heads_before_mask.sum())


@checked
def through_block(subject: Subject, text: Text, block: int, mask: HeadMask | None = None, target: Any = None) -> Flow:
    """Record the relevance that Mask-LRP propagates through a block for one text.

    Without `mask`, the model's own head mask is used; without `target`, the predicted class is explained.

    >>> import nbsal
    >>> flow = through_block(nbsal.load("demo/reviews"), "A joy.", 2)
    >>> before, after = flow.heads_before_mask.sum(), flow.heads_after_mask.sum()
    >>> round(float(flow.output.sum()), 6), bool(abs(before - after) < 1e-6)
    (1.0, True)
    """
    if block not in range(subject.depth):
        raise UnknownName("block", block, range(subject.depth))
    method = MaskLRP(mask=mask).resolve(subject)
    encoded = subject.encode(text)
    if len(encoded) != 1:
        raise InputError("through_block takes one text at a time.", argument="text", value=text)
    recorded = trace.record(subject.double, encoded, [target], method.needs)
    maps, heads = attention_relevance(recorded, method)
    hidden = maps.hidden
    assert method.mask is not None, "a resolved method has a mask"
    before_mask, after_mask = (part[0].sum((1, 2)).cpu().numpy() for part in heads[block])
    return Flow(
        block,
        encoded[0].tokens,
        recorded.decisions[0].target.label,
        _token_sums(hidden[block + 1]),
        before_mask,
        after_mask,
        _token_sums(hidden[block]),
        _token_sums(recorded.relevance[block]),
        tuple(style.head_roles(method.mask)[block].tolist()),
    )


def attention_relevance(
    recorded: trace.Trace, method: MaskLRP
) -> tuple[RelevanceMaps, dict[int, tuple[Tensor, Tensor]]]:
    """Relevance under Mask-LRP, and what every block has where attention is multiplied with the values.

    For each block these are what arrives and what the mask lets through, [batch, head, position, features of a head].

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "mask-lrp")
    >>> encoded = explain.subject.encode("A joy.")
    >>> recorded = nbsal.trace.record(explain.method_subject, encoded, [None], explain.method.needs)
    >>> maps, heads = attention_relevance(recorded, explain.method)
    >>> arriving, passed = heads[2]
    >>> bool(abs(arriving.sum() - passed.sum()) < 1e-6)  # the mask is rescaled to the total
    True
    """
    mask_heads: AttentionFilter = method.attention_filter(recorded)
    heads: dict[int, tuple[Tensor, Tensor]] = {}

    def attention_filter(number: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
        relevance_map, passed = mask_heads(number, relevance)
        heads[number] = (relevance, passed)
        return relevance_map, passed

    return recorded.relevance_maps(method.rules, attention_filter), heads


@style.draw_figure
def relevance_flow(flow: Flow) -> Figure:
    """Figure 2: relevance from the output of a block, through the heads that the mask selects, to its input.

    >>> import nbsal
    >>> figure = relevance_flow(through_block(nbsal.load("demo/reviews"), "A joy.", 2))
    >>> [ax.get_title().split(":")[0] for ax in figure.axes]
    ["block 2's output", 'attention heads', "block 2's input"]
    """
    figure = Figure(figsize=(style.WIDTH, 6.4), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, height_ratios=(1, 1.3, 1.3))
    top.bar(range(len(flow.tokens)), flow.output, color=style.ROLE_COLOURS[style.NEITHER])
    title = f"block {flow.block}'s output: relevance for {flow.target}, {flow.output.sum():.2f} in total"
    style.set_titles(top, title, "", "relevance")
    style.label_columns(top, flow.tokens)
    _draw_heads(middle, flow)
    positions = np.arange(len(flow.tokens))
    unmasked: Any = {"color": "white", "edgecolor": "0.4", "hatch": "//", "label": "without a mask"}
    bottom.bar(positions - 0.2, flow.input, 0.4, color="0.35", label="with the mask")
    bottom.bar(positions + 0.2, flow.input_without_mask, 0.4, **unmasked)
    style.set_titles(bottom, f"block {flow.block}'s input: {flow.input.sum():.2f} in total", "", "relevance")
    style.label_columns(bottom, flow.tokens)
    bottom.legend(loc="best")
    for panel in (top, middle, bottom):
        panel.axhline(0, color=style.LINE_GREY, linewidth=0.6)
    return figure


def _draw_heads(ax: Axes, flow: Flow) -> None:
    """Draw two bars per head, before and after the mask.

    What bypasses attention is only in the title: it is many times what a head passes, and its bar would hide theirs.
    """
    count = len(flow.heads_before_mask)
    ax.bar(np.arange(count) - 0.2, flow.heads_before_mask, 0.4, color="white", edgecolor="0.4", label="before the mask")
    for role in sorted(set(flow.roles)):
        heads = [head for head in range(count) if flow.roles[head] == role]
        if not flow.heads_after_mask[heads].any():
            continue
        label = f"after the mask, {style.ROLES[role]}"
        colours: Any = {"color": style.ROLE_COLOURS[role], "hatch": style.ROLE_HATCHES[role], "edgecolor": "white"}
        ax.bar(np.array(heads) + 0.2, flow.heads_after_mask[heads], 0.4, label=label, **colours)
    before, after = flow.heads_before_mask.sum(), flow.heads_after_mask.sum()
    total = f"{before:.2f} before the mask, {after:.2f} after; {flow.residual:.2f} bypasses attention"
    style.set_titles(ax, f"attention heads: {total}", "head", "relevance")
    ax.set_xticks(range(count))
    ax.set_ylim(top=1.5 * ax.get_ylim()[1])  # leaves space for the legend
    ax.legend(loc="upper left", ncols=3)


def _token_sums(hidden: Tensor) -> Floats:
    """Sum [batch, position, width] over the width, for the first text."""
    sums: Floats = hidden[0].sum(-1).double().cpu().numpy()
    return sums
