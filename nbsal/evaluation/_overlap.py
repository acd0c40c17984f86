"""Token overlap: how many of the most important tokens of one class are also among those of another."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from threading import Event

import numpy as np
from numpy.typing import NDArray

from nbsal.evaluation import clouds
from nbsal.evaluation.bootstrap import bootstrap_weights, text_order
from nbsal.evaluation.cache import Cache, Explainers, explain_texts, positive_numbers
from nbsal.evaluation.curve import Curve
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.explain.saliency import Saliency
from nbsal.support.intervals import Floats
from nbsal.support.progress import Progress
from nbsal.support.validation import Text, checked, plural

COUNTS = tuple(range(10, 101, 10))
DRAWS = 200  # fewer than elsewhere: each bootstrap sample ranks all tokens again


@checked
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

    Only tokens with a positive weight count, see `nbsal.clouds.Cloud.overlap`. `idf`, `unit` and `normalise` are those
    of `nbsal.clouds.rank`. The confidence interval is a t interval around the value; its standard error is the standard
    deviation of bootstrap samples of the texts. It is NaN if all samples have the same overlap, as those of a single
    text do.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> overlap(explain, ["A warm film.", "A dull bore."], [1, 2], progress=False).frame["k"].tolist()
    [1.0, 2.0]
    """
    counts = positive_numbers(counts, "counts")
    saliencies = explain_texts(explainers, texts, batch_size, cache, progress, cancel)
    first = next(iter(saliencies.values()))[0]
    order = text_order([s.text for s in first])
    weights = bootstrap_weights(len(first), DRAWS)
    points, curves = tuple(map(float, counts)), {}
    for name, runs in saliencies.items():
        values = [[clouds.rank(run, idf, unit=unit, normalise=normalise).overlap(k) for k in counts] for run in runs]
        votes = [_ClassVotes.count([run[at] for at in order], idf, unit, normalise) for run in runs]
        draws = np.mean([run_votes.overlap(weights, counts) for run_votes in votes], 0)
        curves[name, "overlap"] = Curve(points, np.array(values), draws.T, len(first))
    notes = (plural(len(first), "text"), f"{unit}s, {'one vote per text' if normalise else 'summed scores'}")
    return Results(MetricInfo(point="k", better={"overlap": "low"}, bounds={"overlap": (0, 1)}), curves, notes)


@dataclass(frozen=True, eq=False)
class _ClassVotes:
    """The score that each text adds to each token, by class: arrays of text index, token index and weighted score."""

    classes: list[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]
    size: int  # number of distinct tokens

    @classmethod
    def count(
        cls, saliencies: Sequence[Saliency], idf: Mapping[str, float] | None, unit: str, normalise: bool
    ) -> "_ClassVotes":
        """Collect the votes of every text."""
        votes_by_label: dict[str, list[tuple[int, str, float]]] = {}
        for index, saliency in enumerate(saliencies):
            cloud = clouds.rank([saliency], idf, unit=unit, normalise=normalise)
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

    def overlap(self, weights: Floats, counts: Sequence[int]) -> Floats:
        """The overlap in each bootstrap sample: [draw, count]."""
        draws = []
        for draw in weights:
            pairs = list(combinations([self._rank(draw, *votes) for votes in self.classes], 2))
            common = [[len(np.intersect1d(first[:k], second[:k])) for first, second in pairs] for k in counts]
            draws.append(np.mean(common, 1) / counts)
        return np.array(draws)

    def _rank(
        self, weights: Floats, texts: NDArray[np.intp], tokens: NDArray[np.intp], scores: Floats
    ) -> NDArray[np.intp]:
        """Tokens of the sampled texts with a positive total score, largest first and equal ones by name."""
        sums = np.bincount(tokens, weights[texts] * scores, self.size)
        return np.argsort(-sums, kind="stable")[: int((sums > 0).sum())]
