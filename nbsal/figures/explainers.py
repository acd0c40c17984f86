"""The explainers of the papers' figures by their labels, and methods that take apart what others do."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbsal.evaluation.groups import NamedExplainers
from nbsal.explain.explainer import Explainer
from nbsal.methods.attention import deciding_positions
from nbsal.methods.gradient import GradCAM
from nbsal.methods.perturbation import Random
from nbsal.methods.propagation import MaskLRP
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.passes.trace import Trace
from nbsal.support.validation import checked

LAYER = re.compile(r"(.*) l(\d+)")


@dataclass(frozen=True)
class SummedGradCAM(GradCAM):
    """Undecoded Grad-CAM, in which each position has the sum over all positions of the same token, as after decoding.

    >>> import nbsal
    >>> scores = nbsal.Explainer(nbsal.load("demo/reviews"), SummedGradCAM(layer=5))("a joy, a joy").scores
    >>> bool(scores[1] == scores[4]), bool(scores[2] == scores[5])
    (True, True)
    """

    def scores(self, trace: Trace) -> Tensor:
        """The scores of all positions, [batch, position]."""
        scores = super().scores(trace)
        for row, encoded in zip(scores, trace.encoded, strict=True):
            kind = torch.from_numpy(np.unique(encoded.ids, return_inverse=True)[1]).to(row.device)
            row[: len(kind)] = torch.zeros_like(row).index_add_(0, kind, row[: len(kind)].clone())[kind]
        return scores


@dataclass(frozen=True)
class MaskLRPWithoutEnds(MaskLRP):
    """Mask-LRP of a span without the 1 that each end gives to itself: the identity that a rollout begins with.

    >>> import nbsal
    >>> answers, question = nbsal.load("demo/answers"), ("Who wrote it?", "Ada did.")
    >>> both = [nbsal.Explainer(answers, method)(question) for method in ("mask-lrp", MaskLRPWithoutEnds())]
    >>> round(float((both[0].scores - both[1].scores).sum()), 3)  # a start and an end
    2.0
    """

    def scores(self, trace: Trace) -> Tensor:
        """The scores of all positions, [batch, position]."""
        return super().scores(trace) - deciding_positions(trace).sum(1)


@dataclass(frozen=True)
class PredictedEnds(Random):
    """The two ends of the predicted span, and then a random order: what is found by the prediction alone.

    >>> import nbsal
    >>> saliency = nbsal.Explainer(nbsal.load("demo/answers"), PredictedEnds())(("Who wrote it?", "Ada did."))
    >>> int((saliency.scores >= 2).sum()) in (1, 2)
    True
    """

    def scores(self, trace: Trace) -> Tensor:
        """The scores of all positions, [batch, position]."""
        scores = super().scores(trace)
        return scores + 2 * deciding_positions(trace).sum(1).to(scores).clamp(max=1)


@checked
def by_label(
    subject: Subject, labels: Iterable[str], runs: int = 1, settings: Mapping[str, Mapping[str, Any]] | None = None
) -> NamedExplainers:
    """Explainers by the labels that they have in figures: a method of the catalogue, or a method and its layer.

    "decoded Grad-CAM l5" is `decoded-gradcam` of layer 5, and "summed Grad-CAM l5" is `SummedGradCAM`. "random" has as
    many random orders as there are `runs`, and "random mask" as many random head masks of the size of the subject's.
    `settings` are those of a method, by its label.

    >>> import nbsal
    >>> explainers = by_label(nbsal.load("demo/reviews"), ["decoded Grad-CAM l5", "lrp", "random"], runs=2)
    >>> explainers["decoded Grad-CAM l5"].method.layer, explainers["lrp"].method.name, len(explainers["random"])
    (5, 'lrp', 2)
    """
    seeds, explainers = range(runs), NamedExplainers()
    for label in labels:
        match = LAYER.fullmatch(label)
        name = (match[1] if match else label).lower().replace("grad-cam", "gradcam").replace(" ", "-")
        options = dict((settings or {}).get(label, {})) | ({"layer": int(match[2])} if match else {})
        if name == "random":
            explainers[label] = [Explainer(subject, name, seed=seed) for seed in seeds]
        elif name == "random-mask":
            explainers[label] = with_masks(subject, map(subject.mask.matched_random, seeds))
        elif name == "summed-gradcam":
            explainers[label] = Explainer(subject, SummedGradCAM(**options))
        else:
            explainers[label] = Explainer(subject, name, **options)
    return explainers


@checked
def with_masks(subject: Subject, masks: Iterable[HeadMask], method: str = "mask-lrp") -> list[Explainer]:
    """Mask-LRP with each of several head masks.

    >>> import nbsal
    >>> reviews = nbsal.load("demo/reviews")
    >>> len(with_masks(reviews, [reviews.mask, ~reviews.mask]))
    2
    """
    return [Explainer(subject, method, mask=mask) for mask in masks]
