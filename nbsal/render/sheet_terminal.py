"""A sheet as text for a terminal, in colours or without."""

from collections.abc import Callable, Sequence
from typing import Any

from nbsal.render.colours import GREY
from nbsal.render.headline import Phrase, plain
from nbsal.render.html import ScoredSpan, terminal, visible
from nbsal.render.sheet import (
    Bar,
    Beside,
    Block,
    Card,
    Cell,
    CellTable,
    Chart,
    Choice,
    Dots,
    Grid,
    Heading,
    Legend,
    Line,
    Marked,
    Note,
    Sentence,
    Sheet,
    SizedWords,
    Tile,
)

LENGTH, SHORT = 20, 5  # characters of a bar in a table, and of one in a line
SOLID, DOTTED, CHOSEN = "\u2588\u2592\u25b8"
SHADES, AGAINST = " \u2591\u2592\u2593\u2588", " \u2581\u2583\u2585\u2587"  # of the cells of a grid


def render(sheet: Sheet, colours: bool = True) -> str:
    """The sheet in lines; without `colours`, large scores follow their words in brackets."""
    lines = [*_blocks(sheet.blocks, colours), *([visible(" \N{MIDDLE DOT} ".join(sheet.notes))] if sheet.notes else [])]
    return "\n".join(lines)


def _blocks(blocks: Sequence[Block], colours: bool) -> list[str]:
    return [line for block in blocks for line in _BLOCKS[type(block)](block, colours)]


def _marked(block: Marked, colours: bool) -> list[str]:
    legend = _legend(block.legend) if block.legend else []
    return [terminal(block.parts, block.largest, colours), *legend]


def _legend(legend: Legend) -> list[str]:
    (_, low), (_, high) = legend.ends
    unit = f" \N{MIDDLE DOT} {visible(legend.unit)}" if legend.unit else ""
    return [f"{low} \N{HORIZONTAL ELLIPSIS} {high}{unit}"]


def _card(block: Card, colours: bool) -> list[str]:
    head = "  ".join([_words(block.head), *(_cell(cell, SHORT, colours) for cell in block.end)])
    return ["", head.rstrip(), *_blocks(block.blocks, colours)]


def _words(cell: str | Sequence[Phrase]) -> str:
    return visible((cell if isinstance(cell, str) else plain(cell)).replace("\n", " "))


def _cell(cell: Cell | Choice, length: int, colours: bool) -> str:
    if isinstance(cell, Choice):
        frame = "[{}]" if cell.chosen else "{}"
        bar = "" if cell.share is None else f"{_cell(Bar(cell.share, hue=GREY), SHORT, colours)} "
        return frame.format(f"{visible(cell.name)} {bar}{cell.value}".rstrip())
    if isinstance(cell, Bar):
        scale = length / (cell.high - cell.low)
        begin, size = round((min(cell.share, 0.0) - cell.low) * scale), round(abs(cell.share) * scale)
        return (" " * begin + (SOLID if cell.share >= 0 else DOTTED) * size).ljust(length)
    if isinstance(cell, Dots):
        places = {
            round((share - cell.low) / (cell.high - cell.low) * length): sign
            for share, sign in ((cell.disc, "\u25cf"), (cell.ring, "\u25cb"))
        }
        return "".join(places.get(place, " ") for place in range(length + 1))
    if isinstance(cell, ScoredSpan):
        return visible(cell.text)
    if isinstance(cell, Marked):
        return " ".join(_marked(cell, colours)).replace("\n", " ")
    if isinstance(cell, Tile):
        return visible(cell.text) if cell.on else f"({visible(cell.text)})"
    return _words(cell)


def _chart(block: Chart, colours: bool) -> list[str]:
    return [*map(visible, (block.quantity, block.steps, *(curve.name for curve in block.curves), block.band))]


def _table(block: CellTable, colours: bool) -> list[str]:
    rows = [
        [_cell(cell, LENGTH, colours) for cell in row]
        for row in ([block.head] if block.head else []) + list(block.rows)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            text.rjust(size) if k in block.right else text.ljust(size)
            for k, (text, size) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return [line.rstrip() for line in lines]


def _grid(block: Grid, colours: bool) -> list[str]:
    size, lines = max(map(len, block.rows), default=0), [" ".join(map(visible, block.columns))]
    for row, name in enumerate(block.rows):
        cells = "".join(_grid_cell(share) for share in block.shares[row])
        remark = block.remarks[row] if block.remarks else ""
        lines.append(
            f"{visible(name):>{size}} {CHOSEN if row == block.chosen else ' '} {visible(remark) or cells}".rstrip()
        )
    return lines


def _grid_cell(share: float) -> str:
    strength = round(4 * min(1.0, abs(share)))
    return 2 * (SHADES if share >= 0 else AGAINST)[strength]


_BLOCKS: dict[type, Callable[[Any, bool], list[str]]] = {
    Sentence: lambda block, _: [_words(block.phrases), *map(visible, block.notes)],
    Heading: lambda block, _: ["", f"{_words(block.phrases)}{f'  {visible(block.note)}' if block.note else ''}"],
    Marked: _marked,
    Line: lambda block, colours: ["  ".join(_cell(item, SHORT, colours) for item in block.items)],
    CellTable: _table,
    Grid: _grid,
    Chart: _chart,
    SizedWords: lambda block, _: [" ".join(visible(word.text) for word in block.words)],
    Note: lambda block, _: [visible(block.text)],
    Legend: lambda block, _: _legend(block),
    Card: _card,
    Beside: lambda block, colours: [line for column in block.columns for line in _blocks(column, colours)],
}
