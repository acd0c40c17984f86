"""What a fused function of attention does not show, computed from its inputs: rows of its map, and means over heads.

A few queries are computed at a time, with the keys that any of them sees: their maps stay in the processor's cache,
while whole maps wait for the memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
    causal: bool = False  # whether each query sees the keys up to itself; then there is no mask

    @property
    def map_shape(self) -> tuple[int, int, int, int]:
        """The shape of its map, [batch, head, query, key]."""
        return (*self.query.shape[:3], self.key.shape[2])

    @torch.no_grad()
    def rows(self, positions: Tensor | None = None) -> Tensor:
        """The rows of the map of some queries, or of all, [batch, head, query, key]."""
        batch, heads, length, keys = self.map_shape
        positions = torch.arange(length) if positions is None else positions
        result, key = self.query.new_empty(batch, heads, len(positions), keys), self._key()
        for queries in self._slices(len(positions)):
            result[:, :, queries] = self._weights(positions[queries], key)
        return result

    @torch.no_grad()
    def mix(self) -> Tensor:
        """The values that its map mixes, [batch, head, query, width]."""
        result = self.query.new_empty(*self.map_shape[:3], self.value.shape[-1])
        key = self._key()
        for queries, keys in self.chunks():
            result[:, :, queries] = self._weights(queries, key, keys) @ self.value[:, :, keys]
        return result

    @torch.no_grad()
    def mean(self) -> Tensor:
        """The map, averaged over heads, [batch, query, key]."""
        result, key = self.mean_map(), self._key()
        for queries, keys in self.chunks():
            result[:, queries, keys] = self._weights(queries, key, keys).mean(1)
        return result

    @torch.no_grad()
    def mean_gradient(self, gradient: Tensor) -> Tensor:
        """The gradient at the map, averaged over heads; `gradient` is that of `mixed`."""
        heads = self.map_shape[1]
        queries, values = (tensor.transpose(1, 2).flatten(2) for tensor in (gradient, self.value))
        return queries @ values.mT / heads

    @torch.no_grad()
    def mean_evidence(self, gradient: Tensor) -> Tensor:
        """The map times its gradient where that is positive, averaged over heads; `gradient` is that of `mixed`.

        One text may have several gradients.
        """
        result, key, values = self.mean_map(len(gradient)), self._key(), self.value.mT
        for queries, keys in self.chunks():
            arriving = gradient[:, :, queries]
            if arriving.any():  # in the last block, it is 0 but for the deciding positions
                evidence = (arriving @ values[..., keys]).mul_(self._weights(queries, key, keys))
                result[:, queries, keys] = evidence.relu_().mean(1)
        return result

    def mean_map(self, count: int | None = None) -> Tensor:
        """Zeros for what is averaged over heads, for each text or for so many gradients, [count, query, key]."""
        batch, _, *size = self.map_shape
        return self.query.new_zeros(batch if count is None else count, *size)

    def chunks(self) -> Iterator[tuple[slice, slice]]:
        """As many queries at a time as CHUNK allows, and the keys from the first to the last that any of them sees."""
        length, count = self.map_shape[2:]
        for queries in self._slices(length):
            keys = slice(0, queries.stop if self.causal else count)
            if self.mask is not None:
                rows = self.mask[:, :, queries]
                hidden = max(torch.finfo(dtype).min for dtype in (rows.dtype, torch.float32))
                seen = (rows > hidden / 2).flatten(0, 2).any(0).nonzero()
                keys = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
            yield queries, keys

    def softmax(self, scores: Tensor, queries: slice | Tensor, keys: slice) -> Tensor:
        """The weights of some queries, from their scaled scores of some keys, which are overwritten."""
        if self.mask is not None:
            scores += self.mask[:, :, queries, keys]
        if self.causal:
            places = torch.arange(self.map_shape[3], device=scores.device)
            scores.masked_fill_(places[keys] > places[queries][:, None], -torch.inf)
        return scores.softmax(-1)

    def _slices(self, count: int) -> Iterator[slice]:
        """As many of some queries at a time as CHUNK allows."""
        batch, heads, _, keys = self.map_shape
        size = max(1, CHUNK // (batch * heads * keys))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    def _key(self) -> Tensor:
        """The key, scaled; in float32 at least, since products of half precision can overflow."""
        return self.key.mT.to(torch.promote_types(self.key.dtype, torch.float32)) * self.scale

    def _weights(self, queries: slice | Tensor, key: Tensor, keys: slice = slice(None)) -> Tensor:
        """The rows of the map of some queries, at some keys."""
        scores = self.query[:, :, queries].to(key) @ key[..., keys]
        return self.softmax(scores, queries, keys).to(self.query)


def fused_call(
    mixed: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> FusedAttention | None:
    """What a call of fused attention read, and mixed; None if its map cannot be computed of that.

    Masks are sums of eager attention (see `attention_maps.with_eager_masks`), dropout is off.
    """
    summed = attn_mask is None or (attn_mask.ndim == 4 and attn_mask.is_floating_point())
    if query.ndim != 4 or not summed or dropout_p or (is_causal and query.shape[2] != key.shape[2]):
        return None
    if enable_gqa:
        copies = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(copies, 1), value.repeat_interleave(copies, 1)
    key, value = (tensor.expand(-1, query.shape[1], -1, -1) for tensor in (key, value))  # one head may serve all
    if attn_mask is not None:
        attn_mask = attn_mask.expand(-1, -1, query.shape[2], -1)  # one row may serve all queries
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return FusedAttention(query, key, value, attn_mask, scale, mixed, is_causal)


class FusedRecorder(AttentionMode):
    """Keeps the calls of fused attention in order, and whether their maps can be computed of what they read.

    `keeps` says what of them: "all", the queries and "keys" that maps are computed of, or nothing. A mask that only
    hides what comes later is left to fused attention, which then computes half as much.
    """

    def __init__(self, keeps: str = "all") -> None:
        super().__init__()
        self._keeps = keeps
        self.calls: list[FusedAttention] = []
        self.shapes: list[tuple[int, int, int, int]] = []  # of the maps, [batch, head, query, key]
        self.readable = True
        self._causal: dict[Any, bool] = {}  # by the memory and shape of a mask

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func is scaled_dot_product_attention and self._is_causal(kwargs.get("attn_mask")):
            kwargs |= {"attn_mask": None, "is_causal": True}
        result = super().call(func, args, kwargs)
        if func is scaled_dot_product_attention:
            self._record(fused_call(result, *args, **kwargs))
        return result

    def _is_causal(self, mask: Tensor | None) -> bool:
        """Whether a mask hides from every position all later ones, and nothing else."""
        if mask is None or mask.ndim != 4 or mask.shape[2] != mask.shape[3] or not mask.is_floating_point():
            return False
        key = mask.data_ptr(), mask.shape
        if key not in self._causal:
            low = torch.finfo(mask.dtype).min
            hides = torch.full_like(mask, low).triu_(1)
            self._causal[key] = bool(torch.equal(mask.clamp(min=low), hides))
        return self._causal[key]

    def on_weights(self, weights: Tensor) -> Tensor:
        return weights

    def _record(self, call: FusedAttention | None) -> None:
        self.readable &= call is not None
        if call is None or not self.readable:
            return
        self.shapes.append(call.map_shape)
        if self._keeps:
            nothing = call.query.new_empty(0)
            self.calls.append(call if self._keeps == "all" else replace(call, value=nothing, mixed=nothing))


class Mixer(AttentionMode):
    """Computes fused attention a few queries at a time, and keeps what it returns, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed: list[Tensor] = []
        self.shapes: list[tuple[int, int, int, int]] = []
        self.readable = True

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func is not scaled_dot_product_attention:
            return func(*args, **kwargs)
        call = fused_call(args[0], *args, **kwargs)
        if call is None:
            self.readable = False
            return func(*args, **kwargs)
        self.mixed.append(call.mix())
        self.shapes.append(call.map_shape)
        return self.mixed[-1]
