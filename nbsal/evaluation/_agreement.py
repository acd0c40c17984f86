"""Agreement of explanations with each other and with human rationales."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from threading import Event
from typing import Any

import numpy as np

from nbsal.evaluation.cache import Cache, Explainers, explain_texts, positive_numbers
from nbsal.evaluation.curve import Curve, text_order
from nbsal.evaluation.rankings import jaccard, kendall
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.model.text.tokens import Row
from nbsal.support.errors import InputError
from nbsal.support.progress import Progress
from nbsal.support.validation import Text, as_list, check_one_per_text, checked, plural, positive_number

TOKEN_COUNTS = tuple(range(10, 81, 10))  # as in Chefer et al. 2021a
MATCH_THRESHOLD = 0.5  # two spans of tokens match if they share at least this much of their union (ERASER)
Score = Callable[[Sequence[int], int, set[int]], float]  # of an order of tokens at a point, and the marked tokens


@checked
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
    """Compare the rankings of every pair of explainers: Kendall's tau, and the Jaccard index of their top `k` tokens.

    Equal scores are ranked as in `Saliency.order`. Texts with a single token have no ranking and are left out.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> pair = [nbsal.Explainer(subject, name) for name in ("gradcam", "simple")]
    >>> rank_agreement(pair, ["A warm film."], progress=False).explainers
    ['gradcam ~ simple']
    """
    k = positive_number(k, "k")
    saliencies = explain_texts(explainers, texts, batch_size, cache, progress, cancel)
    if len(saliencies) < 2:
        message = "rank_agreement compares explainers with each other. Pass at least two."
        raise InputError(message, argument="explainers", value=explainers)
    orders = {name: [s.order for s in runs[0]] for name, runs in saliencies.items()}
    rows = [s.row for s in next(iter(saliencies.values()))[0]]
    if any([s.row.ids for s in runs[0]] != [row.ids for row in rows] for runs in saliencies.values()):
        raise InputError(
            "The explainers split the texts into different tokens, so their rankings cannot be compared. Pass "
            "explainers whose models use the same tokenizer.",
            argument="explainers",
            value=explainers,
        )
    ranked = [i for i, row in enumerate(rows) if len(row.content) > 1]
    if not ranked:
        message = "Every text has a single token, so there is no ranking to compare. Pass longer texts."
        raise InputError(message, argument="texts", value=texts)
    order = text_order([rows[i].text for i in ranked])
    curves = {}
    for first, second in combinations(orders, 2):
        pairs = [(orders[first][i], orders[second][i]) for i in ranked]
        for measure, values in {
            "kendall": [kendall(*pair) for pair in pairs],
            f"jaccard@{k}": [jaccard(a[:k], b[:k]) for a, b in pairs],
        }.items():
            curves[f"{first} ~ {second}", measure] = Curve.from_values([k], np.array(values)[None, None], order)
    bounds = {"kendall": (-1, 1), f"jaccard@{k}": (0, 1)}
    return Results(MetricInfo(point="k", bounds=bounds), curves, (plural(len(ranked), "text"),))


@checked
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
    """Compare explanations with human rationales: area under the precision-recall curve, and IOU F1 (ERASER).

    `rationales` has one rationale per text: a list of character spans [(start, end), ...] of the text, or a list of 0
    and 1 with one entry per content token. For IOU F1, the top tokens of an explanation are selected, as many as the
    rationale marks; spans of adjacent tokens match if they share at least half of their union. Texts whose rationale
    marks no token are left out.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> rationale_agreement(explain, ["A warm film."], [[(2, 6)]], progress=False).measures
    ['auprc', 'iou f1']
    """
    measures: dict[str, Score] = {
        "auprc": lambda order, _, marked: average_precision(order, marked),
        "iou f1": lambda order, _, marked: iou_f1(order, marked),
    }
    settings = (batch_size, cache, progress, cancel)
    return _score_rationales(explainers, texts, rationales, measures, "rationale", [1], *settings)


@checked
def token_f1_at(
    explainers: Explainers,
    texts: Iterable[Text],
    rationales: Sequence[Any],
    k: int | Sequence[int] = TOKEN_COUNTS,
    *,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """Token F1 of the `k` most important tokens against human rationales, as Chefer et al. (2021a) measure it.

    `rationales` are as in `rationale_agreement`. If a text has fewer than `k` tokens, all of them count. Chefer et al.
    use Movie Reviews with `k` from 10 to 80.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> token_f1_at(explain, ["A warm film."], [[(2, 6)]], k=4, progress=False).mean()["mean"].item()
    0.4
    """
    counts = positive_numbers(k, "k")
    measures: dict[str, Score] = {"token f1": lambda order, count, marked: token_f1(order[:count], marked)}
    settings = (batch_size, cache, progress, cancel)
    return _score_rationales(explainers, texts, rationales, measures, "k", counts, *settings)


def _score_rationales(
    explainers: Explainers,
    texts: Iterable[Text],
    rationales: Any,
    measures: Mapping[str, Score],
    point: str,
    points: Sequence[int],
    *settings: Any,
) -> Results:
    """Score the order of tokens in every explanation against its rationale, for the texts whose rationale marks one."""
    rationales = as_list(rationales, "rationales", "must be a list with one rationale for each text")
    saliencies = explain_texts(explainers, texts, *settings)
    rows = {name: [s.row for s in runs[0]] for name, runs in saliencies.items()}
    size = len(next(iter(rows.values())))
    check_one_per_text(rationales, "rationales", size)
    marked = {
        name: [marked_tokens(row, rationale) for row, rationale in zip(encoded, rationales, strict=True)]
        for name, encoded in rows.items()
    }
    used = [i for i in range(size) if all(sets[i] for sets in marked.values())]
    if not used:
        message = "No rationale marks a token. Pass rationales with at least one marked token."
        raise InputError(message, argument="rationales", value=rationales)
    first = next(iter(saliencies.values()))[0]
    order = text_order([first[i].text for i in used])
    curves = {}
    for name, runs in saliencies.items():
        for measure, score in measures.items():
            values = [[[score(run[i].order, at, marked[name][i]) for i in used] for at in points] for run in runs]
            curves[name, measure] = Curve.from_values(points, np.array(values), order)
    better, bounds = dict.fromkeys(measures, "high"), dict.fromkeys(measures, (0, 1))
    metric = MetricInfo(point=point, better=better, bounds=bounds)
    return Results(metric, curves, (f"{len(used)} of {plural(size, 'text')}",))


def average_precision(order: Sequence[int], marked: set[int]) -> float:
    """The mean precision at the ranks of marked tokens: the area under the precision-recall curve."""
    hits = np.isin(order, list(marked))
    precision = hits.cumsum() / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())


def iou_f1(order: Sequence[int], marked: set[int]) -> float:
    """F1 of matching the marked spans to those of the top tokens, taking as many tokens as are marked."""
    selected, expected = token_spans(order[: len(marked)]), token_spans(marked)
    precision = np.mean([any(jaccard(span, other) >= MATCH_THRESHOLD for other in expected) for span in selected])
    recall = np.mean([any(jaccard(span, other) >= MATCH_THRESHOLD for span in selected) for other in expected])
    return float(2 * precision * recall / (precision + recall)) if precision + recall else 0.0


def token_f1(selected: Iterable[int], marked: set[int]) -> float:
    """The harmonic mean of precision and recall of selected tokens."""
    chosen = set(selected)
    return 2 * len(chosen & marked) / (len(chosen) + len(marked))


def token_spans(positions: Iterable[int]) -> list[set[int]]:
    """Group adjacent positions."""
    spans: list[set[int]] = []
    for position in sorted(positions):
        if spans and position - 1 in spans[-1]:
            spans[-1].add(position)
        else:
            spans.append({position})
    return spans


def marked_tokens(row: Row, rationale: Any) -> set[int]:
    """The content tokens that a rationale marks."""
    rule = "must be a list of spans (start, end), or of 0 and 1 for each content token"
    entries = as_list(rationale, "rationales", rule)
    if all(isinstance(entry, tuple) and len(entry) == 2 for entry in entries):
        return {i for span in entries for i in row.tokens_in(span)}
    if len(entries) != len(row.content) or not np.isin(entries, (0, 1)).all():
        raise InputError(
            f"A rationale must be a list of spans (start, end), or of 0 and 1 for each of the {len(row.content)} "
            f"content tokens of {row.text!r:.60}, not {rationale!r:.60}.",
            argument="rationales",
            value=rationale,
        )
    return {i for i, marked in zip(row.content, entries, strict=True) if marked}
