"""A sheet as a picture with the layout of the page, drawn with matplotlib."""

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from nbsal.render import colours, sheet
from nbsal.render.canvas import FAINT, LINE, PALE, PLAIN, SMALL, Canvas, shade_of, tint
from nbsal.render.chart import looks
from nbsal.render.colours import BAD, GOOD, GREY, SIGNED
from nbsal.render.headline import Phrase
from nbsal.render.html import ScoredSpan, visible
from nbsal.render.lettering import Run, break_lines, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDGE = "#b9bbc0"
WIDTH, MARGIN = 760.0, 16.0
STRONG = ("class", "for", "against")  # kinds of phrases
HEADLINE, TEXT = 18.0, 19.0  # sizes of type
LENGTH, SHORT = 240.0, 36.0  # of a bar, and of that of a choice
BAR, THIN = 10.0, 4.0  # their heights
CELL, GAP = 23.0, 12.0  # of a grid; before a group of columns


def render(tree: sheet.Sheet) -> bytes:
    return png(draw(tree))


def draw(tree: sheet.Sheet) -> "Figure":
    canvas, room = Canvas(), max(WIDTH - 2 * MARGIN, *map(_least_width, tree.blocks), 0.0)
    top = _draw_blocks(canvas, tree.blocks, MARGIN, MARGIN, room)
    if tree.notes:
        top = canvas.plain(" \N{MIDDLE DOT} ".join(tree.notes), MARGIN, top + 8, room, SMALL, FAINT)
    return canvas.figure(room + 2 * MARGIN, top + MARGIN)


def _draw_blocks(canvas: Canvas, blocks: Sequence[sheet.Block], left: float, top: float, room: float) -> float:
    for block in blocks:
        top = _BLOCKS[type(block)](canvas, block, left, top, room)
    return top


def _runs(cell: str | Sequence[Phrase], size: float = PLAIN, bold: bool = False) -> list[Run]:
    phrases = [("text", cell)] if isinstance(cell, str) else cell
    return [
        Run(text, size, bold or kind in STRONG, None if kind in ("text", "class") else kind) for kind, text in phrases
    ]


def _sentence(canvas: Canvas, block: sheet.Sentence, left: float, top: float, room: float) -> float:
    top = canvas.write([_runs(block.phrases, HEADLINE)], left, top, room, 26) + 2
    for note in block.notes:
        top = canvas.plain(note, left, top, room, ink=FAINT)
    return top + 6


def _heading(canvas: Canvas, block: sheet.Heading, left: float, top: float, room: float) -> float:
    top = canvas.write([_runs(block.phrases, bold=True)], left, top + 12, room)
    return (canvas.plain(block.note, left, top - 2, room, SMALL, FAINT) if block.note else top) + 2


def _marked(canvas: Canvas, block: sheet.Marked, left: float, top: float, room: float) -> float:
    size, height = (TEXT, 38.0) if block.large else (PLAIN, 23.0)
    for part in block.parts:
        runs = [_marked_run(span, block.largest, size, block.scale) for span in part]
        top = canvas.write([runs], left, top, room, height) + 2
    return top


def _marked_run(span: ScoredSpan, largest: float, size: float, scale: colours.Scale = colours.LINEAR) -> Run:
    return Run(span.text, size, span.chosen, (span, largest, scale))


def _legend(canvas: Canvas, legend: sheet.Legend, left: float, top: float, room: float) -> float:
    steps, middle = 24, top + LINE / 2 - 1
    low, high = legend.ends
    words = _runs([low], SMALL)
    canvas.write([words], left, top, WIDTH, LINE - 2, FAINT)
    left += words[0].width + 6
    for step in range(steps):
        share = (2 * step - steps + 1) / (steps - 1) if legend.against else step / (steps - 1)
        canvas.boxes.append((left + 4 * step, middle - 5, 4, 10, shade_of(share)[0]))
    if legend.against:
        hue = colours.hex_colour(colours.AGAINST)
        canvas.stroke(left, middle + 4, left + 1.8 * steps, hue=hue, dashed=True)
    unit = f" \N{MIDDLE DOT} {legend.unit}" if legend.unit else ""
    canvas.write([_runs([high, ("text", unit)], SMALL)], left + 4 * steps + 6, top, WIDTH, LINE - 2, FAINT)
    return top + LINE


def _line(canvas: Canvas, block: sheet.Line, left: float, top: float, room: float) -> float:
    size, at, top = SMALL if block.small else PLAIN, 0.0, top + 4
    for item in block.items:
        width = _width(item, size)
        if at and at + width > room:
            at, top = 0.0, top + LINE + 10
        _draw_cell(canvas, item, left + at, top, width, size, FAINT if block.small else colours.INK)
        at += width + 8
    return top + LINE + (8 if any(isinstance(item, sheet.Choice) for item in block.items) else 2)


def _draw_choice(canvas: Canvas, item: sheet.Choice, left: float, top: float, width: float) -> float:
    edge, thick = (colours.INK, 1.5) if item.chosen else (EDGE, 0.8)
    canvas.frames.append((left, top - 3, width, LINE + 6, LINE / 2 + 3, edge, thick))
    name, value = Run(item.name, PLAIN, item.chosen), Run(item.value, PLAIN, item.chosen)
    canvas.write([[name]], left + 12, top, room=width)
    if item.share is not None:
        _draw_bar(canvas, sheet.Bar(item.share, hue=GREY), left + 20 + name.width, top, SHORT, THIN)
    return canvas.write([[value]], left + width - 12 - value.width, top, room=width)


def _width(cell: Any, size: float = PLAIN) -> float:
    """How wide a cell is in one line."""
    if isinstance(cell, sheet.Choice):
        words = (Run(text, size, cell.chosen).width for text in (cell.name, cell.value) if text)
        bar = (8 if cell.value else 0) if cell.share is None else SHORT + 16
        return sum(words) + bar + 24
    if isinstance(cell, sheet.Bar | sheet.Balance):
        return LENGTH
    if isinstance(cell, sheet.Tile):
        return max(Run(cell.text, SMALL, bold=True).width + 8, CELL)
    if isinstance(cell, ScoredSpan):
        return Run(cell.text, size, cell.chosen).width
    if isinstance(cell, sheet.Marked):
        return sum(Run(span.text, TEXT if cell.large else PLAIN).width for part in cell.parts for span in part)
    lines: dict[int, float] = {}
    for placed in break_lines([_runs(cell, size)], inf):
        lines[placed.line] = lines.get(placed.line, 0.0) + placed.run.width
    return max(lines.values(), default=0.0)


def _table(canvas: Canvas, block: sheet.CellTable, left: float, top: float, room: float) -> float:
    rows = [*([block.head] if block.head else []), *block.rows]
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    over = sum(widths) + GAP * (len(widths) - 1) - room
    if over > 0:
        widest = widths.index(max(widths))
        widths[widest] = max(widths[widest] - over, room / 4)
    for number, row in enumerate(rows, -bool(block.head)):
        bottom, x = top + LINE, left
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            at = x + width - _width(cell) if column in block.right else x
            bottom = max(
                bottom,
                _draw_cell(
                    canvas, cell, at, top, width, SMALL if number < 0 else PLAIN, FAINT if number < 0 else colours.INK
                ),
            )
            x += width + GAP
        for y in (top, bottom) if number == block.chosen else ():
            canvas.stroke(left, y, x - GAP, hue=colours.INK, width=1.2)
        top = bottom + 2
    return top + 8


def _draw_cell(
    canvas: Canvas, cell: sheet.Cell, left: float, top: float, width: float, size: float = PLAIN, ink: str = colours.INK
) -> float:
    if isinstance(cell, sheet.Bar):
        return _draw_bar(canvas, cell, left, top, width, BAR if size == PLAIN else THIN)
    if isinstance(cell, sheet.Balance):
        _draw_bar(canvas, sheet.Bar(-cell.broken, -1.0, 0.0, BAD), left, top, width / 2)
        return _draw_bar(canvas, sheet.Bar(cell.corrected, hue=GOOD), left + width / 2, top, width / 2)
    if isinstance(cell, sheet.Choice):
        return _draw_choice(canvas, cell, left, top, width)
    if isinstance(cell, sheet.Tile):
        return _draw_tile(canvas, cell, left, top, width)
    if isinstance(cell, ScoredSpan):
        return canvas.write([[_marked_run(cell, 1.0, size)]], left, top, width + 1)
    if isinstance(cell, sheet.Marked):
        return _marked(canvas, cell, left, top, width)
    return canvas.write([_runs(cell, size)], left, top, min(width, _width(cell, size)) + 1, LINE, ink)


def _draw_bar(canvas: Canvas, bar: sheet.Bar, left: float, top: float, length: float, height: float = BAR) -> float:
    scale, middle = length / (bar.high - bar.low), top + LINE / 2
    if bar.ring is not None:
        canvas.stroke(left, middle, left + length, hue=PALE, width=1)
        ring, disc = (left + (share - bar.low) * scale for share in (bar.ring, bar.share))
        canvas.stroke(min(ring, disc), middle, max(ring, disc), hue=FAINT, width=1.5)
        canvas.rings += [(disc, middle, colours.INK, True), (ring, middle, colours.INK, False)]
        return top + LINE
    zero, hue = left - bar.low * scale, colours.bar_colour(bar.hue, bar.share)
    if bar.hue == GREY:
        canvas.boxes.append((left, middle - height / 2, length, height, PALE))
    else:
        canvas.stroke(zero, top - 1, zero, top + LINE + 1, hue=PALE, width=1)
    begin, size = zero + min(bar.share, 0.0) * scale, abs(bar.share) * scale
    canvas.boxes.append((begin, middle - height / 2, size, height, hue))
    if bar.share < 0:
        edge = "#1a5fa8" if bar.hue == SIGNED else colours.INK
        canvas.stroke(begin, middle + height / 2, begin + size, hue=edge, dashed=True)
    if bar.ends:
        low, high, tick = (left + min(place, bar.high) * scale for place in (*bar.ends, bar.tick))
        canvas.stroke(low, middle, high, hue=colours.INK)
        canvas.stroke(tick, middle - height, tick, middle + height, hue=colours.INK)
    return top + LINE


def _least_width(block: sheet.Block) -> float:
    """Grids are as wide as their columns."""
    if not isinstance(block, sheet.Grid):
        return 0.0
    return _names_width(block) + CELL * len(block.columns) + GAP * len(block.gaps)


def _names_width(block: sheet.Grid) -> float:
    return max((Run(name, SMALL, bold=True).width for name in block.rows), default=0.0) + 8


def _grid(canvas: Canvas, block: sheet.Grid, left: float, top: float, room: float) -> float:
    names = [Run(name, SMALL) for name in block.columns]
    start, top = left + _names_width(block), top + max((run.width for run in names), default=0.0) + 8
    places = [start + CELL * k + GAP * sum(gap <= k for gap in block.gaps) for k in range(len(names))]
    canvas.texts += [(x + CELL / 2, top - 4, run, colours.INK, True) for x, run in zip(places, names, strict=True)]
    for row, name in enumerate(block.rows):
        run = Run(name, SMALL, bold=row == block.chosen)
        canvas.write([[run]], start - 8 - run.width, top, room, CELL, colours.INK if run.bold else FAINT)
        remark = block.remarks[row] if block.remarks else ""
        for k, x in enumerate(places):
            _draw_grid_cell(canvas, 0.0 if remark else block.shares[row][k], x, top, block)
        if remark:
            canvas.write([_runs(remark, SMALL)], start + 6, top, room, CELL, FAINT)
        for y in (top - 0.5, top + CELL - 0.5) if run.bold and places else ():
            canvas.stroke(start, y, places[-1] + CELL, hue=colours.INK, width=1.5)
        top += CELL
    return top + 6


def _draw_grid_cell(canvas: Canvas, share: float, left: float, top: float, grid: sheet.Grid) -> None:
    shade, faint = shade_of(share, grid.scale)
    if grid.hue != SIGNED:
        shade = tint(colours.rgb(None), share)
    canvas.boxes.append((left, top, CELL - 1, CELL - 1, "#f4f4f5"))
    canvas.boxes.append((left, top, CELL - 1, CELL - 1, shade))
    if share < 0 and not faint:
        canvas.stroke(left + 2, top + CELL - 2.5, left + CELL - 3, hue=colours.hex_colour(colours.AGAINST), dashed=True)


def _chart(canvas: Canvas, block: sheet.Chart, left: float, top: float, room: float) -> float:
    top, tall = canvas.plain(block.quantity, left, top, room, SMALL, FAINT) + 4, 200.0
    canvas.charts.append((left + 44, top, min(room, WIDTH) - 60, tall, block))
    top, at = canvas.plain(block.steps, left + 44, top + tall + 24, room, SMALL, FAINT) + 4, left
    for curve, (hue, dash) in zip(block.curves, looks(block), strict=True):
        canvas.stroke(at, top + 9, at + 24, hue=hue, dashed=dash != "-")
        canvas.plain(curve.name, at + 30, top, room, SMALL)
        at += _width(curve.name, SMALL) + 48
    if block.band:
        canvas.boxes.append((at, top + 4, 24, 10, PALE))
        canvas.plain(block.band, at + 30, top, room, SMALL)
    return top + LINE + 4


def _draw_tile(canvas: Canvas, tile: sheet.Tile, left: float, top: float, width: float) -> float:
    if tile.on:
        opacity = colours.TINT if tile.hue is not None else colours.TINT / 3
        canvas.boxes.append((left, top, width, LINE, tint(colours.rgb(tile.hue), opacity)))
    run = Run(tile.text, SMALL, bold=tile.on, mark=None if tile.on else "struck")
    canvas.write([[run]], left + (width - run.width) / 2, top, width)
    return top + LINE


def _cloud(canvas: Canvas, block: sheet.SizedWords, left: float, top: float, room: float) -> float:
    colour, lines, at = colours.class_colour(block.hue), [[]], 0.0  # type: ignore[var-annotated]
    for word in block.words:
        run = Run(visible(word.text), word.size, word.strong, "shared" if word.shared else None, word.italic)
        if at and at + run.width > room:
            lines, at = [*lines, []], 0.0
        lines[-1].append((at, run))
        at += run.width + 12
    for line in lines:
        size = max((run.size for _, run in line), default=0.0)
        for at, run in line:
            ink = colour if run.bold else FAINT
            canvas.texts.append((left + at, top + size, run, ink, False))
            if run.mark:
                canvas.stroke(left + at, top + size + 4, left + at + run.width, hue=ink, width=1.2)
        top += 1.3 * size + 2
    return top + 6


def _card(canvas: Canvas, block: sheet.Card, left: float, top: float, room: float) -> float:
    begin, place = top + 6, len(canvas.boxes)
    top = begin + 6
    widths = [SHORT if isinstance(cell, sheet.Bar) else max(_width(cell, SMALL), SHORT) for cell in block.end]
    at = left + room - 12 - sum(widths) - 8 * (len(widths) - 1)
    bottom = canvas.write([_runs(block.head, SMALL)], left + 12, top, at - left - 20)
    for cell, width in zip(block.end, widths, strict=True):
        at += width + 8
        _draw_cell(canvas, cell, at - 8 - min(_width(cell, SMALL), width), top, width, SMALL)
    top = bottom
    bottom = _draw_blocks(canvas, block.blocks, left + 12, top, room - 24) + 6
    if block.filled:
        canvas.boxes.insert(place, (left, begin, room, bottom - begin, "#f2f2f3"))
    else:
        canvas.frames.append((left, begin, room, bottom - begin, 8.0, EDGE, 0.8))
    return bottom + 2


def _beside(canvas: Canvas, block: sheet.Beside, left: float, top: float, room: float) -> float:
    width = (room - 24 * (len(block.columns) - 1)) / len(block.columns)
    places = (left + (width + 24) * number for number in range(len(block.columns)))
    return max(_draw_blocks(canvas, blocks, at, top, width) for at, blocks in zip(places, block.columns, strict=True))


def _note(canvas: Canvas, block: sheet.Note, left: float, top: float, room: float) -> float:
    return canvas.plain(block.text, left, top, room, SMALL, FAINT)


_BLOCKS: dict[type, Callable[[Canvas, Any, float, float, float], float]] = {
    sheet.Sentence: _sentence,
    sheet.Heading: _heading,
    sheet.Marked: _marked,
    sheet.Line: _line,
    sheet.CellTable: _table,
    sheet.Grid: _grid,
    sheet.Chart: _chart,
    sheet.SizedWords: _cloud,
    sheet.Note: _note,
    sheet.Legend: _legend,
    sheet.Card: _card,
    sheet.Beside: _beside,
}
