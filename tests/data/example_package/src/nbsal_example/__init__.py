"""A method that a package outside nbsal offers."""

from dataclasses import dataclass

from torch import Tensor

from nbsal.methods.base import LayerMethod, register
from nbsal.methods.cost import Cost


@register(
    "gradient-norm",
    family="gradient",
    needs={"hidden", "hidden_grad"},
    paper="Li et al. 2016",
    cost=Cost(1, backwards=1),
    promise={"nonnegative", "about_target"},
)
@dataclass(frozen=True)
class GradientNorm(LayerMethod):
    """The length of the gradient at each position: how much the output would change, in whichever direction."""

    layer: int | None = None

    def features(self, trace: object) -> Tensor:
        return trace.hidden_grad[self.chosen].square()

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1).sqrt()
