"""The Hiding and Revealing games (Hou and Castanon 2023).

Hiding removes the most important content tokens first: the lower its curve, the better. Revealing starts with no
content token and adds the most important first: the higher its curve, the better. Special tokens always stay.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
from torch import Tensor

from nbsal.evaluation._hiding import HidingTest, check_fractions, evaluate_hiding
from nbsal.evaluation.cache import Cache, Explainers, RunOptions, Tokens
from nbsal.evaluation.results import GAMES, MetricInfo, Results
from nbsal.explain.explainer import Explainer
from nbsal.methods.base import LayerMethod
from nbsal.methods.decoding import Decoded
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.progress import Progress
from nbsal.support.validation import Text, checked

FRACTIONS = tuple(step / 20 for step in range(21))
LENGTHS = ("content", "sequence")
RANDOM = 20


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

    Tokens are masked (hiding) or unmasked (revealing) in the order of their scores, while the accuracy is measured.
    The mean of the random orders is the row "random". Accuracy is measured against `labels`, or without them against
    the model's predictions for the full texts. `fractions` are fractions of a text's content tokens, or of its full
    length with `relative_to="sequence"`, which reaches the last content token earlier. Pass `cache` to share results
    between calls or to resume a cancelled call (its error has the cache as `partial`).

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> games(explain, ["A joy.", "A bore."], random=2, progress=False).auc()[["explainer", "game"]].values.tolist()
    [['gradcam', 'revealing'], ['gradcam', 'hiding'], ['random', 'revealing'], ['random', 'hiding']]
    """
    if relative_to not in LENGTHS:
        raise UnknownName("relative_to", relative_to, LENGTHS)
    rule = "must be a list of numbers from 0 to 1, at least one of them above 0"
    points = sorted({*check_fractions(fractions, rule, any), 0.0})  # 0 stands for the full text

    reference = "the model's own predictions" if labels is None else "their labels"
    test = HidingTest(
        hidden=lambda row, order: hidden_at(row, order, points, relative_to),
        way="remove",
        measure=lambda _, logits, gold: _correct(logits, gold, points),
        points=dict.fromkeys(GAMES, points),
        metric=MetricInfo("game", "fraction", "accuracy", "auc", GAMES, dict.fromkeys(GAMES, (0, 1))),
        notes=(f"accuracy against {reference}", f"fractions of the {relative_to}"),
    )
    return evaluate_hiding(explainers, texts, labels, test, random, RunOptions(batch_size, cache, progress, cancel))


def hidden_at(row: Row, order: Tokens, points: Sequence[float], relative_to: str = "content") -> list[Tokens]:
    """The tokens that are hidden at each point of the Revealing game, then of the Hiding game."""
    length = len(order) if relative_to == "content" else sum(row.mask)
    counts = [round(point * length) for point in points]
    return [*(order[count:] for count in counts), *(order[:count] for count in counts)]


def _correct(logits: Sequence[Tensor], gold: list[int] | None, points: Sequence[float]) -> dict[str, Floats]:
    """Whether each prediction is correct in each game: [point, text]."""
    predictions = np.stack(
        [text_logits.argmax(-1).numpy().reshape(len(GAMES), len(points)) for text_logits in logits], -1
    )
    # Without labels the prediction for the full text counts: the Hiding game at fraction 0.
    truth = predictions[1, list(points).index(0.0)] if gold is None else gold
    return dict(zip(GAMES, np.equal(predictions, truth).astype(np.float64), strict=True))


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
    layer_method = method.method if isinstance(method, Decoded) else method
    if not isinstance(layer_method, LayerMethod):
        message = f"{method.name} has no layer to choose. Pass an explainer with a layer, such as 'gradcam'."
        raise InputError(message, argument="explainer", value=explainer)
    methods: list[Any] = [replace(layer_method, layer=layer) for layer in range(subject.depth + 1)]
    if isinstance(method, Decoded):
        methods = [replace(method, method=at_layer) for at_layer in methods]
    return {layer: Explainer(subject, at_layer, long=explainer.long) for layer, at_layer in enumerate(methods)}
