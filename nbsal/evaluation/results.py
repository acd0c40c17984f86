"""Results of an evaluation as data frames with confidence intervals, tables and plots."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np

from nbsal.evaluation.curve import Curve, join_runs
from nbsal.evaluation.permutation import CHANCE, holm
from nbsal.methods.labels import look
from nbsal.model.loading.plain_values import from_plain
from nbsal.model.loading.result_file import load_result, save_result
from nbsal.model.loading.saved_files import check_format, parse_json, read_npz
from nbsal.render import html
from nbsal.support.arrays import Floats
from nbsal.support.errors import UnknownName
from nbsal.support.intervals import Bounds
from nbsal.support.lazy import Figure, Styler, pandas, pyplot
from nbsal.support.validation import checked, plural

FORMAT = 2  # of .npz, which 0.2.0 wrote during its development
NOUN = "Results"
# Distinguishable with any kind of colour vision.
BEST, RIVAL = "font-weight: bold", "font-style: italic"
DIGITS = 3  # of the numbers in tables
SUMMARIES = {"auc": "area under the curve", "mean": "mean"}
GAMES = {"revealing": "high", "hiding": "low"}  # the direction of each game's better accuracy


@checked
@dataclass(frozen=True)
class MetricInfo:
    """Names of the columns of results, how a curve is summarised, and what is known of each measure.

    `summary` is "auc" or "mean"; `better` maps a measure to "high" or "low", the direction that is better, and `bounds`
    to its smallest and largest possible value for a text.
    """

    measure: str = "measure"
    point: str = "fraction"
    value: str = "value"
    summary: str = "mean"
    better: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    def bounds_of(self, measure: str, scale: float = 1.0) -> Bounds | None:
        """The smallest and largest possible value of a measure, or of its sum with weights that sum to `scale`."""
        bounds = self.bounds.get(measure)
        return None if bounds is None else (scale * bounds[0], scale * bounds[1])


@dataclass(frozen=True, eq=False)
@checked
class Results:
    """Results of an evaluation: `curves` by (explainer, measure), and `notes` on the texts and settings.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> results = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> list(results.frame.columns)
    ['explainer', 'game', 'fraction', 'accuracy', 'low', 'high', 'spread']
    """

    metric: MetricInfo
    curves: Mapping[tuple[str, str], Curve]
    notes: tuple[str, ...] = ()

    @property
    def explainers(self) -> list[str]:
        """The names of the explainers, in the order they were passed."""
        return list(dict.fromkeys(name for name, _ in self.curves))

    @property
    def measures(self) -> list[str]:
        """The names of the measures."""
        return list(dict.fromkeys(measure for _, measure in self.curves))

    @property
    def frame(self) -> "pandas.DataFrame":
        """One row per explainer, measure and point, with its 95 % interval over texts.

        `spread` is the standard deviation between runs.
        """
        rows: list[Any] = []
        for (name, measure), curve in self.curves.items():
            low, high = curve.interval(self.metric.bounds_of(measure))
            parts = (curve.points, curve.value, low, high, _spread(curve.runs))
            rows += [(name, measure, *row) for row in zip(*parts, strict=True)]
        columns = ["explainer", self.metric.measure, self.metric.point, self.metric.value, "low", "high", "spread"]
        return pandas.DataFrame(rows, columns=columns)

    def auc(self) -> "pandas.DataFrame":
        """The area under each curve by trapezoids, with its 95 % confidence interval over texts."""
        return self._summarise("auc")

    def mean(self) -> "pandas.DataFrame":
        """The mean of each curve's points, with its 95 % confidence interval over texts."""
        return self._summarise("mean")

    def spread(self) -> "pandas.DataFrame":
        """For explainers with several runs: their number, and the mean and standard deviation of their summaries."""
        rows = [
            (name, measure, len(sums), sums.mean(), _spread(sums[:, None])[0])
            for (name, measure), curve in self.curves.items()
            if len(sums := curve.runs @ curve.weights(self.metric.summary)) > 1
        ]
        return pandas.DataFrame(rows, columns=["explainer", self.metric.measure, "runs", "mean", "sd"])

    def paired(
        self, first: str, second: str | Sequence[str] | None = None, measures: Collection[str] | None = None
    ) -> "pandas.DataFrame":
        """How much better the first explainer is than others, with paired tests over texts.

        `second` is one explainer or several, all others by default. `p` is the p-value of one comparison; `p_holm` is
        adjusted for the number of comparisons in the frame, which is in its last column (Holm 1979).
        """
        others = [second] if isinstance(second, str) else second
        others = [name for name in self.explainers if name != first] if others is None else others
        chosen = [m for m in self.measures if (measures is None or m in measures) and first in self._measured(m)]
        keys = [
            (other, m) for other in others for m in chosen if other not in self.explainers or other in self._measured(m)
        ]
        margins = [self._margin(first, other, measure) for other, measure in keys]
        rows = [
            (first, *key, margin.value.item(), *self._margin_ends(margin, key[1]))
            for key, margin in zip(keys, margins, strict=True)
        ]
        frame = pandas.DataFrame(rows, columns=["first", "second", self.metric.measure, "margin", "low", "high"])
        p = Curve.stacked(margins).margin_p() if margins else np.empty(0)
        return frame.assign(p=p, p_holm=holm(p), comparisons=int((~np.isnan(p)).sum()))

    def ranks(self, measure: str) -> "pandas.DataFrame":
        """The explainers by a measure, with their 95 % intervals, best first; those that tie have the same rank.

        The rank is 1 and the number of explainers that are better beyond chance: in paired tests of all pairs, with
        p-values adjusted for their number (Holm 1979).
        """
        summary = self.metric.summary
        pairs = list(combinations(self._measured(measure), 2))
        frame = self._summarise(summary).set_index(self.metric.measure).loc[[measure]].set_index("explainer")
        margins = [self._margin(*pair, measure) for pair in pairs]
        p = holm(Curve.stacked(margins).margin_p()) if margins else ()
        better = Counter[str]()  # how many are better than each
        for pair, margin, value in zip(pairs, margins, p, strict=True):
            if value <= CHANCE:
                better[pair[margin.value.item() > 0]] += 1
        frame = frame.assign(rank=[1 + better[name] for name in frame.index])
        down = self.metric.better.get(measure) != "low"
        return frame.sort_values(["rank", summary], ascending=[True, not down], kind="stable")

    def best(self, measure: str, among: Collection[str] | None = None) -> str:
        """The best explainer by a measure, the first one if several are equal; `among` restricts the choice."""
        names = self.explainers if among is None else [name for name in self.explainers if name in among]
        if not names:
            raise UnknownName("among", among, self.explainers)
        measured = self._measured(measure)
        sign = -1 if self.metric.better.get(measure) == "low" else 1
        return max(
            (name for name in names if name in measured), key=lambda name: sign * self._summary_value(name, measure)
        )

    def cell_styles(
        self, measure: str, ours: Collection[str] = (), among: Collection[str] | None = None
    ) -> dict[str, str]:
        """The CSS of each explainer's cell, as in the papers: the best is bold, the best competitor italic.

        Competitors are all explainers except the best and those in `ours`. Explainers that tables show with the same
        number tie, and ties look alike.
        """
        names = [name for name in self._measured(measure) if among is None or name in among]
        best = self._ties(measure, names)
        rivals = self._ties(measure, [name for name in names if name not in best and name not in ours])
        return dict.fromkeys(self.explainers, "") | dict.fromkeys(rivals, RIVAL) | dict.fromkeys(best, BEST)

    def table(self, ours: Collection[str] = ()) -> "Styler":
        """A table of explainers by measures, as in the papers; for `ours` see `cell_styles`."""
        summary = self.metric.summary
        values = self._summarise(summary).set_index(["explainer", self.metric.measure])
        cells: dict[str, Any] = {}
        styles: dict[str, Any] = {}
        for m in self.measures:
            rows, heading = values.xs(m, level=1), self.heading(m)
            cells[heading] = pandas.Series([_with_interval(*row) for row in rows.to_numpy()], rows.index)
            styles[heading] = self.cell_styles(m, ours)
        numbers = pandas.DataFrame(cells).reindex(self.explainers).rename_axis(None)
        css = pandas.DataFrame(styles, numbers.index)
        styled = (
            numbers.style.format(escape="html", na_rep="")
            .format_index(lambda name: html.escape(str(name)))
            .apply(lambda _: css, None)
        )
        notes = [f"{SUMMARIES[summary]} (interval)", *self.notes, intervals_note(int(values["low"].notna().sum()))]
        return styled.set_caption(html.escape("; ".join(notes)))

    def plot(self, explainers: Sequence[str] | None = None) -> "Figure":
        """Plot one panel per measure and one line per explainer.

        Bands are 95 % confidence intervals over texts, or the range over runs where an explainer has several.
        """
        names = self.explainers if explainers is None else list(explainers)
        size = (4.2 * len(self.measures) + 1.8, 3.6)
        figure, axes = pyplot.subplots(1, len(self.measures), figsize=size, layout="constrained", squeeze=False)
        for ax, measure in zip(axes[0], self.measures, strict=True):
            for at, name in enumerate(names):
                if name in self.explainers and name not in self._measured(measure):
                    continue
                _draw_curve(ax, self._curve(name, measure), html.visible(name), at, self.metric.bounds_of(measure))
            ax.set_title(self.heading(measure), parse_math=False)
            ax.set_xlabel(self.metric.point)
            ax.set_ylabel(self.metric.value)
            ax.spines[["top", "right"]].set_visible(False)
        several_runs = any(len(curve.runs) > 1 for (name, _), curve in self.curves.items() if name in names)
        bands = "95 % confidence intervals" + (", or the range over runs" if several_runs else "")
        entries = axes[0][0].get_legend_handles_labels()
        legend = figure.legend(*entries, loc="outside right upper", frameon=False, title=bands)
        for text in legend.get_texts():
            text.set_parse_math(False)
        return figure

    def heading(self, measure: str) -> str:
        """The name of a measure with an arrow in the direction that is better."""
        arrow = {"high": " \N{UPWARDS ARROW}", "low": " \N{DOWNWARDS ARROW}"}
        return measure + arrow.get(self.metric.better.get(measure, ""), "")

    def _summarise(self, summary: str) -> "pandas.DataFrame":
        rows = []
        for (name, measure), curve in self.curves.items():
            total = curve.summed(summary)
            low, high = total.interval(self.metric.bounds_of(measure, float(curve.weights(summary).sum())))
            rows.append((name, measure, *(float(part.item()) for part in (total.value, low, high))))
        return pandas.DataFrame(rows, columns=["explainer", self.metric.measure, summary, "low", "high"])

    def _margin(self, first: str, second: str, measure: str) -> Curve:
        """How much better one explainer is than another by the summary of a measure."""
        ours, theirs = (self._curve(name, measure).summed(self.metric.summary) for name in (first, second))
        return theirs.minus(ours) if self.metric.better.get(measure) == "low" else ours.minus(theirs)

    def _margin_ends(self, margin: Curve, measure: str) -> tuple[float, float]:
        """The ends of the interval of a margin by a measure."""
        curve = next(curve for (_, name), curve in self.curves.items() if name == measure)
        bounds = self.metric.bounds_of(measure, float(curve.weights(self.metric.summary).sum()))
        low, high = margin.margin_interval(None if bounds is None else bounds[1] - bounds[0])
        return low.item(), high.item()

    def _ties(self, measure: str, among: Sequence[str]) -> list[str]:
        """The best of some explainers and all that tables cannot tell from it."""
        if not among:
            return []
        best = round(self._summary_value(self.best(measure, among), measure), DIGITS)
        return [name for name in among if round(self._summary_value(name, measure), DIGITS) == best]

    def _measured(self, measure: str) -> list[str]:
        """The explainers that have a measure; one that cannot explain some models may lack it."""
        if measure not in self.measures:
            raise UnknownName("measure", measure, self.measures)
        return [name for name, other in self.curves if other == measure]

    def _summary_value(self, name: str, measure: str) -> float:
        curve = self._curve(name, measure)
        return float(curve.value @ curve.weights(self.metric.summary))

    def _curve(self, name: str, measure: str) -> Curve:
        if name not in self._measured(measure):
            raise UnknownName("explainer", name, self._measured(measure))
        return self.curves[name, measure]

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def __repr__(self) -> str:
        return f"Results({', '.join(self.explainers)}: {', '.join(self.measures)}; {'; '.join(self.notes)})"

    def save(self, path: str | Path) -> None:
        """Save the results in a file of their own format, from which `load` restores them exactly."""
        save_result(path, Results, NOUN, self, _check)

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Load results that `save` wrote."""
        return load_result(path, Results, NOUN, _load_npz, _check)


def _check(results: Results) -> None:
    """Raise ValueError if the parts could not be used."""
    metric, texts = results.metric, [*results.notes, *chain.from_iterable(results.curves)]
    if metric.summary not in ("auc", "mean") or not set(metric.better.values()) <= {"high", "low"}:
        raise ValueError("a metric of another kind")
    if not all(low <= high for low, high in metric.bounds.values()):
        raise ValueError("bounds that are not the smallest and the largest value")
    if not results.curves or not all(type(text) is str for text in texts):
        raise ValueError("the curves and their names do not match")
    for curve in results.curves.values():
        runs, samples, points = curve.runs, curve.samples, np.array(curve.points)
        if not np.isfinite(points).all() or not runs.dtype.kind == samples.dtype.kind == "f":
            raise ValueError("a curve that is not made of numbers")
        fits = runs.ndim == samples.ndim == 2 and runs.size and samples.size
        if not fits or not runs.shape[1] == len(samples) == len(points):
            raise ValueError("a curve whose parts have different lengths")
        if curve.resampled is not None and (type(curve.resampled) is not int or curve.resampled < 1):
            raise ValueError("a curve of bootstrap samples without a number of texts")


def _load_npz(path: str | Path) -> Results:
    """Load what 0.2.0 wrote during its development."""
    arrays = read_npz(path)
    head = parse_json(str(arrays.pop("head")))
    check_format(path, head["nbsal"], FORMAT)
    curves = {}
    for at, (key, resampled) in enumerate(zip(head["curves"], head["resampled"], strict=True)):
        points, runs, samples = (arrays.pop(f"{part}{at}") for part in ("points", "runs", "samples"))
        curves[from_plain(tuple[str, str], key)] = Curve(tuple(points.tolist()), runs, samples, resampled)
    if arrays or len(curves) < len(head["curves"]):
        raise ValueError("the curves and their names do not match")
    return Results(from_plain(MetricInfo, head["sheet"]), curves, from_plain(tuple[str, ...], head["notes"]))


def join_results(parts: Sequence[Results]) -> Results:
    """Join results on the same texts; curves of the same name are joined as runs of one explainer."""
    curves: dict[tuple[str, str], list[Curve]] = {}
    for part in parts:
        for key, curve in part.curves.items():
            curves.setdefault(key, []).append(curve)
    return Results(parts[0].metric, {key: join_runs(runs) for key, runs in curves.items()}, parts[0].notes)


def _with_interval(value: float, low: float, high: float) -> str:
    """A number with its interval, if it has one."""
    return f"{value:.{DIGITS}f}" + ("" if np.isnan(low) else f" ({low:.{DIGITS}f} to {high:.{DIGITS}f})")


def intervals_note(count: int) -> str:
    """What a table says about the number of its intervals."""
    return f"{plural(count, 'separate 95 % interval')}, not adjusted for their number"


def _spread(runs: Floats) -> Floats:
    """The standard deviation between runs; NaN for a single run."""
    return runs.std(0, ddof=1) if len(runs) > 1 else np.full(runs.shape[1], np.nan)


def _draw_curve(ax: Any, curve: Curve, name: str, at: int, bounds: Bounds | None) -> None:
    style = look(name, at)
    low, high = (curve.runs.min(0), curve.runs.max(0)) if len(curve.runs) > 1 else curve.interval(bounds)
    ax.plot(curve.points, curve.value, style.line, color=style.colour, label=name, marker=style.marker, markersize=4)
    ax.fill_between(curve.points, low, high, color=style.colour, alpha=0.15, linewidth=0)
