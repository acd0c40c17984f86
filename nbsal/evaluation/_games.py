"""The Hiding and the Revealing game (Hou and Castanon 2023): how soon a decision falls, or stands, token by token.

Hiding removes the most important content tokens first; the lower its curve, the better. Revealing starts from none and
shows the most important first; the higher, the better. Special tokens always stay.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from nbsal.errors import InputError, UnknownName
from nbsal.evaluation import cache as remembering
from nbsal.evaluation.bootstrap import Bootstrap, Floats
from nbsal.evaluation.cache import Cache, Coalitions, Explainers, Run
from nbsal.evaluation.results import Curve, MetricInfo, Results
from nbsal.explainer import Explainer
from nbsal.methods.base import LayerMethod
from nbsal.methods.decoding import Decoded
from nbsal.model.subject import Subject
from nbsal.model.targets import index_of
from nbsal.model.tokens import Row
from nbsal.progress import Meter, Progress
from nbsal.validation import Text, as_list

GAMES = {"revealing": "high", "hiding": "low"}
FRACTIONS = tuple(step / 20 for step in range(21))
OF = ("content", "sequence")
RANDOM = 20
LABELS = "must be a list with one label for each text"


def games(
    explainers: Explainers,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    fractions: Sequence[float] = FRACTIONS,
    of: str = "content",
    random: int = RANDOM,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """Play both games with every explainer, and with `random` orders by chance, whose mean is the row "random".

    Accuracy counts against `labels`, or without them against what the model predicts for the whole text. `fractions`
    are of a text's content tokens, or of its whole length (`of="sequence"`, which reaches the last content token
    sooner). `memory` is that of an earlier call, or what a cancelled one left in its error's `partial`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> games(explain, ["A joy.", "A bore."], random=2, progress=False).auc()[["explainer", "game"]].values.tolist()
    [['gradcam', 'revealing'], ['gradcam', 'hiding'], ['random', 'revealing'], ['random', 'hiding']]
    """
    members = remembering.named_explainers(explainers)
    members |= remembering.random_explainers(members, random)
    points = check_fractions(fractions)
    if of not in OF:
        raise UnknownName("length to take fractions of", of, OF)
    rows = remembering.encode_texts([run for runs in members.values() for run in runs], texts)
    for subject in rows:
        check_classifier(subject)
    size = len(next(iter(rows.values())))
    given = None if labels is None else as_list(labels, "labels", LABELS)
    gold = {subject: None if given is None else label_indices(subject, given, size) for subject in rows}
    total = size * (len(rows) + 2 * sum(map(len, members.values())) * len(points))
    with remembering.cache_or_new(cache) as cache, Meter(total, progress, cancel) as meter:
        runs = remembering.rank_tokens(members, rows, [None] * size, batch_size, cache, meter)
        return _played(runs, gold, points, of, cache, meter)


def _played(
    runs: dict[str, list[Run]],
    gold: dict[Subject, list[int] | None],
    points: Sequence[float],
    of: str,
    cache: Cache,
    meter: Meter,
) -> Results:
    flat = [run for members in runs.values() for run in members]
    tables = [
        [coalition_steps(row, order, points, of) for row, order in zip(run.rows, run.orders, strict=True)]
        for run in flat
    ]
    logits = cache.read(flat, tables, "remove", meter)
    right = {id(run): _right(found, gold[run.subject], points) for run, found in zip(flat, logits, strict=True)}
    rows, truth = flat[0].rows, gold[flat[0].subject]
    again = Bootstrap([(row.text, truth and truth[i]) for i, row in enumerate(rows)])
    curves = {
        (name, game): Curve.of(points, np.stack([right[id(run)][at] for run in members]), again)
        for name, members in runs.items()
        for at, game in enumerate(GAMES)
    }
    against = "their labels" if truth else "the model's own predictions"
    notes = (
        f"{len(rows)} texts, accuracy against {against}",
        f"fractions of the {of}",
        *remembering.truncated_count(rows),
    )
    return Results(MetricInfo("game", "fraction", "accuracy", "auc", GAMES), curves, notes)


def coalition_steps(row: Row, order: Sequence[int], points: Sequence[float], of: str = "content") -> Coalitions:
    """What stays of a text at every point of the Revealing game, then of the Hiding game: [subset, token]."""
    whole = len(order) if of == "content" else sum(row.mask)
    hidden = np.array([round(point * whole) for point in points])
    rank = np.full(len(row), -1)
    rank[list(order)] = np.arange(len(order))
    stays = rank >= hidden[:, None]
    shown = rank < hidden[:, None]
    return np.concatenate([shown, stays | (rank < 0)])


def _right(logits: Sequence[Any], gold: list[int] | None, points: Sequence[float]) -> Floats:
    """Whether the decision holds: [game, point, text]."""
    said = np.stack([found.argmax(-1).numpy().reshape(len(GAMES), len(points)) for found in logits], -1)
    # The whole text is what hiding nothing leaves.
    truth = said[1, list(points).index(0.0)] if gold is None else gold
    right: Floats = np.equal(said, truth).astype(np.float64)
    return right


def best_layer(
    explainer: Explainer,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> int:
    """The layer at which a method plays both games best: the widest gap between the two areas.

    Report the layer on other texts than those it was chosen on.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> best_layer(explain, ["A warm and funny film.", "A dull bore."], progress=False) in range(7)
    True
    """
    layers = at_layers(explainer)
    options: dict[str, Any] = {"memory": cache, "progress": progress, "cancel": cancel}
    found = games({str(layer): one for layer, one in layers.items()}, texts, labels, random=0, **options)
    area = found.auc().pivot(index="explainer", columns="game", values="auc")
    gap = area["revealing"] - area["hiding"]
    return max(layers, key=lambda layer: gap[str(layer)])


def at_layers(explainer: Explainer) -> dict[int, Explainer]:
    """The same explainer at every layer of its model.

    >>> import nbsal
    >>> list(at_layers(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")))
    [0, 1, 2, 3, 4, 5, 6]
    """
    if not isinstance(explainer, Explainer):
        raise InputError(f"A layer is chosen for an nbsal.Explainer, not for {explainer!r:.60}.")
    method, subject = explainer.method, explainer.subject
    if isinstance(method, Decoded):
        moved: list[Any] = [
            replace(method, method=replace(method.method, layer=layer)) for layer in range(subject.depth + 1)
        ]
    elif isinstance(method, LayerMethod):
        moved = [replace(method, layer=layer) for layer in range(subject.depth + 1)]
    else:
        raise InputError(f"{method.name} does not read one hidden layer: it has no layers to choose from.")
    return {layer: Explainer(subject, one, long=explainer.long) for layer, one in enumerate(moved)}


def check_classifier(subject: Subject) -> None:
    """Refuse a subject whose decision is not one of several labels."""
    if subject.task != "sequence" or len(subject.labels) < 2:
        raise InputError(
            f"{subject.name} does not choose among labels for a whole text: there is no decision to follow."
        )


def label_indices(subject: Subject, labels: Sequence[Any], size: int) -> list[int]:
    """Labels given by name or number, as numbers."""
    if len(labels) != size:
        raise InputError(f"There are {len(labels)} labels for {size} texts.")
    return [index_of(label, subject.labels, "label") for label in labels]


def check_fractions(fractions: Sequence[float]) -> list[float]:
    """Fractions in ascending order, 0 among them, since that is the whole text."""
    rule = "must be shares from 0 to 1, at least one above 0"
    given = as_list(fractions, "fractions", rule)
    points = sorted({*numeric_labels(given), 0.0})
    if not all(0 <= point <= 1 for point in points) or len(points) < 2:
        raise InputError(f"fractions {rule}, not {given!r:.80}.", argument="fractions", value=fractions)
    return points


def numeric_labels(values: Any) -> list[float]:
    """The numbers of an argument; none where it holds anything else."""
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError):
        return []
