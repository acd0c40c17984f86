"""AOPC and log-odds exactly as computed by the program behind Mask-LRP's tables, bugs included.

Explanations are of the gold label, with the separators masked out; the text that is perturbed has them; neither has
segment ids. Fractions are of all tokens. Hidden tokens become id 0 and stay visible to attention, except [CLS] and
[SEP], which are never replaced, and whichever token is ranked last. Texts of fewer than 20 tokens are left out. Means
are taken over the texts of each of ten workers, then over the workers, however few texts one of them has.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from nbsal.evaluation._hiding import LABELS, check_classifier, label_indices
from nbsal.evaluation.cache import Explainers, RankedTexts, RunOptions, Tokens, encode_texts, named_explainers
from nbsal.evaluation.curve import Curve, text_order
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.validation import Text, as_list, plural

SHORTEST = 20
WORKERS = 10
FRACTIONS = tuple(float(point) for point in np.linspace(0, 1, 10)[1:])
MEASURES = {"aopc": "high", "log-odds": "low"}
NEVER_HIDDEN = ("[CLS]", "[SEP]")


def published_deletion(
    explainers: Explainers,
    texts: Iterable[Text],
    labels: Iterable[Any],
    options: RunOptions,
    *,
    min_probability: float = 0.0,
    workers: int = WORKERS,
) -> Results:
    """AOPC and log-odds at nine fractions, without texts whose label has a probability below `min_probability`.

    The program uses .3 for QQP, where it evaluates label 1 only (`nbsal.data.load("qqp", duplicates_only=True)`), and
    .34 for MNLI.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gae")
    >>> texts, options = ["A joy " * 12, "A bore " * 12], RunOptions(progress=False)
    >>> published_deletion(explain, texts, [1, 0], options).mean()["measure"].tolist()
    ['aopc', 'log-odds']
    """
    members = named_explainers(explainers)
    rows = encode_texts([run for runs in members.values() for run in runs], texts)
    if len(rows) > 1:
        message = "The published variant evaluates one model at a time. Pass explainers of a single model."
        raise InputError(message, argument="explainers", value=explainers)
    ((subject, encoded),) = rows.items()
    check_classifier(subject)
    label_list = label_indices(subject, as_list(labels, "labels", LABELS), len(encoded))
    worker = np.arange(len(encoded)) // max(1, len(encoded) // workers)
    used = [i for i, row in enumerate(encoded) if len(row) >= SHORTEST]
    if not used:
        message = f"Every text has fewer than {SHORTEST} tokens, which the published variant leaves out."
        raise InputError(f"{message} Pass longer texts.", argument="texts", value=texts)
    gold = [label_list[i] for i in used]
    perturbed = [replace(encoded[i], types=(0,) * len(encoded[i]), mask=(1,) * len(encoded[i])) for i in used]
    separator = getattr(subject.tokenizer, "sep_token_id", None)
    explained = [replace(row, mask=tuple(int(token != separator) for token in row.ids)) for row in perturbed]
    flat = [run for runs in members.values() for run in runs]
    total = len(used) * (1 + len(flat) * (1 + len(FRACTIONS)))
    with options.running(total) as (cache, meter):
        saliencies = cache.explain(flat, {subject: Encoded(explained, encoded.pad_id)}, gold, options.batch_size, meter)
        orders = [[_order(s.scores) for s in run] for run in saliencies]
        runs = [RankedTexts(subject, Encoded(perturbed, encoded.pad_id), run_orders) for run_orders in orders]
        hidden = [[_hidden(*pair) for pair in zip(perturbed, run.orders, strict=True)] for run in runs]
        logits = cache.logits_without(runs, hidden, 0, meter)
    logs = np.array(
        [
            [[*part.double().log_softmax(-1)[:, label]] for part, label in zip(run_logits, gold, strict=True)]
            for run_logits in logits
        ]
    )  # [run, text, set]
    likely = np.exp(logs[0, :, 0]) >= min_probability
    weights = _weights(worker[used], likely, min_probability)
    values = {"aopc": np.exp(logs[..., :1]) - np.exp(logs[..., 1:]), "log-odds": logs[..., 1:] - logs[..., :1]}
    counted = [(row.text, label) for row, label, counts in zip(perturbed, gold, likely, strict=True) if counts]
    order, curves, at = text_order(counted), {}, 0
    for name, explainer_runs in members.items():
        for measure, value in values.items():
            part = value[at : at + len(explainer_runs), likely].swapaxes(1, 2)
            curves[name, measure] = Curve.from_values(FRACTIONS, part, order, weights[likely])
        at += len(explainer_runs)
    notes = (f"{int(likely.sum())} of {plural(len(encoded), 'text')}, as published",)
    return Results(MetricInfo(better=MEASURES, bounds={"aopc": (-1, 1)}), curves, notes)


def _order(scores: Any) -> list[int]:
    """All positions by score, NaN last."""
    return [int(position) for position in np.argsort(-scores, kind="stable")]


def _hidden(row: Row, order: Tokens) -> list[Tokens]:
    """No token, and those that are hidden at every fraction."""
    replaceable = [position for position in order[:-1] if row.tokens[position] not in NEVER_HIDDEN]
    return [replaceable[: round(fraction * len(row))] for fraction in (0, *FRACTIONS)]


def _weights(worker: Any, likely: Any, min_probability: float) -> Floats:
    """Weights of the texts that give every worker the same total weight."""
    counts = np.bincount(worker[likely], minlength=int(worker.max()) + 1)
    busy = int((counts > 0).sum())
    if not busy:
        message = f"No text's label has a probability of at least {min_probability}. Lower min_probability."
        raise InputError(message, argument="min_probability", value=min_probability)
    return np.asarray(likely.sum() / (busy * np.maximum(counts[worker], 1)), dtype=np.float64)
