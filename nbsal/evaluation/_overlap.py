"""Token overlap: how many of the most important tokens of one class are also among those of another."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from threading import Event

import numpy as np

from nbsal.evaluation import clouds
from nbsal.evaluation.cache import Cache, Explainers, explain_texts, positive_numbers
from nbsal.evaluation.curve import Curve, text_order
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.explain.saliency import Saliency
from nbsal.support.arrays import Floats
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
        ordered = [[run[at] for at in order] for run in runs]
        draws = np.mean([_draw_overlaps(run, weights, counts, idf, unit, normalise) for run in ordered], 0)
        curves[name, "overlap"] = Curve(points, np.array(values), draws.T, len(first))
    notes = (plural(len(first), "text"), f"{unit}s, {'one vote per text' if normalise else 'summed scores'}")
    return Results(MetricInfo(point="k", better={"overlap": "low"}, bounds={"overlap": (0, 1)}), curves, notes)


def bootstrap_weights(size: int, count: int) -> Floats:
    """The share of each of `size` texts in `count` samples with replacement: [draw, text]."""
    places = np.random.default_rng(0).integers(size, size=(count, size))
    return np.stack([np.bincount(row, minlength=size) for row in places]) / size


def _draw_overlaps(
    saliencies: Sequence[Saliency],
    weights: Floats,
    counts: Sequence[int],
    idf: Mapping[str, float] | None,
    unit: str,
    normalise: bool,
) -> Floats:
    """The overlap in each bootstrap sample of the texts: [draw, count]."""
    votes: dict[str, list[tuple[int, str, float]]] = defaultdict(list)  # of each class: text, token, weighted score
    for text, saliency in enumerate(saliencies):
        ((label, token_weights),) = clouds.rank([saliency], idf, unit=unit, normalise=normalise).weights.items()
        votes[label] += [(text, token, weight) for token, weight in token_weights.items()]
    names = sorted({token for class_votes in votes.values() for _, token, _ in class_votes})
    numbers = {token: i for i, token in enumerate(names)}
    classes = [
        (np.array([v[0] for v in part]), np.array([numbers[v[1]] for v in part]), np.array([v[2] for v in part]))
        for part in votes.values()
    ]
    draws = []
    for draw in weights:
        ranked = []
        for texts, tokens, scores in classes:
            sums = np.bincount(tokens, draw[texts] * scores, len(names))
            ranked.append(np.argsort(-sums, kind="stable")[: int((sums > 0).sum())])  # equal sums are ordered by name
        pairs = list(combinations(ranked, 2))
        common = [[len(np.intersect1d(first[:k], second[:k])) for first, second in pairs] for k in counts]
        draws.append(np.mean(common, 1) / counts)
    return np.array(draws)
