"""Evaluation of explained question answering: whether explanations point at the gold answer."""

from collections.abc import Iterable, Mapping, Sequence
from threading import Event
from typing import Any

import numpy as np

from nbsal.evaluation.cache import Cache, Explainers, explain_texts, positive_numbers
from nbsal.evaluation.curve import Curve, text_order
from nbsal.evaluation.results import MetricInfo, Results
from nbsal.explain.saliency import Saliency
from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.progress import Progress
from nbsal.support.validation import Text, as_list, check_one_per_text, checked, plural

TOKEN_SETS = ("context", "content", "all")


@checked
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
    """The share of the `k` most important tokens that lie in the gold answer.

    If a text has fewer than `k` tokens, all of them count. Each answer is a character span (start, end) of the context,
    or SQuAD's {"text": [...], "answer_start": [...]}. `among` says which tokens are ranked: those of the context
    ("context"), those of the question too ("content"), or special tokens as well ("all").

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/answers"), "gradcam")
    >>> results = precision_at(explain, [("Who wrote it?", "Ada did.")], [(0, 3)], k=1, progress=False)
    >>> results.mean()["mean"].item() in (0.0, 1.0)
    True
    """
    return _evaluate(explainers, texts, answers, k, among, "precision", batch_size, cache, progress, cancel)


@checked
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
    """The share of the gold answer's tokens that are among the `k` most important tokens.

    `answers` and `among` are as in `precision_at`. `variant="published"` computes what Mask-LRP calls Precision@20: a
    ratio of means over texts instead of a mean of ratios, with questions and special tokens in the ranking.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/answers"), "gradcam")
    >>> results = answer_recall_at(explain, [("Who wrote it?", "Ada did.")], [(0, 3)], progress=False)
    >>> results.mean()["mean"].item()
    1.0
    """
    if variant not in (None, "published"):
        raise UnknownName("variant", variant, ["published"])
    kind = "recall" if variant is None else "ratio"
    among = among if variant is None else "all"
    return _evaluate(explainers, texts, answers, k, among, kind, batch_size, cache, progress, cancel)


def _evaluate(
    explainers: Explainers,
    texts: Iterable[Text],
    answers: Sequence[Any],
    k: int | Sequence[int],
    among: str,
    kind: str,
    *settings: Any,
) -> Results:
    if among not in TOKEN_SETS:
        raise UnknownName("among", among, TOKEN_SETS)
    counts = positive_numbers(k, "k")
    answers = as_list(answers, "answers", "must be a list with one answer for each text")
    saliencies = explain_texts(explainers, texts, *settings)
    first = next(iter(saliencies.values()))[0]
    check_one_per_text(answers, "answers", len(first))
    order = text_order([(s.text, repr(answer)) for s, answer in zip(first, answers, strict=True)])
    curves, measure = {}, f"answer {kind}"
    for name, runs in saliencies.items():
        values = np.array(
            [[_hits(s, answer, counts, among, kind) for s, answer in zip(run, answers, strict=True)] for run in runs]
        )
        hits, answer_sizes, selected = values[..., 0], values[..., 1], values[..., 2]
        shares = (hits / (selected if kind == "precision" else answer_sizes)).swapaxes(1, 2)
        sizes = answer_sizes[0, :, 0] if kind == "ratio" else None
        curves[name, measure] = Curve.from_values(counts, shares, order, sizes)
    notes = (plural(len(first), "text"), f"tokens ranked: {among}")
    return Results(MetricInfo(point="k", better={measure: "high"}, bounds={measure: (0, 1)}), curves, notes)


def _hits(saliency: Saliency, answer: Any, counts: Sequence[int], among: str, kind: str) -> list[tuple[int, int, int]]:
    """For each k: the answer tokens among the top k, all answer tokens, and the tokens selected."""
    row = saliency.row
    last = len(row.parts) - 1
    gold = set(row.tokens_in(_answer_span(answer), last))
    if not gold and kind == "ratio":  # as published: a truncated answer is replaced by the first token
        gold = {0}
    if not gold:
        raise InputError(
            f"No token of {row.text!r:.80} lies in its answer {answer!r:.60}; the answer may have been truncated. "
            "Leave this text out.",
            argument="answers",
            value=answer,
        )
    order: Sequence[int] = saliency.order
    if among == "context":
        order = [i for i in order if row.segments[i] == last]
    elif among == "all":
        order = sorted(range(len(row)), key=lambda i: (-saliency.scores[i], -saliency.tie_breaker[i], i))
    return [(len(gold & set(order[:k])), len(gold), len(order[:k])) for k in counts]


def _answer_span(answer: Any) -> Span:
    """The character span (start, end) of an answer; the first one if there are several."""
    try:
        if isinstance(answer, Mapping):
            starts_and_texts = zip(answer["answer_start"], answer["text"], strict=True)
            spans = [(int(start), int(start) + len(text)) for start, text in starts_and_texts]
        else:
            start, end = answer
            spans = [(int(start), int(end))]
    except (TypeError, ValueError, LookupError):
        raise InputError(
            f"An answer must be a character span (start, end), or SQuAD's "
            f'{{"text": [...], "answer_start": [...]}}, not {answer!r:.60}.',
            argument="answers",
            value=answer,
        ) from None
    if not spans:
        message = "An entry of answers is empty. Leave out questions that have no answer."
        raise InputError(message, argument="answers", value=answer)
    return spans[0]
