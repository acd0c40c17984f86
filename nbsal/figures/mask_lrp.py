"""Figures and tables of "Better Explain Transformers by Illuminating Important Information" (Song et al. 2024).

Figure 1: `relation_distances`. Figure 2: `nbsal.figures.flow.relevance_flow`. Figure 3: `deletion_curves`. Figure 4:
`corruption_curves`. Figure 5: `head_maps`. Figures 6 to 13: `attribution_differences`. Tables 1, 3 and 4:
`faithfulness_table`. Table 2: `answer_table`. Tables 5 and 6: `dataset_table` and `checkpoint_table` in
`nbsal.figures.checkpoints`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nbsal.evaluation.results import Results
from nbsal.explain.saliency import Saliency
from nbsal.figures import style
from nbsal.figures.tables import score_table
from nbsal.heads.counts import HeadStudy
from nbsal.methods.labels import look
from nbsal.model.head_mask import HeadMask
from nbsal.render import html
from nbsal.support.errors import InputError
from nbsal.support.lazy import Styler
from nbsal.support.validation import check_one_per_text, checked, plural

DELETION_MEASURES = ("aopc", "log-odds")
NEGLIGIBLE = 0.05  # of the largest difference: a text with smaller ones is not shown
MAX_DISTANCE = 8  # words: larger distances are rare


@style.draw_figure
def relation_distances(study: HeadStudy) -> Figure:
    """Figure 1 of Song et al. (2024): the distance in words from a word to its governor, by relation.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> study = nbsal.heads.study(nbsal.load("demo/reviews"), [parse], progress=False)
    >>> [ax.get_title() for ax in relation_distances(study).axes]
    ['nsubj, 0 cases', 'obj, 0 cases', 'amod, 1 case', 'advmod, 0 cases']
    """
    names = list(study.cases)
    columns = min(len(names), 2)
    figure, axes = style.grid(len(names), columns, 3.4, 2.0)
    offsets = study.offsets
    for number, (name, ax) in enumerate(zip(names, axes, strict=True)):
        rows = offsets[(offsets["relation"] == name) & (offsets["offset"].abs() <= MAX_DISTANCE)]
        ax.bar(rows["offset"], rows["share"], color=style.line_colour(number))
        ax.set_xlim(-MAX_DISTANCE - 0.7, MAX_DISTANCE + 0.7)
        ax.set_ylim(0, 1)
        title = f"{name}, {plural(study.cases[name], 'case')}"
        style.set_titles(ax, title, "words from dependent to governor", "share")
    return figure


@style.draw_figure
def deletion_curves(
    results: Results, explainers: Sequence[str] | None = None, measures: Sequence[str] = DELETION_MEASURES
) -> Figure:
    """Figure 3 of Song et al. (2024): AOPC and log-odds as more and more of the most important tokens are hidden.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gae")
    >>> results = nbsal.evaluation.faithfulness(explain, ["A joy.", "A bore."], progress=False)
    >>> [ax.get_title() for ax in deletion_curves(results).axes]
    ['aopc ↑', 'log-odds ↓']
    """
    labels = {measure: ("share of tokens hidden", measure) for measure in measures}
    return style.curve_panels(results, explainers, labels, 3.4)


@style.draw_figure
def corruption_curves(results: Results, measures: Sequence[str] = DELETION_MEASURES) -> Figure:
    """Figure 4 of Song et al. (2024): Mask-LRP as random heads that its mask leaves out are added to the mask.

    Explainers must be named after the share of added heads: "0 %", "20 %" and so on. The band is the standard deviation
    between the runs of one explainer. Explainers with other names are drawn as level lines.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> masks = {f"{percent} %": subject.mask.corrupted(percent / 100, 0) for percent in (0, 50)}
    >>> explainers = {name: nbsal.Explainer(subject, "mask-lrp", mask=mask) for name, mask in masks.items()}
    >>> results = nbsal.evaluation.faithfulness(explainers, ["A joy.", "A bore."], progress=False)
    >>> corruption_curves(results).axes[0].lines[0].get_xdata().tolist()
    [0.0, 50.0]
    """
    rates = {name: float(name.removesuffix("%")) for name in results.explainers if name.endswith("%")}
    if not rates:
        raise InputError(
            f"No explainer is named after a share, such as '20 %'. The results have: {', '.join(results.explainers)}.",
            argument="results",
            value=results.explainers,
        )
    others = [name for name in results.explainers if name not in rates]
    figure, axes = style.panels(1, len(measures), 3.3, 3.0)
    means = results.mean().set_index(["explainer", "measure"])["mean"]
    spreads = results.spread().set_index(["explainer", "measure"])["sd"]
    for ax, measure in zip(axes[0], measures, strict=True):
        x = np.array(list(rates.values()))
        y = np.array([means[name, measure] for name in rates])
        sd = np.array([spreads.get((name, measure), 0.0) for name in rates])
        ours = look("mask-lrp")
        ax.plot(x, y, ours.line, color=ours.colour, label="mask-lrp, corrupted mask", marker=ours.marker, markersize=4)
        ax.fill_between(x, y - sd, y + sd, color=ours.colour, alpha=0.2, linewidth=0)
        for number, name in enumerate(others, 1):
            line = look(name, number)
            level = {"color": line.colour, "linestyle": ":" if line.line == "-" else line.line}
            ax.axhline(means[name, measure], label=html.label(name, 30), **level)
        style.set_titles(ax, results.heading(measure), "heads added, % of those not in the mask", f"mean {measure}")
    style.add_legend(figure, axes[0][0], 3, "outside lower center")
    return figure


@style.draw_figure
def head_maps(masks: Mapping[str, HeadMask]) -> Figure:
    """Figure 5 of Song et al. (2024): which heads of each model are syntactic, positional, or both.

    >>> import nbsal
    >>> figure = head_maps({"reviews": nbsal.load("demo/reviews").mask})
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('head', 'block')
    """
    columns = min(max(len(masks), 1), 4)
    figure, axes = style.grid(len(masks), columns, 6.8 / max(2, columns), 2.2)
    for ax, (name, mask) in zip(axes, masks.items(), strict=True):
        roles = style.head_roles(mask)
        colours = ListedColormap([*style.ROLE_COLOURS[:3], "#f2f2f2"])
        ax.pcolormesh(roles, cmap=colours, vmin=-0.5, vmax=3.5, edgecolors="white", linewidth=1)
        for block, head in np.argwhere(roles != style.NEITHER):
            letter = "spb"[roles[block, head]]
            ax.text(head + 0.5, block + 0.5, letter, ha="center", va="center", color="white", fontsize=6, weight="bold")
        ax.set_xticks(np.arange(0, mask.shape[1], 3) + 0.5, map(str, range(0, mask.shape[1], 3)))
        ax.set_yticks(np.arange(mask.shape[0]) + 0.5, map(str, range(mask.shape[0])))
        style.set_titles(ax, name, "head", "block")
    shown = sorted({int(role) for mask in masks.values() for role in style.head_roles(mask).flat} - {style.NEITHER})
    keys = [Patch(color=style.ROLE_COLOURS[role], label=f"{style.ROLES[role]} ({'spb'[role]})") for role in shown]
    figure.legend(handles=keys, loc="outside lower center", ncols=3)
    return figure


@checked
def attribution_differences(
    ours: Saliency | Sequence[Saliency], others: Mapping[str, Saliency | Sequence[Saliency]], titles: Sequence[str] = ()
) -> Figure:
    """Figures 6 to 13 of Song et al. (2024): the scores of one method, and their differences to each baseline below.

    Several texts stand below each other: `ours` and each of `others` then have an explanation of every text, and
    `titles` may name them. Scores are divided by the sum of their absolute values, so that methods can be compared. All
    differences of a text have the same colour scale. Where all differences are negligible, words say so instead.
    The paper's green and red are orange and blue here.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> ours, gae = (nbsal.Explainer(subject, name)("A joy.") for name in ("mask-lrp", "gae"))
    >>> len(attribution_differences(ours, {"gae": gae}).axes)
    1
    """
    scored = [ours] if isinstance(ours, Saliency) else list(ours)
    baselines = {name: [each] if isinstance(each, Saliency) else list(each) for name, each in others.items()}
    shape = [each.row.ids for each in scored]
    other_texts = [name for name, each in baselines.items() if [saliency.row.ids for saliency in each] != shape]
    if other_texts:
        raise InputError(
            f"These explain other texts than {scored[0].method}: {', '.join(other_texts)}. Pass explanations of the "
            "same texts by one model.",
            argument="others",
            value=other_texts,
        )
    if titles:
        check_one_per_text(titles, "titles", len(scored))
    parts: list[tuple[str, Any, float]] = []
    for number, saliency in enumerate(scored):
        title = f"{titles[number]}. " if titles else ""
        parts += _differences(title, saliency, {name: each[number] for name, each in baselines.items()})
    method = scored[0].method
    return style.texts(parts, f"Orange: higher with {method}. Blue: lower, underlined unless faint.")


def _differences(title: str, ours: Saliency, others: Mapping[str, Saliency]) -> list[tuple[str, Any, float]]:
    """The scores of one text and their differences, as `style.texts` takes them."""
    base = score_shares(ours)
    differences = {
        name: replace(base, scores=base.scores - score_shares(other).scores) for name, other in others.items()
    }
    largest = max((difference.largest for difference in differences.values()), default=0.0)
    parts = [(f"{title}{ours.method}: {ours.prediction}, normalised scores", base.scored_spans(), base.largest)]
    for name, difference in differences.items():
        blank = difference.largest < NEGLIGIBLE * largest
        words = f"minus {name}: below {NEGLIGIBLE:.0%} of the largest difference" if blank else f"minus {name}"
        parts.append((words, [] if blank else difference.scored_spans(), largest))
    return parts


@checked
def score_shares(saliency: Saliency) -> Saliency:
    """Divide the scores of an explanation by the sum of the absolute scores of its content tokens.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> float(abs(score_shares(explain("A joy.")).scores[1:-1]).sum().round(4))
    1.0
    """
    total = np.abs(saliency.scores[list(saliency.row.content)]).sum()
    return replace(saliency, scores=saliency.scores / total) if total else saliency


@checked
def faithfulness_table(
    panels: Mapping[str, Results], ours: Collection[str] = ("mask-lrp",), explainers: Sequence[str] | None = None
) -> "Styler":
    """Tables 1, 3 and 4 of Song et al. (2024): mean AOPC and log-odds by data set.

    The best is bold, its best competitor italic.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> results = nbsal.evaluation.faithfulness(explain, ["A joy.", "A bore."], progress=False)
    >>> faithfulness_table({"two texts": results}).data.columns[0]
    ('two texts', 'aopc ↑')
    """
    return score_table(panels, ours, explainers, DELETION_MEASURES, side_by_side=True)


@checked
def answer_table(panels: Mapping[str, Results], ours: Collection[str] = ("mask-lrp",)) -> "Styler":
    """Table 2 of Song et al. (2024): how well explanations of spans find the gold answer, by data set and model.

    `panels` maps the title of a group of columns (data set and model) to the results of
    `nbsal.evaluation.answer_recall_at` or `nbsal.evaluation.precision_at`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/answers"), "gradcam")
    >>> results = nbsal.evaluation.answer_recall_at(explain, [("Who wrote it?", "Ada did.")], [(0, 3)], progress=False)
    >>> answer_table({"one question": results}).data.columns[0]
    ('one question', 'answer recall ↑')
    """
    return score_table(panels, ours, side_by_side=True)
