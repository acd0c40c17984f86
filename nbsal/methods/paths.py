"""Gradient methods that average over many points: noisy copies of the states, or a path from a baseline to them.

Scores belong to tokens. The score of a word is the sum over its tokens (`Saliency.by_word`), so totals are unchanged.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from nbsal.errors import InputError
from nbsal.methods.base import LayerMethod, register
from nbsal.methods.cost import BASELINES, SAMPLES, STEPS, TOKEN_BASELINES, Cost
from nbsal.methods.gradient import Simple
from nbsal.methods.rng import text_rng
from nbsal.methods.upper_layers import UpperLayers, check_baseline, copies_per_batch
from nbsal.model import architecture, batching
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row
from nbsal.trace import Trace
from nbsal.validation import positive_number, real_number


@register(
    "smooth",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Smilkov et al. 2017",
    cost=Cost(1 + SAMPLES, backwards=SAMPLES),
    promise={"nonnegative", "sums_to_1", "about_target", "zero_at_special_in_layer_0", "seeded"},
)
@dataclass(frozen=True)
class Smooth(Simple):
    """Sensitivity of the target to a change at each position, averaged over noisy copies of the text's states.

    `noise` is the standard deviation of the noise, as a share of the range of the features in that text's states.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Smooth(samples=3))
    >>> round(float(explain("A joy.").scores.sum()), 4)
    1.0
    """

    samples: int = 10
    noise: float = 0.01
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        if not real_number(self.noise, "noise") >= 0:
            message = f"noise must be at least 0, not {self.noise!r}. It is a share of the range of the features."
            raise InputError(message, argument="noise", value=self.noise)
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"))

    def features(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._mean_gradient(trace))

    def _mean_gradient(self, trace: Trace) -> Tensor:
        upper = UpperLayers(trace, self.chosen)
        return upper.gradient(self._noisy_states(trace), self.samples).abs() * upper.changeable()

    def _noisy_states(self, trace: Trace) -> Iterator[Tensor]:
        states = trace.hidden[self.chosen]
        generators = [text_rng(self.seed, row) for row in trace.encoded]
        for _ in range(self.samples):
            copies = states.clone()
            for copy, row, generator in zip(copies, trace.encoded, generators, strict=True):
                spread = copy[: len(row)].max() - copy[: len(row)].min()
                noise = generator.standard_normal((len(row), copy.shape[-1]))
                copy[: len(row)] += self.noise * spread * torch.from_numpy(noise).to(copy)
            yield copies


@dataclass(frozen=True)
class PathMethod(LayerMethod):
    """A layer method that attributes the change of the target from one or several baselines to the features."""

    linear = True

    def features(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._attribute(trace))[0]

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1)

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        sums = self.scores(trace).sum(-1)
        changes = trace.cached(self, lambda: self._attribute(trace))[1]
        return [{"change": float(c), "gap": float(s - c)} for s, c in zip(sums, changes, strict=True)]

    @abstractmethod
    def _attribute(self, trace: Trace) -> tuple[Tensor, Tensor]:
        """The scores of features, and the change of the target from the baseline, one number for each text."""

    @property
    @abstractmethod
    def _kinds(self) -> Sequence[str]:
        """The baselines in use."""

    def sizes(self, row: Row) -> dict[str, int]:
        baselines = {"baselines": len(self._kinds), "token baselines": sum(k != "zero" for k in self._kinds)}
        return super().sizes(row) | baselines


@register(
    "integrated",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Sundararajan et al. 2017",
    cost=Cost(2 + STEPS + TOKEN_BASELINES, backwards=STEPS),
    promise={"signed", "about_target", "sums_to_change", "reports_gap", "zero_at_special_in_layer_0"},
)
@dataclass(frozen=True)
class Integrated(PathMethod):
    """Gradients along the straight line from a baseline to the text's states, times the difference (by captum).

    `baseline` is "zero", or the states with "pad" or "mask" tokens in place of the content. Special tokens stay
    unchanged at layer 0; above it all positions change, since each carries information about the whole text.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Integrated(steps=50))
    >>> bool(abs(explain("A joy.").provenance["gap"]) < 1e-3)
    True
    """

    steps: int = 25
    baseline: str = "zero"

    def resolve(self, subject: Subject) -> Self:
        check_baseline(subject, self.baseline)
        return replace(super().resolve(subject), steps=positive_number(self.steps, "steps"))

    @property
    def _kinds(self) -> Sequence[str]:
        return (self.baseline,)

    def _attribute(self, trace: Trace) -> tuple[Tensor, Tensor]:
        from captum.attr import IntegratedGradients

        upper, subject = UpperLayers(trace, self.chosen), trace.subject
        base, texts = upper.baseline(self.baseline), torch.arange(len(upper.states))
        meter = trace.meter.part(1, self.steps * len(texts))

        def integrate(points: int) -> Tensor:
            meter.reach(0)
            attributions: Tensor = IntegratedGradients(compute_values).attribute(
                upper.states,
                baselines=base,
                additional_forward_args=(texts,),
                n_steps=self.steps,
                internal_batch_size=points * len(texts),
            )
            return attributions

        def compute_values(states: Tensor, texts: Tensor) -> Tensor:
            meter.check()
            values = upper.values(states, texts)
            meter.step(len(texts))
            return values

        with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
            features = batching.run_halving(copies_per_batch(trace), integrate)
        return features.detach(), trace.values - upper.values_without_gradient(base)


@register(
    "gradient-shap",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Lundberg and Lee 2017",
    cost=Cost(1 + BASELINES + TOKEN_BASELINES + SAMPLES, backwards=SAMPLES),
    promise={
        *("signed", "about_target", "sums_to_change_on_average", "reports_gap"),
        *("zero_at_special_in_layer_0", "seeded"),
    },
)
@dataclass(frozen=True)
class GradientShap(PathMethod):
    """Gradients at random points between several baselines and the text's states, times the difference.

    Points are drawn between hidden states, never between token ids. The baselines are used in turn, and each text has
    its own.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradientShap(samples=5, baselines=("zero", "mask")))
    >>> sorted({"change", "gap"} & set(explain("A joy.").provenance))
    ['change', 'gap']
    """

    samples: int = 25
    baselines: tuple[str, ...] = ("zero", "pad")
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        kinds = _checked_kinds(subject, self.baselines)
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"), baselines=kinds)

    @property
    def _kinds(self) -> Sequence[str]:
        return self.baselines

    def _attribute(self, trace: Trace) -> tuple[Tensor, Tensor]:
        upper = UpperLayers(trace, self.chosen)
        bases = [upper.baseline(kind) for kind in self.baselines]
        features, change = torch.zeros_like(upper.states), torch.zeros_like(trace.values)
        generators = [text_rng(self.seed, row) for row in trace.encoded]
        counts = [len(range(i, self.samples, len(bases))) for i in range(len(bases))]
        for base, count in zip(bases, counts, strict=True):
            if count:
                fractions = torch.tensor(np.array([rng.random(count) for rng in generators])).to(upper.states)
                points = (base + fraction[:, None, None] * (upper.states - base) for fraction in fractions.T)
                weight = count / self.samples
                features += weight * upper.gradient(points, count, weight) * (upper.states - base)
                change += weight * (trace.values - upper.values_without_gradient(base))
        return features, change


@register(
    "deeplift-shap",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Lundberg and Lee 2017, as captum runs it",
    cost=Cost(1 + 3 * BASELINES + TOKEN_BASELINES, backwards=2 * BASELINES),
    promise={"signed", "about_target", "not_complete", "reports_gap", "zero_at_special_in_layer_0"},
)
@dataclass(frozen=True)
class DeepLiftShap(PathMethod):
    """DeepLift from several baselines, as captum implements it, which on transformers is almost a plain gradient.

    Captum applies DeepLift's rules only to modules such as `nn.Tanh` and `nn.ReLU`. The activations, softmax and norms
    of transformers keep their plain gradient. On most models (RoBERTa, DistilBERT, decoders) the result is the gradient
    times the difference from the baseline; on BERT only the pooler's tanh differs. The scores therefore do not sum to
    the change of the output, and the provenance records the gap.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.DeepLiftShap(layer=2))
    >>> explain("A joy.").scores.shape
    (5,)
    """

    baselines: tuple[str, ...] = ("zero", "pad")

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), baselines=_checked_kinds(subject, self.baselines))

    @property
    def _kinds(self) -> Sequence[str]:
        return self.baselines

    def _attribute(self, trace: Trace) -> tuple[Tensor, Tensor]:
        from captum.attr import DeepLift

        upper, subject = UpperLayers(trace, self.chosen), trace.subject
        features, change = torch.zeros_like(upper.states), torch.zeros_like(trace.values)
        meter, texts = trace.meter.part(1, len(self.baselines)), torch.arange(len(upper.states))
        with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
            for kind in self.baselines:
                meter.check()
                base, deeplift = upper.baseline(kind), DeepLift(_UpperModule(upper))
                with clean_captum(subject.model):
                    attributions = deeplift.attribute(upper.states, base, additional_forward_args=(texts,))
                features += attributions.detach() / len(self.baselines)
                change += (trace.values - upper.values_without_gradient(base)) / len(self.baselines)
                meter.step()
        return features, change


@contextmanager
def clean_captum(model: nn.Module) -> Iterator[None]:
    """Run captum's DeepLift without its warnings, and remove what it leaves on modules if it is interrupted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for module in model.modules():
                for attribute in ("input", "output"):
                    vars(module).pop(attribute, None)


class _UpperModule(nn.Module):
    """`UpperLayers` as the module that captum needs."""

    def __init__(self, upper: UpperLayers) -> None:
        super().__init__()
        self.model = upper.trace.subject.model
        self.upper = upper

    def forward(self, states: Tensor, texts: Tensor) -> Tensor:
        """The target values; captum passes the states of text and baseline in one call."""
        return self.upper.values(states, texts)


def _checked_kinds(subject: Subject, baselines: Sequence[str]) -> tuple[str, ...]:
    """The baselines as a tuple, after checking that each is available."""
    if isinstance(baselines, str) or not isinstance(baselines, Sequence) or not baselines:
        message = f'baselines must be a tuple of names such as ("zero", "pad"), not {baselines!r}.'
        raise InputError(message, argument="baselines", value=baselines)
    for kind in baselines:
        check_baseline(subject, kind, "baselines")
    return tuple(baselines)
