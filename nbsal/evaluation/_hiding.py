"""Classifications as tokens are hidden in the order of their scores, which the games and faithfulness measure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from nbsal.ablation.decision import filler_id
from nbsal.evaluation.cache import (
    Explainers,
    RankedTexts,
    RunOptions,
    Tokens,
    encode_texts,
    named_explainers,
    random_explainers,
    token_order,
)
from nbsal.evaluation.curve import Curve, text_order
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.model.subject import Subject
from nbsal.model.targets import is_regression, label_index
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError
from nbsal.support.validation import Text, as_list, check_one_per_text, plural

LABELS = "must be a list with one label for each text"


@dataclass(frozen=True, kw_only=True)
class HidingTest:
    """What is hidden of each text, and what is measured without it.

    `hidden` takes a text and the order of its tokens and gives the sets; `measure` takes the logits of all texts and
    their labels and returns [point, text] for each measure; `points` has the points of each measure. The predicted
    class is explained, or with `explain_labels` the gold one. The first of `notes` follows the number of texts.
    """

    hidden: Callable[[Row, Tokens], Sequence[Tokens]]
    way: str | int
    measure: Callable[[RankedTexts, Sequence[Tensor], list[int] | None], Mapping[str, Floats]]
    points: Mapping[str, Sequence[float]]
    metric: MetricInfo
    notes: Sequence[str]
    explain_labels: bool = False


def evaluate_hiding(
    explainers: Explainers,
    texts: Iterable[Text],
    labels: Iterable[Any] | None,
    test: HidingTest,
    random: int,
    options: RunOptions,
) -> Results:
    """Run every text without sets of its tokens for every explainer and measure the logits."""
    members = named_explainers(explainers)
    members |= random_explainers(members, random)
    flat = [(name, explainer) for name, runs in members.items() for explainer in runs]
    rows = encode_texts([explainer for _, explainer in flat], texts)
    for subject in rows:
        check_classifier(subject)
        filler_id(subject, test.way)  # raises an error if the way is not available
    first_rows = next(iter(rows.values()))
    size = len(first_rows)
    label_list = None if labels is None else as_list(labels, "labels", LABELS)
    gold = {subject: None if label_list is None else label_indices(subject, label_list, size) for subject in rows}
    targets = label_list if test.explain_labels and label_list is not None else [None] * size
    count = len(test.hidden(first_rows[0], first_rows[0].content))  # the same for every text
    total = size * (len(rows) + count * len(flat))
    with options.running(total) as (cache, meter):
        explanations = cache.explain([explainer for _, explainer in flat], rows, targets, options.batch_size, meter)
        runs = [
            RankedTexts(explainer.subject, rows[explainer.subject], token_order(saliencies, name))
            for (name, explainer), saliencies in zip(flat, explanations, strict=True)
        ]
        sets = [[test.hidden(*text) for text in zip(run.rows, run.orders, strict=True)] for run in runs]
        logits = cache.logits_without(runs, sets, test.way, meter)
    values: dict[str, list[Mapping[str, Floats]]] = {name: [] for name in members}
    for (name, _), run, run_logits in zip(flat, runs, logits, strict=True):
        values[name].append(test.measure(run, run_logits, gold[run.subject]))
    truth = next(iter(gold.values()))
    order = text_order([(row.text, truth and truth[i]) for i, row in enumerate(first_rows)])
    curves = {
        (name, part): Curve.from_values(part_points, np.stack([run_values[part] for run_values in values[name]]), order)
        for name in members
        for part, part_points in test.points.items()
    }
    truncated = sum(1 for row in first_rows if row.dropped)
    note = [f"{truncated} truncated to the model's maximum length"] if truncated else []
    notes = (f"{plural(size, 'text')}, {test.notes[0]}", *test.notes[1:], *note)
    return Results(test.metric, curves, notes)


def check_classifier(subject: Subject) -> None:
    """Refuse a subject that does not classify whole texts."""
    if subject.task != "sequence" or is_regression(subject) or subject.usage.zero_shot is not None:
        raise InputError(
            f"{subject.name} does not classify whole texts, so there is no prediction to follow. Pass explainers of a "
            "sequence classifier with at least two labels.",
            argument="explainers",
            value=subject,
        )


def label_indices(subject: Subject, labels: Sequence[Any], size: int) -> list[int]:
    """The indices of labels that are names or indices."""
    check_one_per_text(labels, "labels", size)
    return [label_index(label, subject.labels, "label") for label in labels]


def check_fractions(fractions: Any, rule: str, allowed: Callable[[list[float]], bool]) -> list[float]:
    """The fractions as floats; an InputError with the rule if they are not `allowed` or not numbers from 0 to 1."""
    values = as_list(fractions, "fractions", rule)
    try:
        points = [float(value) for value in values]
    except (TypeError, ValueError):
        points = []
    if not points or not all(0 <= point <= 1 for point in points) or not allowed(points):
        raise InputError(f"fractions {rule}, not {values!r:.80}.", argument="fractions", value=fractions)
    return points
