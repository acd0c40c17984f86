"""Gradient methods, which score the features of any hidden layer by their gradient."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.methods.base import LayerMethod, one_of, register, setting
from nbsal.methods.cost import Cost
from nbsal.passes.trace import Trace


@register(
    "gradcam",
    family="gradient",
    needs={"hidden", "hidden_grad"},
    paper="Selvaraju et al. 2017",
    cost=Cost(1, backwards=1),
    promise={"nonnegative", "about_target"},
)
@dataclass(frozen=True)
class GradCAM(LayerMethod):
    """Evidence for the target in each position's features; evidence against it is dropped.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradCAM(layer=4))
    >>> bool((explain("A warm and funny film.").scores >= 0).all())
    True
    """

    shares_pass = True

    layer: int | None = None

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1).relu()


@register(
    "gradxact",
    family="gradient",
    needs={"hidden", "hidden_grad"},
    paper="Shrikumar et al. 2017",
    cost=Cost(1, backwards=1),
    promise={"signed", "about_target"},
)
@dataclass(frozen=True)
class GradientXActivation(LayerMethod):
    """Evidence for the target and against it, signed.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradientXActivation(layer=5))
    >>> explain("Not funny.", "positive").by_word()["score"].gt(0).tolist()
    [False, True, False]
    """

    shares_pass = True
    linear = True

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1)


@register(
    "simple",
    family="gradient",
    needs={"hidden_grad"},
    paper="Simonyan et al. 2014",
    cost=Cost(1, backwards=1),
    promise={"nonnegative", "sums_to_1", "about_target"},
)
@dataclass(frozen=True)
class Simple(LayerMethod):
    """Sensitivity of the target to a change at each position; the scores of a text sum to 1.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Simple(layer=3))
    >>> round(float(explain("A warm and funny film.").scores.sum()), 4)
    1.0
    """

    shares_pass = True

    norm: int = setting(1, one_of(1, 2))  # 1 as in Hou and Castanon; 2 gives more weight to large features

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen].abs()

    def aggregate(self, features: Tensor) -> Tensor:
        size: Tensor = torch.linalg.vector_norm(features, self.norm, -1)
        # Where the gradient of a text is zero everywhere, its scores stay zero.
        return size / size.sum(-1, keepdim=True).clamp_min(torch.finfo(size.dtype).tiny)
