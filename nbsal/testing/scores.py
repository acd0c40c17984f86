"""Checks of the scores of one batch: present, the same as one by one, and unaffected by padding."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nbsal.explain.batches import explain_batch
from nbsal.explain.explainer import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.model.loading.usage import PREDICTS_TOKENS
from nbsal.model.subject import Subject

TEXTS = [
    "The film is a warm and funny joy.",
    "A bore.",
    "Prices fell on Monday after the company reported a loss, and the river rose to the mountain.",
    "Who wrote the book?",
]
OTHERS = ["Größe 😀 zählt, oder?", "שלום עולם", "Warm, warm, warm."]  # of other scripts, and more than four texts
PAIRS = [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3]), (TEXTS[3], TEXTS[2])]
LEAST = 1e-12  # a smaller score counts as no evidence
HALF_STEPS = 32  # rounding steps of half precision that two ways to compute the same scores may differ by


def require(condition: bool, problem: str) -> None:
    """Fail a check with a sentence that says what differs."""
    if not condition:
        raise AssertionError(problem)


def relative(ours: Any, truth: Any) -> float:
    """The largest difference, relative to the largest true value.

    >>> relative([1.0, 2.0], [1.0, 4.0])
    0.5
    """
    ours, truth = np.asarray(ours, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    difference, size = np.abs(ours - truth).max(), np.abs(truth).max()
    return float(difference / size) if size else float(difference)


def tolerance(dtype: torch.dtype) -> float:
    """The largest relative difference allowed between two ways to compute the same scores in that precision."""
    if dtype == torch.float64:
        return 1e-10
    return max(1e-4, HALF_STEPS * torch.finfo(dtype).eps)  # products that cancel lose digits


def targets(subject: Subject) -> list[Any]:
    """Some targets of any text: labels, also of its first token, ends of spans, or tokens to come next.

    All are read from the same position, as one decision. A span of two ends would be two decisions.
    """
    if subject.task == "span":
        return [(2, None), (None, 2)]
    if subject.task == "token":
        return [(1, label) for label in subject.labels]
    return list(range(5, 8)) if subject.task in PREDICTS_TOKENS else list(subject.labels)


def explain_batched(explain: Explainer, texts: Sequence[Any]) -> list[Saliency]:
    """The saliencies of texts in one batch, however much padding that takes."""
    saliencies: list[Saliency] = explain_batch({"": explain}, explain.subject.encode(list(texts)), [None] * len(texts))[
        ""
    ]
    return saliencies


def scores_are_numbers(explain: Explainer, texts: Sequence[str] = TEXTS) -> None:
    """Each token has a finite score, and for some target one of them is not 0."""
    evidence = 0.0
    for text in texts:
        for target in targets(explain.subject):
            scores, tokens = explain(text, target).scores, len(explain.subject.encode(text)[0])
            require(scores.shape == (tokens,), f"{text!r} has {tokens} tokens, but scores of shape {scores.shape}")
            require(bool(np.isfinite(scores).all()), f"the scores of {text!r} for {target!r} are not finite: {scores}")
            evidence = max(evidence, float(abs(scores).max()))
    require(evidence > LEAST, "every score is 0, for every text and target")


def batch_equals_singles(explain: Explainer, texts: Sequence[Any] = TEXTS) -> None:
    """Texts in a batch do not influence each other."""
    for text, saliency in zip(texts, explain_batched(explain, texts), strict=True):
        require(saliency.text == text, f"the explanation of {text!r} is of {saliency.text!r}")
        _require_close(explain, saliency, explain(text), "in a batch")


def batches_equal_singles(explain: Explainer) -> None:
    """Texts of several scripts, and pairs where the model classifies texts, do not influence each other in a batch."""
    batch_equals_singles(explain, [*TEXTS, *OTHERS])
    if explain.subject.task == "sequence":
        batch_equals_singles(explain, PAIRS)


def padding_is_invisible(explain: Explainer, text: str = TEXTS[0], extra: int = 30) -> None:
    """Scores are the same without padding and with 30 padding tokens, caused by a longer text in the batch."""
    single = explain(text)
    batch = explain_batched(explain, [text, "joy " * (len(single.tokens) + extra)])
    require(len(batch[1].tokens) > len(single.tokens) + 10, "the longer text causes no padding")
    _require_close(explain, batch[0], single, f"with {len(batch[1].tokens) - len(single.tokens)} padding tokens")


def _require_close(explain: Explainer, saliency: Saliency, single: Saliency, where: str) -> None:
    difference, most = relative(saliency.scores, single.scores), tolerance(explain.subject.dtype)
    largest = int(np.argmax(abs(saliency.scores - single.scores)))
    require(
        difference < most,
        f"{single.text!r}: {single.tokens[largest]!r} scores {saliency.scores[largest]:.6g} {where} and "
        f"{single.scores[largest]:.6g} alone (relative difference {difference:.1g}, at most {most:.0e} is rounding)",
    )
