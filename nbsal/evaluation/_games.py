"""The Hiding and Revealing games (Hou and Castanon 2023).

Hiding removes the most important content tokens first: the lower its curve, the better. Revealing starts with no
content token and adds the most important first: the higher its curve, the better. Special tokens always stay.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from nbsal.evaluation.bootstrap import text_order
from nbsal.evaluation.cache import (
    Cache,
    Coalitions,
    Explainers,
    Run,
    cache_or_new,
    encode_texts,
    named_explainers,
    random_explainers,
    rank_tokens,
    truncated_count,
)
from nbsal.evaluation.curve import Curve
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.explain.explainer import Explainer
from nbsal.methods.base import LayerMethod
from nbsal.methods.decoding import Decoded
from nbsal.model.subject import Subject
from nbsal.model.targets import is_regression, label_index
from nbsal.model.text.tokens import Row
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.intervals import Floats
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import Text, as_list, check_one_per_text, checked, plural

GAMES = {"revealing": "high", "hiding": "low"}
FRACTIONS = tuple(step / 20 for step in range(21))
LENGTHS = ("content", "sequence")
RANDOM = 20
LABELS = "must be a list with one label for each text"


@checked
def games(
    explainers: Explainers,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    fractions: Sequence[float] = FRACTIONS,
    relative_to: str = "content",
    random: int = RANDOM,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """Play the Hiding and Revealing games with every explainer, and with `random` random orders as the baseline.

    The mean of the random orders is the row "random". Accuracy is measured against `labels`, or without them against
    the model's predictions for the full texts. `fractions` are fractions of a text's content tokens, or of its full
    length with `relative_to="sequence"`, which reaches the last content token earlier. Pass `cache` to share results
    between calls or to resume a cancelled call (its error has the cache as `partial`).

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> games(explain, ["A joy.", "A bore."], random=2, progress=False).auc()[["explainer", "game"]].values.tolist()
    [['gradcam', 'revealing'], ['gradcam', 'hiding'], ['random', 'revealing'], ['random', 'hiding']]
    """
    members = named_explainers(explainers)
    members |= random_explainers(members, random)
    points = check_fractions(fractions)
    if relative_to not in LENGTHS:
        raise UnknownName("relative_to", relative_to, LENGTHS)
    rows = encode_texts([run for runs in members.values() for run in runs], texts)
    for subject in rows:
        check_classifier(subject)
    size = len(next(iter(rows.values())))
    label_list = None if labels is None else as_list(labels, "labels", LABELS)
    gold = {subject: None if label_list is None else label_indices(subject, label_list, size) for subject in rows}
    total = size * (len(rows) + 2 * sum(map(len, members.values())) * len(points))
    with cache_or_new(cache) as cache, Meter(total, progress, cancel) as meter:
        runs = rank_tokens(members, rows, [None] * size, batch_size, cache, meter)
        return _play(runs, gold, points, relative_to, cache, meter)


def _play(
    runs: dict[str, list[Run]],
    gold: dict[Subject, list[int] | None],
    points: Sequence[float],
    relative_to: str,
    cache: Cache,
    meter: Meter,
) -> Results:
    flat = [run for members in runs.values() for run in members]
    coalitions = [
        [coalition_steps(row, order, points, relative_to) for row, order in zip(run.rows, run.orders, strict=True)]
        for run in flat
    ]
    logits = cache.masked_logits(flat, coalitions, "remove", meter)
    correct = {
        id(run): _correct(run_logits, gold[run.subject], points) for run, run_logits in zip(flat, logits, strict=True)
    }
    rows, truth = flat[0].rows, gold[flat[0].subject]
    order = text_order([(row.text, truth and truth[i]) for i, row in enumerate(rows)])
    curves = {
        (name, game): Curve.from_values(points, np.stack([correct[id(run)][at] for run in members]), order)
        for name, members in runs.items()
        for at, game in enumerate(GAMES)
    }
    reference = "their labels" if truth else "the model's own predictions"
    notes = (
        f"{plural(len(rows), 'text')}, accuracy against {reference}",
        f"fractions of the {relative_to}",
        *truncated_count(rows),
    )
    metric = MetricInfo("game", "fraction", "accuracy", "auc", GAMES, dict.fromkeys(GAMES, (0, 1)))
    return Results(metric, curves, notes)


def coalition_steps(
    row: Row, order: Sequence[int], points: Sequence[float], relative_to: str = "content"
) -> Coalitions:
    """The tokens that stay at each point of the Revealing game, then of the Hiding game: [coalition, token]."""
    length = len(order) if relative_to == "content" else sum(row.mask)
    counts = np.array([round(point * length) for point in points])
    rank = np.full(len(row), -1)
    rank[list(order)] = np.arange(len(order))
    revealed = rank < counts[:, None]
    remaining = rank >= counts[:, None]
    return np.concatenate([revealed, remaining | (rank < 0)])


def _correct(logits: Sequence[Any], gold: list[int] | None, points: Sequence[float]) -> Floats:
    """Whether each prediction is correct: [game, point, text]."""
    predictions = np.stack(
        [text_logits.argmax(-1).numpy().reshape(len(GAMES), len(points)) for text_logits in logits], -1
    )
    # Without labels the prediction for the full text counts: the Hiding game at fraction 0.
    truth = predictions[1, list(points).index(0.0)] if gold is None else gold
    correct: Floats = np.equal(predictions, truth).astype(np.float64)
    return correct


@checked
def best_layer(
    explainer: Explainer,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> int:
    """The layer with the largest difference between the areas under the Revealing and the Hiding curve.

    Report results for this layer on other texts than those used to choose it.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> best_layer(explain, ["A warm and funny film.", "A dull bore."], progress=False) in range(7)
    True
    """
    layers = at_layers(explainer)
    named = {str(layer): layer_explainer for layer, layer_explainer in layers.items()}
    results = games(named, texts, labels, random=0, cache=cache, progress=progress, cancel=cancel)
    area = results.auc().pivot(index="explainer", columns="game", values="auc")
    gap = area["revealing"] - area["hiding"]
    return max(layers, key=lambda layer: gap[str(layer)])


@checked
def at_layers(explainer: Explainer) -> dict[int, Explainer]:
    """The same explainer at every layer of its model.

    >>> import nbsal
    >>> list(at_layers(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")))
    [0, 1, 2, 3, 4, 5, 6]
    """
    method, subject = explainer.method, explainer.subject
    if isinstance(method, Decoded):
        methods: list[Any] = [
            replace(method, method=replace(method.method, layer=layer)) for layer in range(subject.depth + 1)
        ]
    elif isinstance(method, LayerMethod):
        methods = [replace(method, layer=layer) for layer in range(subject.depth + 1)]
    else:
        message = f"{method.name} has no layer to choose. Pass an explainer with a layer, such as 'gradcam'."
        raise InputError(message, argument="explainer", value=explainer)
    return {layer: Explainer(subject, at_layer, long=explainer.long) for layer, at_layer in enumerate(methods)}


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


def check_fractions(fractions: Sequence[float]) -> list[float]:
    """The fractions in ascending order, with 0 added because it stands for the full text."""
    rule = "must be a list of numbers from 0 to 1, at least one of them above 0"
    values = as_list(fractions, "fractions", rule)
    points = sorted({*to_floats(values), 0.0})
    if not all(0 <= point <= 1 for point in points) or len(points) < 2:
        raise InputError(f"fractions {rule}, not {values!r:.80}.", argument="fractions", value=fractions)
    return points


def to_floats(values: Any) -> list[float]:
    """The values as floats; an empty list if one of them is not a number."""
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return []
