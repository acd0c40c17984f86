"""Gradients gathered away from the text itself, at any hidden layer: around its states, or on the way to them.

Scores are given to tokens; a word's are the sum of its tokens' (`Saliency.by_word`), which keeps what they sum to.
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
from nbsal.methods.gradient import Simple
from nbsal.methods.rng import text_rng
from nbsal.methods.upper_layers import UpperLayers, batch_per_text, check_baseline
from nbsal.model import architecture, batching
from nbsal.model.subject import Subject
from nbsal.trace import Trace
from nbsal.validation import positive_number, real_number


@register(
    "smooth",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Smilkov et al. 2017",
    cost="1 + samples (10), and samples backwards",
    promise="0 or more; a text's scores sum to 1; 0 at special tokens (layer 0); drawn from (seed, text)",
)
@dataclass(frozen=True)
class Smooth(Simple):
    """How much the target would react to a change at each position, averaged over noisy copies of the text's states.

    `noise` is the standard deviation as a share of the spread (largest less smallest feature) of that text's states.

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
            raise InputError(f"noise is a share of the spread of a text's states, from 0: not {self.noise!r}.")
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"))

    def features(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._mean(trace))

    def _mean(self, trace: Trace) -> Tensor:
        above = UpperLayers(trace, self.chosen)
        return above.gradient(self._points(trace), self.samples).abs() * above.free()

    def _points(self, trace: Trace) -> Iterator[Tensor]:
        states = trace.hidden[self.chosen]
        drawings = [text_rng(self.seed, row) for row in trace.encoded]
        for _ in range(self.samples):
            point = states.clone()
            for own, row, chance in zip(point, trace.encoded, drawings, strict=True):
                spread = own[: len(row)].max() - own[: len(row)].min()
                noise = chance.standard_normal((len(row), own.shape[-1]))
                own[: len(row)] += self.noise * spread * torch.from_numpy(noise).to(own)
            yield point


@dataclass(frozen=True)
class PathMethod(LayerMethod):
    """A layer method whose features are to sum to how much the target gains over one or several baselines."""

    def features(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self._followed(trace))[0]

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1)

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        sums = self.scores(trace).sum(-1)
        changes = trace.cached(self, lambda: self._followed(trace))[1]
        return [{"change": float(c), "gap": float(s - c)} for s, c in zip(sums, changes, strict=True)]

    @abstractmethod
    def _followed(self, trace: Trace) -> tuple[Tensor, Tensor]:
        """The features, and how much the target gains over the baseline, one number a text."""


@register(
    "integrated",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Sundararajan et al. 2017",
    cost="2 + steps (25), and steps backwards; 1 more for pad or mask",
    promise="signed; sums to the change from the baseline, the gap is in the provenance; 0 at special tokens (layer 0)",
)
@dataclass(frozen=True)
class Integrated(PathMethod):
    """Gradients along the straight way from a baseline to the text's states, times the way (captum's quadrature).

    `baseline` is "zero", or the states with "pad" or "mask" tokens in the text's place. At layer 0 special tokens stay
    as they are; above it every position carries something of the whole text, and all of them move.

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

    def _followed(self, trace: Trace) -> tuple[Tensor, Tensor]:
        from captum.attr import IntegratedGradients

        above, subject = UpperLayers(trace, self.chosen), trace.subject
        base, texts = above.baseline(self.baseline), torch.arange(len(above.states))
        meter = trace.meter.part(1, self.steps * len(texts))

        def followed(at_a_time: int) -> Tensor:
            meter.reach(0)
            found: Tensor = IntegratedGradients(value).attribute(
                above.states,
                baselines=base,
                additional_forward_args=(texts,),
                n_steps=self.steps,
                internal_batch_size=at_a_time * len(texts),
            )
            return found

        def value(states: Tensor, texts: Tensor) -> Tensor:
            meter.check()
            found = above.values(states, texts)
            meter.step(len(texts))
            return found

        with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
            features = batching.run_halving(batch_per_text(trace), followed)
        return features.detach(), trace.values - above.plain(base)


@register(
    "gradient-shap",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Lundberg and Lee 2017",
    cost="2 + baselines (2) + samples (25), and samples backwards",
    promise="signed; sums to the mean change from the baselines within sampling error, the gap is in the provenance; "
    "0 at special tokens (layer 0); drawn from (seed, text)",
)
@dataclass(frozen=True)
class GradientShap(PathMethod):
    """Gradients at random points on the ways from several baselines, times the ways; every text has its own baselines.

    Points and ways are of hidden states, never of token ids. The baselines take turns.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradientShap(samples=5, baselines=("zero", "mask")))
    >>> sorted({"change", "gap"} & set(explain("A joy.").provenance))
    ['change', 'gap']
    """

    samples: int = 25
    baselines: tuple[str, ...] = ("zero", "pad")
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        kinds = _kinds(subject, self.baselines)
        return replace(super().resolve(subject), samples=positive_number(self.samples, "samples"), baselines=kinds)

    def _followed(self, trace: Trace) -> tuple[Tensor, Tensor]:
        above = UpperLayers(trace, self.chosen)
        bases = [above.baseline(kind) for kind in self.baselines]
        features = torch.zeros_like(above.states)
        drawings = [text_rng(self.seed, row) for row in trace.encoded]
        shares = [len(range(at, self.samples, len(bases))) for at in range(len(bases))]
        change = torch.zeros_like(trace.values)
        for base, share in zip(bases, shares, strict=True):
            if share:
                along = torch.tensor(np.array([chance.random(share) for chance in drawings])).to(above.states)
                points = (base + one[:, None, None] * (above.states - base) for one in along.T)
                weight = share / self.samples
                features += weight * above.gradient(points, share, weight) * (above.states - base)
                change += weight * (trace.values - above.plain(base))
        return features, change


@register(
    "deeplift-shap",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Lundberg and Lee 2017, as captum runs it",
    cost="2 + 3 x baselines (2), and baselines backwards",
    promise="signed; promises to sum to the mean change from the baselines and does not, the gap is in the provenance; "
    "0 at special tokens (layer 0)",
)
@dataclass(frozen=True)
class DeepLiftShap(PathMethod):
    """DeepLift from several baselines, as captum runs it.

    What that truly is on a transformer: captum puts DeepLift's rules on `nn.Tanh`, `nn.ReLU` and their like alone. The
    activations of transformers, attention's softmax and the norms are none of these and keep their plain gradient. On
    most models (RoBERTa, DistilBERT, decoders) this is the gradient times the way from the baseline; on BERT the
    pooler's tanh is the one thing that differs. Its sums are off accordingly, and the provenance says by how much.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.DeepLiftShap(layer=2))
    >>> explain("A joy.").scores.shape
    (5,)
    """

    baselines: tuple[str, ...] = ("zero", "pad")

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), baselines=_kinds(subject, self.baselines))

    def _followed(self, trace: Trace) -> tuple[Tensor, Tensor]:
        from captum.attr import DeepLift

        above, subject = UpperLayers(trace, self.chosen), trace.subject
        features, change = torch.zeros_like(above.states), torch.zeros_like(trace.values)
        meter, texts = trace.meter.part(1, len(self.baselines)), torch.arange(len(above.states))
        with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
            for kind in self.baselines:
                meter.check()
                base, lift = above.baseline(kind), DeepLift(_Upper(above))
                with quiet_captum(subject.model):
                    found = lift.attribute(above.states, base, additional_forward_args=(texts,))
                features += found.detach() / len(self.baselines)
                change += (trace.values - above.plain(base)) / len(self.baselines)
                meter.step()
        return features, change


@contextmanager
def quiet_captum(model: nn.Module) -> Iterator[None]:
    """Captum's DeepLift without its warnings, and without what it leaves on modules when a run breaks off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for module in model.modules():
                for left in ("input", "output"):
                    vars(module).pop(left, None)


class _Upper(nn.Module):
    """The part of a model above a layer, as the module that captum asks for."""

    def __init__(self, above: UpperLayers) -> None:
        super().__init__()
        self.model = above.trace.subject.model
        self.above = above

    def forward(self, states: Tensor, texts: Tensor) -> Tensor:
        """The explained number of states; captum asks for text and baseline at once."""
        return self.above.values(states, texts)


def _kinds(subject: Subject, baselines: Sequence[str]) -> tuple[str, ...]:
    """The baselines, once each is known to exist."""
    if isinstance(baselines, str) or not isinstance(baselines, Sequence) or not baselines:
        raise InputError(f'baselines is a tuple of names such as ("zero", "pad"), not {baselines!r}.')
    for kind in baselines:
        check_baseline(subject, kind)
    return tuple(baselines)
