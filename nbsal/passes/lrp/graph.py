"""A recorded forward pass through which relevance is propagated back."""

from dataclasses import dataclass

from torch import Tensor

from nbsal.model.running.layers import Parts
from nbsal.passes.lrp.mode import RelevanceMode


@dataclass
class RelevanceGraph:
    """A forward pass through which relevance can be propagated back, any number of times."""

    mode: RelevanceMode
    layers: list[Parts]
    logits: Tensor
