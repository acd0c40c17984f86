"""Figures and tables of "Better Explain Transformers by Illuminating Important Information" (Song et al. 2024).

Figure 1 `relation_distances`; 2 `relevance_flow`; 3 `deletion_curves`; 4 `corruption_curves`; 5 `head_maps`; 6-13
`attribution_differences`; Tables 1, 3, 4 `faithfulness_table`; 2 `answer_table`; 5 and 6 are in
`nbsal.figures.checkpoints`: `dataset_table`, `checkpoint_table`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nbsal.errors import InputError
from nbsal.evaluation.results import Results
from nbsal.figures import style, text_lines
from nbsal.figures.tables import score_table
from nbsal.heads.statistics import HeadStudy
from nbsal.model.head_mask import HeadMask
from nbsal.render import html
from nbsal.saliency import Saliency

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

DELETION = ("aopc", "log-odds")
FARTHEST = 8  # words: what lies beyond is rare


@style.draw_figure
def relation_distances(study: HeadStudy) -> Figure:
    """Figure 1: how many words after a dependent its head stands, by relation.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> found = nbsal.heads.study(nbsal.load("demo/reviews"), [parse], progress=False)
    >>> [ax.get_title() for ax in relation_distances(found).axes]
    ['nsubj (0)', 'obj (0)', 'amod (1)', 'advmod (0)']
    """
    names = list(study.cases)
    columns = min(len(names), 2)
    figure, axes = style.panels(-(-len(names) // columns), columns, 3.4, 2.0)
    offsets = study.offsets
    for at, ax in enumerate(axes.flat):
        ax.set_visible(at < len(names))
        if at >= len(names):
            continue
        own = offsets[(offsets["relation"] == names[at]) & (offsets["offset"].abs() <= FARTHEST)]
        ax.bar(own["offset"], own["share"], color=style.hue(at))
        ax.set_xlim(-FARTHEST - 0.7, FARTHEST + 0.7)
        style.titled(ax, f"{names[at]} ({study.cases[names[at]]})", "words from dependent to head", "share")
    return figure


@style.draw_figure
def deletion_curves(
    results: Results, explainers: Sequence[str] | None = None, measures: Sequence[str] = DELETION
) -> Figure:
    """Figure 3: AOPC and log-odds as ever more of the most important tokens are hidden.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gae")
    >>> found = nbsal.evaluation.faithfulness(explain, ["A joy.", "A bore."], progress=False)
    >>> [ax.get_title() for ax in deletion_curves(found).axes]
    ['aopc ↑', 'log-odds ↓']
    """
    figure, axes = style.panels(1, len(measures), 3.1, 3.2)
    for ax, measure in zip(axes[0], measures, strict=True):
        style.curves(ax, results, measure, results.explainers if explainers is None else explainers)
        style.titled(ax, results.headed(measure), "share of tokens hidden", measure)
    style.legend(figure, axes[0][0])
    return figure


@style.draw_figure
def corruption_curves(results: Results, measures: Sequence[str] = DELETION) -> Figure:
    """Figure 4: what becomes of Mask-LRP as heads that its mask leaves out are let in at random.

    Explainers are named after the share let in: "0 %", "20 %" and so on, each of several runs, whose deviation is the
    band. Any others are drawn as level lines.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> masks = {f"{percent} %": subject.mask.corrupted(percent / 100, 0) for percent in (0, 50)}
    >>> some = {name: nbsal.Explainer(subject, "mask-lrp", mask=mask) for name, mask in masks.items()}
    >>> found = nbsal.evaluation.faithfulness(some, ["A joy.", "A bore."], progress=False)
    >>> corruption_curves(found).axes[0].lines[0].get_xdata().tolist()
    [0.0, 50.0]
    """
    rates = {name: float(name.removesuffix("%")) for name in results.explainers if name.endswith("%")}
    if not rates:
        raise InputError(f"No explainer is named after a share, such as '20 %': {', '.join(results.explainers)}.")
    figure, axes = style.panels(1, len(measures), 3.3, 3.0)
    means = results.mean().set_index(["explainer", "measure"])["mean"]
    spreads = results.spread().set_index(["explainer", "measure"])["sd"]
    for ax, measure in zip(axes[0], measures, strict=True):
        x = np.array(list(rates.values()))
        y = np.array([means[name, measure] for name in rates])
        sd = np.array([spreads.get((name, measure), 0.0) for name in rates])
        ax.plot(x, y, "o-", color=style.hue(0), label="mask-lrp, corrupted mask", markersize=4)
        ax.fill_between(x, y - sd, y + sd, color=style.hue(0), alpha=0.2, linewidth=0)
        for at, name in enumerate([name for name in results.explainers if name not in rates], 1):
            ax.axhline(means[name, measure], color=style.hue(at), linestyle="--", label=html.label(name, 30))
        style.titled(ax, results.headed(measure), "heads let in, % of those left out", f"mean {measure}")
    style.legend(figure, axes[0][0], 3, "outside lower center")
    return figure


@style.draw_figure
def head_maps(masks: Mapping[str, HeadMask]) -> Figure:
    """Figure 5: which heads of each model are syntactic, positional, or both.

    >>> import nbsal
    >>> figure = head_maps({"reviews": nbsal.load("demo/reviews").mask})
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('head', 'block')
    """
    columns = min(len(masks), 4)
    figure, axes = style.panels(-(-len(masks) // columns), columns, 6.8 / max(2, columns), 2.2)
    for ax, (name, mask) in zip(axes.flat, masks.items(), strict=False):
        syntactic, positional = mask.syntactic | mask.unnamed, mask.positional
        kinds = np.full(mask.shape, style.NEITHER)
        kinds[syntactic], kinds[positional] = style.SYNTACTIC, style.POSITIONAL
        kinds[syntactic & positional] = style.BOTH
        colours = ListedColormap([*style.SHADES[:3], "#f2f2f2"])
        ax.pcolormesh(kinds, cmap=colours, vmin=-0.5, vmax=3.5, edgecolors="white", linewidth=1)
        for block, head in np.argwhere(kinds != style.NEITHER):
            letter = "spb"[kinds[block, head]]
            ax.text(head + 0.5, block + 0.5, letter, ha="center", va="center", color="white", fontsize=6, weight="bold")
        ax.set_xticks(np.arange(0, mask.shape[1], 3) + 0.5, range(0, mask.shape[1], 3))
        ax.set_yticks(np.arange(mask.shape[0]) + 0.5, range(mask.shape[0]))
        style.titled(ax, name, "head", "block")
    for ax in axes.flat[len(masks) :]:
        ax.set_visible(False)
    named = zip(style.SHADES[:3], ("syntactic (s)", "positional (p)", "both (b)"), strict=True)
    figure.legend(handles=[Patch(color=c, label=n) for c, n in named], loc="outside lower center", ncols=3)
    return figure


def attribution_differences(ours: Saliency, others: Mapping[str, Saliency]) -> Figure:
    """Figures 6 to 13: our scores in the first line, then where they are more or less than each baseline's.

    Scores of a text are shares of the sum of their sizes, so that methods can be compared. All differences have one
    scale. Green and red of the paper are orange and underlined blue here.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> ours, gae = (nbsal.Explainer(subject, name)("A joy.") for name in ("mask-lrp", "gae"))
    >>> len(attribution_differences(ours, {"gae": gae}).axes)
    1
    """
    if any(other.row.ids != ours.row.ids for other in others.values()):
        raise InputError("Differences are of explanations of one text by one model.")
    base = shares(ours)
    differences = {name: replace(base, scores=base.scores - shares(other).scores) for name, other in others.items()}
    largest = max((difference.largest for difference in differences.values()), default=0.0)
    first = text_lines.ScoredText(
        f"{ours.method}: {ours.prediction}, its own scores", base.scored_spans(), base.largest
    )
    rest = [
        text_lines.ScoredText(f"{ours.method} less {name}", difference.scored_spans(), largest)
        for name, difference in differences.items()
    ]
    return text_lines.draw([first, *rest], note=f"Orange: more with {ours.method}. Blue, underlined: less.")


def shares(saliency: Saliency) -> Saliency:
    """The same explanation with scores as shares of the sum of the sizes of its content tokens' scores.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> float(abs(shares(explain("A joy.")).scores[1:-1]).sum().round(4))
    1.0
    """
    size = np.abs(saliency.scores[list(saliency.row.content)]).sum()
    return replace(saliency, scores=saliency.scores / size) if size else saliency


def faithfulness_table(
    panels: Mapping[str, Results], ours: Collection[str] = ("mask-lrp",), explainers: Sequence[str] | None = None
) -> "Styler":
    """Tables 1, 3 and 4: mean AOPC and log-odds by data set; the best bold, its best competitor italic.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> found = nbsal.evaluation.faithfulness(explain, ["A joy.", "A bore."], progress=False)
    >>> faithfulness_table({"two texts": found}).data.columns[0]
    ('two texts', 'aopc ↑')
    """
    return score_table(panels, ours, explainers, DELETION, beside=True)


def answer_table(panels: Mapping[str, Results], ours: Collection[str] = ("mask-lrp",)) -> "Styler":
    """Table 2: how explanations of spans meet the gold answer, by data set and model.

    Results are those of `nbsal.evaluation.answer_recall_at` or `precision_at`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/answers"), "gradcam")
    >>> found = nbsal.evaluation.answer_recall_at(explain, [("Who wrote it?", "Ada did.")], [(0, 3)], progress=False)
    >>> answer_table({"one question": found}).data.columns[0]
    ('one question', 'answer recall ↑')
    """
    return score_table(panels, ours, beside=True)
