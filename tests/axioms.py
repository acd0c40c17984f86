"""What must hold of every explanation, as checks that tests run on ours and on mutants of ours."""

import numpy as np
import torch

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


def batch_equals_singles(explain, texts=TEXTS):
    """Nobody in a batch sees another."""
    together = explain.map(texts, batch_size=len(texts), progress=False)
    for text, one in zip(texts, together, strict=True):
        assert one.text == text
        assert relative(one.scores, explain(text).scores) < tolerance(explain.subject), text


def padding_is_invisible(explain, text=TEXTS[0], extra=30):
    """Padding by 0 and by 30 gives the same scores; a long neighbour is how padding comes about."""
    alone = explain(text)
    padded = explain.map([text, "joy " * (len(alone.tokens) + extra)], batch_size=2, progress=False)
    assert len(padded[1].tokens) > len(alone.tokens) + 10
    assert relative(padded[0].scores, alone.scores) < tolerance(explain.subject)


def every_layer_equals_each(explainers, text=TEXTS[0]):
    """All layers at once are the layers one by one."""
    together = explainers[0].every_layer(text).scores
    assert len(together) == len(explainers)
    for row, explain in zip(together, explainers, strict=True):
        assert relative(row, explain(text).scores) < 1e-12
