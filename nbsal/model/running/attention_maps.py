"""The attention weights of a stock model while it runs: recorded, or set to zero for some heads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from nbsal.model.loading.composite import transformer_of
from nbsal.model.running import architecture
from nbsal.model.running.hooks import hooks
from nbsal.model.running.modes import Mode
from nbsal.support.errors import ModelError

FUSED = "sdpa"  # the implementation that computes attention in one function, which shows no weights
SOFTMAX_FUNCTIONS = (torch.nn.functional.softmax, torch.softmax, Tensor.softmax)


class AttentionMode(Mode):
    """Changes or records the output of every attention softmax, which is [batch, head, query, key]."""

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if func is scaled_dot_product_attention:
            return self.on_mixed(func(*args, **kwargs))
        if func not in SOFTMAX_FUNCTIONS or args[0].ndim != 4:
            return func(*args, **kwargs)
        if args[0].dtype == torch.float64:
            kwargs.pop("dtype", None)  # some models request float32 here, which would round float64
        return self.on_weights(func(*args, **kwargs))

    def on_weights(self, weights: Tensor) -> Tensor:
        """What the model reads in place of the attention weights of its next block."""
        raise NotImplementedError

    def on_mixed(self, values: Tensor) -> Tensor:
        return values


class AttentionRecorder(AttentionMode):
    """Keeps the attention weights of every block, in order; those of a decoder on an encoder are not `square`."""

    def __init__(self, square: bool = True) -> None:
        super().__init__()
        self.maps: list[Tensor] = []
        self._square = square

    def on_weights(self, weights: Tensor) -> Tensor:
        positions, weights = _without_sink(weights) if self._square else (weights, weights)
        self.maps.append(positions)
        return weights


class LatestAttention(AttentionRecorder):
    """Keeps the attention weights of the latest block, and counts the blocks."""

    count = 0

    def on_weights(self, weights: Tensor) -> Tensor:
        self.maps.clear()
        self.count += 1
        return super().on_weights(weights)

    def take(self) -> Tensor:
        """The weights of the latest block, which are kept no longer."""
        return self.maps.pop()


def _without_sink(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of positions, and all weights as the model reads them, made of the former.

    The last column of a sink (gpt-oss) is no position.
    """
    size = weights.shape[-2]
    if weights.shape[-1] != size + 1:
        return weights, weights
    positions = weights[..., :size]
    return positions, torch.cat([positions, weights[..., size:]], -1)


class HeadSwitch(AttentionMode):
    """Sets the attention weights of some heads to zero, and so what their blocks' output projections read of them.

    Where the model computes no weights (`fused`), it sets the values to zero that these would have mixed.
    """

    def __init__(self, off: Tensor) -> None:
        super().__init__()
        self.off = off
        self.block = 0

    def on_weights(self, weights: Tensor) -> Tensor:
        """The weights, with zero for the heads that are off."""
        if self.block < len(self.off):
            if weights.shape[1] != self.off.shape[1]:
                message = f"The model computes {weights.shape[1]} attention maps a block, not {self.off.shape[1]}."
                raise ModelError(message, part="attention maps")
            weights = weights.masked_fill(self.off[self.block, :, None, None], 0.0)
        self.block += 1
        return weights

    def on_mixed(self, values: Tensor) -> Tensor:
        return self.on_weights(values)


def shows_own(model: Any) -> bool:
    """Whether the maps that a model can show are those of its attention; Falcon adds position biases (alibi) twice."""
    transformer = transformer_of(model)
    return transformer._can_set_attn_implementation() or not getattr(transformer.config, "alibi", False)


def _set_attention(transformer: Any, implementation: str) -> None:
    """Choose how a model computes attention; Falcon refuses to be told, but reads its configuration."""
    if transformer._can_set_attn_implementation():
        transformer.set_attn_implementation(implementation)
        return
    if not shows_own(transformer):
        message = (
            f"{type(transformer).__name__} adds its position biases (alibi) twice where it computes attention maps, so "
            "that these are not those of the model. Use a gradient method or occlusion."
        )
        raise ModelError(message, part="attention maps")
    transformer.config._attn_implementation = implementation


def is_fused(model: Any) -> bool:
    """Whether a model computes attention in one function, which shows no weights."""
    return bool(transformer_of(model).config._attn_implementation == FUSED)


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Run the model with eager attention, and restore its own implementation afterwards."""
    transformer = transformer_of(model)
    before = transformer.config._attn_implementation
    if before == "eager":
        yield
        return
    try:
        _set_attention(transformer, "eager")
        yield
    finally:
        _set_attention(transformer, before)


@contextmanager
def with_mode(model: Any, mode: AttentionMode) -> Iterator[None]:
    """Run the model with eager attention under that mode."""
    with eager(model), mode:
        yield


@contextmanager
def with_switch(model: Any, switch: HeadSwitch) -> Iterator[None]:
    """Run the model without some heads, with its own attention if that is fused: it is quicker than eager attention."""
    with switch if is_fused(model) else with_mode(model, switch):
        yield


@contextmanager
def with_eager_masks(model: Any, mode: AttentionMode) -> Iterator[None]:
    """Run the model as `with_mode` does, but with its own attention if that is fused: it is quicker, without weights.

    The masks that blocks read are those of eager attention, under which they can run again.
    """
    transformer, first_block = transformer_of(model), architecture.blocks(model)[0]
    fused = is_fused(model)

    def choose(module: nn.Module, args: Any, kwargs: Any) -> None:
        _set_attention(transformer, FUSED)

    with with_mode(model, mode), hooks([first_block] if fused else [], choose, first=True):
        yield
