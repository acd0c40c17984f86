"""Results of an evaluation as data frames with confidence intervals, tables and plots."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nbsal.errors import InputError, UnknownName
from nbsal.evaluation.bootstrap import Bootstrap, Floats, difference, interval
from nbsal.render import html
from nbsal.validation import loading

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from pandas.io.formats.style import Styler

FORMAT = 1
# Distinguishable with any kind of colour vision.
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES = ("-", "--", "-.", ":")
BEST, RIVAL = "font-weight: bold", "font-style: italic"


@dataclass(frozen=True, eq=False)
class Curve:
    """One measure of one explainer at every point, with its bootstrap draws.

    `runs` has one row per run of the explainer (a stochastic one may have several); their mean is the value.
    """

    points: tuple[float, ...]
    runs: Floats  # [run, point]
    draws: Floats  # [draw, point]

    @classmethod
    def from_values(cls, points: Sequence[float], values: Floats, bootstrap: Bootstrap) -> "Curve":
        """The curve of values for every run, point and text: [run, point, text]."""
        return cls(tuple(map(float, points)), bootstrap.mean(values), bootstrap.draws(values.mean(0)))

    @property
    def value(self) -> Floats:
        """The mean over runs: [point]."""
        return self.runs.mean(0)  # type: ignore[no-any-return]

    def weights(self, summary: str) -> Floats:
        """The weight of each point in a summary: "auc" (area under the curve by trapezoids) or "mean"."""
        if summary == "mean" or len(self.points) == 1:
            return np.full(len(self.points), 1 / len(self.points))
        steps = np.diff(self.points) / 2
        return np.append(steps, 0) + np.insert(steps, 0, 0)


@dataclass(frozen=True)
class MetricInfo:
    """Names of the columns of results, how a curve is summarised, and which direction is better for each measure.

    `summary` is "auc" or "mean"; `better` maps a measure to "high" or "low".
    """

    measure: str = "measure"
    point: str = "fraction"
    value: str = "value"
    summary: str = "mean"
    better: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
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
        """One row per explainer, measure and point; `spread` is the standard deviation between runs."""
        import pandas

        rows: list[Any] = []
        for (name, measure), curve in self.curves.items():
            low, high = interval(curve.draws)
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
        import pandas

        rows = [
            (name, measure, len(sums), sums.mean(), _spread(sums[:, None])[0])
            for (name, measure), curve in self.curves.items()
            if len(sums := curve.runs @ curve.weights(self.metric.summary)) > 1
        ]
        return pandas.DataFrame(rows, columns=["explainer", self.metric.measure, "runs", "mean", "sd"])

    def paired(self, first: str, second: str) -> "pandas.DataFrame":
        """How much better the first explainer is than the second, with a paired bootstrap test over texts."""
        import pandas

        rows = []
        for measure in self.measures:
            ours, theirs = self._curve(first, measure), self._curve(second, measure)
            a, b = ours.weights(self.metric.summary), theirs.weights(self.metric.summary)
            sign = -1 if self.metric.better.get(measure) == "low" else 1
            sums = (sign * float(ours.value @ a), sign * float(theirs.value @ b))
            margin = difference(*sums, sign * (ours.draws @ a), sign * (theirs.draws @ b))
            rows.append((first, second, measure, margin.value, margin.low, margin.high, margin.p))
        columns = ["first", "second", self.metric.measure, "margin", "low", "high", "p"]
        return pandas.DataFrame(rows, columns=columns)

    def best(self, measure: str, among: Collection[str] | None = None) -> str:
        """The best explainer by a measure, the first one if several are equal; `among` restricts the choice."""
        names = self.explainers if among is None else [name for name in self.explainers if name in among]
        sign = -1 if self.metric.better.get(measure) == "low" else 1
        return max(names, key=lambda name: sign * self._summary_value(name, measure))

    def cell_styles(
        self, measure: str, ours: Collection[str] = (), among: Collection[str] | None = None
    ) -> dict[str, str]:
        """The CSS of each explainer's cell, as in the papers: the best is bold, the best competitor italic.

        Competitors are all explainers except the best one and those in `ours`.
        """
        names = [name for name in self.explainers if among is None or name in among]
        best = self.best(measure, names)
        others = [name for name in names if name != best and name not in ours]
        rival = {self.best(measure, others): RIVAL} if others else {}
        return dict.fromkeys(names, "") | rival | {best: BEST}

    def table(self, ours: Collection[str] = ()) -> "Styler":
        """A table of explainers by measures, as in the papers; for `ours` see `cell_styles`."""
        import pandas

        summary = self.metric.summary
        values = self._summarise(summary).set_index(["explainer", self.metric.measure])
        intervals = {key: f"{low:.3f} to {high:.3f}" for key, low, high in values[["low", "high"]].itertuples()}
        cells = {
            (self.heading(m), part): {
                name: values.at[(name, m), summary] if part == summary else intervals[name, m]
                for name in self.explainers
                if (name, m) in self.curves
            }
            for m in self.measures
            for part in (summary, "95 %")
        }
        numbers = pandas.DataFrame(cells).reindex(self.explainers)
        styles = pandas.DataFrame("", index=numbers.index, columns=numbers.columns)
        for m in self.measures:
            styles[self.heading(m), summary] = self.cell_styles(m, ours)
        styled = (
            numbers.style.format(precision=3, escape="html")
            .format_index(lambda name: html.escape(str(name)))
            .apply(lambda _: styles, None)
        )
        return styled.set_caption(html.escape(". ".join(self.notes)))

    def plot(self, explainers: Sequence[str] | None = None) -> "Figure":
        """Plot one panel per measure and one line per explainer.

        Bands are 95 % confidence intervals over texts, or the range over runs where an explainer has several.
        """
        from matplotlib import pyplot

        names = self.explainers if explainers is None else list(explainers)
        size = (4.2 * len(self.measures) + 1.8, 3.6)
        figure, axes = pyplot.subplots(1, len(self.measures), figsize=size, layout="constrained", squeeze=False)
        for ax, measure in zip(axes[0], self.measures, strict=True):
            for at, name in enumerate(names):
                _draw_curve(ax, self._curve(name, measure), html.visible(name), at)
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
        import pandas

        rows = []
        for (name, measure), curve in self.curves.items():
            weights = curve.weights(summary)
            low, high = interval(curve.draws @ weights)
            rows.append((name, measure, float(curve.value @ weights), float(low), float(high)))
        return pandas.DataFrame(rows, columns=["explainer", self.metric.measure, summary, "low", "high"])

    def _summary_value(self, name: str, measure: str) -> float:
        curve = self._curve(name, measure)
        return float(curve.value @ curve.weights(self.metric.summary))

    def _curve(self, name: str, measure: str) -> Curve:
        if (name, measure) not in self.curves:
            raise UnknownName("explainer", name, self.explainers)
        return self.curves[name, measure]

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def __repr__(self) -> str:
        return f"Results({', '.join(self.explainers)}: {', '.join(self.measures)}; {'. '.join(self.notes)})"

    def save(self, path: str | Path) -> None:
        """Save the results as an .npz file, from which `load` restores them exactly."""
        head = {"nbsal": FORMAT, "sheet": asdict(self.metric), "notes": self.notes, "curves": list(self.curves)}
        arrays: dict[str, Any] = {}
        for at, curve in enumerate(self.curves.values()):
            arrays |= {f"{part}{at}": getattr(curve, part) for part in ("points", "runs", "draws")}
        with Path(path).open("wb") as file:
            np.savez_compressed(file, head=np.array(json.dumps(head)), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Load results that `save` wrote."""
        with loading(path, "saved Results"):
            with np.load(BytesIO(Path(path).read_bytes()), allow_pickle=False) as stored:
                head = json.loads(str(stored["head"]))
                if head["nbsal"] != FORMAT:
                    message = f"{path} has format {head['nbsal']}, but this version of nbsal reads format {FORMAT}."
                    raise InputError(message, argument="path", value=path)
                curves = {
                    (name, measure): Curve(tuple(stored[f"points{at}"]), stored[f"runs{at}"], stored[f"draws{at}"])
                    for at, (name, measure) in enumerate(head["curves"])
                }
            return cls(MetricInfo(**head["sheet"]), curves, tuple(head["notes"]))


def join_results(parts: Sequence[Results]) -> Results:
    """Join results on the same texts; curves of the same name are joined as runs of one explainer."""
    curves: dict[tuple[str, str], list[Curve]] = {}
    for part in parts:
        for key, curve in part.curves.items():
            curves.setdefault(key, []).append(curve)
    return Results(parts[0].metric, {key: _join_runs(runs) for key, runs in curves.items()}, parts[0].notes)


def _join_runs(curves: Sequence[Curve]) -> Curve:
    runs = np.concatenate([curve.runs for curve in curves])
    draws = sum(len(curve.runs) * curve.draws for curve in curves) / len(runs)
    return Curve(curves[0].points, runs, np.asarray(draws))


def _spread(runs: Floats) -> Floats:
    """The standard deviation between runs; NaN for a single run."""
    return runs.std(0, ddof=1) if len(runs) > 1 else np.full(runs.shape[1], np.nan)


def _draw_curve(ax: Any, curve: Curve, name: str, at: int) -> None:
    hue, line = HUES[at % len(HUES)], LINES[at // len(HUES) % len(LINES)]
    low, high = (curve.runs.min(0), curve.runs.max(0)) if len(curve.runs) > 1 else interval(curve.draws)
    ax.plot(curve.points, curve.value, line, color=hue, label=name, marker="o" if len(curve.points) == 1 else None)
    ax.fill_between(curve.points, low, high, color=hue, alpha=0.15, linewidth=0)
