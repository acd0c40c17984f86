"""Gradient methods, which score the features of any hidden layer by their gradient."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.methods.attention import normalise_rows
from nbsal.methods.base import LayerMethod, one_of, register, setting
from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts
from nbsal.passes.trace import Trace


@dataclass(frozen=True)
class GradientMethod(LayerMethod):
    """A method that scores the gradient of a layer's features, times the features."""

    family = "gradient"
    needs = frozenset({"hidden", "hidden_grad"})
    cost = Cost(1, backwards=1)
    shares = "pass"

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen] * trace.hidden[self.chosen]


@register("gradcam", paper="Selvaraju et al. 2017", promise={"nonnegative", "about_target"})
@dataclass(frozen=True)
class GradCAM(GradientMethod):
    """Evidence for the target in each position's features; evidence against it is dropped.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradCAM(layer=4))
    >>> bool((explain("A warm and funny film.").scores >= 0).all())
    True
    """

    facts = Facts(
        "Grad-CAM",
        "Evidence for the target in each position of one hidden layer. Positive scores only.",
        look=2,
        recommended=6,
        default_for={"layers": 2},
        live=True,
    )
    decoded = Facts(
        "Decoded Grad-CAM",
        "Reads one hidden layer: which words it holds, and how much they count.",
        look=0,
        recommended=4,
        start="which words a hidden layer holds (the view Layers shows all layers)",
        default_for={"layers": 1, "live pages": 1},
        live=True,
    )

    layer: int | None = None

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1).relu()


@register("gradxact", paper="Shrikumar et al. 2017", promise={"signed", "about_target"})
@dataclass(frozen=True)
class GradientXActivation(GradientMethod):
    """Evidence for the target and against it, signed.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradientXActivation(layer=5))
    >>> explain("Not funny.", "positive").by_word()["score"].gt(0).tolist()
    [False, True, False]
    """

    facts = Facts(
        "Gradient × input",
        "Effect of each word on the target, to first order. Fastest; noisy.",
        look=23,
        recommended=11,
        default_for={"live pages": 2},
        replies=8,
        live=True,
    )
    decoded = Facts(
        "Decoded gradient × activation",
        "Like decoded Grad-CAM, also with words against.",
        look=22,
        recommended=5,
        live=True,
    )

    linear = True

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1)


@register(
    "simple", needs={"hidden_grad"}, paper="Simonyan et al. 2014", promise={"nonnegative", "sums_to_1", "about_target"}
)
@dataclass(frozen=True)
class Simple(GradientMethod):
    """Sensitivity of the target to a change at each position; the scores of a text sum to 1.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Simple(layer=3))
    >>> round(float(explain("A warm and funny film.").scores.sum()), 4)
    1.0
    """

    facts = Facts("Gradient", look=27)
    decoded = Facts("Decoded gradient", look=7)

    norm: int = setting(1, one_of(1, 2))  # 1 as in Hou and Castanon; 2 gives more weight to large features

    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen].abs()

    def aggregate(self, features: Tensor) -> Tensor:
        size: Tensor = torch.linalg.vector_norm(features, self.norm, -1)
        return normalise_rows(size)  # where the gradient of a text is zero everywhere, its scores stay zero
