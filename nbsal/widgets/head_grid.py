"""The attention heads of a model as a grid of blocks by heads: what each head follows, and which are switched on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbsal.errors import InputError
from nbsal.heads.statistics import HeadStudy
from nbsal.model.head_mask import HeadMask, Heads
from nbsal.render import colours, html

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

LETTERS = {"syntactic": "S", "positional": "P", "both": "B", "unnamed": "U", "none": ""}
KINDS = ("both", "syntactic", "positional", "none")  # of heads that a view can switch on together
SWITCH_INPUTS = ("kind", "synt", "pos", "toggled")  # traits that decide which heads are on
MAX_RELATIONS = 3  # in the description of a head
MIN_SHARE = 0.05  # smaller shares are left out of the description of a head
ON_OPACITY = 0.45


@dataclass(frozen=True, eq=False)
class HeadGrid:
    """The heads of a model. `roles` is what each head follows, `initial` which are on before any is toggled.

    >>> grid = HeadGrid(HeadMask([[1, 0]], {"obj": [[1, 1]]}), HeadMask([[1, 0]]), [[0, 1]])
    >>> grid.kinds(), grid.descriptions(), grid.caption()
    ([['both', 'syntactic']], [['obj, positional', 'obj']], '2 of 2 heads')
    """

    roles: HeadMask
    initial: HeadMask
    toggled: Sequence[Sequence[int]] = ()
    study: HeadStudy | None = None

    @property
    def mask(self) -> HeadMask:
        """The heads that are on."""
        return toggle_heads(self.initial, self.toggled)

    def kinds(self) -> list[list[str]]:
        """The kind of every head, [block][head]: a key of LETTERS."""
        syntactic, positional, unnamed = self.roles.syntactic, self.roles.positional, self.roles.unnamed
        conditions = [syntactic & positional, syntactic, positional, unnamed]
        kinds = np.select(conditions, ["both", "syntactic", "positional", "unnamed"], "none")
        return kinds.tolist()  # type: ignore[no-any-return]

    def descriptions(self) -> list[list[str]]:
        """What each head attends to, [block][head]: names, and with a study also shares."""
        blocks, heads = self.roles.shape
        describe = self._names if self.study is None else self._shares
        return [[describe(block, head) for head in range(heads)] for block in range(blocks)]

    def caption(self) -> str:
        """How many heads are on."""
        return f"{int(self.mask.selected.sum())} of {self.mask.selected.size} heads"

    def to_frame(self) -> "pandas.DataFrame":
        """One row per head."""
        import pandas

        kinds, descriptions, on = self.kinds(), self.descriptions(), self.mask.selected
        rows = [
            (block, head, kinds[block][head], bool(on[block, head]), descriptions[block][head])
            for block, head in np.ndindex(*self.roles.shape)
        ]
        return pandas.DataFrame(rows, columns=["block", "head", "kind", "on", "looks_at"])

    def to_html(self) -> str:
        """A table without scripts; heads that are on are bold and coloured."""
        kinds, descriptions, on = self.kinds(), self.descriptions(), self.mask.selected
        r, g, b = colours.FOR
        cells = ""
        for block in range(self.roles.shape[0]):
            cells += f'<tr><th style="text-align:right">block {block}</th>'
            for head in range(self.roles.shape[1]):
                shade = f"background-color:rgba({r},{g},{b},{ON_OPACITY});font-weight:bold"
                style = shade if on[block, head] else "opacity:.8"
                tip = html.escape(f"head {block}.{head}: {descriptions[block][head]}")
                letter = LETTERS[kinds[block][head]] or "&middot;"
                cells += f'<td style="{style};text-align:center;padding:1px 5px" title="{tip}">{letter}</td>'
            cells += "</tr>"
        table = f'<table style="border-collapse:collapse">{cells}</table>'
        return html.block_html(self.caption(), table, self.notes())

    def plot(self, ax: "Axes") -> None:
        """Draw the grid; heads that are on are bold and coloured."""
        kinds, on = self.kinds(), self.mask.selected
        blocks, heads = self.roles.shape
        shades = np.zeros((blocks, heads, 4))
        shades[..., :3] = np.array(colours.FOR) / 255
        shades[..., 3] = on * ON_OPACITY
        ax.imshow(shades)
        for block, head in np.ndindex(blocks, heads):
            letter, weight = LETTERS[kinds[block][head]] or "·", "bold" if on[block, head] else "normal"
            ax.text(head, block, letter, ha="center", va="center_baseline", weight=weight, color="black")
        ax.set_xticks(range(heads))
        ax.set_yticks(range(blocks))
        ax.tick_params(length=0, labelsize="small", colors="black")
        ax.spines[:].set_visible(False)
        ax.set_xlabel("head", color="black")
        ax.set_ylabel("block", color="black")

    def notes(self) -> list[str]:
        """The meaning of the letters."""
        letters = "S: syntactic, P: positional, B: syntactic and positional, U: in the mask, role not recorded."
        notes = [f"{self.caption()} on. {letters}"]
        if self.study is not None:
            notes.append(f"Relations: share of the relation's cases. Offsets: share of {self.study.rows} positions.")
        return notes

    def _names(self, block: int, head: int) -> str:
        names = [name for name, part in self.roles.relations.items() if part[block, head]]
        names += ["positional"] * bool(self.roles.positional[block, head])
        return ", ".join(names) or ("selected" if self.roles.unnamed[block, head] else "no known pattern")

    def _shares(self, block: int, head: int) -> str:
        study: Any = self.study
        relations = {name: hits[block, head] / max(study.cases[name], 1) for name, hits in study.hits.items()}
        offsets = {offset: counts[block, head] / max(study.rows, 1) for offset, counts in study.places.items()}
        shares = [f"{name} {share:.0%}" for name, share in _largest(relations, MAX_RELATIONS)]
        shares += [f"{_offset_name(offset)} {share:.0%}" for offset, share in _largest(offsets, 1)]
        return ", ".join(shares) or "no known pattern"


class HeadSwitches:
    """Which heads are on for given inputs: those of a mask, or of a study's mask at the thresholds `synt` and `pos`.

    >>> switches = HeadSwitches(HeadMask([[1, 0]]))
    >>> switches.mask({"kind": "both", "toggled": [[0, 1]]}).selected.tolist()
    [[True, True]]
    """

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
    """The heads of a mask that are of one of KINDS."""
    nothing = np.zeros_like(mask.positional)
    if kind == "both":
        return mask
    relations = mask.relations if kind == "syntactic" else dict.fromkeys(mask.relations, nothing)
    return HeadMask(mask.positional if kind == "positional" else nothing, relations)


def toggle_heads(mask: HeadMask, heads: Sequence[Sequence[int]]) -> HeadMask:
    """The mask with some heads [block, head] switched; a head that is switched on has no named reason.

    >>> toggle_heads(HeadMask([[1, 0]]), [[0, 0], [0, 1]]).selected.tolist()
    [[False, True]]
    """
    switched: Heads = np.zeros(mask.shape, bool)
    for block, head in heads:
        switched[block, head] ^= True
    relations = {name: part & ~switched for name, part in mask.relations.items()}
    return HeadMask(mask.positional & ~switched, relations, mask.unnamed & ~switched | switched & ~mask.selected)


def _largest(shares: dict[Any, Any], count: int) -> Iterable[tuple[Any, float]]:
    best = sorted(shares.items(), key=lambda item: -item[1])[:count]
    return [(name, share) for name, share in best if share >= MIN_SHARE]


def _offset_name(offset: int) -> str:
    names = {0: "itself", -1: "the previous token", 1: "the next token"}
    return names.get(offset) or f"{abs(offset)} tokens {'ahead' if offset > 0 else 'back'}"
