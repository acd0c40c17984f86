"""Weights rounded to few bits, in blocks that share a scale: how they are stored, and what they stand for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

BLOCK = 32  # weights that share a scale
FULL = 32  # bits of a weight that is not rounded
SHRINKS = np.linspace(0.8, 1.0, 5)  # of a scale of 4 bits: cutting off the largest weight may cost less than it saves


@dataclass(frozen=True)
class Rounded:
    """Weights as whole numbers [block, BLOCK], which times the block's scale in half precision stand for them."""

    shape: tuple[int, ...]
    bits: int
    levels: NDArray[np.int8]
    scales: NDArray[np.float16]

    def values(self) -> Floats:
        """The weights that the whole numbers stand for, exact in float32."""
        flat = (self.levels * self.scales.astype(np.float32)[:, None]).ravel()
        return flat[: int(np.prod(self.shape))].reshape(self.shape)

    def packed(self) -> bytes:
        """All scales, little-endian, and then all levels; of 4 bits two in a byte, the first in its lower half."""
        levels = self.levels.ravel()
        if self.bits == 4:
            low, high = (levels & 15).astype(np.uint8).reshape(-1, 2).T
            levels = low | high << 4
        return self.scales.astype("<f2").tobytes() + levels.tobytes()


def rounded_weights(weights: Any, bits: int) -> Rounded:
    """Round weights of any shape to 8 or 4 bits.

    >>> rounded_weights([[0.5, -1.0, 0.25]], 8).values().round(2).tolist()
    [[0.5, -1.0, 0.25]]
    """
    array: Floats = np.asarray(weights, np.float32)
    padding = -array.size % BLOCK
    blocks = np.pad(array.ravel(), (0, padding)).reshape(-1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)[:, 0]
    if bits == 8:
        scales = _half(largest / 127)
        return Rounded(array.shape, bits, _levels(blocks, scales, -127, 127), scales)
    best_scales = np.zeros(len(blocks), np.float16)
    best_levels = np.zeros(blocks.shape, np.int8)
    least = np.full(len(blocks), np.inf, np.float32)
    for end in (-8, 7):  # the level of the largest weight: there is one more below 0 than above
        for shrink in SHRINKS:
            scales = _half(largest * shrink / end)
            levels = _levels(blocks, scales, -8, 7)
            errors = np.square(levels * scales.astype(np.float32)[:, None] - blocks).sum(1)
            better = errors < least
            least[better], best_scales[better], best_levels[better] = errors[better], scales[better], levels[better]
    return Rounded(array.shape, bits, best_levels, best_scales)


def unpacked(packed: bytes, shape: tuple[int, ...]) -> Floats:
    """The weights of that shape that packed bytes stand for; their number says how many bits a weight has.

    >>> unpacked(rounded_weights([[0.5, -1.0, 0.25]], 4).packed(), (1, 3)).tolist()
    [[0.5, -1.0, 0.25]]
    """
    blocks = -(-int(np.prod(shape)) // BLOCK)
    scales = np.frombuffer(packed, "<f2", blocks)
    levels = np.frombuffer(packed, np.int8, offset=scales.nbytes)
    bits = 8 * levels.size // (blocks * BLOCK)
    if bits == 4:
        levels = np.stack([levels << 4 >> 4, levels >> 4], -1)  # with their signs
    return Rounded(shape, bits, levels.reshape(-1, BLOCK), scales).values()


def _half(scales: Any) -> NDArray[np.float16]:
    return np.asarray(scales).astype(np.float16)


def _levels(blocks: Floats, scales: NDArray[np.float16], lowest: int, highest: int) -> NDArray[np.int8]:
    """The whole numbers that stand for weights at these scales; a scale of 0 stands for zeros only."""
    divisors = scales.astype(np.float32)[:, None]
    shares = np.divide(blocks, divisors, out=np.zeros_like(blocks), where=divisors != 0)
    return np.rint(shares).clip(lowest, highest).astype(np.int8)
