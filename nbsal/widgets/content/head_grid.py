"""The attention heads of a model as a grid of blocks by heads: what each head follows, and which are switched on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nbsal.heads.counts import HeadStudy
from nbsal.model.head_mask import HeadMask, Heads
from nbsal.render.headline import percent, phrases
from nbsal.render.sheet import Block, Cell, CellTable, Heading, Line, Tile
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural

# Relations as narrow views name them, and from what to what they lead; others have their own names alone.
SHORT = {"nsubj": "sub", "obj": "obj", "amod": "adj", "advmod": "adv"}
ENDS = {"nsubj": "subject to verb", "obj": "object to verb", "amod": "adjective to noun", "advmod": "adverb to verb"}
POSITIONAL = ("position", "pos")
KINDS = ("both", "syntactic", "positional", "none", "all")  # of heads that a view can switch on together
SWITCH_INPUTS = ("kind", "synt", "pos", "toggled")  # traits that decide which heads are on
MAX_RELATIONS = 3  # in the description of a head
MIN_SHARE = 0.05  # smaller shares are left out of the description of a head
SYNTAX, POSITION = 0, 1  # hues of cells
KEYS = Line(
    [
        Tile("follows syntax", hue=SYNTAX),
        Tile("attends to a fixed position", hue=POSITION),
        Tile("no known pattern"),
        Tile("off", on=False),
    ]
)
HOW_TO_STUDY = "This model has no head study. Run study = nbsal.heads.study(subject, parses) and pass study=study."


@dataclass(frozen=True)
class HeadCell:
    """What the grid says of one head."""

    kind: str  # syntactic, positional, both, unnamed (chosen by the user) or none
    on: bool
    words: list[str]  # what it follows, in full and short: a relation, "position", or nothing
    about: str  # what it attends to: names, with a study also shares
    habit: str  # what it is known for, in a few words


@dataclass(frozen=True, eq=False)
class HeadGrid:
    """The heads of a model. `roles` is what each head follows, `initial` which are on before any is toggled.

    >>> grid = HeadGrid(HeadMask([[1, 0]], {"obj": [[1, 1]]}), HeadMask([[1, 0]]), [[0, 1]])
    >>> grid.caption(), [(cell.kind, cell.about) for cell in grid.cells[0]]
    ('2 of 2 heads on', [('both', 'obj (object to verb) · fixed position'), ('syntactic', 'obj (object to verb)')])
    """

    roles: HeadMask
    initial: HeadMask
    toggled: Sequence[Sequence[int]] = ()
    study: HeadStudy | None = None

    @property
    def mask(self) -> HeadMask:
        return toggle_heads(self.initial, self.toggled)

    @property
    def named(self) -> Heads:
        """The heads that follow syntax or a position."""
        named: Heads = self.roles.syntactic | self.roles.positional
        return named

    @cached_property
    def cells(self) -> list[list[HeadCell]]:
        """The heads, [block][head]."""
        syntactic, positional, unnamed = self.roles.syntactic, self.roles.positional, self.roles.unnamed
        conditions = [syntactic & positional, syntactic, positional, unnamed]
        kinds = np.select(conditions, ["both", "syntactic", "positional", "unnamed"], "none")
        on = self.mask.selected
        describe = self._names if self.study is None else self._shares
        blocks, heads = map(range, self.roles.shape)
        return [
            [
                HeadCell(
                    str(kinds[block, head]),
                    bool(on[block, head]),
                    self._word(block, head),
                    describe(block, head),
                    self._habit(block, head),
                )
                for head in heads
            ]
            for block in blocks
        ]

    def caption(self) -> str:
        """How many heads are on."""
        return f"{int(self.mask.selected.sum())} of {plural(self.mask.selected.size, 'head')} on"

    def habit(self, head: Sequence[int]) -> str:
        """What a head is known for."""
        return self.cells[head[0]][head[1]].habit

    def kind_labels(self) -> dict[str, str]:
        """How each of KINDS reads, and the button that leaves only those of "both" on, as "only"."""
        both = "Syntax and position" if self.named.any() else "The mask"
        only = f"Only {both.lower()}"
        return {"all": "All", "syntactic": "Syntax", "positional": "Position", "none": "None"} | {
            "both": both,
            "only": only,
        }

    def toggled_label(self) -> str:
        """Which heads are on, in two or three words, once some are switched by hand."""
        on, total = int(self.mask.selected.sum()), self.mask.selected.size
        if on == total:
            return "All"
        return f"All but {total - on}" if on >= total / 2 else f"{on} of {total}"

    def count(self, masked: bool, measured: bool) -> str:
        """How many heads are on, of a method that is `masked` or not, and whether the effect on the decision is."""
        total = self.mask.selected.size
        if self.mask.selected.all() or (masked and measured):
            return self.caption()
        return f"scores: {self.caption()}; prediction: all" if masked else f"the prediction uses all {total} heads"

    def finding(self) -> str:
        """How many heads follow something, as a heading."""
        count, total = int(self.named.sum()), self.named.size
        if count:
            return f"Heads: {count} of {total} {'follows' if count == 1 else 'follow'} syntax or position"
        return f"Heads: none of {total} follows syntax or position" if self.study else f"Heads: {total}, not studied"

    def to_frame(self) -> "pandas.DataFrame":
        """One row per head."""
        rows = [
            (block, head, cell.kind, cell.on, cell.about)
            for block, row in enumerate(self.cells)
            for head, cell in enumerate(row)
        ]
        return pandas.DataFrame(rows, columns=["block", "head", "kind", "on", "attends_to"])

    def blocks(self) -> list[Block]:
        """The finding, and a word for each head; those that are off are struck."""
        rows: list[list[Cell]] = [[f"block {block}", *map(_tile, row)] for block, row in enumerate(self.cells)]
        head = ("head", *map(str, range(self.roles.shape[1])))
        return [Heading(phrases(self.finding()), self.caption()), CellTable(rows, head, right=(0,)), KEYS]

    def notes(self) -> list[str]:
        """How many heads are on, and what is known of them."""
        notes = [self.caption()]
        if self.study is not None:
            notes.append(f"studied at {self.study.rows:,} positions")
        elif not self.named.any():
            notes.append(HOW_TO_STUDY)
        return notes

    def _relations(self, block: int, head: int) -> list[str]:
        """The relations that a head follows, with a study the most frequent first."""
        names = [name for name, part in self.roles.relations.items() if part[block, head]]
        return sorted(names, key=lambda name: -self._share(name, block, head))

    def _share(self, relation: str, block: int, head: int) -> float:
        """In how many of its cases a head follows a relation."""
        if self.study is None:
            return 0.0
        return float(self.study.hits[relation][block, head] / max(self.study.cases[relation], 1))

    def _offsets(self, block: int, head: int) -> dict[int, float]:
        """At how many positions the largest attention of a head has an offset."""
        study: Any = self.study
        return {offset: counts[block, head] / max(study.rows, 1) for offset, counts in study.places.items()}

    def _word(self, block: int, head: int) -> list[str]:
        relations = self._relations(block, head)
        if relations:
            return [relations[0], SHORT.get(relations[0], relations[0])]
        return list(POSITIONAL) if self.roles.positional[block, head] else []

    def _names(self, block: int, head: int) -> str:
        names = [_relation_words(name) for name in self._relations(block, head)]
        names += ["fixed position"] * bool(self.roles.positional[block, head])
        return " · ".join(names) or ("chosen by you" if self.roles.unnamed[block, head] else "no known pattern")

    def _shares(self, block: int, head: int) -> str:
        assert self.study is not None, "shares come from a study"
        relations = {name: self._share(name, block, head) for name in self.study.hits}
        shares = [
            f"{_relation_words(name)} in {percent(share, 0)} of cases"
            for name, share in _largest(relations, MAX_RELATIONS)
        ]
        offsets = _largest(self._offsets(block, head), 1)
        shares += [f"{_offset_words(offset)} in {percent(share, 0)}" for offset, share in offsets]
        return " · ".join(shares) or "no known pattern"

    def _habit(self, block: int, head: int) -> str:
        relations = self._relations(block, head)
        if relations:
            return f"often {ENDS.get(relations[0], relations[0])}"
        if not self.roles.positional[block, head]:
            return "chosen by you" if self.roles.unnamed[block, head] else "no known pattern"
        offsets = _largest(self._offsets(block, head), 1) if self.study is not None else []
        words = _offset_words(next(iter(offsets))[0]) if offsets else "at a fixed position"
        return f"often {words if words.startswith(('at ', 'itself')) else f'the {words}'}"


def head_name(block: int, head: int) -> str:
    return f"Block {block}, head {head}"


class HeadSwitches:
    """Which heads are on for given inputs: those of a mask, or of a study's mask at the thresholds `synt` and `pos`."""

    def __init__(self, mask: HeadMask | None, study: HeadStudy | None = None) -> None:
        self.study = study
        self._mask = mask

    def grid(self, inputs: dict[str, Any]) -> HeadGrid:
        """The grid for some values of SWITCH_INPUTS."""
        if self.study is not None:
            roles = self.study.mask(synt=inputs["synt"], pos=inputs["pos"])
        else:
            assert self._mask is not None, "without a study there is a mask"
            roles = self._mask
        return HeadGrid(roles, heads_of_kind(roles, inputs["kind"]), inputs["toggled"], self.study)

    def mask(self, inputs: dict[str, Any]) -> HeadMask:
        """The heads that are on for some values of SWITCH_INPUTS."""
        return self.grid(inputs).mask

    def check(self, head: Any, argument: str) -> list[int]:
        """The head as [block, head], if the model has it."""
        blocks, heads = (self.study or self._mask).shape  # type: ignore[union-attr]
        if not isinstance(head, list | tuple) or len(head) != 2:
            raise InputError(f"{argument}: a head is [block, head], not {head!r:.60}.", argument=argument, value=head)
        if head[0] not in range(blocks) or head[1] not in range(heads):
            limits = f"blocks run from 0 to {blocks - 1}, heads from 0 to {heads - 1}"
            message = f"{argument}: there is no head {list(head)!r:.60}; {limits}."
            raise InputError(message, argument=argument, value=list(head))
        return [int(head[0]), int(head[1])]


def heads_of_kind(mask: HeadMask, kind: str) -> HeadMask:
    """The heads of a mask that are of one of KINDS; with "all" those that it leaves out are on as well.

    >>> mask = HeadMask([[1, 0, 0]], {"obj": [[0, 1, 0]]})
    >>> [heads_of_kind(mask, kind).selected.sum().item() for kind in KINDS]
    [2, 1, 1, 0, 3]
    """
    nothing = np.zeros_like(mask.positional)
    if kind == "both":
        return mask
    if kind == "all":
        return HeadMask(mask.positional, mask.relations, ~(mask.syntactic | mask.positional))
    relations = mask.relations if kind == "syntactic" else dict.fromkeys(mask.relations, nothing)
    return HeadMask(mask.positional if kind == "positional" else nothing, relations)


def toggle_heads(mask: HeadMask, heads: Sequence[Sequence[int]]) -> HeadMask:
    """The mask with some heads [block, head] switched; a head that is switched on has no named reason."""
    switched: Heads = np.zeros(mask.shape, bool)
    for block, head in heads:
        switched[block, head] ^= True
    relations = {name: part & ~switched for name, part in mask.relations.items()}
    return HeadMask(mask.positional & ~switched, relations, mask.unnamed & ~switched | switched & ~mask.selected)


def _largest(shares: dict[Any, Any], count: int) -> Iterable[tuple[Any, float]]:
    best = sorted(shares.items(), key=lambda item: -item[1])[:count]
    return [(name, share) for name, share in best if share >= MIN_SHARE]


def _relation_words(name: str) -> str:
    return f"{name} ({ENDS[name]})" if name in ENDS else name


def _offset_words(offset: int) -> str:
    names = {0: "itself", -1: "word before", 1: "next token"}
    return names.get(offset) or f"{abs(offset)} tokens {'ahead' if offset > 0 else 'back'}"


def _tile(cell: HeadCell) -> Tile:
    """A head that follows both syntax and a position has the hue of syntax."""
    text = cell.words[0] if cell.words else "" if cell.on else "off"
    return Tile(text, cell.on, {"syntactic": SYNTAX, "both": SYNTAX, "positional": POSITION}.get(cell.kind), cell.about)
