"""Saved classes are restored by the annotations of their fields, and values of other types are refused."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from nbsal.model.loading.plain_values import from_plain, numbers, to_plain
from nbsal.support.arrays import Floats
from tests.cases import cases


@dataclass(frozen=True)
class Part:
    name: str
    place: tuple[int, str] | None = None


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...] = ()
    scores: Floats = field(default_factory=lambda: np.zeros(1))
    counts: Counter[str] = field(default_factory=Counter)
    share: float = 0.0


def test_what_was_made_plain_is_restored():
    whole = Whole((Part("a", (1, "b")), Part("c")), np.array([[0.5, 1.0]]), Counter(x=2), 1)
    plain = to_plain(whole, ("share",))
    assert plain == {
        "parts": [{"name": "a", "place": [1, "b"]}, {"name": "c", "place": None}],
        "scores": [[0.5, 1.0]],
        "counts": {"x": 2},
    }
    restored = from_plain(Whole, plain)
    assert (restored.parts, restored.counts, restored.share) == (whole.parts, whole.counts, 0.0)
    assert type(restored.counts) is Counter and (restored.scores == whole.scores).all()


def test_an_array_is_restored_by_an_alias():
    """As numpy 2.5 defines NDArray on Python 3.12 and later."""
    scalar = TypeVar("scalar", bound=np.generic)
    alias = TypeAliasType("alias", np.ndarray[Any, np.dtype[scalar]], type_params=(scalar,))
    assert from_plain(alias[np.int64], [1, 2]).tolist() == [1, 2]


@cases(
    "kind, value",
    [
        (Part, {"name": 1}),
        (Part, {"name": "a", "place": [1]}),  # too few
        (Part, {"name": "a", "place": [1, "b", "c"]}),  # too many
        (Part, {"name": "a", "place": [True, "b"]}),
        (tuple[Part, ...], {"name": "a"}),
        (Floats, [0.5, "1"]),
        (Floats, [0.5, True]),
        (Floats, [0.5, float("nan")]),
        (Floats, [0.5, float("inf")]),
        (float, "1"),
        (int, 1.0),
        (dict[str, int], {"a": "b"}),
    ],
)
def test_values_of_other_types_are_refused(kind, value):
    with pytest.raises(ValueError):
        from_plain(kind, value)


def test_whole_numbers_are_refused_where_they_are_not_whole():
    assert numbers([[1, 2]], np.int64).tolist() == [[1, 2]]
    with pytest.raises(ValueError):
        numbers([[1.5, 2]], np.int64)
