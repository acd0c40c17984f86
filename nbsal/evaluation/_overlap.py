"""Token overlap: how many of the most important tokens of one class are also among those of another."""

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
from nbsal.validation import Text, plural

COUNTS = tuple(range(10, 101, 10))
DRAWS = 200  # fewer than elsewhere: each bootstrap sample ranks all tokens again


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
    """The share of the top k tokens that pairs of classes have in common, for every k in `counts`; lower is better.

    `idf`, `unit` and `normalise` are those of `nbsal.clouds.rank`. The confidence interval is biased downwards, and may
    lie below the value if the overlap is large: a bootstrap sample lacks about a third of the texts, and with them
    tokens that classes share.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> overlap(explain, ["A warm film.", "A dull bore."], [1, 2], progress=False).frame["k"].tolist()
    [1.0, 2.0]
    """
    counts = positive_numbers(counts, "counts")
    saliencies = explain_texts(explainers, texts, batch_size, cache, progress, cancel)
    first = next(iter(saliencies.values()))[0]
    bootstrap = Bootstrap([s.text for s in first], DRAWS)
    points, curves = tuple(map(float, counts)), {}
    for name, runs in saliencies.items():
        values = [[clouds.rank(run, idf, unit=unit, normalise=normalise).overlap(k) for k in counts] for run in runs]
        draws = [_ClassVotes.count(run, bootstrap, idf, unit, normalise).overlap(bootstrap, counts) for run in runs]
        curves[name, "overlap"] = Curve(points, np.array(values), np.mean(draws, 0))
    notes = (plural(len(first), "text"), f"{unit}s, {'one vote per text' if normalise else 'summed scores'}")
    return Results(MetricInfo(point="k", better={"overlap": "low"}), curves, notes)


@dataclass(frozen=True, eq=False)
class _ClassVotes:
    """The score that each text adds to each token, by class: arrays of text index, token index and weighted score."""

    classes: list[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]
    size: int  # number of distinct tokens

    @classmethod
    def count(
        cls,
        saliencies: Sequence[Saliency],
        bootstrap: Bootstrap,
        idf: Mapping[str, float] | None,
        unit: str,
        normalise: bool,
    ) -> "_ClassVotes":
        """Collect the votes of every text, with the texts in the order of the bootstrap."""
        votes_by_label: dict[str, list[tuple[int, str, float]]] = {}
        for index, at in enumerate(bootstrap.order):
            cloud = clouds.rank([saliencies[at]], idf, unit=unit, normalise=normalise)
            label = cloud.labels[0]
            votes = [(index, token, weight) for token, weight in cloud.weights[label].items()]
            votes_by_label.setdefault(label, []).extend(votes)
        names = sorted({token for votes in votes_by_label.values() for _, token, _ in votes})
        indices = {token: i for i, token in enumerate(names)}
        classes = [
            (np.array([v[0] for v in votes]), np.array([indices[v[1]] for v in votes]), np.array([v[2] for v in votes]))
            for votes in votes_by_label.values()
        ]
        return cls(classes, len(names))

    def overlap(self, bootstrap: Bootstrap, counts: Sequence[int]) -> Floats:
        """The overlap in each bootstrap sample: [draw, count]."""
        draws = []
        for weights in bootstrap.weights:
            rankings = [self._rank(weights, *votes) for votes in self.classes]
            pairs = list(combinations(rankings, 2))
            common = [[len(np.intersect1d(first[:k], second[:k])) for first, second in pairs] for k in counts]
            draws.append(np.mean(common, 1) / counts)
        return np.array(draws)

    def _rank(
        self, weights: Floats, texts: NDArray[np.intp], tokens: NDArray[np.intp], scores: Floats
    ) -> NDArray[np.intp]:
        """Tokens of the sampled texts by total score, equal ones by name."""
        drawn = weights[texts]
        present = np.bincount(tokens, drawn, self.size) > 0
        sums = np.where(present, np.bincount(tokens, drawn * scores, self.size), -np.inf)
        return np.argsort(-sums, kind="stable")[: int(present.sum())]
