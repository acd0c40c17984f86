"""HeadMask: which attention heads carry information of a kind, as sets that can be joined, cut and saved."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nbsal.errors import InputError
from nbsal.validation import loading

Heads = NDArray[np.bool_]  # [block, head]


@dataclass(frozen=True, eq=False)
class HeadMask:
    """Heads selected for syntactic relations, for positions, and for no named reason.

    >>> mask = HeadMask.from_array([[1, 0], [0, 0]])
    >>> int((~mask).selected.sum()), int((mask | ~mask).selected.sum())
    (3, 4)
    """

    positional: Heads
    relations: Mapping[str, Heads] = field(default_factory=dict)
    unnamed: Heads = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not isinstance(self.relations, Mapping):
            raise InputError(f"relations is a dict from names to masks, not {type(self.relations).__name__}.")
        object.__setattr__(self, "positional", _heads(self.positional))
        object.__setattr__(self, "relations", {name: _heads(part) for name, part in self.relations.items()})
        given = np.zeros_like(self.positional) if self.unnamed is None else _heads(self.unnamed)
        object.__setattr__(self, "unnamed", given)
        if len({part.shape for part in (self.positional, self.unnamed, *self.relations.values())}) > 1:
            raise InputError("The parts of a head mask must all have the shape [blocks, heads].")

    @classmethod
    def from_array(cls, array: ArrayLike) -> Self:
        """A mask of 0 and 1, [blocks, heads], selected for no named reason."""
        heads = _heads(array)
        return cls(positional=np.zeros_like(heads), unnamed=heads)

    @property
    def syntactic(self) -> Heads:
        """Heads selected for some relation."""
        found: Heads = np.any([np.zeros_like(self.positional), *self.relations.values()], axis=0)
        return found

    @property
    def selected(self) -> Heads:
        """Heads selected for any reason."""
        return self.syntactic | self.positional | self.unnamed

    @property
    def shape(self) -> tuple[int, int]:
        """Blocks and heads."""
        return self.positional.shape

    def parts(self, weighted: bool = False) -> list[NDArray[np.float64]]:
        """The reasons as separate masks; `weighted` counts a head once for each of its relations."""
        syntactic = np.sum(list(self.relations.values()), axis=0) if weighted and self.relations else self.syntactic
        found = [np.asarray(part, np.float64) for part in (syntactic, self.positional, self.unnamed)]
        return [part for part in found if part.any()] or found[:1]

    def matched_random(self, seed: int) -> "HeadMask":
        """As many heads for the same reasons, with the same overlaps, at random places."""
        order = np.random.default_rng(seed).permutation(self.positional.size)
        return self._map(lambda part: part.ravel()[order].reshape(part.shape))

    def corrupted(self, rate: float, seed: int) -> "HeadMask":
        """This mask and, at random, the share `rate` of the heads it leaves out, to the nearest whole head."""
        given: Any = rate
        if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= rate <= 1:
            raise InputError(f"rate is a share from 0 to 1, not {rate!r:.60}.")
        free = np.flatnonzero(~self.selected)
        added = self.unnamed.copy()
        chosen = np.random.default_rng(seed).permutation(free)[: round(len(free) * rate)]
        added.ravel()[chosen] = True
        return HeadMask(self.positional, self.relations, added)

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        content = {
            "nbsal-head-mask": 1,
            "positional": self.positional.astype(int).tolist(),
            "relations": {name: part.astype(int).tolist() for name, part in self.relations.items()},
            "unnamed": self.unnamed.astype(int).tolist(),
        }
        Path(path).write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "HeadMask":
        """Read what `save` wrote."""
        with loading(path, "saved head mask"):
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if content["nbsal-head-mask"] != 1:
                raise InputError(f"{path} holds a head mask in a format this nbsal does not read.")
            return cls(content["positional"], content["relations"], content["unnamed"])

    def __or__(self, other: "HeadMask") -> "HeadMask":
        return self._join(other, np.logical_or)

    def __and__(self, other: "HeadMask") -> "HeadMask":
        """The heads that both select, for the reasons they share; a head without a named one agrees with any."""
        found = self._join(other, lambda one, two: (one & two) | (one & other.unnamed) | (self.unnamed & two))
        named = found.syntactic | found.positional
        return HeadMask(found.positional, found.relations, self.selected & other.selected & ~named)

    def __invert__(self) -> "HeadMask":
        return HeadMask.from_array(~self.selected)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeadMask) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        named = ", ".join(f"{name} {int(part.sum())}" for name, part in self.relations.items())
        reasons = ", ".join(filter(None, [named, f"positional {int(self.positional.sum())}"]))
        return f"HeadMask({int(self.selected.sum())} of {self.selected.size} heads: {reasons})"

    def _map(self, change: Callable[[Heads], Heads]) -> "HeadMask":
        relations = {name: change(part) for name, part in self.relations.items()}
        return HeadMask(change(self.positional), relations, change(self.unnamed))

    def _join(self, other: "HeadMask", join: Callable[[Heads, Heads], Heads]) -> "HeadMask":
        if not isinstance(other, HeadMask):
            raise InputError(f"A head mask is joined with another one, not with {type(other).__name__}.")
        if self.shape != other.shape:
            raise InputError(f"Head masks of shapes {self.shape} and {other.shape} belong to different models.")
        nothing = np.zeros_like(self.positional)
        names = dict.fromkeys([*self.relations, *other.relations])
        relations = {n: join(self.relations.get(n, nothing), other.relations.get(n, nothing)) for n in names}
        return HeadMask(join(self.positional, other.positional), relations, join(self.unnamed, other.unnamed))

    def _key(self) -> tuple[Any, ...]:
        named = tuple(sorted((name, part.tobytes()) for name, part in self.relations.items()))
        return self.shape, self.positional.tobytes(), self.unnamed.tobytes(), named


def _heads(array: ArrayLike) -> Heads:
    found = np.asarray(array)
    if found.ndim != 2 or not found.size or not np.isin(found, (0, 1)).all():
        raise InputError("A head mask is an array of 0 and 1 with the shape [blocks, heads].")
    return found.astype(bool)
