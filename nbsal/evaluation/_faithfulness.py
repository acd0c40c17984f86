"""Faithfulness: what the probability of a decision loses when the most important tokens go, and when they stay alone.

AOPC and log-odds (Mask-LRP, section 5.2) go through fractions of the content tokens; comprehensiveness and sufficiency
(ERASER) through its five shares, of which each takes one token at least.
"""

import math
from collections.abc import Iterable, Sequence
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbsal.errors import InputError, UnknownName
from nbsal.evaluation import cache as remembering
from nbsal.evaluation import published
from nbsal.evaluation._games import LABELS, check_classifier, label_indices, numeric_labels
from nbsal.evaluation.bootstrap import Bootstrap, Floats
from nbsal.evaluation.cache import Cache, Coalitions, Explainers, Run
from nbsal.evaluation.results import Curve, MetricInfo, Results
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row
from nbsal.progress import Meter, Progress
from nbsal.validation import Text, as_list

MEASURES = {"aopc": "high", "log-odds": "low", "comprehensiveness": "high", "sufficiency": "low"}
FRACTIONS = tuple(step / 10 for step in range(1, 10))
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
VARIANTS = ("published",)


def faithfulness(
    explainers: Explainers,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    way: str | int = "pad",
    fractions: Sequence[float] = FRACTIONS,
    random: int = 0,
    variant: str | None = None,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """AOPC, log-odds, comprehensiveness and sufficiency of every explainer; their means stand in `.mean()`.

    What is explained and followed is the predicted class, or with `labels` the gold one. Tokens are replaced by the
    padding token in full view (`way="pad"`, as the papers do), by the mask token ("mask"), or taken away ("remove").
    `variant="published"` is AOPC and log-odds to the letter of the program behind Mask-LRP's tables; it needs labels.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> faithfulness(explain, ["A joy.", "A bore."], progress=False).mean()["measure"].tolist()
    ['aopc', 'log-odds', 'comprehensiveness', 'sufficiency']
    """
    if variant is not None:
        if variant not in VARIANTS:
            raise UnknownName("variant of faithfulness", variant, VARIANTS)
        if labels is None:
            raise InputError("The published variant follows the gold labels: pass labels=.")
        shared: dict[str, Any] = {"batch_size": batch_size, "memory": cache, "progress": progress, "cancel": cancel}
        return published.published_deletion(explainers, texts, labels, **shared)
    members = remembering.named_explainers(explainers)
    members |= remembering.random_explainers(members, random)
    rule = "must be shares above 0 and up to 1"
    shares = as_list(fractions, "fractions", rule)
    points = numeric_labels(shares)
    if not points or not all(0 < point <= 1 for point in points):
        raise InputError(f"fractions {rule}, not {shares!r:.80}.")
    rows = remembering.encode_texts([run for runs in members.values() for run in runs], texts)
    for subject in rows:
        check_classifier(subject)
    size = len(next(iter(rows.values())))
    wanted = [None] * size if labels is None else as_list(labels, "labels", LABELS)
    gold = {subject: None if labels is None else label_indices(subject, wanted, size) for subject in rows}
    count = sum(map(len, members.values()))
    total = size * (len(rows) + count * (1 + len(points) + 2 * len(SHARES)))
    with remembering.cache_or_new(cache) as cache, Meter(total, progress, cancel) as meter:
        runs = remembering.rank_tokens(members, rows, wanted, batch_size, cache, meter)
        return _measured(runs, gold, points, way, cache, meter)


def _measured(
    runs: dict[str, list[Run]],
    gold: dict[Subject, list[int] | None],
    points: Sequence[float],
    way: str | int,
    cache: Cache,
    meter: Meter,
) -> Results:
    flat = [run for members in runs.values() for run in members]
    tables = [
        [deletion_coalitions(row, order, points) for row, order in zip(run.rows, run.orders, strict=True)]
        for run in flat
    ]
    logits = cache.read(flat, tables, way, meter)
    losses = {id(run): _losses(run, one, gold[run.subject], len(points)) for run, one in zip(flat, logits, strict=True)}
    rows, truth = flat[0].rows, gold[flat[0].subject]
    again = Bootstrap([(row.text, truth and truth[i]) for i, row in enumerate(rows)])
    grids = [points, points, SHARES, SHARES]
    curves = {
        (name, measure): Curve.of(grid, np.stack([losses[id(run)][at] for run in members]), again)
        for name, members in runs.items()
        for at, (measure, grid) in enumerate(zip(MEASURES, grids, strict=True))
    }
    followed = "the predicted class" if truth is None else "the gold label"
    notes = (f"{len(rows)} texts, {followed}", f"hidden by {way!r}", *remembering.truncated_count(rows))
    return Results(MetricInfo(better=MEASURES), curves, notes)


def deletion_coalitions(row: Row, order: Sequence[int], points: Sequence[float]) -> Coalitions:
    """The whole text; the text without its best tokens at every point, then at every share; and these alone."""
    rank = np.full(len(row), -1)
    rank[list(order)] = np.arange(len(order))
    taken = [round(point * len(order)) for point in points]
    shares = [math.ceil(share * len(order)) for share in SHARES]
    without = (rank < 0) | (rank >= np.array([0, *taken, *shares])[:, None])
    return np.concatenate([without, rank < np.array(shares)[:, None]])


def log_probabilities(run: Run, logits: Tensor, chosen: int | None) -> Floats:
    """Log-probabilities, subset by subset, of one class: the chosen one, or the likeliest of the first subset."""
    several = run.subject.model.config.problem_type == "multi_label_classification"
    exact = logits.double()
    found = torch.nn.functional.logsigmoid(exact) if several else exact.log_softmax(-1)
    return found[:, int(exact[0].argmax()) if chosen is None else chosen].numpy()


def _losses(run: Run, logits: Sequence[Tensor], gold: list[int] | None, count: int) -> list[Floats]:
    """Every measure, [point, text] each."""
    chosen = [None] * len(logits) if gold is None else gold
    logs = np.stack([log_probabilities(run, *pair) for pair in zip(logits, chosen, strict=True)], -1)
    lost, shares = np.exp(logs[0]) - np.exp(logs), slice(1 + count, 1 + count + len(SHARES))
    return [lost[1 : 1 + count], logs[1 : 1 + count] - logs[0], lost[shares], lost[shares.stop :]]
