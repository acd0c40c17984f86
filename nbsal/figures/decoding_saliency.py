"""Figures and tables of "Decoding Layer Saliency in Language Transformers" (Hou and Castanon 2023).

Figure 1: `toy_geometry`. Figures 2, 3, 7 and 8: `game_curves`. Figure 4: `overlap_shares`. Figures 5 and 6:
`layer_curves`. Figures 9 to 11: `word_clouds`. Figure 12: `overlap_counts`. Examples: `highlights`. Tables 1 and 2:
`area_table`. Tables 3 to 9: `shared_tokens`. Supplement: `nbsal.figures.pages.supplement`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas
import torch
from matplotlib.figure import Figure

from nbsal.evaluation.clouds import Cloud
from nbsal.evaluation.results import Results
from nbsal.explain.saliency import Saliency
from nbsal.figures import style
from nbsal.figures.tables import score_table, style_frame
from nbsal.model.subject import Subject
from nbsal.passes import trace
from nbsal.render import colours, html
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.lazy import Styler
from nbsal.support.validation import Text, checked

TOP = 50  # tokens per class, in clouds and tables
CLOUD_DPI = 240
LEGIBLE = 20  # pixels at that resolution: the smallest type in a cloud, 8 pixels on a page
COUNTS = tuple(range(10, 101, 10))
VIEW = {"elev": 22, "azim": 38}
AXIS_ENDS = ((1, 0, -0.12), (0, 1, -0.12), (0, 0, 1.06))  # below or above the point of each axis at 1
SHARES = {"revealing": "share of tokens revealed", "hiding": "share of tokens hidden"}
NEAR = 0.06  # distance between points of Figure 1 that share a label


@checked
def decoded_path(subject: Subject, text: str = "big dog") -> pandas.DataFrame:
    """Decode the first and the last token of a text at every layer, as points on the unit sphere.

    The coordinates of a point are the square roots of the LM head's probabilities, so that its length is 1: the
    probability of the first token, of the last token, and of all other tokens together.

    >>> import nbsal
    >>> path = decoded_path(nbsal.load("demo/reviews"))
    >>> path["token"].unique().tolist(), bool((path[["big", "dog", "others"]] ** 2).sum(axis=1).round(4).eq(1).all())
    (['big', 'dog'], True)
    """
    encoded = subject.encode(text)
    row = encoded[0]
    ends = [row.content[0], row.content[-1]]
    ids, names = [row.ids[i] for i in ends], [row.tokens[i] for i in ends]
    if ids[0] == ids[1]:
        raise InputError(
            f"The first and the last token of text={text!r:.60} are the same. Pass a text with two different ones.",
            argument="text",
            value=text,
        )
    hidden = trace.record(subject, encoded, needs={"hidden"}).hidden
    columns = torch.tensor(ids, device=subject.device)
    rows: list[tuple[Any, ...]] = []
    for layer in range(subject.depth + 1):
        shares = subject.lm_head.probabilities(hidden[layer][0, ends], columns).double().cpu().numpy()
        points = np.sqrt(np.column_stack([shares, np.clip(1 - shares.sum(1), 0, None)]))
        rows += [(layer, name, *point) for name, point in zip(names, points.tolist(), strict=True)]
    return pandas.DataFrame(rows, columns=["layer", "token", *names, "others"])


@checked
def own_token_shares(subject: Subject, texts: Iterable[Text]) -> pandas.Series:
    """How surely each layer still says its own tokens: the LM head's mean probability of the token at its position.

    >>> import nbsal
    >>> own_token_shares(nbsal.load("demo/reviews"), ["A joy.", "A bore."]).round(1).tolist()[0]
    1.0
    """
    rows = []
    for text in texts:
        encoded = subject.encode(text)
        content = list(encoded[0].content)
        ids = torch.tensor([encoded[0].ids[i] for i in content], device=subject.device)
        hidden = trace.record(subject, encoded, needs={"hidden"}).hidden
        shares = [subject.lm_head.probabilities(hidden[k][0, content], ids) for k in range(subject.depth + 1)]
        rows.append(torch.stack([each.diagonal() for each in shares]).double().cpu().numpy())
    means = np.concatenate(rows, 1).mean(1)
    return pandas.Series(means, index=[f"l{layer}" for layer in range(subject.depth + 1)], name="own token")


@checked
def best_layer(results: Results, method: str = "decoded Grad-CAM") -> int:
    """The layer of a method with the largest difference between the areas under the Revealing and the Hiding curve.

    Explainers are named as in `layer_curves`.

    >>> import nbsal
    >>> from nbsal.figures.explainers import by_label
    >>> explainers = by_label(nbsal.load("demo/reviews"), ["Grad-CAM l0", "Grad-CAM l5"])
    >>> results = nbsal.evaluation.games(explainers, ["A warm film.", "A dull bore."], random=0, progress=False)
    >>> best_layer(results, "Grad-CAM") in (0, 5)
    True
    """
    areas = results.auc().pivot(index="explainer", columns="game", values="auc")
    gaps, layers = areas["revealing"] - areas["hiding"], _layers_of(results, method)
    return layers[max(layers, key=lambda name: gaps[name])]


def _layers_of(results: Results, method: str) -> dict[str, int]:
    """The layers of the explainers that are named after a method and its layer."""
    pattern = rf"{re.escape(method)} l(\d+)"
    layers = {name: int(match[1]) for name in results.explainers if (match := re.fullmatch(pattern, name))}
    if not layers:
        raise InputError(
            f"No explainer is named '{method} l<layer>'. The results have: {', '.join(results.explainers)}.",
            argument="method",
            value=method,
        )
    return layers


@style.draw_figure
def toy_geometry(path: pandas.DataFrame) -> Figure:
    """Figure 1 of Hou and Castanon (2023): two tokens on the unit sphere, and where each layer's output is decoded to.

    `path` is the result of `decoded_path`. The axes are the two tokens, and all other tokens together.

    >>> import nbsal
    >>> [text.get_text() for text in toy_geometry(decoded_path(nbsal.load("demo/reviews"))).axes[0].texts[-3:]]
    ['big', 'dog', 'all other tokens']
    """
    if "token" not in path.columns or len(path.columns) < 4:
        raise InputError("path must be what decoded_path returns.", argument="path", value=path)
    names = list(path.columns[2:])
    figure = Figure(figsize=(style.WIDTH, 5.0), layout="constrained")
    ax: Any = figure.add_subplot(projection="3d")
    turn, tilt = np.meshgrid(np.linspace(0, np.pi / 2, 31), np.linspace(0, np.pi / 2, 31))
    sphere = (np.cos(turn) * np.sin(tilt), np.sin(turn) * np.sin(tilt), np.cos(tilt))
    ax.plot_wireframe(*sphere, rstride=5, cstride=5, color="0.8", linewidth=0.5)
    for number, token in enumerate(path["token"].unique()):
        rows = path[path["token"] == token]
        points = rows[names].to_numpy()
        corner = np.eye(3)[number]
        colour, label = style.line_colour(number), html.label(token)
        ax.plot(*points.T, "o-", color=colour, markersize=4, label=f"{label}, decoded layer by layer")
        ax.plot(*corner[:, None], "D", color=colour, markersize=8, label=f"{label}, the token itself")
        for position, layers in _group_layers(rows["layer"], points).items():
            side = ("left", "right")[number]  # towards the middle, where there is space
            ax.text(*position, f"   l{_runs(layers)}   ", fontsize=style.SMALL, ha=side)
    for name, place in zip([*map(html.label, names[:2]), "all other tokens"], AXIS_ENDS, strict=True):
        ax.text(*place, name, ha="center", parse_math=False)
    ax.set(xlim=(0, 1), ylim=(0, 1), zlim=(0, 1), xticks=(), yticks=(), zticks=())
    ax.view_init(**VIEW)
    style.add_legend(figure, ax, 2, "outside lower center")
    return figure


def _runs(numbers: Sequence[int]) -> str:
    """Ascending numbers as text, with runs of three or more shortened.

    >>> _runs([0, 2, 3, 4, 6])
    '0, 2-4, 6'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _group_layers(layers: Iterable[int], points: Floats) -> dict[tuple[float, ...], list[int]]:
    """Group layers whose points nearly coincide, so that they get one label, at the first of their points."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for layer, point in zip(layers, points, strict=True):
        near = next((p for p in groups if np.linalg.norm(np.subtract(p, point)) < NEAR), tuple(point))
        groups.setdefault(near, []).append(layer)
    return groups


@style.draw_figure
def game_curves(results: Results, explainers: Sequence[str] | None = None) -> Figure:
    """Figures 2, 3, 7 and 8 of Hou and Castanon (2023): the curves of both games, one line per explainer.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> results = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> [ax.get_title() for ax in game_curves(results).axes]
    ['revealing ↑', 'hiding ↓']
    """
    labels = {game: (SHARES.get(game, results.metric.point), results.metric.value) for game in results.measures}
    return style.curve_panels(results, explainers, labels, 3.4)


@style.draw_figure
def layer_curves(results: Results, method: str = "decoded Grad-CAM") -> Figure:
    """Figures 5 and 6 of Hou and Castanon (2023): both games at every layer of a method.

    Even layers are on the left, odd ones on the right. Each explainer must be named after the method and its layer,
    such as "decoded Grad-CAM l0". The random baseline is drawn in every panel.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> layers = nbsal.evaluation.at_layers(explain)
    >>> explainers = {f"Grad-CAM l{layer}": at_layer for layer, at_layer in layers.items()}
    >>> results = nbsal.evaluation.games(explainers, ["A joy.", "A bore."], random=0, progress=False)
    >>> [ax.get_title() for ax in layer_curves(results, "Grad-CAM").axes[:2]]
    ['even layers, revealing ↑', 'odd layers, revealing ↑']
    """
    layers = _layers_of(results, method)
    random = [name for name in results.explainers if name == "random"]
    looks = style.line_looks([*layers, *random])
    figure, axes = style.panels(2, 2, 3.1, 2.6)
    for row, measure in zip(axes, results.measures, strict=True):
        for parity, ax in enumerate(row):
            chosen = [name for name, layer in layers.items() if layer % 2 == parity]
            style.draw_curves(ax, results, measure, [*chosen, *random], looks, bands=False)
            title = f"{('even', 'odd')[parity]} layers, {results.heading(measure)}"
            style.set_titles(ax, title, SHARES.get(measure, results.metric.point), results.metric.value)
    style.add_legend(figure, list(axes[0]))
    return figure


@style.draw_figure
def overlap_shares(panels: Mapping[str, Results]) -> Figure:
    """Figure 4 of Hou and Castanon (2023): the share of the k top tokens that are top tokens of both classes of a pair.

    `panels` maps the name of each data set to the results of `nbsal.evaluation.overlap`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> results = nbsal.evaluation.overlap(explain, ["A warm film.", "A dull bore."], [1, 2], progress=False)
    >>> [ax.get_title() for ax in overlap_shares({"two texts": results}).axes]
    ['two texts']
    """
    figure, axes = style.panels(1, len(panels), 3.4, 4.0)
    for ax, (name, results) in zip(axes[0], panels.items(), strict=True):
        style.draw_curves(ax, results, "overlap", results.explainers)
        style.set_titles(ax, name, "top k tokens", "share in both classes, mean of pairs")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))  # outside, since curves fill the plot
    return figure


@style.draw_figure
def overlap_counts(panels: Mapping[str, Mapping[str, Cloud]], counts: Sequence[int] = COUNTS) -> Figure:
    """Figure 12 of Hou and Castanon (2023): how many of the k top tokens two classes share, summed over all pairs.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> cloud = nbsal.clouds.rank(explain.map(["A warm film.", "A dull bore."], progress=False))
    >>> overlap_counts({"two texts": {"gradcam": cloud}}, [1]).axes[0].lines[0].get_ydata().tolist()
    [0]
    """
    figure, axes = style.panels(1, len(panels), 3.4, 4.0)
    for ax, (name, clouds) in zip(axes[0], panels.items(), strict=True):
        shared = {
            explainer: np.array([(k, cloud.shared(k)["shared"].sum()) for k in counts]).T
            for explainer, cloud in clouds.items()
        }
        style.draw_lines(ax, shared, style.line_looks(list(shared)))
        style.set_titles(ax, name, "top k tokens", "shared tokens, sum over pairs")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))  # outside, since curves fill the plot
    return figure


@style.draw_figure
def word_clouds(clouds: Mapping[str, Cloud], count: int = TOP, classes: Sequence[str] | None = None) -> Figure:
    """Figures 9, 10 and 11 of Hou and Castanon (2023): word clouds of the top tokens of every predicted class.

    Each explainer has one row, each class a column, in the order of `classes` or else of the alphabet. No type is too
    small to be read, so a panel may lack the last of many tokens.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> cloud = nbsal.clouds.rank(explain.map(["A warm film.", "A dull bore."], progress=False))
    >>> [ax.get_title() for ax in word_clouds({"gradcam": cloud}).axes]
    ['predicted negative', 'predicted positive']
    """
    labels = list(classes or sorted({label for cloud in clouds.values() for label in cloud.labels}))
    width, height = 6.8 / max(2, len(labels)), 1.9
    pixels = round(width * CLOUD_DPI), round(height * CLOUD_DPI)  # the shape of a panel, so that letters keep theirs
    figure, axes = style.panels(len(clouds), len(labels), width, height)
    for number, (explainer, cloud) in enumerate(clouds.items()):
        for ax, label in zip(axes[number], labels, strict=True):
            style.hide_axes(ax)
            if label in cloud.labels and any(weight > 0 for weight in cloud.weights[label].values()):
                image = cloud.wordcloud(label, count, pixels, 0, colours.class_colour(labels.index(label)), LEGIBLE)
                ax.imshow(np.asarray(image), interpolation="bilinear", aspect="auto")
            style.set_titles(ax, "" if number else f"predicted {label}")
        axes[number][0].set_ylabel(html.label(explainer, 30), fontsize=style.SMALL)
    return figure


@checked
def shared_tokens(clouds: Mapping[str, Cloud], first: str, second: str, count: int = TOP) -> "Styler":
    """Tables 3 to 9 of Hou and Castanon (2023): the tokens among the top of both classes, one row per explainer.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> cloud = nbsal.clouds.rank(explain.map(["A joyful film", "A dull film"], progress=False))
    >>> shared_tokens({"gradcam": cloud}, "negative", "positive").data["tokens"].item()
    'film, a'
    """
    rows = {explainer: _shared(cloud, first, second, count) for explainer, cloud in clouds.items()}
    frame = pandas.DataFrame.from_dict(rows, orient="index", columns=["shared", "tokens"])
    styled = style_frame(frame, f"Tokens in the top {count} of both {first} and {second}")
    return styled.set_properties(subset=["tokens"], **{"text-align": "left", "white-space": "normal"})


@checked
def shared_token_columns(
    clouds: Mapping[str, Cloud], pairs: Mapping[str, tuple[str, str]], count: int = TOP
) -> pandas.DataFrame:
    """Several of Tables 3 to 9 of Hou and Castanon (2023) as one: a column for each of the `pairs`, by its title.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> cloud = nbsal.clouds.rank(explain.map(["A joyful film", "A dull film"], progress=False))
    >>> shared_token_columns({"gradcam": cloud}, {"Table 9": ("negative", "positive")})["Table 9"].item()
    '2: film, a'
    """
    columns = {}
    for title, (first, second) in pairs.items():
        cells = (_shared(cloud, first, second, count) for cloud in clouds.values())
        columns[title] = [f"{number}: {tokens}" if number else "0" for number, tokens in cells]
    return pandas.DataFrame(columns, index=list(clouds))


def _shared(cloud: Cloud, first: str, second: str, count: int) -> tuple[int, str]:
    """How many of the top tokens two classes share, and which."""
    missing = {first, second} - set(cloud.labels)
    if missing:
        return 0, f"never predicted: {', '.join(sorted(missing))}"
    rows = {frozenset((row[0], row[1])): (row[2], row[3]) for row in cloud.shared(count).to_numpy().tolist()}
    number, tokens = rows[frozenset((first, second))]
    return number, tokens or "(none)"


@checked
def area_table(
    panels: Mapping[str, Results], ours: Collection[str] = (), explainers: Sequence[str] | None = None
) -> "Styler":
    """Tables 1 and 2 of Hou and Castanon (2023): areas under the curves of both games.

    The best is bold, its best competitor italic. Explainers in `ours` do not count as competitors.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> results = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> area_table({"two texts": results}).data.columns[0]
    'revealing ↑'
    """
    return score_table(panels, ours, explainers)


@checked
def highlights(saliencies: Mapping[str, Saliency | Sequence[Saliency]]) -> Figure:
    """The examples of section A.5: a text as each explainer highlights it, with the model's prediction.

    With a sequence of explanations for each explainer, several texts stand below each other.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> len(highlights({"gradcam": explain("A warm and funny film.")}).axes)
    1
    """
    rows = {name: [each] if isinstance(each, Saliency) else list(each) for name, each in saliencies.items()}
    texts = [
        (f"{name}: predicted {saliency.outcome()}" if first else name, saliency.scored_spans(), saliency.largest)
        for several in zip(*rows.values(), strict=True)
        for first, name, saliency in zip((True, *[False] * len(rows)), rows, several, strict=False)
    ]
    note = "Colours are scaled to each text's largest score. Evidence against the class is underlined unless faint."
    return style.texts(texts, note)
