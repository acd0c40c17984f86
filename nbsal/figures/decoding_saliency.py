"""Figures and tables of "Decoding Layer Saliency in Language Transformers" (Hou and Castanon 2023).

Figure 1 `toy_geometry`; 2, 3, 7, 8 `game_curves`; 4 `overlap_shares`; 5, 6 `layer_curves`; 9-11 `word_clouds`; 12
`overlap_counts` and the examples `highlights`; Tables 1, 2 `area_table`; 3-9 `shared_tokens`. The whole-dataset
supplement is `nbsal.figures.pages.supplement`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure

from nbsal import trace
from nbsal.clouds import Cloud
from nbsal.errors import InputError
from nbsal.evaluation.results import Results
from nbsal.figures import style, text_lines
from nbsal.figures.tables import framed, score_table
from nbsal.model.subject import Subject
from nbsal.render import html
from nbsal.saliency import Saliency

if TYPE_CHECKING:
    import pandas
    from pandas.io.formats.style import Styler

TOP = 50  # tokens a class, in clouds and tables
PIXELS = 240  # of a cloud to an inch
COUNTS = tuple(range(10, 101, 10))
VIEW = {"elev": 22, "azim": 38}


def decoded_path(subject: Subject, text: str = "big dog") -> "pandas.DataFrame":
    """Where the first and the last token of a text lie on the sphere of tokens, layer by layer, as the LM head reads.

    A point is the square root of the head's probabilities, which has length 1: of the first token, of the last one, and
    of all others together.

    >>> import nbsal
    >>> path = decoded_path(nbsal.load("demo/reviews"))
    >>> path["token"].unique().tolist(), bool((path[["big", "dog", "others"]] ** 2).sum(axis=1).round(4).eq(1).all())
    (['big', 'dog'], True)
    """
    import pandas

    encoded = subject.encode(text)
    row = encoded[0]
    ends = [row.content[0], row.content[-1]]
    ids, names = [row.ids[i] for i in ends], [row.tokens[i] for i in ends]
    if ids[0] == ids[1]:
        raise InputError(f"The geometry is of two tokens: {text!r:.60} has one.")
    seen = trace.record(subject, encoded, needs={"hidden"}).hidden
    columns = torch.tensor(ids, device=subject.device)
    rows: list[tuple[Any, ...]] = []
    for layer in range(subject.depth + 1):
        shares = subject.lm_head.probabilities(seen[layer][0, ends], columns).double().cpu().numpy()
        points = np.sqrt(np.column_stack([shares, np.clip(1 - shares.sum(1), 0, None)]))
        rows += [(layer, name, *point) for name, point in zip(names, points.tolist(), strict=True)]
    return pandas.DataFrame(rows, columns=["layer", "token", *names, "others"])


@style.draw_figure
def toy_geometry(path: "pandas.DataFrame") -> Figure:
    """Figure 1: two tokens on the unit sphere, and where each layer's output is decoded to.

    `path` is what `decoded_path` finds. Axes are the two tokens, and all other tokens together.

    >>> import nbsal
    >>> toy_geometry(decoded_path(nbsal.load("demo/reviews"))).axes[0].get_xlabel()
    'big'
    """
    names = list(path.columns[2:])
    figure = Figure(figsize=(style.WIDTH, 5.0), layout="constrained")
    ax: Any = figure.add_subplot(projection="3d")
    turn, tilt = np.meshgrid(np.linspace(0, np.pi / 2, 31), np.linspace(0, np.pi / 2, 31))
    sphere = (np.cos(turn) * np.sin(tilt), np.sin(turn) * np.sin(tilt), np.cos(tilt))
    ax.plot_wireframe(*sphere, rstride=5, cstride=5, color="0.8", linewidth=0.5)
    for at, token in enumerate(path["token"].unique()):
        own = path[path["token"] == token]
        points = own[names].to_numpy()
        pure = np.eye(3)[at]
        label = html.label(token)
        ax.plot(*points.T, "o-", color=style.hue(at), markersize=4, label=f"{label}, decoded layer by layer")
        ax.plot(*pure[:, None], "D", color=style.hue(at), markersize=8, label=f"{label}, the token itself")
        spots: dict[tuple[float, ...], list[int]] = {}
        for layer, point in zip(own["layer"], points, strict=True):
            near = next((spot for spot in spots if np.linalg.norm(np.subtract(spot, point)) < 0.06), tuple(point))
            spots.setdefault(near, []).append(layer)
        for spot, layers in spots.items():
            said = f"  l{layers[0]}" + (f"-{layers[-1]}" if len(layers) > 1 else "")
            ax.text(*spot, said, fontsize=style.SMALL)
    ax.set_xlabel(html.label(names[0]))
    ax.set_ylabel(html.label(names[1]))
    ax.set_zlabel("all other tokens")
    ax.set(xlim=(0, 1), ylim=(0, 1), zlim=(0, 1), xticks=(0, 1), yticks=(0, 1), zticks=(0, 1))
    ax.view_init(**VIEW)
    style.legend(figure, ax, 2, "outside lower center")
    return figure


@style.draw_figure
def game_curves(results: Results, explainers: Sequence[str] | None = None) -> Figure:
    """Figures 2, 3, 7 and 8: both games, a line an explainer.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> found = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> [ax.get_title() for ax in game_curves(found).axes]
    ['revealing ↑', 'hiding ↓']
    """
    figure, axes = style.panels(1, len(results.measures), 3.1, 3.0)
    for ax, measure in zip(axes[0], results.measures, strict=True):
        style.curves(ax, results, measure, results.explainers if explainers is None else explainers)
        style.titled(ax, results.headed(measure), results.sheet.point, results.sheet.value)
    style.legend(figure, axes[0][0])
    return figure


@style.draw_figure
def layer_curves(results: Results, method: str = "decoded Grad-CAM") -> Figure:
    """Figures 5 and 6: both games at every layer of a method, even layers left and odd ones right.

    Explainers are those named after the method and the layer: "decoded Grad-CAM l0" and so on; chance is drawn beside.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> some = {f"Grad-CAM l{layer}": one for layer, one in nbsal.evaluation.at_layers(explain).items()}
    >>> found = nbsal.evaluation.games(some, ["A joy.", "A bore."], random=0, progress=False)
    >>> [ax.get_title() for ax in layer_curves(found, "Grad-CAM").axes[:2]]
    ['even layers, revealing ↑', 'odd layers, revealing ↑']
    """
    layers = [(name, int(found[1])) for name in results.explainers if (found := _layer(method, name))]
    if not layers:
        raise InputError(f"No explainer is called '{method} l<layer>': there are {', '.join(results.explainers)}.")
    chance = [name for name in results.explainers if name == "random"]
    figure, axes = style.panels(2, 2, 3.1, 2.6)
    for row, measure in zip(axes, results.measures, strict=True):
        for side, ax in enumerate(row):
            for name, layer in layers:
                if layer % 2 == side:
                    style.curves(ax, results, measure, [name], first=layer)
            style.curves(ax, results, measure, chance)
            title = f"{'odd' if side else 'even'} layers, {results.headed(measure)}"
            style.titled(ax, title, results.sheet.point, results.sheet.value)
    style.legend(figure, list(axes[0]))
    return figure


@style.draw_figure
def overlap_shares(panels: Mapping[str, Results]) -> Figure:
    """Figure 4: the share of the k most important tokens that classes have in common, by data set.

    Results are those of `nbsal.evaluation.overlap`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> found = nbsal.evaluation.overlap(explain, ["A warm film.", "A dull bore."], [1, 2], progress=False)
    >>> [ax.get_title() for ax in overlap_shares({"two texts": found}).axes]
    ['two texts']
    """
    figure, axes = style.panels(1, len(panels), 3.4, 3.0)
    for ax, (name, results) in zip(axes[0], panels.items(), strict=True):
        style.curves(ax, results, "overlap", results.explainers)
        style.titled(ax, name, "top k tokens", "share in more than one class")
        ax.legend(loc="best")
    return figure


@style.draw_figure
def overlap_counts(panels: Mapping[str, Mapping[str, Cloud]], counts: Sequence[int] = COUNTS) -> Figure:
    """Figure 12: how many of the k most important tokens stand in several classes, over all pairs of classes.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> cloud = nbsal.clouds.rank(explain.map(["A warm film.", "A dull bore."], progress=False))
    >>> overlap_counts({"two texts": {"gradcam": cloud}}, [1]).axes[0].lines[0].get_ydata().tolist()
    [0]
    """
    figure, axes = style.panels(1, len(panels), 3.4, 3.0)
    for ax, (name, clouds) in zip(axes[0], panels.items(), strict=True):
        for at, (explainer, cloud) in enumerate(clouds.items()):
            shared = [int(cloud.shared(count)["shared"].sum()) for count in counts]
            label = html.visible(explainer)
            ax.plot(list(counts), shared, style.dash(at), color=style.hue(at), label=label, marker="o", markersize=3)
        style.titled(ax, name, "top k tokens", "tokens in more than one class")
        ax.legend(loc="best")
    return figure


@style.draw_figure
def word_clouds(clouds: Mapping[str, Cloud], count: int = TOP) -> Figure:
    """Figures 9, 10 and 11: the first tokens of every predicted class, a row an explainer.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> cloud = nbsal.clouds.rank(explain.map(["A warm film.", "A dull bore."], progress=False))
    >>> [ax.get_title() for ax in word_clouds({"gradcam": cloud}).axes]
    ['predicted negative', 'predicted positive']
    """
    labels = sorted({label for cloud in clouds.values() for label in cloud.labels})
    wide, high = 6.8 / max(2, len(labels)), 1.9
    size = round(wide * PIXELS), round(high * PIXELS)  # in the shape of its panel: letters are not squeezed
    figure, axes = style.panels(len(clouds), len(labels), wide, high)
    for at, (explainer, cloud) in enumerate(clouds.items()):
        for ax, label in zip(axes[at], labels, strict=True):
            style.bare(ax)
            if label in cloud.labels and any(weight > 0 for weight in cloud.weights[label].values()):
                ax.imshow(np.asarray(cloud.wordcloud(label, count, size)), interpolation="bilinear", aspect="auto")
            style.titled(ax, "" if at else f"predicted {label}")
        axes[at][0].set_ylabel(html.label(explainer, 30), fontsize=style.SMALL)
    return figure


def shared_tokens(clouds: Mapping[str, Cloud], first: str, second: str, count: int = TOP) -> "Styler":
    """Tables 3 to 9: the tokens among the first of two classes, an explainer a row.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> cloud = nbsal.clouds.rank(explain.map(["Film", "A dull film"], progress=False))
    >>> shared_tokens({"gradcam": cloud}, "negative", "positive").data["tokens"].item()
    'film'
    """
    import pandas

    rows = {}
    for explainer, cloud in clouds.items():
        missing = {first, second} - set(cloud.labels)
        found = cloud.shared(count).set_index(["first", "second"])
        pair = (first, second) if (first, second) in found.index else (second, first)
        tokens = found.at[pair, f"{cloud.unit}s"] if not missing else f"never predicted: {', '.join(sorted(missing))}"
        rows[explainer] = (0 if missing else found.at[pair, "shared"], tokens or "(none)")
    frame = pandas.DataFrame.from_dict(rows, orient="index", columns=["shared", "tokens"])
    styled = framed(frame, f"Tokens in the top {count} appearing in both {first} and {second}")
    return styled.set_properties(subset=["tokens"], **{"text-align": "left", "white-space": "normal"})


def area_table(
    panels: Mapping[str, Results], ours: Collection[str] = (), explainers: Sequence[str] | None = None
) -> "Styler":
    """Tables 1 and 2: areas under the curves of both games; the best bold, its best competitor italic.

    `ours` are the explainers that the competitor is not looked for among.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> found = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> area_table({"two texts": found}).data.columns[0]
    'revealing ↑'
    """
    return score_table(panels, ours, explainers)


def highlights(saliencies: Mapping[str, Saliency]) -> Figure:
    """The examples of section A.5: a text as several explainers highlight it, below what the model predicts.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> len(highlights({"gradcam": explain("A warm and funny film.")}).axes)
    1
    """
    return text_lines.draw(
        [
            text_lines.ScoredText(
                f"{name}: predicted {said.prediction}, {said.probabilities.max():.1%}",
                said.scored_spans(),
                said.largest,
            )
            for name, said in saliencies.items()
        ],
        note="Each text is coloured up to its own largest score; what speaks against the class is underlined.",
    )


def _layer(method: str, name: str) -> "re.Match[str] | None":
    return re.fullmatch(rf"{re.escape(method)} l(\d+)", name)
