"""Weights of few bits: how far they are off, and how their bytes are read."""

import numpy as np
import pytest

from nbsal.support.rounding import BLOCK, rounded_weights, unpacked


def replica(data: bytes, size: int, bits: int) -> list[float]:
    """A slow replica of how a page reads packed weights."""
    blocks = -(-size // BLOCK)
    scales = np.frombuffer(data[: 2 * blocks], "<f2")
    levels = []
    for byte in data[2 * blocks :]:
        halves = [byte] if bits == 8 else [byte & 15, byte >> 4]
        levels += [half - (1 << bits) if half >= 1 << (bits - 1) else half for half in halves]
    return [float(scales[place // BLOCK]) * levels[place] for place in range(size)]


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("shape", [(3, 64), (5, 7), (33,)])
def test_bytes_stand_for_the_rounded_weights(bits, shape):
    weights = np.random.default_rng(0).normal(size=shape).astype("float32")
    rounded = rounded_weights(weights, bits)
    assert rounded.values().shape == shape and rounded.values().dtype == np.float32
    assert replica(rounded.packed(), weights.size, bits) == rounded.values().ravel().tolist()
    assert np.array_equal(unpacked(rounded.packed(), shape), rounded.values())
    assert np.array_equal(rounded_weights(rounded.values(), bits).values(), rounded.values())  # nothing is lost twice


def test_eight_bits_are_at_most_half_a_step_off():
    weights = np.random.default_rng(1).normal(size=(40, BLOCK)).astype("float32")
    steps = np.abs(weights).max(1, keepdims=True) / 127
    assert (np.abs(rounded_weights(weights, 8).values() - weights) <= 0.51 * steps).all()


def test_four_bits_lose_less_than_with_the_scale_of_the_largest_weight():
    weights = np.random.default_rng(2).normal(size=(200, BLOCK)).astype("float32")
    scales = (np.abs(weights).max(1, keepdims=True) / 7).astype("float16").astype("float32")
    plain = np.rint(weights / scales) * scales
    ours, theirs = (np.linalg.norm(each - weights) for each in (rounded_weights(weights, 4).values(), plain))
    assert ours < 0.88 * theirs


def test_zeros_stay_zeros_and_the_largest_of_either_sign_is_kept():
    weights = np.zeros((3, BLOCK), "float32")
    weights[1, 0], weights[2, 5] = -8.0, 8.0
    for bits in (4, 8):
        assert np.abs(rounded_weights(weights, bits).values() - weights).max() <= 0.02
