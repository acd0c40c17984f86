"""One measure of one explainer at every point, with what its intervals are computed from."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from nbsal.evaluation.permutation import margin_p
from nbsal.support.arrays import Floats
from nbsal.support.intervals import Bounds, Interval, margin_interval, mean_interval, t_quantile, t_tails


def text_order(texts: Sequence[Hashable]) -> list[int]:
    """The places of the texts in an order that does not depend on the order they were passed in."""
    return sorted(range(len(texts)), key=lambda place: repr(texts[place]))


@dataclass(frozen=True, eq=False)
class Curve:
    """One measure of one explainer at every point.

    `runs` has one row per run of the explainer (a stochastic one may have several); their mean is the value. `samples`
    has one column per text, whose mean is the value; or, if `resampled` is a number of texts, one column per bootstrap
    sample of them.
    """

    points: tuple[float, ...]
    runs: Floats  # [run, point]
    samples: Floats  # [point, text or draw]
    resampled: int | None = None

    @classmethod
    def from_values(
        cls, points: Sequence[float], values: Floats, order: Sequence[int], sizes: Floats | None = None
    ) -> "Curve":
        """The curve of values for every run, point and text: [run, point, text].

        `order` sorts the texts. With `sizes`, a text counts as much as its size: the curve is a ratio of sums, and the
        samples are its linear approximation, so that intervals allow for other texts having other sizes too.
        """
        values = np.ascontiguousarray(np.asarray(values, dtype=np.float64)[..., order])
        if sizes is not None:
            weights = np.asarray(sizes, dtype=np.float64)[order] / np.mean(sizes)
            ratios = (values * weights).mean(-1, keepdims=True)
            values = ratios + weights * (values - ratios)
        return cls(tuple(map(float, points)), values.mean(-1), values.mean(0))

    @classmethod
    def stacked(cls, curves: Sequence["Curve"]) -> "Curve":
        """Curves of a single point each, on the same texts, as the points of one curve."""
        runs, samples = np.concatenate([c.runs for c in curves], 1), np.concatenate([c.samples for c in curves])
        return cls(tuple(map(float, range(len(curves)))), runs, samples, curves[0].resampled)

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

    def summed(self, summary: str) -> "Curve":
        """The curve with a single point, the summary of all points."""
        weights = self.weights(summary)
        return Curve((1.0,), (self.runs @ weights)[:, None], (weights @ self.samples)[None], self.resampled)

    def interval(self, bounds: Bounds | None) -> Interval:
        """The 95 % interval at every point, inside the bounds of what a text can have."""
        if self.resampled is None:
            return mean_interval(self.samples, bounds)
        return _resampled_interval(self, bounds)

    def minus(self, other: "Curve") -> "Curve":
        """The differences to another curve on the same texts."""
        runs = (self.value - other.value)[None]
        return Curve(self.points, runs, self.samples - other.samples, self.resampled)

    def margin_interval(self, largest: float | None) -> Interval:
        """The 95 % interval of the curve as differences; `largest` is the largest possible one."""
        if self.resampled is None:
            return margin_interval(self.samples, largest)
        return _resampled_interval(self, None if largest is None else (-largest, largest))

    def margin_p(self) -> Floats:
        """The p-values of the curve as differences: [point]."""
        if self.resampled is None:
            return margin_p(self.samples)
        error = self.samples.std(-1, ddof=1)
        return t_tails(self.value / np.where(error > 0, error, np.nan), self.resampled - 1)


def join_runs(curves: Sequence[Curve]) -> Curve:
    """One curve of the runs of several; all are of the same texts."""
    runs = np.concatenate([curve.runs for curve in curves])
    samples = sum(len(curve.runs) * curve.samples for curve in curves) / len(runs)
    return Curve(curves[0].points, runs, np.asarray(samples), curves[0].resampled)


def _resampled_interval(curve: Curve, bounds: Bounds | None) -> Interval:
    """The t interval with the spread of the draws as standard error, around the value: draws may be biased."""
    assert curve.resampled is not None
    error = curve.samples.std(-1, ddof=1)
    half = t_quantile(curve.resampled - 1) * np.where(error > 0, error, np.nan)
    low, high = curve.value - half, curve.value + half
    return (low, high) if bounds is None else (np.maximum(low, bounds[0]), np.minimum(high, bounds[1]))
