"""Perturbation methods, which score tokens by how the target changes when some of them are masked.

Only content tokens are masked and scored; special tokens and padding stay unchanged and score 0. With `level="word"`
the tokens of a word are masked together and share its score evenly, so `Saliency.by_word` gives the score of the word.
`way` says what replaces a masked token: "remove", "mask", "pad" or a token id (see `DecisionText`). For a reply,
the call says what the units are, and `way` may also be "text": the prompt without them, tokenized anew.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from nbsal.ablation import experiment, tables
from nbsal.ablation.decision import DecisionText, filler_id
from nbsal.ablation.engine import Ablation
from nbsal.ablation.experiment import Experiment
from nbsal.ablation.texts import REMOVE, TEXT
from nbsal.methods.base import Method, one_of, register, satisfies, setting
from nbsal.methods.cost import SAMPLES, UNITS, Cost
from nbsal.methods.facts import Facts
from nbsal.methods.rng import text_rng
from nbsal.model.served.served_model import Served
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes.trace import Trace
from nbsal.support.arrays import Flags, Floats
from nbsal.support.validation import positive_number

LEVELS = ("token", "word")
TRIALS = 6  # forward passes of a text that test whether its tokens can be left out (see `Ablation`)
PENALTY = satisfies("at least 0 and finite", lambda x: 0 <= x < np.inf)  # the check of a regression's penalty
CELLS = 4_000_000  # entries of all tables of coalitions that are in memory at once
Coalitions = Flags  # [coalition, unit], true where the unit stays
Unit = tuple[int, ...]  # positions


def units(row: Row, level: str) -> list[Unit]:
    """The units that are masked as a whole: each content token, or the content tokens of each word."""
    return [(place,) for place in row.content] if level == "token" else [word.tokens for word in row.words]


def scores_by_position(unit_scores: Floats, parts: Sequence[Unit], size: int) -> Floats:
    """Divide the score of each unit, on the last axis, evenly among its positions."""
    scores = np.zeros((*unit_scores.shape[:-1], size))
    for i, places in enumerate(parts):
        scores[..., list(places)] = unit_scores[..., i, None] / len(places)
    return scores


@dataclass(frozen=True, kw_only=True)
class Perturbation(Method):
    """A method that runs the subject on coalitions of a text's units and scores the units by the target values."""

    family = "perturbation"
    needs = frozenset({"forward"})
    linear = True
    hides = True
    complete: ClassVar[bool] = False  # whether the scores sum to the change from the fully masked text
    number: ClassVar[str] = "logprob"  # what is explained of a reply's token (see `Target`)
    fewest_units: ClassVar[int] = 1  # of a reply's sources

    way: str | int = REMOVE
    level: str = setting("token", one_of(*LEVELS))

    def resolve(self, subject: Subject) -> Self:
        if isinstance(subject.model, Served):  # it cannot leave out tokens and keep the positions of others
            return replace(super().resolve(subject), way=TEXT) if self.way == REMOVE else super().resolve(subject)
        # Only replies have prompts that can be written anew.
        if self.way != TEXT or subject.task not in ("next-token", "reply"):
            filler_id(subject, self.way)  # raises an error if the way is not available
        return super().resolve(subject)

    def for_reply(self, count: int) -> "Perturbation":
        """The method for a reply with that many units, which may be few enough for an exact form of it."""
        return self

    @abstractmethod
    def coalitions(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        """The coalitions of a text's units that the subject is run on."""

    @abstractmethod
    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        """Scores of the units, [number, unit], from the numbers of each coalition, [coalition, number]."""

    def sum_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        """Scores of the units, [unit], for the sum of all numbers, [coalition, number]."""
        scores: Floats = self.unit_scores(coalitions, values.sum(1, keepdims=True))[0]
        return scores

    def scores(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._score_batch(trace))[0]

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        return trace.cached(self, lambda: self._score_batch(trace))[1]

    def sizes(self, row: Row) -> dict[str, int]:
        return super().sizes(row) | {"units": len(units(row, self.level))}

    def _score_batch(self, trace: Trace) -> tuple[Tensor, list[dict[str, Any]]]:
        """The scores of all texts, [batch, position], and the provenance notes of each."""
        scores, notes = torch.zeros(len(trace.encoded), trace.encoded.longest).to(trace.logits), []
        for texts in self._groups(trace):
            rows = [trace.encoded[i] for i in texts]
            parts = [units(row, self.level) for row in rows]
            some = [self.coalitions(row, row_units) for row, row_units in zip(rows, parts, strict=True)]
            values = self._values(trace, texts, parts, some)
            for i, row, row_units, table, row_values in zip(texts, rows, parts, some, values, strict=True):
                unit_scores = self.unit_scores(table, row_values[:, None])[0]
                token_scores = scores_by_position(unit_scores, row_units, len(row))
                scores[i, : len(row)] = torch.from_numpy(token_scores).to(scores)
                notes.append(self._note(table, unit_scores, row_values))
        return scores, notes

    def _values(
        self, trace: Trace, texts: Sequence[int], parts: Sequence[Sequence[Unit]], some: Sequence[Coalitions]
    ) -> list[Floats]:
        """The target value of every coalition of some texts; that of the whole text is in the trace already."""
        ablation = trace.cached("ablation", lambda: Ablation(trace.subject))
        decisions = [DecisionText(trace.subject, trace.encoded[i], trace.decisions[i].target, self.way) for i in texts]
        experiments = [Experiment(ablation, *pair) for pair in zip(decisions, parts, strict=True)]
        partial = [coalitions[~coalitions.all(1)] for coalitions in some]
        meter = trace.meter.part(len(texts) / len(trace.encoded), sum(map(len, partial)))
        values = []
        for i, coalitions, numbers in zip(texts, some, experiment.run(experiments, partial, meter), strict=True):
            values.append(np.full(len(coalitions), float(trace.values[i])))
            values[-1][~coalitions.all(1)] = numbers.double()
        return values

    def _note(self, coalitions: Coalitions, unit_scores: Floats, values: Floats) -> dict[str, Any]:
        if not self.complete:
            return {}
        change = float(values[coalitions.all(1)][0] - values[~coalitions.any(1)][0])
        return {"change": change, "gap": float(unit_scores.sum()) - change}

    def _groups(self, trace: Trace) -> Iterator[list[int]]:
        """Indices of texts in groups whose tables of coalitions fit into memory together."""
        group, size = list[int](), 0
        for i, row in enumerate(trace.encoded):
            cells = self.count(len(units(row, self.level))) * len(row)
            if group and size + cells > CELLS:
                yield group
                group, size = [], 0
            group.append(i)
            size += cells
        yield group

    @abstractmethod
    def count(self, size: int) -> int:
        """The number of coalitions evaluated for a text of `size` units."""


@register(
    "occlusion",
    paper="Zeiler and Fergus 2014",
    cost=Cost(1 + TRIALS + UNITS, at_most=True),
    promise={"signed", "about_target", "zero_at_special"},
)
@dataclass(frozen=True)
class Occlusion(Perturbation):
    """Decrease of the target when a window of neighbouring units is masked, averaged over all windows with that unit.

    `way` replaces hidden tokens: "remove", "mask", "pad" or a token id; `level` is what is hidden: "token" or "word".

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Occlusion(level="word", way="mask"))
    >>> explain("A warm and funny film.").by_word().nlargest(1, "score")["word"].item()
    'funny'
    """

    facts = Facts(
        "Occlusion",
        "Takes each word away and measures what changes.",
        look=5,
        recommended=3,
        start="models that only answer, such as functions and services: hides word after word",
        default_for={"decisions": 3, "values": 1, "replies": 3, "documents": 1},
        replies=1,
    )

    window: int = setting(1, positive_number)

    def count(self, size: int) -> int:
        return 1 + size

    def coalitions(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        segments = np.array([row.segments[places[0]] for places in parts])
        windows = [np.array([], dtype=int)]
        for segment in np.unique(segments):  # a window never covers units of both texts of a pair
            members = np.flatnonzero(segments == segment)
            starts = range(max(1, len(members) - self.window + 1))
            windows += [members[start : start + self.window] for start in starts]
        return tables.without(len(parts), *windows)

    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        masked = ~coalitions[1:]
        decreases: Floats = (values[0] - values[1:]).T @ masked / masked.sum(0)
        return decreases


@register(
    "lime",
    paper="Ribeiro et al. 2016",
    cost=Cost(TRIALS + SAMPLES, at_most=True),
    promise={"signed", "about_target", "zero_at_special", "seeded"},
)
@dataclass(frozen=True)
class LIME(Perturbation):
    """Coefficients of a linear model that predicts the target from which units are present.

    As in Ribeiro et al.: a ridge regression on the whole text and on random coalitions, with a penalty of 1 and an
    unpenalised intercept. Smaller coalitions have a smaller weight, exp(-distance^2 / (2 width^2)), by the cosine
    distance to the whole text.

    `way` replaces hidden tokens: "remove", "mask", "pad" or a token id; `level` is what is hidden: "token" or "word".

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.LIME(samples=50))
    >>> explain("A warm and funny film.").top(1)["token"].item()
    'funny'
    """

    facts = Facts(
        "LIME",
        "Fits a linear model to 100 versions of the text with words missing.",
        look=12,
        recommended=10,
        replies=7,
    )

    samples: int = setting(100, positive_number)
    ridge: float = setting(1.0, PENALTY)
    width: float = setting(0.25, satisfies("more than 0", lambda x: x > 0))
    seed: int = 0

    def count(self, size: int) -> int:
        return self.samples

    def coalitions(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        rng, count = text_rng(self.seed, row), len(parts)
        sizes = (rng.integers(1, count, endpoint=True) for _ in range(1, self.samples))
        return tables.without(count, [], *(rng.choice(count, size, replace=False) for size in sizes))

    def unit_scores(self, coalitions: Coalitions, values: Floats) -> Floats:
        distance = 1 - np.sqrt(coalitions.mean(1))
        weights = np.exp(-(distance**2) / (2 * self.width**2))
        return ridge_slopes(coalitions.astype(float), values, weights, self.ridge).T


def ridge_slopes(points: Floats, values: Floats, weights: Floats, ridge: float) -> Floats:
    """The slopes of a weighted ridge regression with an unpenalised intercept, for each column of `values`."""
    centred = points - np.average(points, axis=0, weights=weights)
    outcomes = values - np.average(values, axis=0, weights=weights)
    root, size = np.sqrt(weights), points.shape[1]
    design = np.vstack((root[:, None] * centred, np.sqrt(ridge) * np.eye(size)))
    weighted = (root * outcomes.T).T
    slopes: Floats = np.linalg.lstsq(design, np.concatenate((weighted, np.zeros((size, *values.shape[1:])))))[0]
    return slopes


@register(
    "random",
    family="perturbation",
    needs=set(),
    paper="-",
    cost=Cost(1),
    promise={"nonnegative", "at_most_1", "not_about_target", "zero_at_special", "seeded"},
)
@dataclass(frozen=True)
class Random(Method):
    """Uniform random scores from 0 to 1, a baseline that every method should beat.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Random(seed=1))
    >>> bool((explain("A joy.").scores == explain("A joy.").scores).all())
    True
    """

    facts = Facts("Random (to compare with)")

    seed: int = 0
    level: str = setting("token", one_of(*LEVELS))

    def scores(self, trace: Trace) -> Tensor:
        scores = torch.zeros(len(trace.encoded), trace.encoded.longest).to(trace.logits)
        for i, row in enumerate(trace.encoded):
            parts = units(row, self.level)
            random = scores_by_position(text_rng(self.seed, row).random(len(parts)), parts, len(row))
            scores[i, : len(row)] = torch.from_numpy(random).to(scores)
        return scores
