"""AOPC and log-odds as the program behind Mask-LRP's tables computes them, defects included.

Explanations are of the gold label, with the separators masked; the text that is perturbed has none masked; neither has
segments. Counts are of all tokens; tokens become id 0 in full view, except those spelt [CLS] or [SEP]; the token ranked
last, special or not, is never replaced. Texts of fewer than 20 tokens do not count. Means are taken over the shares of
ten workers, and then over the workers, however few texts one has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from nbsal.errors import InputError
from nbsal.evaluation import cache as remembering
from nbsal.evaluation._games import LABELS, check_classifier, label_indices
from nbsal.evaluation.bootstrap import Bootstrap, Floats
from nbsal.evaluation.cache import Cache, Coalitions, Explainers, Run
from nbsal.evaluation.results import Curve, MetricInfo, Results
from nbsal.model.tokens import Encoded, Row
from nbsal.progress import Meter, Progress
from nbsal.validation import Text, as_list

SHORTEST = 20
WORKERS = 10
FRACTIONS = tuple(float(point) for point in np.linspace(0, 1, 10)[1:])
MEASURES = {"aopc": "high", "log-odds": "low"}
SKIPPED = ("[CLS]", "[SEP]")


def published_deletion(
    explainers: Explainers,
    texts: Iterable[Text],
    labels: Iterable[Any],
    *,
    least: float = 0.0,
    workers: int = WORKERS,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """Both measures at nine fractions; texts whose label has a probability below `least` do not count.

    The program takes .3 for QQP, of which it keeps label 1 alone (`nbsal.data.load("qqp", duplicates_only=True)`), and
    .34 for MNLI.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gae")
    >>> published_deletion(explain, ["A joy " * 12, "A bore " * 12], [1, 0], progress=False).mean()["measure"].tolist()
    ['aopc', 'log-odds']
    """
    members = remembering.named_explainers(explainers)
    rows = remembering.encode_texts([run for runs in members.values() for run in runs], texts)
    if len(rows) > 1:
        raise InputError("The published variant takes explainers of one model at a time.")
    ((subject, whole),) = rows.items()
    check_classifier(subject)
    given = label_indices(subject, as_list(labels, "labels", LABELS), len(whole))
    worker = np.arange(len(whole)) // max(1, len(whole) // workers)
    kept = [i for i, row in enumerate(whole) if len(row) >= SHORTEST]
    if not kept:
        raise InputError(f"No text has {SHORTEST} tokens: the published variant leaves out all of these.")
    gold = [given[i] for i in kept]
    bare = [replace(whole[i], types=(0,) * len(whole[i]), mask=(1,) * len(whole[i])) for i in kept]
    separator = getattr(subject.tokenizer, "sep_token_id", None)
    explained = [replace(row, mask=tuple(int(token != separator) for token in row.ids)) for row in bare]
    flat = [run for runs in members.values() for run in runs]
    total = len(kept) * (1 + len(flat) * (1 + len(FRACTIONS)))
    with remembering.cache_or_new(cache) as cache, Meter(total, progress, cancel) as meter:
        asked = {subject: Encoded(explained, whole.pad_id)}
        found = cache.explain(flat, asked, gold, batch_size, meter)
        runs = [Run(subject, Encoded(bare, whole.pad_id), [_order(s.scores) for s in one]) for one in found]
        tables = [[_table(row, order) for row, order in zip(bare, run.orders, strict=True)] for run in runs]
        logits = cache.read(runs, tables, 0, meter)
    logs = np.array(
        [[[*one.double().log_softmax(-1)[:, label]] for one, label in zip(part, gold, strict=True)] for part in logits]
    )  # [run, text, subset]
    likely = np.exp(logs[0, :, 0]) >= least
    weights = _weights(worker[kept], likely)
    values = {"aopc": np.exp(logs[..., :1]) - np.exp(logs[..., 1:]), "log-odds": logs[..., 1:] - logs[..., :1]}
    again = Bootstrap([(row.text, label) for row, label, counts in zip(bare, gold, likely, strict=True) if counts])
    curves, at = {}, 0
    for name, one in members.items():
        for measure, value in values.items():
            part = (value[at : at + len(one)] * weights[:, None])[:, likely].swapaxes(1, 2)
            curves[name, measure] = Curve.of(FRACTIONS, part, again)
        at += len(one)
    notes = (f"{int(likely.sum())} of {len(whole)} texts, as published",)
    return Results(MetricInfo(better=MEASURES), curves, notes)


def _order(scores: Any) -> list[int]:
    """All positions by score; NaN comes last."""
    return [int(place) for place in np.argsort(-scores, kind="stable")]


def _table(row: Row, order: Sequence[int]) -> Coalitions:
    """The whole text, and what stays of it at every fraction."""
    walked = [place for place in order[:-1] if row.tokens[place] not in SKIPPED]
    kept = np.ones((1 + len(FRACTIONS), len(row)), dtype=bool)
    for at, fraction in enumerate(FRACTIONS, 1):
        kept[at, walked[: round(fraction * len(row))]] = False
    return kept


def _weights(worker: Any, likely: Any) -> Floats:
    """How much more or less than once each text counts, so that every worker counts the same."""
    counts = np.bincount(worker[likely], minlength=int(worker.max()) + 1)
    busy = int((counts > 0).sum())
    if not busy:
        raise InputError("No text reaches that probability of its label: nothing is left to average.")
    return np.asarray(likely.sum() / (busy * np.maximum(counts[worker], 1)), dtype=np.float64)
