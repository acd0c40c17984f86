"""What must hold of every explanation, as checks that tests run on ours and on mutants of ours."""

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
    """The largest difference beside the largest true value."""
    ours, truth = np.asarray(ours, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    difference, size = np.abs(ours - truth).max(), np.abs(truth).max()
    return float(difference / size) if size else float(difference)


def tolerance(subject) -> float:
    """How far apart two ways of computing the same scores may be."""
    return 1e-10 if subject.dtype == torch.float64 else 1e-5


def change_weights(model):
    """A step that every weight takes."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 0.5 * torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1)))


def explain_batched(explain, texts):
    """What an explainer says of texts that are read at once, however much of them is padded."""
    return explain_batch({"": explain}, explain.subject.encode(texts), [None] * len(texts))[""]


def batch_equals_singles(explain, texts=TEXTS):
    """Nobody in a batch sees another."""
    for text, one in zip(texts, explain_batched(explain, texts), strict=True):
        assert one.text == text
        assert relative(one.scores, explain(text).scores) < tolerance(explain.subject), text


def padding_is_invisible(explain, text=TEXTS[0], extra=30):
    """Padding by 0 and by 30 gives the same scores; a long neighbour is how padding comes about."""
    alone = explain(text)
    padded = explain_batched(explain, [text, "joy " * (len(alone.tokens) + extra)])
    assert len(padded[1].tokens) > len(alone.tokens) + 10
    assert relative(padded[0].scores, alone.scores) < tolerance(explain.subject)


def every_layer_equals_single_layers(explainers, text=TEXTS[0]):
    """All layers at once are the layers one by one."""
    found = explainers[0].every_layer(text).scores
    assert len(found) == len(explainers)
    for row, explain in zip(found, explainers, strict=True):
        assert relative(row, explain(text).scores) < 1e-12
