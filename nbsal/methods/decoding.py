"""Decoded layer saliency (Hou and Castanon 2023, Algorithm 1), which maps scores of hidden states back to tokens.

The LM head gives the influence of each token type of the input on each hidden state. The score of a type is the sum of
the layer's scores, weighted by that influence; every position of a type gets the score of the type.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from nbsal.methods.base import REGISTER, LayerMethod, Method, one_of, setting
from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts
from nbsal.methods.gradient import GradCAM
from nbsal.model.lm_head import LMHead
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes.trace import Trace
from nbsal.support.errors import InputError
from nbsal.support.validation import checked, whole_number

FORMS = ("per_position", "per_token")
# The properties of a layer method that decoding preserves: influence is never negative.
PRESERVED = {"nonnegative", "signed", "about_target", "not_about_target", "seeded"}


@checked
@dataclass(frozen=True)
class Decoded(Method):
    """Decode the scores of a method that explains one layer (Hou and Castanon 2023, Algorithm 1).

    A token's score is the sum of the layer's scores, weighted by how strongly the LM head predicts the token from each
    hidden state.

    With `form="per_position"` scores are aggregated at each position and then weighted (line 9); with "per_token" the
    features are weighted first and then aggregated (equation 6). With `tau`, each hidden state counts only for the tau
    tokens of the input that the LM head finds most probable there. `renormalise` makes the weights of a hidden state
    sum to 1 over the tokens of the input. `coarse` computes the softmax denominator in bfloat16, which is twice as
    fast, with an error of about 5e-4 in its logarithm.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Decoded(nbsal.GradCAM(layer=4), tau=3))
    >>> explain.method.name, explain("A warm and funny film.").top(1)["token"].item()
    ('decoded-gradcam', 'funny')
    """

    family = "decoding"

    method: LayerMethod = field(default_factory=lambda: GradCAM(layer=None))
    form: str = setting("per_position", one_of(*FORMS))
    tau: int | None = None
    renormalise: bool = False
    coarse: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"decoded-{self.method.name}"

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        return self.method.needs | {"hidden"}

    @property
    def paper(self) -> str:  # type: ignore[override]
        return f"Hou and Castanon 2023, applied to {self.method.paper}"

    @property
    def cost(self) -> Cost:  # type: ignore[override]
        return replace(self.method.cost, lm_head=True)

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        decoded: Facts = vars(type(self.method)).get("decoded", Facts(self.name))
        return decoded

    @property
    def promise(self) -> frozenset[str]:  # type: ignore[override]
        return (self.method.promise & PRESERVED) | {"same_per_type"}

    def resolve(self, subject: Subject) -> Self:
        subject.lm_head  # noqa: B018 - raises an error that says which checkpoint to pass
        tau = None if self.tau is None else whole_number(self.tau, "tau")
        if tau is not None and tau < 1:
            raise InputError(f"tau must be None or a whole number of at least 1, not {tau}.", argument="tau", value=tau)
        method = self.method.resolve(subject)
        if tau is not None and method.layer == subject.depth and subject.pooling in ("first", "last"):
            warnings.warn(
                "At the last layer only the pooled position has a gradient, so a small tau gives a score to its own "
                "token only. Use tau=None or an earlier layer.",
                stacklevel=3,
            )
        return replace(super().resolve(subject), method=method, tau=tau)

    def layers(self, depth: int) -> set[int]:
        return self.method.layers(depth)

    @property
    def layer(self) -> int:
        """The decoded layer of a resolved method."""
        return self.method.chosen

    def scores(self, trace: Trace) -> Tensor:
        return self.every_layer_scores(trace, [self.layer])[0]

    def tie_breaker(self, trace: Trace) -> Tensor:
        return self.method.tie_breaker(trace)

    def notes(self, trace: Trace) -> Sequence[dict[str, Any]]:
        return self.method.notes(trace)

    def every_layer_scores(self, trace: Trace, layers: Sequence[int]) -> Tensor:
        """Scores of several layers from one trace, [layer, batch, position], with one pass over the vocabulary."""
        features = {layer: replace(self.method, layer=layer).features(trace) for layer in layers}
        parts = {layer: self.method.aggregate(f) for layer, f in features.items()}
        # Positions without any score need no decoding.
        relevant = parts if self.form == "per_position" else {layer: f.abs().amax(-1) for layer, f in features.items()}
        influence = _Influence(trace, relevant, self)
        scores = torch.zeros(len(layers), *next(iter(parts.values())).shape).to(trace.logits)
        for i, layer in enumerate(layers):
            for b, (places, inverse, weights) in influence.of(layer):
                if self.form == "per_position":
                    type_scores = weights @ parts[layer][b, places]
                else:
                    type_scores = self.method.aggregate((weights @ features[layer][b, places])[None])[0]
                scores[i, b, : len(inverse)] = type_scores[inverse]
        return scores

    def parameters(self) -> dict[str, Any]:
        settings = super().parameters()
        del settings["method"]
        return self.method.parameters() | settings

    def sizes(self, row: Row) -> dict[str, int]:
        return self.method.sizes(row)


class _Influence:
    """The matrix D of Algorithm 1 for every text and layer, at the positions with a score.

    All positions pass through the LM head together, since that takes most of the time.
    """

    def __init__(self, trace: Trace, scores: dict[int, Tensor], method: Decoded) -> None:
        self.method = method
        self.head: LMHead = trace.subject.lm_head
        ids = [torch.tensor(row.ids, device=trace.logits.device) for row in trace.encoded]
        self.types = [torch.unique(row, return_inverse=True) for row in ids]
        self.places = {
            (layer, b): layer_scores[b, : len(row)].nonzero()[:, 0]
            for layer, layer_scores in scores.items()
            for b, row in enumerate(trace.encoded)
        }
        states = [trace.hidden[layer][b, places] for (layer, b), places in self.places.items()]
        self.features = self.head.features(torch.cat(states))
        self.normalisers = None if method.renormalise else self._log_normalisers(trace)

    def _log_normalisers(self, trace: Trace) -> Tensor:
        """The log softmax denominator of every scored position; all methods on a trace share those computed before."""
        caches = [self._cached_normalisers(trace, layer)[b] for layer, b in self.places]
        normalisers = torch.cat([cache[places] for cache, places in zip(caches, self.places.values(), strict=True)])
        missing = normalisers.isnan()
        normalisers[missing] = self.head.log_normaliser(self.features[missing], self.method.coarse)
        for cache, places, values in zip(caches, self.places.values(), self._split(normalisers), strict=True):
            cache[places] = values
        return normalisers

    def _cached_normalisers(self, trace: Trace, layer: int) -> Tensor:
        """The log-denominators of a layer that were computed on this trace, [batch, position]; NaN for the others."""
        hidden = trace.hidden[layer]
        key = ("log normalisers", layer, self.method.coarse)
        return trace.cached(key, lambda: hidden.new_full(hidden.shape[:2], torch.nan))

    def _split(self, values: Tensor) -> Sequence[Tensor]:
        """Split values of all scored positions by layer and text."""
        return torch.split(values, [len(places) for places in self.places.values()])

    def of(self, layer: int) -> Iterator[tuple[int, tuple[Tensor, Tensor, Tensor]]]:
        """For each text: its scored positions, the type of every position, and D [type, scored position]."""
        normalisers = [None] * len(self.places) if self.normalisers is None else self._split(self.normalisers)
        parts = zip(self.places.items(), self._split(self.features), normalisers, strict=True)
        for ((part_layer, b), places), features, normaliser in parts:
            if part_layer == layer:
                types, inverse = self.types[b]
                yield b, (places, inverse, self._weights(types, features, normaliser))

    def _weights(self, types: Tensor, features: Tensor, normaliser: Tensor | None) -> Tensor:
        logits = self.head.logits(features, types)
        weights = logits.softmax(-1) if normaliser is None else (logits - normaliser[:, None]).exp()
        tau = self.method.tau
        if tau is not None and tau < len(types):
            weights = weights * torch.zeros_like(weights).scatter_(1, logits.topk(tau, -1).indices, 1.0)
        return weights.T


def decoded(name: str) -> Any:
    """Build the catalogue's function for a decoded method, which sorts options into those of method and decoding."""

    def build(layer: int | None = None, **options: Any) -> Decoded:
        inner = {key: options.pop(key) for key in list(options) if key in REGISTER[name].__dataclass_fields__}  # type: ignore[attr-defined]
        method = REGISTER[name](layer=layer, **inner)
        assert isinstance(method, LayerMethod)
        return Decoded(method, **options)

    return build


for _inner in ("gradcam", "simple", "gradxact"):
    REGISTER[f"decoded-{_inner}"] = decoded(_inner)
