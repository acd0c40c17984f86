"""What a saved result has in its fields is restored by their annotations, whatever they hold, and nothing else is."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from nbsal.model.loading.columns import LONG, pack, unpack
from nbsal.support.arrays import Floats
from tests.cases import cases


@dataclass(frozen=True)
class Part:
    name: str
    place: tuple[int, int | None] | None = None
    kind: Literal["a", "b"] = "a"
    share: float = 0.0


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...] = ()
    texts: tuple[str | tuple[str, str], ...] = ()
    spans: tuple[tuple[tuple[int, int, int], ...], ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counts: dict[str, Counter[int]] = field(default_factory=dict)
    curves: Mapping[tuple[str, str], int | float] = field(default_factory=dict)
    free: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    either: int | Literal["all"] = 0
    inner: "Whole | None" = None


INNER = Whole(either="all", text="ü" * LONG + "😀", free={"a": [1.5, None, {"b": "c"}]})
WHOLES = [
    Whole(),
    INNER,
    Whole((Part("", None), Part("é😀", (1, None), "b", 0.1), Part("c", (2**40, -3), share=2.0)), inner=INNER),
    Whole(texts=("a", ("b", ""), "c"), spans=((), ((0, 1, 300), (1, -2, 70_000)), ())),
    Whole(groups={"x": ("a", "b"), "": ()}, counts={"n": Counter({1: 2, -5: 300}), "m": Counter()}),
    Whole(curves={("a", "b"): 1, ("c", "d"): 0.5}),
]


@cases("whole", WHOLES)
def test_what_is_packed_is_unpacked(whole):
    arrays = {}
    stored = json.loads(json.dumps(pack(Whole, whole, arrays)))
    restored = unpack(Whole, stored, arrays)
    assert restored == whole and repr(restored) == repr(whole) and not arrays


def test_arrays_keep_their_bits_and_fields_can_be_left_out():
    @dataclass
    class Measured:
        scores: Floats
        more: dict[str, Floats]
        model: Any = None

    Measured.__annotations__ = {"scores": Floats, "more": dict[str, Floats], "model": Any}
    scores, arrays = np.random.default_rng(0).random((3, 4)), {}
    stored = pack(Measured, Measured(scores, {"a": scores[:0], "b": scores.T}, object()), arrays, ["model"])
    restored = unpack(Measured, json.loads(json.dumps(stored)), arrays)
    assert np.array_equal(restored.scores, scores) and restored.scores.flags.writeable and restored.model is None
    assert restored.more["a"].shape == (0, 4) and np.array_equal(restored.more["b"], scores.T)


def test_many_values_are_few_small_arrays():
    whole, arrays = Whole(spans=(((0, 5, 9),) * 1000,) * 50), {}
    assert len(json.dumps(pack(Whole, whole, arrays))) < 4000
    assert sum(array.nbytes for array in arrays.values()) < 4 * 50_000


@cases(
    "whole",
    [
        Whole(parts=(Part(1),)),
        Whole(parts=(Part("a", share="b"),)),
        Whole(spans=(((0, 1.5, 2),),)),
        Whole(spans=(((0, 1, 10**30),),)),
        Whole(parts=(Part("\ud800"),)),
        Whole(parts=(Part("a", (1, "b")),)),
    ],
)
def test_values_of_other_types_are_not_packed(whole):
    with pytest.raises((ValueError, AttributeError, OverflowError)):
        pack(Whole, whole, {})
