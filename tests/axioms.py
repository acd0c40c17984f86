"""Properties that every explanation must have, as checks for our methods and for mutants of them."""

import numpy as np
import torch

from nbsal.explainer import explain_batch

TEXTS = [
    "The film is a warm and funny joy.",
    "A bore.",
    "Prices fell on Monday after the company reported a loss, and the river rose to the mountain.",
    "Who wrote the book?",
]


def relative(ours, truth) -> float:
    """The largest difference, relative to the largest true value."""
    ours, truth = np.asarray(ours, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    difference, size = np.abs(ours - truth).max(), np.abs(truth).max()
    return float(difference / size) if size else float(difference)


def tolerance(subject) -> float:
    """The largest difference allowed between two ways to compute the same scores."""
    return 1e-10 if subject.dtype == torch.float64 else 1e-5


def change_weights(model):
    """Change every weight, as a training step would."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 0.5 * torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1)))


def explain_batched(explain, texts):
    """The saliencies of texts in one batch, however much padding that takes."""
    return explain_batch({"": explain}, explain.subject.encode(texts), [None] * len(texts))[""]


def batch_equals_singles(explain, texts=TEXTS):
    """Texts in a batch do not influence each other."""
    for text, saliency in zip(texts, explain_batched(explain, texts), strict=True):
        assert saliency.text == text
        assert relative(saliency.scores, explain(text).scores) < tolerance(explain.subject), text


def padding_is_invisible(explain, text=TEXTS[0], extra=30):
    """Scores are the same without padding and with 30 padding tokens, caused by a longer text in the batch."""
    single = explain(text)
    batch = explain_batched(explain, [text, "joy " * (len(single.tokens) + extra)])
    assert len(batch[1].tokens) > len(single.tokens) + 10
    assert relative(batch[0].scores, single.scores) < tolerance(explain.subject)


def every_layer_is_exact(explainers, text=TEXTS[0]):
    """The scores of all layers at once are those of each layer."""
    scores = explainers[0].every_layer(text).scores
    assert len(scores) == len(explainers)
    for layer_scores, explain in zip(scores, explainers, strict=True):
        assert relative(layer_scores, explain(text).scores) < 1e-12
