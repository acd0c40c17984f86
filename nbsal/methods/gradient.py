"""Gradient methods at any hidden layer: what the target would gain from each position's features."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from nbsal.errors import UnknownName
from nbsal.methods.base import LayerMethod, register
from nbsal.model.subject import Subject
from nbsal.trace import Trace
from nbsal.validation import whole_number


@register(
    "gradcam",
    family="gradient",
    needs={"hidden", "hidden_grad"},
    paper="Selvaraju et al. 2017",
    cost="1, and 1 backward",
    promise="0 or more; about the target, at one layer",
)
@dataclass(frozen=True)
class GradCAM(LayerMethod):
    """Evidence for the target in each position's features; evidence against it is dropped.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradCAM(layer=4))
    >>> bool((explain("A warm and funny film.").scores >= 0).all())
    True
    """

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1).relu()


@register(
    "gradxact",
    family="gradient",
    needs={"hidden", "hidden_grad"},
    paper="Shrikumar et al. 2017",
    cost="1, and 1 backward",
    promise="signed; about the target, at one layer",
)
@dataclass(frozen=True)
class GradientXActivation(LayerMethod):
    """Evidence for the target and against it, signed.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradientXActivation(layer=5))
    >>> explain("Not funny.", "positive").by_word()["score"].gt(0).tolist()
    [False, True, False]
    """

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1)


@register(
    "simple",
    family="gradient",
    needs={"hidden_grad"},
    paper="Simonyan et al. 2014",
    cost="1, and 1 backward",
    promise="0 or more; a text's scores sum to 1",
)
@dataclass(frozen=True)
class Simple(LayerMethod):
    """How much the target would react to a change at each position; the scores of a text sum to 1.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Simple(layer=3))
    >>> round(float(explain("A warm and funny film.").scores.sum()), 4)
    1.0
    """

    norm: int = 1  # 1 as Hou and Castanon report it; 2 weighs large features more

    def resolve(self, subject: Subject) -> Self:
        norm = whole_number(self.norm, "norm")
        if norm not in (1, 2):
            raise UnknownName("norm", norm, (1, 2))
        return replace(super().resolve(subject), norm=norm)

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen].abs()

    def aggregate(self, features: Tensor) -> Tensor:
        size: Tensor = torch.linalg.vector_norm(features, self.norm, -1)
        # A text whose gradient vanishes everywhere keeps its zeros.
        return size / size.sum(-1, keepdim=True).clamp_min(torch.finfo(size.dtype).tiny)
