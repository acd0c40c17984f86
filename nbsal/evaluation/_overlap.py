"""Overlap: how many of the tokens that speak for one class also speak for another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from threading import Event

import numpy as np
from numpy.typing import NDArray

from nbsal import clouds
from nbsal.evaluation.bootstrap import Bootstrap, Floats
from nbsal.evaluation.cache import Cache, Explainers, explain_texts, positive_numbers
from nbsal.evaluation.results import Curve, MetricInfo, Results
from nbsal.progress import Progress
from nbsal.saliency import Saliency
from nbsal.validation import Text

COUNTS = tuple(range(10, 101, 10))
DRAWS = 200  # every draw ranks all tokens anew


def overlap(
    explainers: Explainers,
    texts: Iterable[Text],
    counts: Sequence[int] = COUNTS,
    *,
    idf: Mapping[str, float] | None = None,
    unit: str = "token",
    normalise: bool = True,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """The share of the first k tokens that pairs of classes have in common, for every k of `counts`; low is good.

    Clouds are those of `nbsal.clouds.rank`. Intervals rank the tokens of drawn texts. A draw leaves out a third of the
    texts, and with these tokens that classes share: intervals lie low, and where much is shared, below the value.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> overlap(explain, ["A warm film.", "A dull bore."], [1, 2], progress=False).frame["k"].tolist()
    [1.0, 2.0]
    """
    counts = positive_numbers(counts, "counts")
    found = explain_texts(explainers, texts, batch_size, cache, progress, cancel)
    first = next(iter(found.values()))[0]
    again = Bootstrap([s.text for s in first], DRAWS)
    points, curves = tuple(map(float, counts)), {}
    for name, runs in found.items():
        values = [[clouds.rank(one, idf, unit=unit, normalise=normalise).overlap(k) for k in counts] for one in runs]
        draws = [_ClassVotes.of(one, again, idf, unit, normalise).shared(again, counts) for one in runs]
        curves[name, "overlap"] = Curve(points, np.array(values), np.mean(draws, 0))
    notes = (f"{len(first)} texts", f"{unit}s, {'one vote a text' if normalise else 'raw sums'}")
    return Results(MetricInfo(point="k", better={"overlap": "low"}), curves, notes)


@dataclass(frozen=True, eq=False)
class _ClassVotes:
    """What every text gives to every token, by class: places of texts and of tokens, and weighted scores."""

    classes: list[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]
    size: int

    @classmethod
    def of(
        cls, saliencies: Sequence[Saliency], again: Bootstrap, idf: Mapping[str, float] | None, unit: str, each: bool
    ) -> "_ClassVotes":
        found: dict[str, list[tuple[int, str, float]]] = {}
        for place, at in enumerate(again.order):
            one = clouds.rank([saliencies[at]], idf, unit=unit, normalise=each)
            label = one.labels[0]
            found.setdefault(label, []).extend((place, token, weight) for token, weight in one.weights[label].items())
        names = {token: i for i, token in enumerate(sorted({vote[1] for votes in found.values() for vote in votes}))}
        return cls(
            [
                (
                    np.array([v[0] for v in votes]),
                    np.array([names[v[1]] for v in votes]),
                    np.array([v[2] for v in votes]),
                )
                for votes in found.values()
            ],
            len(names),
        )

    def shared(self, again: Bootstrap, counts: Sequence[int]) -> Floats:
        """[draw, count]."""
        found = []
        for weights in again.weights:
            ranked = [self._ranked(weights, *votes) for votes in self.classes]
            pairs = list(combinations(ranked, 2))
            common = [[len(np.intersect1d(one[:k], other[:k])) for one, other in pairs] for k in counts]
            found.append(np.mean(common, 1) / counts)
        return np.array(found)

    def _ranked(
        self, weights: Floats, texts: NDArray[np.intp], tokens: NDArray[np.intp], scores: Floats
    ) -> NDArray[np.intp]:
        """Tokens that occur in the drawn texts, the weightiest first, equal ones by name."""
        drawn = weights[texts]
        present = np.bincount(tokens, drawn, self.size) > 0
        sums = np.where(present, np.bincount(tokens, drawn * scores, self.size), -np.inf)
        return np.argsort(-sums, kind="stable")[: int(present.sum())]
