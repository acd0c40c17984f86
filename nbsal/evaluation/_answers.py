"""Answers: whether explanations of spans point at the gold answer."""

from collections.abc import Iterable, Mapping, Sequence
from threading import Event
from typing import Any

import numpy as np

from nbsal.errors import InputError, UnknownName
from nbsal.evaluation.bootstrap import Bootstrap
from nbsal.evaluation.cache import Cache, Explainers, explain_texts, positive_numbers
from nbsal.evaluation.results import Curve, MetricInfo, Results
from nbsal.model.tokens import Span
from nbsal.progress import Progress
from nbsal.saliency import Saliency
from nbsal.validation import Text, as_list

AMONG = ("context", "content", "all")


def precision_at(
    explainers: Explainers,
    texts: Iterable[Text],
    answers: Sequence[Any],
    k: int | Sequence[int] = 20,
    *,
    among: str = "context",
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """The share of the k most important tokens that lie in the gold answer; of fewer tokens, the share of all.

    `answers` are spans (start, end) of characters of the context, or SQuAD's {"text": [...], "answer_start": [...]}.
    Ranked are tokens of the context, of the question too (`among="content"`), or special ones as well ("all").

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/answers"), "gradcam")
    >>> found = precision_at(explain, [("Who wrote it?", "Ada did.")], [(0, 3)], k=1, progress=False)
    >>> found.mean()["mean"].item() in (0.0, 1.0)
    True
    """
    return _answered(explainers, texts, answers, k, among, "precision", batch_size, cache, progress, cancel)


def answer_recall_at(
    explainers: Explainers,
    texts: Iterable[Text],
    answers: Sequence[Any],
    k: int | Sequence[int] = 20,
    *,
    among: str = "context",
    variant: str | None = None,
    batch_size: int = 32,
    cache: Cache | None = None,
    progress: Progress = True,
    cancel: Event | None = None,
) -> Results:
    """The share of the gold answer's tokens that lie among the k most important ones.

    `variant="published"` is what Mask-LRP calls Precision@20: a ratio of means over texts instead of a mean of ratios,
    with questions and special tokens in the ranking.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/answers"), "gradcam")
    >>> found = answer_recall_at(explain, [("Who wrote it?", "Ada did.")], [(0, 3)], progress=False)
    >>> found.mean()["mean"].item()
    1.0
    """
    if variant not in (None, "published"):
        raise UnknownName("variant of answer_recall_at", variant, ["published"])
    kind = "recall" if variant is None else "ratio"
    among = among if variant is None else "all"
    return _answered(explainers, texts, answers, k, among, kind, batch_size, cache, progress, cancel)


def _answered(
    explainers: Explainers,
    texts: Iterable[Text],
    answers: Sequence[Any],
    k: int | Sequence[int],
    among: str,
    kind: str,
    batch_size: int,
    cache: Cache | None,
    progress: Progress,
    cancel: Event | None,
) -> Results:
    if among not in AMONG:
        raise UnknownName("set of tokens to rank", among, AMONG)
    counts = positive_numbers(k, "k")
    given = as_list(answers, "answers", "must be a list with one answer for each text")
    found = explain_texts(explainers, texts, batch_size, cache, progress, cancel)
    first = next(iter(found.values()))[0]
    if len(given) != len(first):
        raise InputError(f"There are {len(given)} answers for {len(first)} texts.")
    again = Bootstrap([(s.text, repr(one)) for s, one in zip(first, given, strict=True)])
    curves = {}
    for name, runs in found.items():
        values = np.array(
            [[_hits(s, one, counts, among, kind) for s, one in zip(run, given, strict=True)] for run in runs]
        )
        hits, sizes, taken = values[..., 0], values[..., 1], values[..., 2]
        below = {"precision": taken, "recall": sizes, "ratio": sizes.mean(1, keepdims=True)}[kind]
        curves[name, f"answer {kind}"] = Curve.of(counts, (hits / below).swapaxes(1, 2), again)
    notes = (f"{len(first)} texts", f"tokens ranked: {among}")
    return Results(MetricInfo(point="k", better={f"answer {kind}": "high"}), curves, notes)


def _hits(saliency: Saliency, answer: Any, counts: Sequence[int], among: str, kind: str) -> list[tuple[int, int, int]]:
    """For every k the answer's tokens among the first, the answer's tokens, and the tokens taken."""
    row = saliency.row
    last = len(row.parts) - 1
    gold = set(row.within(_span(answer), last))
    if not gold and kind == "ratio":  # as published: an answer that was cut off is the first token
        gold = {0}
    if not gold:
        raise InputError(f"No token of {row.text!r:.80} lies in its answer {answer!r:.60}: it may have been cut off.")
    order: Sequence[int] = saliency.order
    if among == "context":
        order = [i for i in order if row.segments[i] == last]
    elif among == "all":
        order = sorted(range(len(row)), key=lambda i: (-saliency.scores[i], -saliency.tie_breaker[i], i))
    return [(len(gold & set(order[:k])), len(gold), len(order[:k])) for k in counts]


def _span(answer: Any) -> Span:
    """An answer as characters (start, end); of several the first."""
    try:
        if isinstance(answer, Mapping):
            named = zip(answer["answer_start"], answer["text"], strict=True)
            spans = [(int(start), int(start) + len(text)) for start, text in named]
        else:
            start, end = answer
            spans = [(int(start), int(end))]
    except (TypeError, ValueError, LookupError):
        raise InputError(
            f"An answer is a span (start, end) of characters, or SQuAD's "
            f'{{"text": [...], "answer_start": [...]}}, not {answer!r:.60}.'
        ) from None
    if not spans:
        raise InputError("A question has no answer: leave it out.")
    return spans[0]
