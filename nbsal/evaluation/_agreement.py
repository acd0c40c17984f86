"""Agreement of explanations: with each other, and with what people marked."""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from threading import Event
from typing import Any

import numpy as np

from nbsal.errors import InputError
from nbsal.evaluation.bootstrap import Bootstrap
from nbsal.evaluation.cache import Cache, Explainers, explain_texts
from nbsal.evaluation.results import Curve, MetricInfo, Results
from nbsal.model.tokens import Row
from nbsal.progress import Progress
from nbsal.validation import Text, as_list, positive_number

MATCH = 0.5  # from this share of common tokens a run of tokens is taken to be the one people marked (ERASER)


def rank_agreement(
    explainers: Explainers,
    texts: Iterable[Text],
    k: int = 5,
    *,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """For every pair of explainers, Kendall's tau of their rankings, and the Jaccard index of their k first tokens.

    Equal scores are ranked by the rule of `Saliency.order`. Texts of one token have no ranking and do not count.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> pair = [nbsal.Explainer(subject, name) for name in ("gradcam", "simple")]
    >>> rank_agreement(pair, ["A warm film."], progress=False).explainers
    ['gradcam ~ simple']
    """
    k = positive_number(k, "k")
    found = explain_texts(explainers, texts, batch_size, cache, progress, cancel)
    if len(found) < 2:
        raise InputError("Agreement is between explainers: give at least two.")
    orders = {name: [s.order for s in runs[0]] for name, runs in found.items()}
    rows = [s.row for s in next(iter(found.values()))[0]]
    if any([s.row.ids for s in runs[0]] != [row.ids for row in rows] for runs in found.values()):
        raise InputError(
            "Rankings can be compared where explainers read texts as the same tokens: give models of one kind."
        )
    longer = [i for i, row in enumerate(rows) if len(row.content) > 1]
    if not longer:
        raise InputError("Every text has one token alone: there is no ranking to compare.")
    again = Bootstrap([rows[i].text for i in longer])
    curves = {}
    for first, second in combinations(orders, 2):
        pairs = [(orders[first][i], orders[second][i]) for i in longer]
        for measure, values in {
            "kendall": [kendall(*pair) for pair in pairs],
            f"jaccard@{k}": [jaccard(one[:k], other[:k]) for one, other in pairs],
        }.items():
            curves[f"{first} ~ {second}", measure] = Curve.of([k], np.array(values)[None, None], again)
    return Results(MetricInfo(point="k"), curves, (f"{len(longer)} texts",))


def rationale_agreement(
    explainers: Explainers,
    texts: Iterable[Text],
    rationales: Sequence[Any],
    *,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """How well explainers find what people marked: area under precision and recall, and IOU F1 (ERASER).

    A rationale is a list of character spans [(start, end), ...] of the text, or a list of 0 and 1 with one entry for
    each content token. For F1 an explainer marks as many tokens as people did; runs of marked tokens match from half of
    their common length. Texts in which people marked nothing do not count.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> rationale_agreement(explain, ["A warm film."], [[(2, 6)]], progress=False).measures
    ['auprc', 'iou f1']
    """
    given = as_list(rationales, "rationales", "must be a list with one rationale for each text")
    found = explain_texts(explainers, texts, batch_size, cache, progress, cancel)
    rows = {name: [s.row for s in runs[0]] for name, runs in found.items()}
    first = next(iter(rows.values()))
    if len(given) != len(first):
        raise InputError(f"There are {len(given)} rationales for {len(first)} texts.")
    marked = {name: [marks(row, one) for row, one in zip(own, given, strict=True)] for name, own in rows.items()}
    judged = [i for i in range(len(first)) if all(own[i] for own in marked.values())]
    if not judged:
        raise InputError("No rationale marks a token: there is nothing to agree with.")
    again = Bootstrap([first[i].text for i in judged])
    measures: dict[str, Callable[[Sequence[int], set[int]], float]] = {"auprc": average_precision, "iou f1": iou_f1}
    curves = {
        (name, measure): Curve.of(
            [1], np.array([[[score(one[i].order, marked[name][i]) for i in judged]] for one in runs]), again
        )
        for name, runs in found.items()
        for measure, score in measures.items()
    }
    notes = (f"{len(judged)} of {len(first)} texts",)
    return Results(MetricInfo(point="rationale", better=dict.fromkeys(measures, "high")), curves, notes)


def kendall(first: Sequence[int], second: Sequence[int]) -> float:
    """Kendall's tau of two rankings of the same things: 1 where every pair stands the same way, -1 where none does.

    >>> kendall([3, 1, 2], [3, 1, 2]), kendall([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    """
    place = {one: at for at, one in enumerate(second)}
    at = np.array([place[one] for one in first])
    crossed = sum(int((at[i + 1 :] < one).sum()) for i, one in enumerate(at))  # row by row: no table of all pairs
    return 1 - 4 * crossed / (len(at) * (len(at) - 1))


def jaccard(first: Iterable[int], second: Iterable[int]) -> float:
    """The share of common members among all."""
    one, other = set(first), set(second)
    return len(one & other) / len(one | other)


def average_precision(order: Sequence[int], marked: set[int]) -> float:
    """The mean precision at the ranks of marked tokens: the area under precision and recall.

    >>> average_precision([4, 1, 2], {1, 4})
    1.0
    """
    hits = np.isin(order, list(marked))
    precision = hits.cumsum() / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())


def iou_f1(order: Sequence[int], marked: set[int]) -> float:
    """F1 of runs of tokens, when as many tokens are taken as people marked."""
    ours, theirs = runs_of(order[: len(marked)]), runs_of(marked)
    precision = np.mean([any(jaccard(one, other) >= MATCH for other in theirs) for one in ours])
    recall = np.mean([any(jaccard(one, other) >= MATCH for one in ours) for other in theirs])
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def runs_of(places: Iterable[int]) -> list[set[int]]:
    """Places that follow each other, together.

    >>> runs_of([5, 1, 2])
    [{1, 2}, {5}]
    """
    found: list[set[int]] = []
    for place in sorted(places):
        if found and place - 1 in found[-1]:
            found[-1].add(place)
        else:
            found.append({place})
    return found


def marks(row: Row, rationale: Any) -> set[int]:
    """The content tokens a rationale marks."""
    given = as_list(
        rationale, "rationale", "must be a list of spans (start, end), or of 0 and 1 for each content token"
    )
    if all(isinstance(one, tuple) and len(one) == 2 for one in given):
        return {i for span in given for i in row.within(span)}
    if len(given) != len(row.content) or not np.isin(given, (0, 1)).all():
        raise InputError(
            f"A rationale is a list of spans (start, end), or of 0 and 1 for each of the {len(row.content)} content "
            f"tokens of {row.text!r:.60}."
        )
    return {i for i, chosen in zip(row.content, given, strict=True) if chosen}
