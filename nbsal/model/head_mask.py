"""Sets of attention heads, selected for named reasons, that can be combined and saved."""

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nbsal.model.loading.plain_values import numbers
from nbsal.model.loading.result_file import load_result, save_result
from nbsal.model.loading.saved_files import check_format, read_json
from nbsal.support.arrays import Flags
from nbsal.support.errors import InputError
from nbsal.support.validation import checked, real_number, seed_number

FORMAT = 1  # of JSON, which 0.2.0 wrote during its development
NOUN = "head mask"
Heads = Flags  # [block, head]


@dataclass(frozen=True, eq=False)
@checked
class HeadMask:
    """Attention heads selected for syntactic relations, for positions, or for no named reason.

    `provenance` has the thresholds of the study that selected the heads, and how many heads are within an interval of
    one; it is empty for masks that were not selected by a study, or changed since.

    >>> HeadMask([[1, 0]], provenance={"uncertain_selected": 1})
    HeadMask(1 of 2 heads: positional 1; uncertain: 1 of these may be below their threshold, 0 of the others above)
    >>> mask = HeadMask.from_array([[1, 0], [0, 0]])
    >>> int((~mask).selected.sum()), int((mask | ~mask).selected.sum())
    (3, 4)
    """

    positional: Heads
    relations: Mapping[str, Heads] = field(default_factory=dict)
    unnamed: Heads = None  # type: ignore[assignment]
    provenance: Mapping[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.relations, Mapping):
            raise InputError(
                f"relations must be a dict from names to masks, not {type(self.relations).__name__}.",
                argument="relations",
                value=self.relations,
            )
        object.__setattr__(self, "positional", _heads(self.positional))
        object.__setattr__(self, "relations", {name: _heads(part) for name, part in self.relations.items()})
        unnamed = np.zeros_like(self.positional) if self.unnamed is None else _heads(self.unnamed)
        object.__setattr__(self, "unnamed", unnamed)
        shapes = {part.shape for part in (self.positional, self.unnamed, *self.relations.values())}
        if len(shapes) > 1:
            message = f"All parts of a head mask must have the same shape [blocks, heads], not {sorted(shapes)}."
            raise InputError(message, argument="mask", value=shapes)

    @classmethod
    def from_array(cls, array: ArrayLike) -> Self:
        """A mask from an array of 0 and 1, [blocks, heads], selected for no named reason."""
        heads = _heads(array)
        return cls(positional=np.zeros_like(heads), unnamed=heads)

    @property
    def syntactic(self) -> Heads:
        """Heads selected for at least one relation."""
        heads: Heads = np.any([np.zeros_like(self.positional), *self.relations.values()], axis=0)
        return heads

    @property
    def selected(self) -> Heads:
        """Heads selected for any reason."""
        return self.syntactic | self.positional | self.unnamed

    @property
    def shape(self) -> tuple[int, int]:
        """The number of blocks and of heads per block."""
        return self.positional.shape

    def parts(self, weighted: bool = False) -> list[NDArray[np.float64]]:
        """One array per kind of reason that selects a head; `weighted` counts a head once for each of its relations."""
        syntactic = np.sum(list(self.relations.values()), axis=0) if weighted and self.relations else self.syntactic
        parts = [np.asarray(part, np.float64) for part in (syntactic, self.positional, self.unnamed)]
        return [part for part in parts if part.any()] or parts[:1]

    def matched_random(self, seed: int) -> "HeadMask":
        """A mask with as many heads for each reason, and the same overlaps, at random places."""
        order = np.random.default_rng(seed_number(seed)).permutation(self.positional.size)

        def shuffle(part: Heads) -> Heads:
            return part.ravel()[order].reshape(part.shape)

        relations = {name: shuffle(part) for name, part in self.relations.items()}
        return HeadMask(shuffle(self.positional), relations, shuffle(self.unnamed))

    def corrupted(self, rate: float, seed: int) -> "HeadMask":
        """This mask plus random heads: the share `rate` of those it leaves out, rounded to whole heads.

        The other heads keep their reasons, which Mask-LRP rescales separately. For a mask of plain heads, which is
        transformer attribution if it has all of them, use `HeadMask.from_array(mask.corrupted(rate, seed).selected)`.
        """
        share = real_number(rate, "rate")
        if not 0 <= share <= 1:
            raise InputError(f"rate must be a share from 0 to 1, not {rate!r:.60}.", argument="rate", value=rate)
        free = np.flatnonzero(~self.selected)
        unnamed = self.unnamed.copy()
        added = np.random.default_rng(seed_number(seed)).permutation(free)[: round(len(free) * share)]
        unnamed.ravel()[added] = True
        return HeadMask(self.positional, self.relations, unnamed)

    def save(self, path: str | Path) -> None:
        """Save the mask in a file of its own format."""
        save_result(path, HeadMask, NOUN, self, _check)

    @classmethod
    def load(cls, path: str | Path) -> "HeadMask":
        """Load a mask that `save` wrote."""
        return load_result(path, HeadMask, NOUN, _load_json, _check)

    def __or__(self, other: "HeadMask") -> "HeadMask":
        return self._join(other, np.logical_or)

    def __and__(self, other: "HeadMask") -> "HeadMask":
        """The heads that both masks select, for their common reasons; an unnamed reason matches any."""
        common = self._join(other, lambda a, b: (a & b) | (a & other.unnamed) | (self.unnamed & b))
        named = common.syntactic | common.positional
        return HeadMask(common.positional, common.relations, self.selected & other.selected & ~named)

    def __invert__(self) -> "HeadMask":
        return HeadMask.from_array(~self.selected)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeadMask) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        named = ", ".join(f"{name} {int(part.sum())}" for name, part in self.relations.items())
        reasons = ", ".join(filter(None, [named, f"positional {int(self.positional.sum())}"]))
        reasons = f": {reasons}{self._uncertainty()}" if (self.syntactic | self.positional).any() else ""
        return f"HeadMask({int(self.selected.sum())} of {self.selected.size} heads{reasons})"

    def _uncertainty(self) -> str:
        """How many heads may be on the wrong side of their threshold, if the mask's study says so."""
        selected, left_out = (self.provenance.get(f"uncertain_{part}", 0) for part in ("selected", "left_out"))
        if not selected and not left_out:
            return ""
        return f"; uncertain: {selected} of these may be below their threshold, {left_out} of the others above"

    def _join(self, other: "HeadMask", join: Callable[[Heads, Heads], Heads]) -> "HeadMask":
        if not isinstance(other, HeadMask):
            raise InputError(
                f"A head mask can only be combined with another HeadMask, not with {type(other).__name__}.",
                argument="mask",
                value=other,
            )
        if self.shape != other.shape:
            message = f"Head masks of shapes {self.shape} and {other.shape} belong to different models."
            raise InputError(message, argument="mask", value=other)
        empty = np.zeros_like(self.positional)
        names = dict.fromkeys([*self.relations, *other.relations])
        relations = {n: join(self.relations.get(n, empty), other.relations.get(n, empty)) for n in names}
        return HeadMask(join(self.positional, other.positional), relations, join(self.unnamed, other.unnamed))

    def _key(self) -> tuple[Any, ...]:
        named = tuple(sorted((name, part.tobytes()) for name, part in self.relations.items()))
        return self.shape, self.positional.tobytes(), self.unnamed.tobytes(), named


def _load_json(path: str | Path) -> HeadMask:
    """Load what 0.2.0 wrote during its development."""
    content = read_json(path)
    check_format(path, content["nbsal-head-mask"], FORMAT)
    relations = {name: numbers(part, np.int64) for name, part in content["relations"].items()}
    positional, unnamed = (numbers(content[name], np.int64) for name in ("positional", "unnamed"))
    return HeadMask(positional, relations, unnamed, content["provenance"])


def _check(mask: HeadMask) -> None:
    """Raise ValueError if the thresholds are no numbers; the heads were checked when the mask was made."""
    if not all(type(value) in (int, float) for value in mask.provenance.values()):
        raise ValueError("a provenance that is not made of numbers")


def _heads(array: ArrayLike) -> Heads:
    rule = "A head mask must be a [blocks, heads] array of 0 and 1 (array[block, head] = 1 selects a head)"
    try:
        heads = np.asarray(array)
    except ValueError:  # nested lists that are no array
        lengths = ", ".join(str(len(row)) for row in array if isinstance(row, Sized))  # type: ignore[union-attr]
        message = f"{rule}; these rows have different lengths ({lengths})."
        raise InputError(message, argument="mask", value=array) from None
    if heads.ndim != 2 or not heads.size:
        raise InputError(f"{rule}, not one of the shape {heads.shape}.", argument="mask", value=array)
    if len(others := heads[~np.isin(heads, (0, 1))]):
        raise InputError(f"{rule}, not {others.tolist()[0]!r:.60}.", argument="mask", value=array)
    return heads.astype(bool)
