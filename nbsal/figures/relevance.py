"""Maps of "Transformer Interpretability Beyond Attention Visualization" (Chefer et al. 2021), its part on text.

`relevance_maps` are the maps of every block and what they roll out to; `rollout_maps` sets attention rollout beside
them; `class_maps` shows one text explained for several classes; `conservation` follows relevance block by block.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nbsal import trace
from nbsal.errors import InputError
from nbsal.figures import style, text_lines
from nbsal.methods.attention import identity, rolled_out, row_normalised
from nbsal.methods.relevance import TransformerAttribution
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row
from nbsal.render import html
from nbsal.saliency import Saliency
from nbsal.validation import Text

Floats = NDArray[np.float64]
MOST = 40  # tokens whose names fit below a panel


@dataclass(frozen=True, eq=False)
class Maps:
    """Maps [query, key] of one text: the evidence in every block, what it rolls out to, and attention rollout.

    >>> import nbsal
    >>> maps(nbsal.load("demo/reviews"), "A joy.").target
    'positive'
    """

    row: Row
    target: str
    blocks: Floats  # [block, query, key], without the identity
    joined: Floats
    attention: Floats  # rollout of attention alone
    totals: Floats  # [layer]: relevance that reaches it, from the embeddings up


def maps(subject: Subject, text: Text, target: Any = None) -> Maps:
    """The maps of one text; `target` None is what the model predicts.

    >>> import nbsal
    >>> found = maps(nbsal.load("demo/reviews"), "A joy.")
    >>> found.blocks.shape, found.totals.round(6).tolist()
    ((6, 5, 5), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """
    if subject.task == "span":
        raise InputError("The two ends of a span have maps of their own: give a model that decides once.")
    method = TransformerAttribution().resolve(subject)
    encoded = subject.encode(text)
    read = trace.record(subject.double, encoded, [target], method.needs | {"attention"})
    whole = method.maps(read)
    means = [read.attention[block].mean(1) for block in range(subject.depth)]
    halves = [row_normalised(one + identity(one)) for one in means]
    return Maps(
        encoded[0],
        read.decisions[0].target.label,
        np.stack([(one - identity(one))[0].cpu().numpy() for one in whole]),
        rolled_out(whole)[0].cpu().numpy(),
        rolled_out(halves)[0].cpu().numpy(),
        np.array([float(read.relevance[layer][0].sum()) for layer in range(subject.depth + 1)]),
    )


@style.draw_figure
def relevance_maps(found: Maps) -> Figure:
    """The evidence for the target in the attention of every block, and what all blocks roll out to.

    >>> import nbsal
    >>> figure = relevance_maps(maps(nbsal.load("demo/reviews"), "A joy."))
    >>> figure.axes[0].get_title(), figure.axes[6].get_title()
    ('block 0', 'rolled out')
    """
    count = len(found.blocks)
    columns = min(4, count + 1)
    figure, axes = style.panels(-(-(count + 1) // columns), columns, 1.75, 2.0)
    for at, ax in enumerate(axes.flat):
        ax.set_visible(at <= count)
        if at <= count:
            shown = found.blocks[at] if at < count else _without_identity(found.joined)
            _map(ax, shown, found.row, f"block {at}" if at < count else "rolled out", named=at % columns == 0)
    figure.suptitle(f"evidence for {html.visible(found.target)}, each map to its own largest")
    return figure


@style.draw_figure
def rollout_maps(found: Maps) -> Figure:
    """Attention rollout, which knows no target, beside relevance rolled out for one.

    >>> import nbsal
    >>> [ax.get_title() for ax in rollout_maps(maps(nbsal.load("demo/reviews"), "A joy.")).axes]
    ['attention rollout', 'relevance for positive, rolled out']
    """
    figure, axes = style.panels(1, 2, 3.4, 3.6)
    _map(axes[0][0], _without_identity(found.attention), found.row, "attention rollout", named=True)
    title = f"relevance for {html.label(found.target)}, rolled out"
    _map(axes[0][1], _without_identity(found.joined), found.row, title, named=False)
    return figure


def class_maps(saliencies: Mapping[str, Saliency]) -> Figure:
    """One text explained for several classes by one method, all in one scale.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "transformer-attribution")
    >>> len(class_maps({name: explain("Fun, but dull.", name) for name in explain.subject.labels}).axes)
    1
    """
    largest = max(one.largest for one in saliencies.values())
    passages = [
        text_lines.ScoredText(f"for {name} ({one.method}); predicted {one.prediction}", one.scored_spans(), largest)
        for name, one in saliencies.items()
    ]
    return text_lines.draw(passages, note="All in one scale.")


@style.draw_figure
def conservation(found: Maps) -> Figure:
    """How much relevance reaches every layer: the rules lose none of it.

    >>> import nbsal
    >>> conservation(maps(nbsal.load("demo/reviews"), "A joy.")).axes[0].get_title()
    'relevance for positive'
    """
    figure, axes = style.panels(1, 1, style.WIDTH * 0.7, 2.4)
    (ax,) = axes[0]
    ax.plot(range(len(found.totals)), found.totals, "o-", color=style.hue(0))
    ax.axhline(1, color=style.GRID, linewidth=0.8, linestyle="--")
    ax.set_xticks(range(len(found.totals)))
    ax.set_ylim(0, max(1.2, 1.1 * float(found.totals.max())))
    style.titled(ax, f"relevance for {found.target}", "layer (0: the embeddings)", "sum over tokens")
    return figure


def _without_identity(joined: Floats) -> Floats:
    """A rolled-out map without its diagonal, which is mostly the identity it began with."""
    return joined * (1 - np.eye(len(joined)))


def _map(ax: Axes, values: Floats, row: Row, title: str, named: bool) -> None:
    ax.imshow(values, cmap=style.one_way(), vmin=0, vmax=values.max() or 1, aspect="equal")
    style.titled(ax, title)
    if len(row) <= MOST:
        style.across(ax, row.tokens)
        style.down(ax, row.tokens if named else [""] * len(row))
    ax.tick_params(labelsize=6, length=0)
