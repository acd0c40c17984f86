"""Rows of attention maps that a fused function does not show, and means over heads, computed from its inputs.

A few queries are computed at a time: their maps stay in the processor's cache, while whole maps wait for the memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from nbsal.model.running.attention_maps import AttentionMode

CHUNK = 2**19  # numbers of the maps that are computed at once


@dataclass(frozen=True)
class FusedAttention:
    """One call of fused attention: what it read, [batch, head, position, width], and the values that it mixed."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None  # what is added to the scores of queries and keys
    scale: float
    mixed: Tensor

    @property
    def map_shape(self) -> tuple[int, int, int, int]:
        """The shape of its map, [batch, head, query, key]."""
        return (*self.query.shape[:3], self.key.shape[2])

    @torch.no_grad()
    def rows(self, positions: Tensor) -> Tensor:
        """The rows of the map of some queries, [batch, head, query, key]."""
        batch, heads, _, keys = self.map_shape
        result, key = self.query.new_empty(batch, heads, len(positions), keys), self._key()
        for queries in self._chunks(len(positions)):
            result[:, :, queries] = self._weights(positions[queries], key)
        return result

    @torch.no_grad()
    def mean(self) -> Tensor:
        """The map, averaged over heads, [batch, query, key]."""
        result = self._empty()
        key = self._key()
        for queries in self._chunks():
            result[:, queries] = self._weights(queries, key).mean(1)
        return result

    @torch.no_grad()
    def mean_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient at the map, averaged over heads; `gradient` is that of `mixed`."""
        heads = self.map_shape[1]
        queries, values = (tensor.transpose(1, 2).flatten(2) for tensor in (gradient, self.value))
        return queries @ values.mT / heads

    @torch.no_grad()
    def mean_evidence(self, gradient: Tensor) -> Tensor:
        """The map times its gradient where that is positive, averaged over heads; `gradient` is that of `mixed`."""
        result, key, values = self._empty().zero_(), self._key(), self.value.mT
        for queries in self._chunks():
            arriving = gradient[:, :, queries]
            if arriving.any():  # in the last block, it is 0 but for the deciding positions
                result[:, queries] = self._weights(queries, key).mul_(arriving @ values).relu_().mean(1)
        return result

    def _empty(self) -> Tensor:
        batch, _, *size = self.map_shape
        return self.query.new_empty(batch, *size)

    def _chunks(self, count: int | None = None) -> Iterator[slice]:
        """As many of some queries at a time as CHUNK allows; by default, of all."""
        batch, heads, length, keys = self.map_shape
        size = max(1, CHUNK // (batch * heads * keys))
        return (slice(start, start + size) for start in range(0, length if count is None else count, size))

    def _key(self) -> Tensor:
        """The key, scaled; in float32 at least, since products of half precision can overflow."""
        return self.key.mT.to(torch.promote_types(self.key.dtype, torch.float32)) * self.scale

    def _weights(self, queries: slice | Tensor, key: Tensor) -> Tensor:
        """The rows of the map of some queries."""
        scores = self.query[:, :, queries].to(key) @ key
        if self.mask is not None:
            scores += self.mask[:, :, queries]
        return scores.softmax(-1).to(self.query)


class FusedRecorder(AttentionMode):
    """Keeps the calls of fused attention in order, and whether their maps can be computed of what they read.

    Values, and what is mixed of them, are kept for `gradients` only.
    """

    def __init__(self, gradients: bool = True) -> None:
        super().__init__()
        self._gradients = gradients
        self.calls: list[FusedAttention] = []
        self.readable = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        if self.active and func is scaled_dot_product_attention:
            self._record(result, *args, **kwargs or {})
        return result

    def on_weights(self, weights: Tensor) -> Tensor:
        return weights

    def _record(
        self,
        mixed: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> None:
        """Keep a call; masks are sums of eager attention (see `attention_maps.with_eager_masks`), dropout is off."""
        summed = attn_mask is None or (attn_mask.ndim == 4 and attn_mask.is_floating_point())
        self.readable &= query.ndim == 4 and summed and not is_causal and not dropout_p
        if not self.readable:
            return
        if enable_gqa:
            copies = query.shape[1] // key.shape[1]
            key, value = key.repeat_interleave(copies, 1), value.repeat_interleave(copies, 1)
        key, value = (tensor.expand(-1, query.shape[1], -1, -1) for tensor in (key, value))  # one head may serve all
        if attn_mask is not None:
            attn_mask = attn_mask.expand(-1, -1, query.shape[2], -1)  # one row may serve all queries
        if not self._gradients:
            value = mixed = query.new_empty(0)
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        self.calls.append(FusedAttention(query, key, value, attn_mask, scale, mixed))
