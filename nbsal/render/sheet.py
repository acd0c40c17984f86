"""What a result shows, as a tree of blocks whose words and numbers are final: HTML, a picture and a terminal draw it.

A cell is a text, a sentence in phrases, a bar, a tile, a choice, or a mark whose score is a share. Shares are relative
to the strongest on display.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nbsal.render.colours import LINEAR, SIGNED, Hue, Scale
from nbsal.render.headline import Phrase
from nbsal.render.html import ScoredSpan


@dataclass(frozen=True)
class Sentence:
    """The first sentence, whose words are marked like the text, and lines below it in smaller type."""

    phrases: Sequence[Phrase]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Heading:
    """A finding above a panel, and a note beside it."""

    phrases: Sequence[Phrase]
    note: str = ""


ONE_SIDED = " (nothing shown against)"  # after the end of a legend with one side


@dataclass(frozen=True)
class Legend:
    """How to read the shades: from `low`, or 0, to `high`; `unit` says what full colour is."""

    against: bool
    high: str
    unit: str = ""
    low: str = "against"

    @property
    def ends(self) -> tuple[Phrase, Phrase]:
        """The words at both ends."""
        return ("against", self.low) if self.against else ("quiet", "0\u202f%"), ("for", self.high)


@dataclass(frozen=True)
class Marked:
    """A text, or the texts of a pair, with marks; a score as large as `largest` gets full colour."""

    parts: Sequence[Sequence[ScoredSpan]]
    largest: float
    large: bool = True
    scale: Scale = LINEAR
    difference: bool = False  # which always has two sides


@dataclass(frozen=True)
class Bar:
    """A bar from zero; `low` and `high` are the least and the largest share in its column.

    Across it lie a line between the `ends` of an interval, and a `tick`. With a `ring`, the share is a disc instead,
    and a line joins both.
    """

    share: float
    low: float = 0.0
    high: float = 1.0
    hue: Hue = SIGNED
    ends: tuple[float, float] | None = None
    tick: float = 0.0
    ring: float | None = None


@dataclass(frozen=True)
class Balance:
    """Two bars from one axis, each a share of its half: what is broken to the left, what is corrected to the right."""

    broken: float
    corrected: float


@dataclass(frozen=True)
class Tile:
    """A word on a tinted ground; one that is not `on` is struck and has a dashed border."""

    text: str
    on: bool = True
    hue: Hue | None = None
    tip: str = ""


@dataclass(frozen=True)
class Choice:
    """One of several outcomes with its share, or without a bar, and the share in words."""

    name: str
    share: float | None
    value: str
    chosen: bool = False


Cell = str | Sequence[Phrase] | Bar | Balance | ScoredSpan | Marked | Tile | Choice


@dataclass(frozen=True)
class Line:
    """Cells one after the other, perhaps in small type; what does not fit goes to the next line."""

    items: Sequence[Cell]
    small: bool = False


@dataclass(frozen=True)
class CellTable:
    """Rows of cells below a head; `right` are columns whose cells end together, `chosen` is a row."""

    rows: Sequence[Sequence[Cell]]
    head: Sequence[str] = ()
    right: Sequence[int] = ()
    chosen: int | None = None


@dataclass(frozen=True)
class Grid:
    """A heat map: `shares` are [row][column] from -1 to 1; `gaps` are columns that begin a group.

    A row with a remark has no cells. `tips` describe cells where something can point at them.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    shares: Sequence[Sequence[float]]
    chosen: int | None = None
    gaps: Sequence[int] = ()
    remarks: Sequence[str] = ()
    tips: Sequence[Sequence[str]] = ()
    hue: Hue = SIGNED
    scale: Scale = LINEAR


@dataclass(frozen=True)
class ChartLine:
    """Values by shares of the steps, with the range around them; that of random orders is dashed."""

    name: str
    steps: Sequence[float]
    values: Sequence[float]
    band: tuple[Sequence[float], Sequence[float]] | None = None
    random: bool = False


@dataclass(frozen=True)
class Chart:
    """Curves; `ticks` are places on the axis of steps, `point` is the step on display, and `halved` marks the half."""

    curves: Sequence[ChartLine]
    quantity: str
    steps: str
    ticks: Sequence[tuple[float, str]]
    band: str = ""
    probable: bool = True
    halved: bool = False
    point: tuple[float, float] | None = None


@dataclass(frozen=True)
class SizedWord:
    """A word in type of `size` pixels; `strong` is bold, what is not is pale; `shared` is underlined."""

    text: str
    size: float
    strong: bool = True
    italic: bool = False
    shared: bool = False
    tip: str = ""


@dataclass(frozen=True)
class SizedWords:
    """The words of a class, in the class's hue."""

    words: Sequence[SizedWord]
    hue: int | None


@dataclass(frozen=True)
class Note:
    """A line of plain text in small type."""

    text: str


@dataclass(frozen=True)
class Card:
    """Blocks in a box under a title with a note, and cells at the end of that line.

    A `filled` one is the text that others explain.
    """

    blocks: Sequence["Block"]
    title: str
    note: str = ""
    end: Sequence[Cell] = ()
    filled: bool = False

    @property
    def head(self) -> Sequence[Phrase]:
        """The title with its note."""
        return [("class", self.title), *([("text", f" \N{MIDDLE DOT} {self.note}")] if self.note else [])]


@dataclass(frozen=True)
class Beside:
    """Blocks in columns."""

    columns: Sequence[Sequence["Block"]]


Block = Sentence | Heading | Legend | Marked | Line | CellTable | Grid | Chart | SizedWords | Note | Card | Beside


@dataclass(frozen=True)
class Sheet:
    """A result: its name for those who do not see it, its blocks, and what must be known to judge it."""

    title: str
    blocks: Sequence[Block]
    notes: Sequence[str] = field(default=())


def coloured(part: Any, scale: Scale) -> Any:
    """A sheet, a block or a cell whose texts and grids are coloured on a scale; a legend says what is left of it."""
    if isinstance(part, list | tuple):
        return [coloured(each, scale) for each in part]
    if isinstance(part, Legend):
        high = f"{part.high.removesuffix(ONE_SIDED)}{ONE_SIDED}"
        both = scale.signed or part.low != Legend.low  # a difference has two sides
        return part if both else replace(part, against=False, high=high)
    if isinstance(part, Marked):
        return replace(part, scale=replace(scale, signed=scale.signed or part.difference))
    if isinstance(part, Grid):
        return replace(part, scale=scale)
    inside = {
        name: coloured(getattr(part, name), scale) for name in ("blocks", "columns", "rows") if hasattr(part, name)
    }
    return replace(part, **inside) if inside else part
