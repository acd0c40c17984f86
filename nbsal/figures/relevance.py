"""Maps of "Transformer Interpretability Beyond Attention Visualization" (Chefer et al. 2021a), the part on text.

`relevance_maps` draws the map of every block and their product. `rollout_maps` compares attention rollout with it.
`class_maps` shows one text explained for several classes. `conservation` draws the sum of relevance at every layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nbsal.explain.saliency import Saliency
from nbsal.figures import style
from nbsal.methods.attention import identity, normalise_rows, roll_out
from nbsal.methods.propagation import TransformerAttribution
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes import trace
from nbsal.render import colours, html
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.validation import Text, checked

MAX_TOKEN_LABELS = 40  # more do not fit below a panel


@dataclass(frozen=True, eq=False)
class Maps:
    """Maps [query, key] of one text: relevance in every block, their rollout, and attention rollout.

    >>> import nbsal
    >>> maps(nbsal.load("demo/reviews"), "A joy.").target
    'positive'
    """

    row: Row
    target: str
    blocks: Floats  # [block, query, key], without the identity
    rollout: Floats  # [query, key]
    attention_rollout: Floats  # [query, key], of attention alone
    layer_sums: Floats  # [layer], the relevance of all tokens; 0 is the embeddings


@checked
def maps(subject: Subject, text: Text, target: Any = None) -> Maps:
    """Compute the maps of one text; without `target`, the predicted class is explained.

    >>> import nbsal
    >>> joy = maps(nbsal.load("demo/reviews"), "A joy.")
    >>> joy.blocks.shape, joy.layer_sums.round(6).tolist()
    ((6, 5, 5), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """
    if subject.task == "span":
        raise InputError(
            f"{subject.name} predicts spans, whose two ends have separate maps. Pass another kind of model.",
            argument="subject",
            value=subject.name,
        )
    method = TransformerAttribution().resolve(subject)
    encoded = subject.encode(text)
    recorded = trace.record(subject.double, encoded, [target], method.needs | {"attention"})
    block_maps = method.maps(recorded)
    attention = [recorded.attention[block].mean(1) for block in range(subject.depth)]
    with_residual = [normalise_rows(weights + identity(weights)) for weights in attention]
    return Maps(
        encoded[0],
        recorded.decisions[0].target.label,
        np.stack([(block_map - identity(block_map))[0].cpu().numpy() for block_map in block_maps]),
        roll_out(block_maps)[0].cpu().numpy(),
        roll_out(with_residual)[0].cpu().numpy(),
        np.array([float(recorded.relevance[layer][0].sum()) for layer in range(subject.depth + 1)]),
    )


@style.draw_figure
def relevance_maps(maps: Maps) -> Figure:
    """Draw the relevance for the target in the attention of every block, and the product C of all blocks.

    >>> import nbsal
    >>> figure = relevance_maps(maps(nbsal.load("demo/reviews"), "A joy."))
    >>> figure.axes[0].get_title(), figure.axes[6].get_title()
    ('block 0', 'product C')
    """
    panels = {f"block {block}": values for block, values in enumerate(maps.blocks)}
    panels["product C"] = _without_identity(maps.rollout)
    columns = min(4, len(panels))
    figure, axes = style.grid(len(panels), columns, 1.75, 2.1)
    for number, (ax, (title, values)) in enumerate(zip(axes, panels.items(), strict=True)):
        _draw_map(ax, values, maps.row, title, row_labels=number % columns == 0)
    figure.suptitle(f"relevance for {html.visible(maps.target)}, each map scaled to its own maximum")
    return figure


@style.draw_figure
def rollout_maps(maps: Maps) -> Figure:
    """Draw attention rollout, which does not depend on the target, beside the product C for the target.

    >>> import nbsal
    >>> [ax.get_title() for ax in rollout_maps(maps(nbsal.load("demo/reviews"), "A joy.")).axes]
    ['attention rollout', 'product C for positive']
    """
    figure, axes = style.panels(1, 2, 3.4, 4.0)
    attention = _without_identity(maps.attention_rollout)
    _draw_map(axes[0][0], attention, maps.row, "attention rollout", row_labels=True)
    title = f"product C for {html.label(maps.target)}"
    _draw_map(axes[0][1], _without_identity(maps.rollout), maps.row, title, row_labels=False)
    return figure


@checked
def class_maps(saliencies: Mapping[str, Saliency]) -> Figure:
    """Draw the explanations of one text for several classes, all in one colour scale.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "transformer-attribution")
    >>> len(class_maps({name: explain("Fun, but dull.", name) for name in explain.subject.labels}).axes)
    1
    """
    largest = max((saliency.largest for saliency in saliencies.values()), default=0.0)
    texts = [
        (f"for {name} ({saliency.method}); predicted {saliency.prediction}", saliency.scored_spans(), largest)
        for name, saliency in saliencies.items()
    ]
    return style.texts(texts, "All classes have the same colour scale.")


@style.draw_figure
def conservation(maps: Maps) -> Figure:
    """Draw the sum of relevance at every layer, which the propagation rules conserve.

    >>> import nbsal
    >>> conservation(maps(nbsal.load("demo/reviews"), "A joy.")).axes[0].get_title()
    'relevance for positive'
    """
    figure, axes = style.panels(1, 1, style.WIDTH * 0.7, 2.4)
    (ax,) = axes[0]
    ax.plot(range(len(maps.layer_sums)), maps.layer_sums, "o-", color=style.line_colour(0))
    ax.axhline(1, color=style.LINE_GREY, linewidth=0.8, linestyle="--")
    ax.set_xticks(range(len(maps.layer_sums)))
    ax.set_ylim(0, max(1.2, 1.1 * float(maps.layer_sums.max())))
    style.set_titles(ax, f"relevance for {maps.target}", "layer (0: the embeddings)", "sum over tokens")
    return figure


def _without_identity(rollout: Floats) -> Floats:
    """Set the diagonal to zero: it is mostly the identity that a rollout starts with."""
    return rollout * (1 - np.eye(len(rollout)))


def _draw_map(ax: Axes, values: Floats, row: Row, title: str, row_labels: bool) -> None:
    shades = colours.colour_map(colours.WHITE, colours.FOR)
    ax.imshow(values, cmap=shades, vmin=0, vmax=values.max() or 1, aspect="equal")
    style.set_titles(ax, title)
    if len(row) <= MAX_TOKEN_LABELS:
        style.label_columns(ax, row.tokens, upright=True)
        style.label_rows(ax, row.tokens if row_labels else [""] * len(row))
    ax.tick_params(labelsize=6, length=0)
