"""Properties that every explanation must have: those of `nbsal.testing`, and some that only our methods have."""

import torch

from nbsal.testing.scores import TEXTS, relative
from nbsal.testing.scores import batch_equals_singles as batch_equals_singles
from nbsal.testing.scores import explain_batched as explain_batched
from nbsal.testing.scores import padding_is_invisible as padding_is_invisible


def logits(subject, texts):
    """The logits of one text or several, as the subject runs its model."""
    with torch.no_grad():
        return subject.logits(subject.inputs(subject.encode(texts)))


def change_weights(model):
    """Change every weight, as a training step would."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 0.5 * torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1)))


def every_layer_is_exact(explainers, text=TEXTS[0]):
    """The scores of all layers at once are those of each layer."""
    scores = explainers[0].every_layer(text).scores
    assert len(scores) == len(explainers)
    for layer_scores, explain in zip(scores, explainers, strict=True):
        assert relative(layer_scores, explain(text).scores) < 1e-12
