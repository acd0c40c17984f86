"""A sheet as text for a terminal, in colours or without."""

from collections.abc import Callable, Sequence
from typing import Any

from nbsal.render import sheet
from nbsal.render.colours import GREY, STRONGEST, Scale, colour
from nbsal.render.headline import Phrase, plain
from nbsal.render.html import ScoredSpan, terminal, visible

LENGTH, SHORT = 20, 5  # characters of a bar in a table, and of one in a line
SOLID, DOTTED, CHOSEN = "\u2588\u2592\u25b8"
LINE, STRUCK, TICK = "\u2500\u2593\u2502"  # of an interval: beyond its bar, on it, and a rate beside it
SHADES, AGAINST = " \u2591\u2592\u2593\u2588", " \u2581\u2583\u2585\u2587"  # of the cells of a grid


def render(tree: sheet.Sheet, colours: bool = True) -> str:
    """The tree in lines; without `colours`, large scores follow their words in brackets."""
    lines = [*_blocks(tree.blocks, colours), *([visible(" \N{MIDDLE DOT} ".join(tree.notes))] if tree.notes else [])]
    return "\n".join(lines)


def _blocks(blocks: Sequence[sheet.Block], colours: bool) -> list[str]:
    return [line for block in blocks for line in _BLOCKS[type(block)](block, colours)]


def _legend(legend: sheet.Legend, colours: bool) -> list[str]:
    (_, low), (_, high) = legend.ends
    unit = f" \N{MIDDLE DOT} {visible(legend.unit)}" if legend.unit else ""
    return [f"{low} \N{HORIZONTAL ELLIPSIS} {high}{unit}"]


def _card(block: sheet.Card, colours: bool) -> list[str]:
    head = "  ".join([_words(block.head), *(_cell(cell, SHORT, colours) for cell in block.end)])
    return ["", head.rstrip(), *_blocks(block.blocks, colours)]


def _words(cell: str | Sequence[Phrase]) -> str:
    return visible((cell if isinstance(cell, str) else plain(cell)).replace("\n", " "))


def _cell(cell: sheet.Cell, length: int, colours: bool) -> str:
    if isinstance(cell, sheet.Choice):
        frame = "[{}]" if cell.chosen else "{}"
        bar = "" if cell.share is None else f"{_cell(sheet.Bar(cell.share, hue=GREY), SHORT, colours)} "
        return frame.format(f"{visible(cell.name)} {bar}{cell.value}".rstrip())
    if isinstance(cell, sheet.Bar):
        scale = length / (cell.high - cell.low)
        if cell.ends:
            return _interval(cell, cell.ends, scale).ljust(length)
        if cell.ring is not None:
            signs = {round((cell.share - cell.low) * scale): "\u25cf", round((cell.ring - cell.low) * scale): "\u25cb"}
            return "".join(signs.get(place, " ") for place in range(length + 1))
        begin, size = round((min(cell.share, 0.0) - cell.low) * scale), round(abs(cell.share) * scale)
        return (" " * begin + (SOLID if cell.share >= 0 else DOTTED) * size).ljust(length)
    if isinstance(cell, sheet.Balance):
        bars = sheet.Bar(-cell.broken, -1.0, 0.0), sheet.Bar(cell.corrected)
        return "".join(_cell(bar, length // 2, colours) for bar in bars)
    if isinstance(cell, ScoredSpan):
        return visible(cell.text)
    if isinstance(cell, sheet.Marked):
        return terminal(cell.parts, cell.largest, colours).replace("\n", " ")
    if isinstance(cell, sheet.Tile):
        return visible(cell.text) if cell.on else f"({visible(cell.text)})"
    return _words(cell)


def _interval(bar: sheet.Bar, ends: tuple[float, float], scale: float) -> str:
    """A bar and the line after or on it, and a tick."""
    size, low, high, tick = (round(place * scale) for place in (bar.share, *ends, bar.tick))
    signs = (((" ", LINE), (SOLID, STRUCK))[at < size][low <= at < high] for at in range(max(size, high, tick + 1)))
    return "".join(TICK if at == tick else sign for at, sign in enumerate(signs))


def _chart(block: sheet.Chart, colours: bool) -> list[str]:
    return [*map(visible, (block.quantity, block.steps, *(curve.name for curve in block.curves), block.band))]


def _table(block: sheet.CellTable, colours: bool) -> list[str]:
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


def _grid(block: sheet.Grid, colours: bool) -> list[str]:
    size, lines = max(map(len, block.rows), default=0), [" ".join(map(visible, block.columns))]
    for row, name in enumerate(block.rows):
        cells = "".join(_grid_cell(share, block.scale) for share in block.shares[row])
        remark = block.remarks[row] if block.remarks else ""
        lines.append(
            f"{visible(name):>{size}} {CHOSEN if row == block.chosen else ' '} {visible(remark) or cells}".rstrip()
        )
    return lines


def _grid_cell(share: float, scale: Scale) -> str:
    strength = round(4 * colour(share, 1.0, scale)[1] / STRONGEST)
    return 2 * (SHADES if share >= 0 else AGAINST)[strength]


_BLOCKS: dict[type, Callable[[Any, bool], list[str]]] = {
    sheet.Sentence: lambda block, _: [_words(block.phrases), *map(visible, block.notes)],
    sheet.Heading: lambda block, _: ["", f"{_words(block.phrases)}{f'  {visible(block.note)}' if block.note else ''}"],
    sheet.Marked: lambda block, colours: [terminal(block.parts, block.largest, colours)],
    sheet.Line: lambda block, colours: ["  ".join(_cell(item, SHORT, colours) for item in block.items)],
    sheet.CellTable: _table,
    sheet.Grid: _grid,
    sheet.Chart: _chart,
    sheet.SizedWords: lambda block, _: [" ".join(visible(word.text) for word in block.words)],
    sheet.Note: lambda block, _: [visible(block.text)],
    sheet.Legend: _legend,
    sheet.Card: _card,
    sheet.Beside: lambda block, colours: [line for column in block.columns for line in _blocks(column, colours)],
}
