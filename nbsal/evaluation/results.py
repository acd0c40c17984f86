"""Results: what explainers reached, as tidy frames with intervals, as a table like the papers', and as a picture."""

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
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # told apart by every eye
LINES = ("-", "--", "-.", ":")
BEST, RIVAL = "font-weight: bold", "font-style: italic"


@dataclass(frozen=True, eq=False)
class Curve:
    """One measure of one explainer over its points, and the same on every draw of texts.

    `runs` has a row for each run of an explainer that draws at random; its mean is the value.
    """

    points: tuple[float, ...]
    runs: Floats  # [run, point]
    draws: Floats  # [draw, point]

    @classmethod
    def of(cls, points: Sequence[float], values: Floats, again: Bootstrap) -> "Curve":
        """From the values of every run at every point for every text, [run, point, text]."""
        return cls(tuple(map(float, points)), again.mean(values), again.draws(values.mean(0)))

    @property
    def value(self) -> Floats:
        """[point]."""
        return self.runs.mean(0)  # type: ignore[no-any-return]

    def weights(self, summary: str) -> Floats:
        """What a summary makes of the points: "auc" the area by trapezoids, "mean" their mean."""
        if summary == "mean" or len(self.points) == 1:
            return np.full(len(self.points), 1 / len(self.points))
        steps = np.diff(self.points) / 2
        return np.append(steps, 0) + np.insert(steps, 0, 0)


@dataclass(frozen=True)
class MetricInfo:
    """How results are headed: what a measure, a point and a value are called, and how a curve is summed up."""

    measure: str = "measure"
    point: str = "fraction"
    value: str = "value"
    summary: str = "mean"
    better: Mapping[str, str] = field(default_factory=dict)  # measure -> "high" or "low"


@dataclass(frozen=True, eq=False)
class Results:
    """What explainers reached; `curves` are by (explainer, measure), `notes` say on what.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> found = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> list(found.frame.columns)
    ['explainer', 'game', 'fraction', 'accuracy', 'low', 'high', 'spread']
    """

    sheet: MetricInfo
    curves: Mapping[tuple[str, str], Curve]
    notes: tuple[str, ...] = ()

    @property
    def explainers(self) -> list[str]:
        """Their names, in the order given."""
        return list(dict.fromkeys(name for name, _ in self.curves))

    @property
    def measures(self) -> list[str]:
        """The names of the measures."""
        return list(dict.fromkeys(measure for _, measure in self.curves))

    @property
    def frame(self) -> "pandas.DataFrame":
        """One row for each explainer, measure and point; `spread` is the deviation between runs drawn at random."""
        import pandas

        rows: list[Any] = []
        for (name, measure), curve in self.curves.items():
            low, high = interval(curve.draws)
            parts = (curve.points, curve.value, low, high, _spread(curve.runs))
            rows += [(name, measure, *row) for row in zip(*parts, strict=True)]
        columns = ["explainer", self.sheet.measure, self.sheet.point, self.sheet.value, "low", "high", "spread"]
        return pandas.DataFrame(rows, columns=columns)

    def auc(self) -> "pandas.DataFrame":
        """The area under each curve by trapezoids, with its 95 % interval over texts."""
        return self._summed("auc")

    def mean(self) -> "pandas.DataFrame":
        """The mean of each curve's points, with its 95 % interval over texts."""
        return self._summed("mean")

    def spread(self) -> "pandas.DataFrame":
        """For explainers that draw at random: how many runs, and the mean and deviation of their summaries."""
        import pandas

        rows = [
            (name, measure, len(sums), sums.mean(), _spread(sums[:, None])[0])
            for (name, measure), curve in self.curves.items()
            if len(sums := curve.runs @ curve.weights(self.sheet.summary)) > 1
        ]
        return pandas.DataFrame(rows, columns=["explainer", self.sheet.measure, "runs", "mean", "sd"])

    def paired(self, first: str, second: str) -> "pandas.DataFrame":
        """How much better the first explainer is than the second, tested on the same draws of texts."""
        import pandas

        rows = []
        for measure in self.measures:
            ours, theirs = self._curve(first, measure), self._curve(second, measure)
            a, b = ours.weights(self.sheet.summary), theirs.weights(self.sheet.summary)
            sign = -1 if self.sheet.better.get(measure) == "low" else 1
            sums = (sign * float(ours.value @ a), sign * float(theirs.value @ b))
            found = difference(*sums, sign * (ours.draws @ a), sign * (theirs.draws @ b))
            rows.append((first, second, measure, found.value, found.low, found.high, found.p))
        columns = ["first", "second", self.sheet.measure, "margin", "low", "high", "p"]
        return pandas.DataFrame(rows, columns=columns)

    def best(self, measure: str, among: Collection[str] | None = None) -> str:
        """The explainer that does best by a measure; of equals the first."""
        names = self.explainers if among is None else [name for name in self.explainers if name in among]
        sign = -1 if self.sheet.better.get(measure) == "low" else 1
        return max(names, key=lambda name: sign * self._sum(name, measure))

    def marks(self, measure: str, ours: Collection[str] = (), among: Collection[str] | None = None) -> dict[str, str]:
        """The style of each explainer's cell as the papers print it: the best bold, the best competitor italic.

        A competitor is any explainer but the best, or any but `ours` where they are named.
        """
        names = [name for name in self.explainers if among is None or name in among]
        best = self.best(measure, names)
        others = [name for name in names if name != best and name not in ours]
        rival = {self.best(measure, others): RIVAL} if others else {}
        return dict.fromkeys(names, "") | rival | {best: BEST}

    def table(self, ours: Collection[str] = ()) -> "Styler":
        """Explainers by measures as the papers print them, with their `marks`."""
        import pandas

        head = self.sheet.summary
        summed = self._summed(head).set_index(["explainer", self.sheet.measure])
        ends = {key: f"{low:.3f} to {high:.3f}" for key, low, high in summed[["low", "high"]].itertuples()}
        cells = {
            (self.headed(m), part): {
                name: summed.at[(name, m), head] if part == head else ends[name, m]
                for name in self.explainers
                if (name, m) in self.curves
            }
            for m in self.measures
            for part in (head, "95 %")
        }
        numbers = pandas.DataFrame(cells).reindex(self.explainers)
        styles = pandas.DataFrame("", index=numbers.index, columns=numbers.columns)
        for m in self.measures:
            styles[self.headed(m), head] = self.marks(m, ours)
        styled = (
            numbers.style.format(precision=3, escape="html")
            .format_index(lambda name: html.escape(str(name)))
            .apply(lambda _: styles, None)
        )
        return styled.set_caption(html.escape(". ".join(self.notes)))

    def plot(self, explainers: Sequence[str] | None = None) -> "Figure":
        """A panel a measure, a line an explainer; bands are 95 % intervals over texts, or over random runs."""
        from matplotlib import pyplot

        names = self.explainers if explainers is None else list(explainers)
        size = (4.2 * len(self.measures) + 1.8, 3.6)
        figure, axes = pyplot.subplots(1, len(self.measures), figsize=size, layout="constrained", squeeze=False)
        for ax, measure in zip(axes[0], self.measures, strict=True):
            for at, name in enumerate(names):
                _draw(ax, self._curve(name, measure), html.visible(name), at)
            ax.set_title(self.headed(measure), parse_math=False)
            ax.set_xlabel(self.sheet.point)
            ax.set_ylabel(self.sheet.value)
            ax.spines[["top", "right"]].set_visible(False)
        ranged = any(len(curve.runs) > 1 for (name, _), curve in self.curves.items() if name in names)
        bands = "95 % intervals, or the range of orders by chance" if ranged else "95 % intervals"
        entries = axes[0][0].get_legend_handles_labels()
        legend = figure.legend(*entries, loc="outside right upper", frameon=False, title=bands)
        for text in legend.get_texts():
            text.set_parse_math(False)
        return figure

    def headed(self, measure: str) -> str:
        """A measure with an arrow to where it is better."""
        arrow = {"high": " \N{UPWARDS ARROW}", "low": " \N{DOWNWARDS ARROW}"}
        return measure + arrow.get(self.sheet.better.get(measure, ""), "")

    def _summed(self, summary: str) -> "pandas.DataFrame":
        import pandas

        rows = []
        for (name, measure), curve in self.curves.items():
            weights = curve.weights(summary)
            low, high = interval(curve.draws @ weights)
            rows.append((name, measure, float(curve.value @ weights), float(low), float(high)))
        return pandas.DataFrame(rows, columns=["explainer", self.sheet.measure, summary, "low", "high"])

    def _sum(self, name: str, measure: str) -> float:
        curve = self._curve(name, measure)
        return float(curve.value @ curve.weights(self.sheet.summary))

    def _curve(self, name: str, measure: str) -> Curve:
        if (name, measure) not in self.curves:
            raise UnknownName("explainer in these results", name, self.explainers)
        return self.curves[name, measure]

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def __repr__(self) -> str:
        return f"Results({', '.join(self.explainers)}: {', '.join(self.measures)}; {'. '.join(self.notes)})"

    def save(self, path: str | Path) -> None:
        """Write them as one .npz file; `load` reads them back to the last bit."""
        head = {"nbsal": FORMAT, "sheet": asdict(self.sheet), "notes": self.notes, "curves": list(self.curves)}
        arrays: dict[str, Any] = {}
        for at, curve in enumerate(self.curves.values()):
            arrays |= {f"{part}{at}": getattr(curve, part) for part in ("points", "runs", "draws")}
        with Path(path).open("wb") as file:
            np.savez_compressed(file, head=np.array(json.dumps(head)), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Read what `save` wrote."""
        with loading(path, "saved Results"):
            with np.load(BytesIO(Path(path).read_bytes()), allow_pickle=False) as stored:
                head = json.loads(str(stored["head"]))
                if head["nbsal"] != FORMAT:
                    raise InputError(f"{path} was written in format {head['nbsal']}; this nbsal reads format {FORMAT}.")
                curves = {
                    (name, measure): Curve(tuple(stored[f"points{at}"]), stored[f"runs{at}"], stored[f"draws{at}"])
                    for at, (name, measure) in enumerate(head["curves"])
                }
            return cls(MetricInfo(**head["sheet"]), curves, tuple(head["notes"]))


def join_results(parts: Sequence[Results]) -> Results:
    """Results on the same texts as one; parts of the same name are runs of one explainer."""
    together: dict[tuple[str, str], list[Curve]] = {}
    for part in parts:
        for key, curve in part.curves.items():
            together.setdefault(key, []).append(curve)
    return Results(parts[0].sheet, {key: _merged(found) for key, found in together.items()}, parts[0].notes)


def _merged(curves: Sequence[Curve]) -> Curve:
    runs = np.concatenate([curve.runs for curve in curves])
    draws = sum(len(curve.runs) * curve.draws for curve in curves) / len(runs)
    return Curve(curves[0].points, runs, np.asarray(draws))


def _spread(runs: Floats) -> Floats:
    """The standard deviation between runs; none where there is one run."""
    return runs.std(0, ddof=1) if len(runs) > 1 else np.full(runs.shape[1], np.nan)


def _draw(ax: Any, curve: Curve, name: str, at: int) -> None:
    hue, line = HUES[at % len(HUES)], LINES[at // len(HUES) % len(LINES)]
    low, high = (curve.runs.min(0), curve.runs.max(0)) if len(curve.runs) > 1 else interval(curve.draws)
    ax.plot(curve.points, curve.value, line, color=hue, label=name, marker="o" if len(curve.points) == 1 else None)
    ax.fill_between(curve.points, low, high, color=hue, alpha=0.15, linewidth=0)
