"""Relevance on its way through one real block (Song et al. 2024, Figure 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import ConnectionPatch
from numpy.typing import NDArray
from torch import Tensor

from nbsal import trace
from nbsal.errors import InputError, UnknownName
from nbsal.figures import style
from nbsal.lrp.mode import AttentionFilter
from nbsal.methods.relevance import MaskLRP
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.validation import Text

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Flow:
    """Relevance at a block's output and input, a token; and at its heads, before and after the mask.

    >>> import nbsal
    >>> len(through_block(nbsal.load("demo/reviews"), "A joy.", 2).arriving)
    12
    """

    block: int
    tokens: tuple[str, ...]
    target: str
    above: Floats  # [token], at the block's output
    arriving: Floats  # [head], where attention meets the values
    leaving: Floats  # [head], what the mask lets go on
    below: Floats  # [token], at the block's input
    unmasked: Floats  # [token], at the block's input without any mask
    kinds: tuple[int, ...]  # a role of `nbsal.figures.style` a head

    @property
    def beside(self) -> float:
        """What takes the way round attention, through the residual connection."""
        return float(self.above.sum() - self.arriving.sum())


def through_block(subject: Subject, text: Text, block: int, mask: HeadMask | None = None, target: Any = None) -> Flow:
    """What Mask-LRP sends through a block of a model, for one text; `mask` None is the model's own.

    >>> import nbsal
    >>> found = through_block(nbsal.load("demo/reviews"), "A joy.", 2)
    >>> bool(abs(found.above.sum() - 1) < 1e-6), bool(abs(found.arriving.sum() - found.leaving.sum()) < 1e-6)
    (True, True)
    """
    if block not in range(subject.depth):
        raise UnknownName("block", block, range(subject.depth))
    method = MaskLRP(mask=mask).resolve(subject)
    encoded = subject.encode(text)
    if len(encoded) != 1:
        raise InputError("One text flows through a block at a time.")
    read = trace.record(subject.double, encoded, [target], method.needs)
    seen: dict[int, tuple[Tensor, Tensor]] = {}
    masked: AttentionFilter = method.passage(read)

    def passage(number: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
        map_read, flows = masked(number, relevance)
        seen[number] = (relevance, flows)
        return map_read, flows

    hidden = read.relevance_maps(method.rules, passage).hidden
    own = method.mask
    assert own is not None, "a resolved method has a mask"
    arriving, leaving = (part[0].sum((1, 2)).cpu().numpy() for part in seen[block])
    return Flow(
        block,
        encoded[0].tokens,
        read.decisions[0].target.label,
        _by_token(hidden[block + 1]),
        arriving,
        leaving,
        _by_token(hidden[block]),
        _by_token(read.relevance[block]),
        tuple(_kind(own, block, head) for head in range(subject.heads)),
    )


@style.draw_figure
def relevance_flow(flow: Flow) -> Figure:
    """Figure 2: relevance from a block's output through its heads, of which the mask lets some go on, to its input.

    >>> import nbsal
    >>> figure = relevance_flow(through_block(nbsal.load("demo/reviews"), "A joy.", 2))
    >>> [ax.get_title().split(":")[0] for ax in figure.axes]
    ["block 2's output", 'attention heads', "block 2's input"]
    """
    room = ConstrainedLayoutEngine(rect=(0, 0, 0.95, 1))  # beside it go the arrows
    figure = Figure(figsize=(style.WIDTH, 6.4), layout=room)
    top, middle, bottom = figure.subplots(3, 1, height_ratios=(1, 1.3, 1.3))
    top.bar(range(len(flow.tokens)), flow.above, color=style.SHADES[style.NEITHER])
    style.titled(
        top, f"block {flow.block}'s output: relevance for {flow.target}, {flow.above.sum():.2f} in all", "", "relevance"
    )
    style.across(top, flow.tokens)
    _heads(middle, flow)
    places = np.arange(len(flow.tokens))
    bottom.bar(places - 0.2, flow.below, 0.4, color=style.hue(0), label="with the mask")
    bottom.bar(places + 0.2, flow.unmasked, 0.4, color="white", edgecolor="0.4", hatch="//", label="without a mask")
    style.titled(bottom, f"block {flow.block}'s input: {flow.below.sum():.2f} in all", "", "relevance")
    style.across(bottom, flow.tokens)
    bottom.legend(loc="best")
    for upper, lower in ((top, middle), (middle, bottom)):
        upper.axhline(0, color=style.GRID, linewidth=0.6)
        arrow = ConnectionPatch(
            (1.02, 0.5), (1.02, 0.5), "axes fraction", "axes fraction", axesA=upper, axesB=lower,
            connectionstyle="arc3,rad=-0.15", arrowstyle="-|>", mutation_scale=14, color="0.3", linewidth=1.5,
        )  # fmt: skip
        figure.add_artist(arrow)
    bottom.axhline(0, color=style.GRID, linewidth=0.6)
    return figure


def _heads(ax: Axes, flow: Flow) -> None:
    """A pair of bars a head, what arrives and what goes on, and the way round attention."""
    count = len(flow.arriving)
    ax.bar(np.arange(count) - 0.2, flow.arriving, 0.4, color="white", edgecolor="0.4", label="arrives")
    for kind in sorted(set(flow.kinds)):
        heads = [head for head in range(count) if flow.kinds[head] == kind]
        label = f"goes on, {style.ROLES[kind]}"
        bars: Any = {"color": style.SHADES[kind], "hatch": style.HATCHES[kind], "edgecolor": "white", "label": label}
        ax.bar(np.array(heads) + 0.2, flow.leaving[heads], 0.4, **bars)
    ax.bar(count + 0.5, flow.beside, 0.8, color="0.75", label="round attention")
    total = f"{flow.arriving.sum():.2f} arrive, {flow.leaving.sum():.2f} go on; {flow.beside:.2f} go round"
    style.titled(ax, f"attention heads: {total}", "head", "relevance")
    ax.set_xticks([*range(count), count + 0.5], [*map(str, range(count)), "residual"])
    ax.set_ylim(top=1.6 * ax.get_ylim()[1])  # room for the legend
    ax.legend(loc="upper left", ncols=3)


def _kind(mask: HeadMask, block: int, head: int) -> int:
    syntactic = bool((mask.syntactic | mask.unnamed)[block, head])
    positional = bool(mask.positional[block, head])
    if syntactic and positional:
        return style.BOTH
    return style.SYNTACTIC if syntactic else style.POSITIONAL if positional else style.NEITHER


def _by_token(hidden: Tensor) -> Floats:
    """[batch, position, width] -> [position] of the first text."""
    found: Floats = hidden[0].sum(-1).double().cpu().numpy()
    return found
