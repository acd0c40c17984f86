"""Perturbation methods: what becomes of the target when some of a text's tokens are hidden.

Only content tokens are ever hidden, and only they receive credit: special tokens and padding stay as they are and
score 0. With `level="word"` a word's tokens are hidden together and share its score evenly, so that
`Saliency.by_word` gives the word's own. `way` says what hiding means: "remove", "mask" or "pad" (see nbsal.hiding).
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbsal.errors import InputError, UnknownName
from nbsal.methods.base import Method, register
from nbsal.methods.rng import text_rng
from nbsal.model.masking import MaskedModel
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row
from nbsal.trace import Trace
from nbsal.validation import positive_number, real_number

LEVELS = ("token", "word")
ONCE = ", no subset twice, and 6 to learn whether hidden tokens can be dropped"
CELLS = 4_000_000  # entries of the tables of subsets that are held at once
Coalitions = NDArray[np.bool_]  # [subset, unit], true where the unit stays
Numbers = NDArray[np.float64]
Unit = tuple[int, ...]


def units(row: Row, level: str) -> list[Unit]:
    """What is hidden together: the positions of each content token, or of each word's content tokens."""
    return [(place,) for place in row.content] if level == "token" else [word.tokens for word in row.words]


def shared_out(scores: Numbers, parts: Sequence[Unit], size: int) -> Numbers:
    """Scores of units as scores of positions, each unit's shared evenly among its own."""
    found = np.zeros(size)
    for score, places in zip(scores, parts, strict=True):
        found[list(places)] = score / len(places)
    return found


def check_level(level: str) -> None:
    """Refuse a level that does not exist."""
    if level not in LEVELS:
        raise UnknownName("level", level, LEVELS)


@dataclass(frozen=True, kw_only=True)
class Perturbation(Method):
    """A method that asks the subject about subsets of a text, and weighs the answers."""

    complete: ClassVar[bool] = False  # its scores are to sum to what hiding everything takes away

    way: str | int = "remove"
    level: str = "token"

    def resolve(self, subject: Subject) -> Self:
        MaskedModel(subject, self.way)  # raises the sentence that says which ways there are
        check_level(self.level)
        return self

    @abstractmethod
    def subsets(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        """The subsets of a text's units to ask about."""

    @abstractmethod
    def weighed(self, kept: Coalitions, values: Numbers) -> Numbers:
        """A score for each unit, from the target under each subset."""

    def scores(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._asked(trace))[0]

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        return trace.cached(self, lambda: self._asked(trace))[1]

    def _asked(self, trace: Trace) -> tuple[Tensor, list[dict[str, Any]]]:
        masked_model = trace.cached(("hiding", self.way), lambda: MaskedModel(trace.subject, self.way))
        scores, notes = torch.zeros(len(trace.encoded), trace.encoded.longest).to(trace.logits), []
        for texts in self._groups(trace):
            rows = [trace.encoded[i] for i in texts]
            parts = [units(row, self.level) for row in rows]
            kept = [self.subsets(row, own) for row, own in zip(rows, parts, strict=True)]
            # What the model says of a whole text is in the trace already.
            asked = [
                _over_positions(table[~table.all(1)], own, row)
                for table, own, row in zip(kept, parts, rows, strict=True)
            ]
            targets = [trace.decisions[i].target for i in texts]
            share = len(texts) / len(trace.encoded)
            answers = masked_model.values(rows, asked, targets, trace.meter.part(share, sum(map(len, asked))))
            for i, row, own, table, answer in zip(texts, rows, parts, kept, answers, strict=True):
                values = np.full(len(table), float(trace.values[i]))
                values[~table.all(1)] = answer.double()
                found = self.weighed(table, values)
                scores[i, : len(row)] = torch.from_numpy(shared_out(found, own, len(row))).to(scores)
                notes.append(self._note(table, found, values))
        return scores, notes

    def _note(self, kept: Coalitions, scores: Numbers, values: Numbers) -> dict[str, Any]:
        if not self.complete:
            return {}
        change = float(values[kept.all(1)][0] - values[~kept.any(1)][0])
        return {"change": change, "gap": float(scores.sum()) - change}

    def _groups(self, trace: Trace) -> Iterator[list[int]]:
        """Texts that are asked about together, as many as keep the tables of subsets small."""
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
        """How many subsets of a text of that many units are asked about."""


def _over_positions(kept: Coalitions, parts: Sequence[Unit], row: Row) -> Coalitions:
    """Subsets of units as subsets of positions; everything else stays."""
    found = np.ones((len(kept), len(row)), dtype=bool)
    for column, places in zip(kept.T, parts, strict=True):
        found[:, list(places)] = column[:, None]
    return found


@register(
    "occlusion",
    family="perturbation",
    needs={"forward"},
    paper="Zeiler and Fergus 2014",
    cost=f"1 + content tokens{ONCE}",
    promise="signed; with window 1 exactly what hiding the token alone takes away; 0 at special tokens",
)
@dataclass(frozen=True)
class Occlusion(Perturbation):
    """What hiding a window of neighbours takes from the target: the mean over all windows that a unit lies in.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Occlusion(level="word", way="mask"))
    >>> explain("A warm and funny film.").by_word().nlargest(1, "score")["word"].item()
    'funny'
    """

    window: int = 1

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), window=positive_number(self.window, "window"))

    def count(self, size: int) -> int:
        return 1 + size

    def subsets(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        segments = np.array([row.segments[places[0]] for places in parts])
        windows = [np.ones(len(parts), dtype=bool)]
        for segment in np.unique(segments):  # a window never reaches from one member of a pair into the other
            own = np.flatnonzero(segments == segment)
            for start in range(max(1, len(own) - self.window + 1)):
                windows.append(np.ones(len(parts), dtype=bool))
                windows[-1][own[start : start + self.window]] = False
        return np.stack(windows)

    def weighed(self, kept: Coalitions, values: Numbers) -> Numbers:
        hidden = ~kept[1:]
        lost: Numbers = (values[0] - values[1:]) @ hidden / hidden.sum(0)
        return lost


@register(
    "lime",
    family="perturbation",
    needs={"forward"},
    paper="Ribeiro et al. 2016",
    cost=f"samples (100){ONCE}",
    promise="signed; the slopes of a ridge fit to random subsets; 0 at special tokens; drawn from (seed, text)",
)
@dataclass(frozen=True)
class LIME(Perturbation):
    """The weights of a linear model of which units are there, fitted to the target in one go.

    As in Ribeiro et al.: the whole text, and subsets that lose a random number of units; one that lost more counts
    less, exp(-distance^2 / (2 width^2)) with the cosine distance of presence; a ridge of 1, the intercept free.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.LIME(samples=50))
    >>> explain("A warm and funny film.").top(1)["token"].item()
    'funny'
    """

    samples: int = 100
    ridge: float = 1.0
    width: float = 0.25
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        if not real_number(self.ridge, "ridge") >= 0 or not real_number(self.width, "width") > 0:
            raise InputError(f"ridge is 0 or more and width more than 0, not {self.ridge!r} and {self.width!r}.")
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"))

    def count(self, size: int) -> int:
        return self.samples

    def subsets(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        chance, kept = text_rng(self.seed, row), np.ones((self.samples, len(parts)), dtype=bool)
        for subset in kept[1:]:
            lost = chance.integers(1, len(parts), endpoint=True)
            subset[chance.choice(len(parts), lost, replace=False)] = False
        return kept

    def weighed(self, kept: Coalitions, values: Numbers) -> Numbers:
        distance = 1 - np.sqrt(kept.mean(1))
        return slopes(kept.astype(float), values, np.exp(-(distance**2) / (2 * self.width**2)), self.ridge)


def slopes(points: Numbers, values: Numbers, weights: Numbers, ridge: float) -> Numbers:
    """The slopes of a weighted ridge regression whose intercept is free."""
    centred = points - np.average(points, axis=0, weights=weights)
    gain = values - np.average(values, weights=weights)
    root = np.sqrt(weights)[:, None]
    size = points.shape[1]
    left = np.vstack((root * centred, np.sqrt(ridge) * np.eye(size)))
    found: Numbers = np.linalg.lstsq(left, np.concatenate((root[:, 0] * gain, np.zeros(size))))[0]
    return found


@register(
    "shapley",
    family="perturbation",
    needs={"forward"},
    paper="Castro et al. 2009",
    cost=f"2 + samples (25) x (content tokens - 1){ONCE}",
    promise="signed; sums to what hiding everything takes away, the gap is in the provenance; 0 at special tokens; "
    "drawn from (seed, text)",
)
@dataclass(frozen=True)
class Shapley(Perturbation):
    """What a unit adds to those that came before it, averaged over random orders.

    `antithetic` follows every order by its reverse, which evens out early and late.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Shapley(samples=3))
    >>> bool(abs(explain("A joy.").provenance["gap"]) < 1e-6)
    True
    """

    complete = True

    samples: int = 25
    antithetic: bool = False
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"))

    def count(self, size: int) -> int:
        return self.samples * (size + 1)

    def subsets(self, row: Row, parts: Sequence[Unit]) -> Coalitions:
        chance, orders = text_rng(self.seed, row), list[NDArray[np.int64]]()
        while len(orders) < self.samples:
            orders.append(chance.permutation(len(parts)))
            if self.antithetic:
                orders.append(orders[-1][::-1])
        # Before step t of an order the units that come among its first t are there.
        ranks = np.argsort(orders[: self.samples], axis=1)
        steps = ranks[:, None, :] < np.arange(len(parts) + 1)[:, None]
        return steps.reshape(-1, len(parts))

    def weighed(self, kept: Coalitions, values: Numbers) -> Numbers:
        steps = kept.reshape(self.samples, -1, kept.shape[1])
        entering = steps[:, 1:] & ~steps[:, :-1]
        added = np.diff(values.reshape(self.samples, -1))
        found: Numbers = np.einsum("st,stu->u", added, entering.astype(float)) / self.samples
        return found


@register(
    "random",
    family="perturbation",
    needs=set(),
    paper="-",
    cost="1, for the prediction",
    promise="nothing: uniform between 0 and 1, to compare with; 0 at special tokens; drawn from (seed, text)",
)
@dataclass(frozen=True)
class Random(Method):
    """Scores drawn by chance: what any method must beat.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Random(seed=1))
    >>> bool((explain("A joy.").scores == explain("A joy.").scores).all())
    True
    """

    seed: int = 0
    level: str = "token"

    def resolve(self, subject: Subject) -> Self:
        check_level(self.level)
        return self

    def scores(self, trace: Trace) -> Tensor:
        scores = torch.zeros(len(trace.encoded), trace.encoded.longest).to(trace.logits)
        for own, row in zip(scores, trace.encoded, strict=True):
            parts = units(row, self.level)
            drawn = shared_out(text_rng(self.seed, row).random(len(parts)), parts, len(row))
            own[: len(row)] = torch.from_numpy(drawn).to(own)
        return scores
