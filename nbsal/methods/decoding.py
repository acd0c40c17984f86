"""Decoding (Hou and Castanon 2023, Algorithm 1): a hidden layer's scores, given back to the tokens it speaks of.

The LM head says how much each input token type influences each hidden state; a type's score is the sum of the layer's
scores, weighted by that influence. Every position of a type carries its type's score.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from nbsal.errors import InputError, UnknownName
from nbsal.methods.base import REGISTER, LayerMethod, Method
from nbsal.methods.gradient import GradCAM
from nbsal.model.lm_head import LMHead
from nbsal.model.subject import Subject
from nbsal.trace import Trace
from nbsal.validation import whole_number

FORMS = ("per_position", "per_token")


@dataclass(frozen=True)
class Decoded(Method):
    """Algorithm 1 around any layer method.

    `per_position` sums scores that were aggregated at each position (line 9); `per_token` weighs the features first and
    aggregates afterwards (eq. 6). `tau` lets a token count only where it is among the tau likeliest of a position.
    `renormalise` spreads each position's influence over the input's own tokens alone. `coarse` multiplies the softmax's
    denominator in bfloat16: half the time, log-denominators off by about 5e-4.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), nbsal.Decoded(nbsal.GradCAM(layer=4), tau=3))
    >>> explain.method.name, explain("A warm and funny film.").top(1)["token"].item()
    ('decoded-gradcam', 'funny')
    """

    method: LayerMethod = field(default_factory=lambda: GradCAM(layer=None))
    form: str = "per_position"
    tau: int | None = None
    renormalise: bool = False
    coarse: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.method, LayerMethod):
            raise InputError(f"Decoded takes a layer method such as nbsal.GradCAM(layer=4), not {self.method!r:.60}.")

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"decoded-{self.method.name}"

    @property
    def family(self) -> str:  # type: ignore[override]
        return "decoding"

    @property
    def needs(self) -> frozenset[str]:  # type: ignore[override]
        return self.method.needs | {"hidden"}

    @property
    def paper(self) -> str:  # type: ignore[override]
        return f"Hou and Castanon 2023, around {self.method.paper}"

    @property
    def cost(self) -> str:  # type: ignore[override]
        return f"{self.method.cost}, and the LM head's vocabulary once a scored position"

    @property
    def promise(self) -> str:  # type: ignore[override]
        return "as the layer's own scores, given to the tokens they speak of; every position of a type has its score"

    def resolve(self, subject: Subject) -> Self:
        subject.lm_head  # noqa: B018 - raises the sentence that says which checkpoint to pass
        if self.form not in FORMS:
            raise UnknownName("form", self.form, FORMS)
        tau = None if self.tau is None else whole_number(self.tau, "tau")
        if tau is not None and tau < 1:
            raise UnknownName("tau", tau, ("None", "any whole number from 1"))
        method = self.method.resolve(subject)
        if tau is not None and method.layer == subject.depth and subject.pooling in ("first", "last"):
            warnings.warn(
                "At the last block only the pooled position has a gradient: a small tau leaves its own token alone "
                "with a score. Use tau=None there, or an earlier layer.",
                stacklevel=3,
            )
        return replace(self, method=method, tau=tau)

    def layers(self, depth: int) -> set[int]:
        return self.method.layers(depth)

    @property
    def layer(self) -> int:
        """The layer that is decoded, once resolved."""
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
        wanted = parts if self.form == "per_position" else {layer: f.abs().amax(-1) for layer, f in features.items()}
        influence = _Influence(trace, wanted, self)
        scores = torch.zeros(len(layers), *next(iter(parts.values())).shape).to(trace.logits)
        for at, layer in enumerate(layers):
            for b, (rows, inverse, weights) in influence.of(layer):
                if self.form == "per_position":
                    types = weights @ parts[layer][b, rows]
                else:
                    types = self.method.aggregate((weights @ features[layer][b, rows])[None])[0]
                scores[at, b, : len(inverse)] = types[inverse]
        return scores

    def parameters(self) -> dict[str, Any]:
        own = super().parameters()
        del own["method"]
        return self.method.parameters() | own


class _Influence:
    """D of Algorithm 1 for every text and layer, for the positions that carry any score at all.

    All of them pass the vocabulary together, since that is where the time goes.
    """

    def __init__(self, trace: Trace, wanted: dict[int, Tensor], method: Decoded) -> None:
        head: LMHead = trace.subject.lm_head
        self.method = method
        self.head = head
        ids = [torch.tensor(row.ids, device=trace.logits.device) for row in trace.encoded]
        self.uniques = [torch.unique(row, return_inverse=True) for row in ids]
        self.rows = {
            (layer, b): scores[b, : len(row)].nonzero()[:, 0]
            for layer, scores in wanted.items()
            for b, row in enumerate(trace.encoded)
        }
        chosen = [trace.hidden[layer][b, rows] for (layer, b), rows in self.rows.items()]
        self.features = head.features(torch.cat(chosen))
        self.total = None if method.renormalise else self._log_normaliser(trace)

    def _log_normaliser(self, trace: Trace) -> Tensor:
        """The softmax's denominator of every scored position; those of a trace are computed once for all methods."""
        known = [self._known(trace, layer)[b] for layer, b in self.rows]
        total = torch.cat([one[rows] for one, rows in zip(known, self.rows.values(), strict=True)])
        missing = total.isnan()
        total[missing] = self.head.log_normaliser(self.features[missing], self.method.coarse)
        for one, rows, found in zip(known, self.rows.values(), self._split(total), strict=True):
            one[rows] = found
        return total

    def _known(self, trace: Trace, layer: int) -> Tensor:
        """The denominators of a layer that this trace has seen so far, [batch, position]; NaN for the others."""
        hidden = trace.hidden[layer]
        return trace.cached(
            ("denominators", layer, self.method.coarse), lambda: hidden.new_full(hidden.shape[:2], torch.nan)
        )

    def _split(self, values: Tensor) -> Sequence[Tensor]:
        """One part for each layer and text."""
        return torch.split(values, [len(rows) for rows in self.rows.values()])

    def of(self, layer: int) -> Iterator[tuple[int, tuple[Tensor, Tensor, Tensor]]]:
        """For each text its scored positions, the type of every position, and D [type, scored position]."""
        totals = [None] * len(self.rows) if self.total is None else self._split(self.total)
        parts = zip(self.rows.items(), self._split(self.features), totals, strict=True)
        for ((own, b), rows), features, total in parts:
            if own == layer:
                types, inverse = self.uniques[b]
                yield b, (rows, inverse, self._weights(types, features, total))

    def _weights(self, types: Tensor, features: Tensor, total: Tensor | None) -> Tensor:
        logits = self.head.logits(features, types)
        weights = logits.softmax(-1) if total is None else (logits - total[:, None]).exp()
        tau = self.method.tau
        if tau is not None and tau < len(types):
            kept = torch.zeros_like(weights).scatter_(1, logits.topk(tau, -1).indices, 1.0)
            weights = weights * kept
        return weights.T


def decoded(name: str) -> Any:
    """How the catalogue builds a decoded method: options of the inner method and of decoding go where they belong."""

    def build(layer: int | None = None, **options: Any) -> Decoded:
        inner = {key: options.pop(key) for key in list(options) if key in REGISTER[name].__dataclass_fields__}  # type: ignore[attr-defined]
        method = REGISTER[name](layer=layer, **inner)
        assert isinstance(method, LayerMethod)
        return Decoded(method, **options)

    return build


for _inner in ("gradcam", "simple", "gradxact"):
    REGISTER[f"decoded-{_inner}"] = decoded(_inner)
