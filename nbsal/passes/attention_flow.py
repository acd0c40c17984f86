"""Gradients and relevance through the attention of one block, a few queries at a time, so that no map is ever whole.

A block runs with its attention cut out: what that mixes is a new leaf of the graph, at which gradients and relevance
arrive. `flow` takes both through the map to queries, keys and values, from where the graph of the block goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbsal.model.running.fused_attention import FusedAttention, fused_call
from nbsal.passes.lrp.mode import attach_proxy, proxy_of
from nbsal.passes.lrp.rules import Rules, divide
from nbsal.support.errors import ModelError

Filter = Callable[[Tensor], tuple[Tensor, Tensor]]  # of relevance: that which a map is computed of, and what goes on


@dataclass
class Cut:
    """Stands for the fused attention of a block that runs again: returns what it mixed before, as a leaf."""

    mixed: Tensor
    calls: list[FusedAttention] = field(default_factory=list)
    proxies: list[Tensor] = field(default_factory=list)  # of query, key and value

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        leaf = self.mixed.detach().requires_grad_()
        call, proxies = fused_call(leaf, *args, **kwargs), [proxy_of(each) for each in args[:3]]
        if call is None or self.calls:
            raise ModelError("A block runs another attention again than it ran before.", part="attention maps")
        attach_proxy(leaf, leaf.detach().requires_grad_())
        self.calls.append(call)
        self.proxies += [proxy for proxy in proxies if proxy is not None]
        return leaf


@dataclass(frozen=True)
class AttentionFlow:
    """What arrives at query, key and value; and the evidence, [batch, query, key].

    That is the relevance of the map times its gradient where positive, averaged over heads.
    """

    gradients: Sequence[Tensor]
    relevance: Sequence[Tensor]
    evidence: Tensor | None


@torch.no_grad()
def flow(
    attention: FusedAttention,
    relevance: Tensor,
    gradient: Tensor | None,
    attention_filter: Filter,
    rules: Rules,
    precision: torch.dtype,
) -> AttentionFlow:
    """What relevance and a gradient at the mixed values come to at what these are mixed of.

    Gradients are computed in `precision`; without one, there is no evidence.

    >>> x = torch.tensor([[[[2.0], [1.0]]]])
    >>> attention = FusedAttention(x, x, x, None, 1.0, torch.tensor([[[[1.8808], [1.7311]]]]))
    >>> one = torch.ones(1, 1, 2, 1)
    >>> parts = flow(attention, one, None, lambda arriving: (arriving, arriving), Rules(), torch.float32).relevance
    >>> [round(float(part.sum()), 2) for part in parts]  # half for the values, a quarter for queries and for keys
    [0.5, 0.5, 1.0]
    """
    shown, passed = attention_filter(relevance)
    onwards = _Relevance(attention, passed, rules)
    in_map = onwards if shown is passed else _Relevance(attention, shown, rules)
    slopes = None if gradient is None else _Gradients(attention, gradient, precision)
    evidence = None if slopes is None else attention.mean_map()
    keys_t = attention.key.mT.contiguous()
    for queries, keys in attention.chunks():
        if not any(each.arriving[:, :, queries].any() for each in (onwards, in_map, slopes) if each is not None):
            continue  # in the last block, both are 0 but for the deciding positions
        scores = attention.query[:, :, queries] @ keys_t[..., keys]
        weights = attention.softmax(scores * attention.scale, queries, keys)
        at_map = onwards.at_map(weights, queries, keys)
        if slopes is not None and evidence is not None:
            slope = slopes.at_map(queries, keys)
            product = slope * (at_map if in_map is onwards else in_map.at_map(weights, queries, keys))
            evidence[:, queries, keys] = product.relu_().mean(1)
            slopes.add(slope, weights.to(precision), queries, keys)
        onwards.add(at_map, scores, weights, queries, keys)
    return AttentionFlow([] if slopes is None else slopes.parts, onwards.result(), evidence)


class _Gradients:
    """Collects the gradients of query, key and value."""

    def __init__(self, attention: FusedAttention, gradient: Tensor, precision: torch.dtype) -> None:
        tensors = (attention.query, attention.key, attention.value)
        self._query, self._key, value = (tensor.detach().to(precision) for tensor in tensors)
        self.arriving, self._values_t, self._scale = gradient.to(precision), value.mT.contiguous(), attention.scale
        self._inner = (gradient * attention.mixed.detach()).sum(-1, keepdim=True).to(precision)
        self.parts = [torch.zeros_like(tensor) for tensor in (self._query, self._key, value)]

    def at_map(self, queries: slice, keys: slice) -> Tensor:
        return self.arriving[:, :, queries] @ self._values_t[..., keys]

    def add(self, slope: Tensor, weights: Tensor, queries: slice, keys: slice) -> None:
        """Add what the gradient at the map comes to, which is overwritten."""
        of_query, of_key, of_value = self.parts
        of_value[:, :, keys] += weights.mT @ self.arriving[:, :, queries]
        of_scores = slope.sub_(self._inner[:, :, queries]).mul_(weights).mul_(self._scale)
        of_query[:, :, queries] = of_scores @ self._key[:, :, keys]
        of_key[:, :, keys] += of_scores.mT @ self._query[:, :, queries]


class _Relevance:
    """Collects the relevance of query, key and value: each product of two of them hands half to either."""

    def __init__(self, attention: FusedAttention, relevance: Tensor, rules: Rules) -> None:
        self._rules = rules
        self._tensors = [tensor.detach() for tensor in (attention.query, attention.key, attention.value)]
        self._values_t = self._tensors[2].mT.contiguous()
        self.arriving = divide(relevance, attention.mixed.detach(), rules)
        self._parts = [torch.zeros_like(tensor) for tensor in self._tensors]

    def at_map(self, weights: Tensor, queries: slice, keys: slice) -> Tensor:
        return (self.arriving[:, :, queries] @ self._values_t[..., keys]).mul_(weights).div_(2)

    def add(self, at_map: Tensor, scores: Tensor, weights: Tensor, queries: slice, keys: slice) -> None:
        """Add what the relevance of the map comes to; softmax, scale and mask pass it on to the scores."""
        (query, key, _), (of_query, of_key, of_value) = self._tensors, self._parts
        of_value[:, :, keys] += weights.mT @ self.arriving[:, :, queries]
        part = divide(at_map, scores, self._rules)
        of_query[:, :, queries] = part @ key[:, :, keys]
        of_key[:, :, keys] += part.mT @ query[:, :, queries]

    def result(self) -> list[Tensor]:
        """The relevance of query, key and value."""
        return [part.mul_(tensor).div_(2) for part, tensor in zip(self._parts, self._tensors, strict=True)]
