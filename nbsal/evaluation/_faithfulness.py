"""How the probability of a class changes when the most important tokens are hidden or kept alone.

AOPC and log-odds (Mask-LRP, section 5.2) hide fractions of the content tokens; comprehensiveness and sufficiency use
the five fractions of ERASER, each of at least one token.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from threading import Event
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbsal.evaluation import published
from nbsal.evaluation._hiding import HidingTest, check_fractions, evaluate_hiding
from nbsal.evaluation.cache import Cache, Explainers, RankedTexts, RunOptions, Tokens
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.support.arrays import Floats
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.progress import Progress
from nbsal.support.validation import Text, as_list, checked

MEASURES = {"aopc": "high", "log-odds": "low", "comprehensiveness": "high", "sufficiency": "low"}
BOUNDS = dict.fromkeys(["aopc", "comprehensiveness", "sufficiency"], (-1, 1))  # differences of probabilities
FRACTIONS = tuple(step / 10 for step in range(1, 10))
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of comprehensiveness and sufficiency
VARIANTS = ("published",)


@checked
def faithfulness(
    explainers: Explainers,
    texts: Iterable[Text],
    labels: Iterable[Any] | None = None,
    *,
    way: str | int = "pad",
    fractions: Sequence[float] = FRACTIONS,
    measures: Collection[str] = tuple(MEASURES),
    random: int = 0,
    variant: str | None = None,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """Compute AOPC, log-odds, comprehensiveness and sufficiency of every explainer; `.mean()` has their means.

    The class that is explained and whose probability is followed is the predicted one, or with `labels` the gold one.
    Hidden tokens are replaced by the padding token, which stays visible to attention (`way="pad"`, as in the papers),
    replaced by the mask token ("mask"), or removed ("remove"). `random` random orders are evaluated as a baseline.
    `measures` names those to compute; without comprehensiveness and sufficiency it takes half the time.
    `variant="published"` reproduces the AOPC and log-odds of the program behind Mask-LRP's tables; it needs labels.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> faithfulness(explain, ["A joy.", "A bore."], progress=False).mean()["measure"].tolist()
    ['aopc', 'log-odds', 'comprehensiveness', 'sufficiency']
    """
    options = RunOptions(batch_size, cache, progress, cancel)
    if variant is not None:
        if variant not in VARIANTS:
            raise UnknownName("variant", variant, VARIANTS)
        if labels is None:
            message = "variant='published' follows the gold labels. Pass labels=."
            raise InputError(message, argument="labels", value=labels)
        return published.published_deletion(explainers, texts, labels, options)
    points = check_fractions(fractions, "must be a list of numbers above 0 and up to 1", all)
    names = _check_measures(measures)
    points = points if {"aopc", "log-odds"} & set(names) else []
    shares = SHARES if {"comprehensiveness", "sufficiency"} & set(names) else ()
    grids = {"aopc": points, "log-odds": points, "comprehensiveness": shares, "sufficiency": shares}
    better = {name: MEASURES[name] for name in names}
    bounds = {name: BOUNDS[name] for name in names if name in BOUNDS}
    test = HidingTest(
        explain_labels=True,
        hidden=lambda _, order: hidden_at(order, points, shares),
        way=way,
        measure=lambda run, logits, gold: _losses(run, logits, gold, len(points), len(shares)),
        points={name: grids[name] for name in names},
        metric=MetricInfo(better=better, bounds=bounds),
        notes=("predicted class" if labels is None else "gold label", f"tokens hidden with way={way!r}"),
    )
    return evaluate_hiding(explainers, texts, labels, test, random, options)


def _check_measures(measures: Collection[str]) -> list[str]:
    """The measures in their usual order."""
    values = as_list(measures, "measures", f"must be a list of names: {', '.join(MEASURES)}")
    for value in values:
        if not isinstance(value, str) or value not in MEASURES:
            raise UnknownName("measures", value, MEASURES)
    if not values:
        raise InputError("measures is empty. Pass at least one name.", argument="measures", value=measures)
    return [name for name in MEASURES if name in values]


def hidden_at(order: Tokens, points: Sequence[float], shares: Sequence[float]) -> list[Tokens]:
    """None of the tokens; the top ones at every point, then at every share; then all but these."""
    point_counts = [round(point * len(order)) for point in points]
    share_counts = [math.ceil(share * len(order)) for share in shares]
    counts = [0, *point_counts, *share_counts]
    return [*(order[:count] for count in counts), *(order[count:] for count in share_counts)]


def log_probabilities(run: RankedTexts, logits: Tensor, label: int | None) -> Floats:
    """Log-probabilities of one class for every coalition: `label`, or the most likely class of the first coalition."""
    multi_label = run.subject.activation == "sigmoid"
    exact = logits.double()
    logs = torch.nn.functional.logsigmoid(exact) if multi_label else exact.log_softmax(-1)
    return logs[:, int(exact[0].argmax()) if label is None else label].numpy()


def _losses(
    run: RankedTexts, logits: Sequence[Tensor], gold: list[int] | None, count: int, share_count: int
) -> dict[str, Floats]:
    """The values of each measure, as [point, text], at `count` points of AOPC and `share_count` shares."""
    labels = [None] * len(logits) if gold is None else gold
    logs = np.stack([log_probabilities(run, *pair) for pair in zip(logits, labels, strict=True)], -1)
    lost, shares = np.exp(logs[0]) - np.exp(logs), slice(1 + count, 1 + count + share_count)
    return {
        "aopc": lost[1 : 1 + count],
        "log-odds": logs[1 : 1 + count] - logs[0],
        "comprehensiveness": lost[shares],
        "sufficiency": lost[shares.stop :],
    }
