"""Grid: blocks by heads: which heads follow syntax or position, which of them are on, and what each looks at."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbsal.heads.statistics import HeadStudy
from nbsal.model.head_mask import HeadMask, Heads
from nbsal.render import colours, html

if TYPE_CHECKING:
    import pandas

KINDS = {"syntactic": "S", "positional": "P", "both": "B", "unnamed": "U", "none": ""}
CHOICES = ("both", "syntactic", "positional", "none")
TOLD = 3  # relations that are told of a head
SCARCE = 0.05  # a share below this is not worth telling


@dataclass(frozen=True, eq=False)
class HeadGrid:
    """The heads of a model: `found` is what each is known to follow, `before` those on before some were toggled.

    >>> grid = HeadGrid(HeadMask([[1, 0]], {"obj": [[1, 1]]}), HeadMask([[1, 0]]), [[0, 1]])
    >>> grid.kinds(), grid.about(), grid.caption()
    ([['both', 'syntactic']], [['obj, positional', 'obj']], '2 of 2 heads')
    """

    found: HeadMask
    before: HeadMask
    toggled: Sequence[Sequence[int]] = ()
    study: HeadStudy | None = None

    @property
    def mask(self) -> HeadMask:
        """Those that are on."""
        return toggle_heads(self.before, self.toggled)

    def kinds(self) -> list[list[str]]:
        """What each head follows, a word each."""
        syntactic, positional, unnamed = self.found.syntactic, self.found.positional, self.found.unnamed
        choices = ["both", "syntactic", "positional", "unnamed"]
        named = [syntactic & positional, syntactic, positional, unnamed]
        return np.select(named, choices, "none").tolist()  # type: ignore[no-any-return]

    def about(self) -> list[list[str]]:
        """What each head looks at: shares where there is a study, names where there is none."""
        blocks, heads = self.found.shape
        tell = self._named if self.study is None else self._studied
        return [[tell(block, head) for head in range(heads)] for block in range(blocks)]

    def caption(self) -> str:
        """How many heads are on."""
        return f"{int(self.mask.selected.sum())} of {self.mask.selected.size} heads"

    def to_frame(self) -> "pandas.DataFrame":
        """One row a head."""
        import pandas

        kinds, about, on = self.kinds(), self.about(), self.mask.selected
        rows = [(*at, kinds[at[0]][at[1]], bool(on[at]), about[at[0]][at[1]]) for at in np.ndindex(*self.found.shape)]
        return pandas.DataFrame(rows, columns=["block", "head", "kind", "on", "looks_at"])

    def to_html(self) -> str:
        """A table that needs no scripts; heads that are on are bold and shaded."""
        kinds, about, on = self.kinds(), self.about(), self.mask.selected
        r, g, b = colours.FOR
        cells = ""
        for block in range(self.found.shape[0]):
            cells += f'<tr><th style="text-align:right">block {block}</th>'
            for head in range(self.found.shape[1]):
                style = f"background-color:rgba({r},{g},{b},.45);font-weight:bold" if on[block, head] else "opacity:.8"
                tip = html.escape(f"head {block}.{head}: {about[block][head]}")
                letter = KINDS[kinds[block][head]] or "&middot;"
                cells += f'<td style="{style};text-align:center;padding:1px 5px" title="{tip}">{letter}</td>'
            cells += "</tr>"
        table = f'<table style="border-collapse:collapse">{cells}</table>'
        return html.block_html(self.caption(), table, self.notes())

    def notes(self) -> list[str]:
        """What the letters mean."""
        said = f"{self.caption()} on. S follows syntax, P position, B both"
        counted = "" if self.study is None else f"; shares of {self.study.rows} positions"
        return [f"{said}, U no named reason{counted}."]

    def _named(self, block: int, head: int) -> str:
        names = [name for name, part in self.found.relations.items() if part[block, head]]
        names += ["positional"] * bool(self.found.positional[block, head])
        return ", ".join(names) or ("selected" if self.found.unnamed[block, head] else "no known pattern")

    def _studied(self, block: int, head: int) -> str:
        study: Any = self.study
        shares = {name: hits[block, head] / max(study.cases[name], 1) for name, hits in study.hits.items()}
        places = {offset: counts[block, head] / max(study.rows, 1) for offset, counts in study.places.items()}
        told = [f"{name} {share:.0%}" for name, share in _largest(shares, TOLD)]
        told += [f"{_place(offset)} {share:.0%}" for offset, share in _largest(places, 1)]
        return ", ".join(told) or "no known pattern"


def rows_shown(found: HeadMask, kind: str) -> HeadMask:
    """The heads of one kind alone."""
    nothing = np.zeros_like(found.positional)
    if kind == "both":
        return found
    relations = found.relations if kind == "syntactic" else dict.fromkeys(found.relations, nothing)
    return HeadMask(found.positional if kind == "positional" else nothing, relations)


def toggle_heads(mask: HeadMask, heads: Sequence[Sequence[int]]) -> HeadMask:
    """The mask with those heads [block, head] the other way round; what is switched on has no named reason.

    >>> toggle_heads(HeadMask([[1, 0]]), [[0, 0], [0, 1]]).selected.tolist()
    [[False, True]]
    """
    turned: Heads = np.zeros(mask.shape, bool)
    for block, head in heads:
        turned[block, head] ^= True
    relations = {name: part & ~turned for name, part in mask.relations.items()}
    return HeadMask(mask.positional & ~turned, relations, mask.unnamed & ~turned | turned & ~mask.selected)


def _largest(shares: dict[Any, Any], count: int) -> Iterable[tuple[Any, float]]:
    best = sorted(shares.items(), key=lambda item: -item[1])[:count]
    return [(name, share) for name, share in best if share >= SCARCE]


def _place(offset: int) -> str:
    names = {0: "itself", -1: "the token before", 1: "the next token"}
    return names.get(offset) or f"{abs(offset)} tokens {'ahead' if offset > 0 else 'back'}"
