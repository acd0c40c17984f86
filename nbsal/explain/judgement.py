"""Whether the scores of units hold: hide units of the sources, and see what becomes of the same reply."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import numpy as np

from nbsal.ablation import tables
from nbsal.explain.saliency import check_axes
from nbsal.explain.scoring.lazy import ReplyExperiment
from nbsal.support.arrays import Flags, Floats
from nbsal.support.errors import InputError
from nbsal.support.lazy import Axes, pandas, pyplot
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import as_list, plural, positive_number, seed_number

BAND = (2.5, 97.5)  # percentiles of the random orders


@dataclass(frozen=True, eq=False)
class Judgement:
    """The log-probability of a reply with units of its sources hidden.

    `hidden` is [step, reply token]: nothing hidden, then the best unit, the best two, ..., all; `random` is [order,
    step, reply token] for orders drawn at random. `subsets` are random subsets of units that stay, [subset, unit], with
    their values, [subset, reply token]; the scores of units, [reply token, unit], should rank them alike. `tokens` are
    the numbers of the reply's tokens that are judged, and `tokens_of` gives those of a part of it.
    """

    method: str
    tokens_of: Callable[[Any], Sequence[int]]
    k: tuple[int, ...]
    hidden: Floats
    random: Floats
    subsets: Flags
    values: Floats
    scores: Floats
    tokens: tuple[int, ...]

    @property
    def curve(self) -> Floats:
        """The log-probability of the reply after each step, best unit first."""
        curve: Floats = self.hidden[:, list(self.tokens)].sum(1)
        return curve

    @property
    def random_curves(self) -> Floats:
        """The same for random orders, [order, step]."""
        curves: Floats = self.random[:, :, list(self.tokens)].sum(2)
        return curves

    @property
    def drop(self) -> float:
        """By how much the log-probability drops on average over all steps (AOPC); the larger the better."""
        return _mean_drop(self.curve)

    @property
    def random_drops(self) -> Floats:
        """The same for each random order."""
        return np.array([_mean_drop(curve) for curve in self.random_curves])

    @property
    def beats_chance(self) -> bool:
        """Whether the drop is above that of nearly all random orders."""
        return bool(self.drop > np.percentile(self.random_drops, BAND[1]))

    @property
    def rank_correlation(self) -> float:
        """How alike scores and model rank random subsets: from -1 to 1 (the linear datamodeling score)."""
        predicted = self.subsets.astype(float) @ self.scores[list(self.tokens)].sum(0)
        actual = self.values[:, list(self.tokens)].sum(1)
        if np.ptp(predicted) == 0 or np.ptp(actual) == 0:
            return 0.0
        return float(pandas.Series(predicted).corr(pandas.Series(actual), method="spearman"))

    def frame(self) -> "pandas.DataFrame":
        """The drops of the best units, of the whole curve and of random orders, and the rank correlation."""
        curve, steps = self.curve, len(self.curve) - 1
        rows = [(f"drop without the first {k}", curve[0] - curve[k]) for k in self.k if k <= steps]
        low, high = np.percentile(self.random_drops, BAND)
        rows += [("mean drop, best first", self.drop), ("mean drop, random orders", float(self.random_drops.mean()))]
        rows += [("95 % of random orders: from", float(low)), ("95 % of random orders: to", float(high))]
        rows += [("rank correlation with random subsets", self.rank_correlation)]
        frame = pandas.DataFrame(rows, columns=["measure", "value"])
        frame.attrs["finding"] = "better than chance" if self.beats_chance else "no better than chance"
        return frame

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The hiding curve above the band of random orders."""
        check_axes(ax)
        if ax is None:
            _, ax = pyplot.subplots(figsize=(6.4, 3), layout="constrained")
        steps, random_curves = range(len(self.curve)), self.random_curves
        low, high = np.percentile(random_curves, BAND, axis=0)
        ax.fill_between(steps, low, high, color="0.85", label="95 % of random orders")
        ax.plot(steps, random_curves.mean(0), color="0.5", linestyle="--", label="random orders")
        ax.plot(steps, self.curve, marker="o", label=self.method)
        ax.set_xlabel("units hidden")
        ax.set_ylabel("log-probability of the reply")
        ax.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)  # outside: the band fills the plot
        return ax

    def of(self, span: Any) -> "Judgement":
        """The judgement of a part of the reply, without another run; hidden in the order that suits the whole reply."""
        return replace(self, tokens=tuple(self.tokens_of(span)))

    def __repr__(self) -> str:
        finding = self.frame().attrs["finding"]
        return f"Judgement({self.method}: mean drop {self.drop:.2f}, {finding})"


@dataclass(frozen=True)
class JudgeSettings:
    """How many units are hidden for the first rows of a judgement, and how many orders and subsets are drawn."""

    k: Sequence[int]
    random: int
    subsets: int
    seed: int

    def __post_init__(self) -> None:
        for name in ("random", "subsets"):
            positive_number(getattr(self, name), name)
        seed_number(self.seed)
        steps = as_list(self.k, "k", "must be a list of numbers of units")
        object.__setattr__(self, "k", tuple(positive_number(step, "k") for step in steps))


def judge(
    answer: Any, experiment: ReplyExperiment, settings: JudgeSettings, progress: Progress, cancel: Event | None
) -> Judgement:
    """Hide the units of an experiment, those with the largest scores first, in random orders and in random subsets."""
    count = len(experiment.units)
    if count < 2:
        message = f"The prompt has {plural(count, 'unit')} to hide, and orders need two. Choose a smaller unit."
        raise InputError(message, argument="unit", value=count)
    scores, tokens, subsets = answer.unit_scores(experiment.parts), answer.reading.content, settings.subsets
    best_first = np.argsort(-scores[tokens].sum(0), kind="stable")
    generator = np.random.default_rng(settings.seed)
    orders = [best_first, *(generator.permutation(count) for _ in range(settings.random))]
    drawn = tables.drawn(1 - generator.random((subsets, count)), 0.5)
    table = np.concatenate([*(tables.without_first(order, range(count + 1)) for order in orders), drawn])
    with Meter(len(table), progress, cancel) as meter:
        values = experiment.numbers(table, meter=meter)
    curves = values[:-subsets].reshape(len(orders), count + 1, -1)
    return Judgement(
        answer.method,
        answer.tokens_of,
        tuple(settings.k),
        curves[0],
        curves[1:],
        drawn,
        values[-subsets:],
        scores,
        tuple(tokens),
    )


def _mean_drop(curve: Floats) -> float:
    return float((curve[0] - curve[1:]).mean())
