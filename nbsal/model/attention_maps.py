"""The attention weights of a stock model while it runs: recorded, or set to zero for some heads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from nbsal.errors import ModelError
from nbsal.model import restore
from nbsal.model.composite import transformer_of

SOFTMAX_FUNCTIONS = (torch.nn.functional.softmax, torch.softmax, Tensor.softmax)


class AttentionMode(restore.Mode):
    """Changes or records the output of every attention softmax, which is [batch, head, query, key]."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if not self.active or func not in SOFTMAX_FUNCTIONS or args[0].ndim != 4:
            return func(*args, **kwargs)
        if args[0].dtype == torch.float64:
            kwargs.pop("dtype", None)  # some models request float32 here, which would round float64
        return self.on_weights(func(*args, **kwargs))

    def on_weights(self, weights: Tensor) -> Tensor:
        """What the model reads in place of the attention weights of its next block."""
        raise NotImplementedError


class AttentionRecorder(AttentionMode):
    """Keeps the attention weights of every block, in order; those of a decoder on an encoder are not `square`."""

    def __init__(self, square: bool = True) -> None:
        super().__init__()
        self.maps: list[Tensor] = []
        self._square = square

    def on_weights(self, weights: Tensor) -> Tensor:
        """The weights as they are."""
        positions, weights = _without_sink(weights) if self._square else (weights, weights)
        self.maps.append(positions)
        return weights


class LatestAttention(AttentionMode):
    """Keeps the attention weights of the latest block, and counts the blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._latest: list[Tensor] = []

    def on_weights(self, weights: Tensor) -> Tensor:
        """The weights as they are."""
        positions, weights = _without_sink(weights)
        self._latest[:] = [positions]
        self.count += 1
        return weights

    def take(self) -> Tensor:
        """The weights of the latest block, which are kept no longer."""
        return self._latest.pop()


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
    """Sets the attention weights of some heads to zero, and so what their blocks' output projections read of them."""

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


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Run the model with eager attention, and restore its own implementation afterwards."""
    transformer = transformer_of(model)
    before = transformer.config._attn_implementation
    with restore.Changes(model) as changes:
        if before != "eager":
            changes.record_undo(transformer.set_attn_implementation, before)
            transformer.set_attn_implementation("eager")
        yield


@contextmanager
def with_mode(model: Any, mode: AttentionMode) -> Iterator[None]:
    """Run the model with eager attention under that mode."""
    with eager(model), restore.Changes(model) as changes:
        mode.enter(changes)
        yield
