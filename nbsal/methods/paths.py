"""Gradient methods that average over many points: noisy copies of the states, or a path from a baseline to them.

Scores belong to tokens. The score of a word is the sum over its tokens (`Saliency.by_word`), so totals are unchanged.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from nbsal.methods.base import LayerMethod, register, satisfies, setting
from nbsal.methods.cost import BASELINES, SAMPLES, STEPS, TOKEN_BASELINES, Cost
from nbsal.methods.facts import Facts
from nbsal.methods.gradient import Simple
from nbsal.methods.rng import fixed_part, text_rng
from nbsal.methods.upper_layers import (
    SEVERAL,
    Point,
    UpperLayers,
    check_baseline,
    checked_baselines,
    default_baselines,
)
from nbsal.model.running.layers import forward_mode
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes.trace import Trace
from nbsal.support.validation import positive_number

MOST = 400  # points of a path, however large the gap


@dataclass(frozen=True)
class Path:
    """Points at which gradients are summed by their weights; their sum times `factor` are scores of features.

    They attribute `share` of the change of the target from `baseline`, if there is one.
    """

    points: Iterable[Point]
    count: int
    factor: Tensor
    baseline: Tensor | None = None
    share: float = 1.0


class Attribution(NamedTuple):
    """The scores of features; of each text, what they should sum to, and its points where a tolerance sets them."""

    features: Tensor
    change: Tensor
    points: Sequence[int] = ()


@dataclass(frozen=True)
class AlongPaths(LayerMethod):
    """A layer method whose scores are gradients at other states than the text's own.

    All tokens of a reply share the paths, since later positions of a causal model change nothing.
    """

    shares = "pass"

    @abstractmethod
    def paths(self, upper: UpperLayers) -> Iterator[Path]:
        """The paths of the texts of a trace."""

    def attribute(self, trace: Trace, steps: float = 1.0) -> Attribution:
        """The scores along all paths, which together advance the trace's meter by `steps`."""
        upper = UpperLayers(trace, self.chosen)
        features, change = upper.zeros(), torch.zeros_like(trace.values)
        for path in self.paths(upper):
            features += upper.gradient(path.points, path.count, steps * path.share).mul_(path.factor)
            if path.baseline is not None:
                change += path.share * (trace.values - upper.values_without_gradient(path.baseline))
        return Attribution(features, change)


@register(
    "smooth",
    family="gradient",
    needs={"hidden", "forward"},
    paper="Smilkov et al. 2017",
    cost=Cost(1 + SAMPLES, backwards=SAMPLES),
    promise={"nonnegative", "sums_to_1", "about_target", "zero_at_special_in_layer_0", "seeded"},
)
@dataclass(frozen=True)
class Smooth(Simple, AlongPaths):
    """Sensitivity of the target to a change at each position, averaged over noisy copies of the text's states.

    `noise` is the standard deviation of the noise, as a share of the range of the features in that text's states.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Smooth(samples=3))
    >>> round(float(explain("A joy.").scores.sum()), 4)
    1.0
    """

    facts = Facts("SmoothGrad", look=10)
    samples: int = setting(10, positive_number)
    noise: float = setting(0.01, satisfies("a share of the range of the features, of at least 0", lambda x: x >= 0))
    seed: int = 0

    def features(self, trace: Trace) -> Tensor:
        return trace.cached(self, lambda: self.attribute(trace).features.abs_())

    def paths(self, upper: UpperLayers) -> Iterator[Path]:
        points = (Point(1 / self.samples, copies) for copies in self._noisy_states(upper))
        yield Path(points, self.samples, upper.changeable().to(upper.states))

    def _noisy_states(self, upper: UpperLayers) -> Iterator[Tensor]:
        states, rows = upper.states, upper.rows
        parts = [fixed_part(upper.trace.subject, row) for row in rows]
        generators = [text_rng(self.seed, part).spawn(self.samples) for part in parts]
        for sample in range(self.samples):
            copies = states.clone()
            for copy, row, part, samples in zip(copies, rows, parts, generators, strict=True):
                spread = copy[: len(part)].max() - copy[: len(part)].min()
                noise = samples[sample].standard_normal((len(row), copy.shape[-1]))
                copy[: len(row)] += self.noise * spread * torch.from_numpy(noise).to(copy)
            yield copies


@dataclass(frozen=True)
class PathMethod(LayerMethod):
    """A layer method that attributes the change of the target from one or several baselines to the features."""

    family = "gradient"
    needs = frozenset({"hidden", "forward"})
    linear = True

    def features(self, trace: Trace) -> Tensor:
        return self._attribution(trace).features

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1)

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        sums, attribution = self.scores(trace).sum(-1), self._attribution(trace)
        notes = [{"change": float(c), "gap": float(s - c)} for s, c in zip(sums, attribution.change, strict=True)]
        points = [{"points": count} for count in attribution.points] or [{} for _ in notes]
        return [note | count for note, count in zip(notes, points, strict=True)]

    def _attribution(self, trace: Trace) -> Attribution:
        return trace.cached(self, lambda: self.attribute(trace))

    @abstractmethod
    def attribute(self, trace: Trace, steps: float = 1.0) -> Attribution:
        """The scores of all texts, which together advance the trace's meter by `steps`."""

    @property
    @abstractmethod
    def _kinds(self) -> Sequence[str]:
        """The baselines in use."""

    def sizes(self, row: Row) -> dict[str, int]:
        baselines = {"baselines": len(self._kinds), "token baselines": sum(k != "zero" for k in self._kinds)}
        return super().sizes(row) | baselines


@register(
    "integrated",
    paper="Sundararajan et al. 2017",
    cost=Cost(2 + STEPS + TOKEN_BASELINES, backwards=STEPS),
    promise={"signed", "about_target", "sums_to_change", "reports_gap", "zero_at_special_in_layer_0"},
)
@dataclass(frozen=True)
class Integrated(AlongPaths, PathMethod):
    """Gradients along the straight line from a baseline to the text's states, times the difference.

    `baseline` is "zero", or the states with "pad" or "mask" tokens, or with the "mean" of all token embeddings, in
    place of the content. By default it is "mean" for models that predict tokens, whose norms make zeros too far from
    any text, and "zero" for all others. Special tokens stay unchanged at layer 0; above it all positions change, since
    each carries information about the whole text.

    With `tolerance=0.01`, `steps` is doubled (up to 400) until the scores sum to the change of the output within 1 %,
    for each text; the provenance states how many `points` it took. Gauss-Legendre rules share no points, so each
    attempt begins anew: all together take less than twice the points of the last.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Integrated(tolerance=0.01))
    >>> provenance = explain("A joy.").provenance
    >>> bool(abs(provenance["gap"]) <= 0.01 * abs(provenance["change"]))
    True
    """

    facts = Facts(
        "Integrated gradients",
        "Gradients averaged from a baseline to your text; the scores sum to the change of the output.",
        look=3,
        recommended=2,
        start="the same where an operation has no relevance rule: gradients are enough",
        default_for={"decisions": 2},
        replies=5,
    )

    steps: int = setting(25, positive_number)
    baseline: str | None = None
    tolerance: float | None = setting(
        None, satisfies("a share of the change of the target, more than 0", lambda x: 0 < x < np.inf)
    )

    def resolve(self, subject: Subject) -> Self:
        baseline = default_baselines(subject, ("zero",))[0] if self.baseline is None else self.baseline
        check_baseline(subject, baseline)
        return replace(super().resolve(subject), baseline=baseline)

    @property
    def _kinds(self) -> Sequence[str]:
        return (self.baseline or "zero",)

    def attribute(self, trace: Trace, steps: float = 1.0) -> Attribution:
        if self.tolerance is None:
            return super().attribute(trace, steps)
        share = steps / 2  # of the progress, the rest of which is for later attempts
        features, change, _ = super().attribute(trace, share)
        upper, method, points = UpperLayers(trace, self.chosen), self, np.full(len(change), self.steps)
        while texts := method._texts_to_refine(features.sum((1, 2)), change):
            method, share = replace(method, steps=min(2 * method.steps, MOST)), share / 2
            for path in method.paths(upper):
                factor = path.factor.expand_as(features)[texts]
                features[texts] = upper.gradient(path.points, path.count, share, texts).mul_(factor)
                points[texts] = path.count
        return Attribution(features, change, points.tolist())

    def _texts_to_refine(self, sums: Tensor, change: Tensor) -> list[int]:
        """The numbers of the texts whose gap needs more points."""
        if self.tolerance is None or self.steps >= MOST:
            return []
        return ((sums - change).abs() > self.tolerance * change.abs()).nonzero()[:, 0].tolist()

    def paths(self, upper: UpperLayers) -> Iterator[Path]:
        base = upper.baseline(*self._kinds)
        places, weights = np.polynomial.legendre.leggauss(self.steps)  # of the Gauss-Legendre rule, from -1 to 1
        points = (
            Point(w / 2, base + (1 + x) / 2 * (upper.states - base)) for x, w in zip(places, weights, strict=True)
        )
        yield Path(points, self.steps, upper.states - base, base)


@register(
    "gradient-shap",
    paper="Lundberg and Lee 2017",
    cost=Cost(1 + BASELINES + TOKEN_BASELINES + SAMPLES, backwards=SAMPLES),
    promise={
        *("signed", "about_target", "sums_to_change_on_average", "reports_gap"),
        *("zero_at_special_in_layer_0", "seeded"),
    },
)
@dataclass(frozen=True)
class GradientShap(AlongPaths, PathMethod):
    """Gradients at random points between several baselines and the text's states, times the difference.

    Points are drawn between hidden states, never between token ids. The baselines are used in turn, and each text has
    its own; by default they are those of `Integrated`, and "pad" where that is "zero".

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.GradientShap(samples=5, baselines=("zero", "mask")))
    >>> sorted({"change", "gap"} & set(explain("A joy.").provenance))
    ['change', 'gap']
    """

    facts = Facts("GradientShap", look=11)
    samples: int = setting(25, positive_number)
    baselines: tuple[str, ...] | None = None
    seed: int = 0

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), baselines=checked_baselines(subject, self.baselines))

    @property
    def _kinds(self) -> Sequence[str]:
        return self.baselines or SEVERAL

    def paths(self, upper: UpperLayers) -> Iterator[Path]:
        generators = [text_rng(self.seed, fixed_part(upper.trace.subject, row)) for row in upper.rows]
        counts = [len(range(i, self.samples, len(self._kinds))) for i in range(len(self._kinds))]
        for kind, count in zip(self._kinds, counts, strict=True):
            if count:
                base = upper.baseline(kind)
                fractions = torch.tensor(np.array([rng.random(count) for rng in generators])).to(upper.states)
                yield Path(self._points(upper, base, fractions), count, upper.states - base, base, count / self.samples)

    def _points(self, upper: UpperLayers, base: Tensor, fractions: Tensor) -> Iterator[Point]:
        for fraction in fractions.T:
            yield Point(1 / self.samples, base + fraction[:, None, None] * (upper.states - base))


@register(
    "deeplift-shap",
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

    facts = Facts("DeepLiftShap", look=24)
    baselines: tuple[str, ...] | None = None

    def resolve(self, subject: Subject) -> Self:
        return replace(super().resolve(subject), baselines=checked_baselines(subject, self.baselines))

    @property
    def _kinds(self) -> Sequence[str]:
        return self.baselines or SEVERAL

    def attribute(self, trace: Trace, steps: float = 1.0) -> Attribution:
        from captum.attr import DeepLift

        upper, subject = UpperLayers(trace, self.chosen), trace.subject
        features, change = torch.zeros_like(upper.states), torch.zeros_like(trace.values)
        meter, texts = trace.meter.part(steps, len(self._kinds)), torch.arange(len(upper.states))
        with forward_mode(gradients=True):
            for kind in self._kinds:
                meter.check()
                base, deeplift = upper.baseline(kind), DeepLift(_UpperModule(upper))
                with clean_captum(subject.twin):
                    attributions = deeplift.attribute(upper.states, base, additional_forward_args=(texts,))
                features += attributions.detach() / len(self._kinds)
                change += (trace.values - upper.values_without_gradient(base)) / len(self._kinds)
                meter.step()
        return Attribution(features, change)


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
        self.model = upper.trace.subject.twin
        self.upper = upper

    def forward(self, states: Tensor, texts: Tensor) -> Tensor:
        """The target values; captum passes the states of text and baseline in one call."""
        return self.upper.values(states, texts)
