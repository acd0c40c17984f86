"""A sheet as HTML without scripts: inline styles that pass the sanitizers of notebooks, in the font of the page."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from nbsal.render import colours, fonts, sheet
from nbsal.render.chart import MIDDLE, draw_chart, looks
from nbsal.render.colours import (
    AGAINST,
    BAD,
    FAINT,
    FOR,
    GOOD,
    GREY,
    LINEAR,
    NEUTRAL,
    SIGNED,
    STRONGEST,
    Scale,
    bar_colour,
    class_colour,
    colour,
    hex_colour,
)
from nbsal.render.headline import Phrase
from nbsal.render.html import SMALL, STRUCK, ScoredSpan, escape, line_html
from nbsal.render.lettering import png
from nbsal.support.lazy import Figure

LENGTH, SHORT = 200, 36  # pixels of a bar, and of that of a choice
TALL, THIN = 10, 4  # their heights in tables and in lines
LONG = 40  # characters of a cell in one line
DOT = 10  # pixels of a dot with its border
CELL, GAP = 20, 12  # pixels of a cell of a grid, and before a group of them
SWATCH = "display:inline-block;width:24px;margin:0 6px 0 12px;vertical-align:middle"
PHRASES = {
    "text": "{}",
    "class": "<b>{}</b>",
    "word": "<i>{}</i>",
    "struck": '<s style="opacity:.75">{}</s>',
    "quiet": '<span style="opacity:.75">{}</span>',
    "for": f'<span style="border-bottom:2px solid {hex_colour(FOR)};font-weight:600">{{}}</span>',
    "against": f'<span style="border-bottom:2px dashed {hex_colour(AGAINST)};font-weight:600">{{}}</span>',
}


def render(tree: sheet.Sheet) -> str:
    """The tree as one figure."""
    notes = " · ".join(map(escape, tree.notes))
    style = "max-width:60em;font-size:13px;line-height:1.5;print-color-adjust:exact"
    return (
        f'<div role="figure" aria-label="{escape(tree.title)}" style="{style}">{_blocks(tree.blocks)}'
        f'<div style="{SMALL};margin-top:8px">{notes}</div></div>'
    )


def _blocks(blocks: Sequence[sheet.Block]) -> str:
    return "".join(_BLOCKS[type(block)](block) for block in blocks)


def _phrases(phrases: Sequence[Phrase]) -> str:
    return "".join(PHRASES[kind].format(escape(text)) for kind, text in phrases)


def _sentence(block: sheet.Sentence) -> str:
    style = "margin:0 0 4px;font-size:18px;line-height:1.45;overflow-wrap:anywhere"
    lines = "".join(f'<div style="opacity:.75">{escape(note)}</div>' for note in block.notes)
    return f'<p style="{style}">{_phrases(block.phrases)}</p>{lines}'


def _heading(block: sheet.Heading) -> str:
    note = f'<div style="{SMALL}">{escape(block.note)}</div>' if block.note else ""
    return f'<div style="margin:14px 0 4px"><b>{_phrases(block.phrases)}</b>{note}</div>'


def _marked(block: sheet.Marked) -> str:
    size = "19px;line-height:2" if block.large else "13px;line-height:1.7"
    style = f"margin:4px 0;font-size:{size};white-space:pre-wrap;overflow-wrap:anywhere"
    return "".join(
        f'<p dir="auto" style="{style}">{"".join(span_html(span, block.largest, block.scale) for span in part)}</p>'
        for part in block.parts
    )


def span_html(span: ScoredSpan, largest: float, scale: Scale = LINEAR) -> str:
    """A span as HTML with inline styles; a score as large as `largest` gets full colour."""
    if span.chosen and span.score is None:
        return f'<span style="border-bottom:2px solid currentColor;font-weight:bold">{escape(span.text)}</span>'
    if span.score is None:
        text = escape(span.text)
        return f'<span style="opacity:.6" title="{escape(span.tip)}">{text}</span>' if span.tip else text
    (r, g, b), alpha = colour(span.score, largest, scale)
    style = f"background-color:rgba({r},{g},{b},{alpha:.3f});border-radius:3px;padding:1px 0"
    style += ";font-weight:bold" if span.chosen else ""
    if span.struck:
        style = f"{STRUCK};text-decoration:line-through"
    elif span.score < 0 and alpha >= FAINT:
        style += ";text-decoration:underline dashed"
    return f'<span style="{style}" title="{escape(span.tip)}">{escape(span.text)}</span>'


def _legend(legend: sheet.Legend) -> str:
    boxes = ""
    for share in (-1.0, -0.5, 0.0, 0.5, 1.0) if legend.against else (0.0, 0.5, 1.0):
        (r, g, b), alpha = colour(share, 1.0)
        boxes += f'<span style="background-color:rgba({r},{g},{b},{alpha:.3f});padding:0 9px">&#8203;</span>'
    low, high = (_phrases([(kind, word)]) for kind, word in legend.ends)
    unit = f" · {escape(legend.unit)}" if legend.unit else ""
    return f'<div style="{SMALL};line-height:1.8">{low} {boxes} {high}{unit}</div>'


def _line(block: sheet.Line) -> str:
    items = "".join(
        f'<span style="display:inline-block;margin-right:8px">{_cell(item, LENGTH, THIN)}</span>'
        for item in block.items
    )
    return f'<div style="{f"{SMALL};" if block.small else ""}margin:6px 0">{items}</div>'


def _choice(choice: sheet.Choice) -> str:
    border = "2px solid;font-weight:600" if choice.chosen else "1px solid rgba(128,128,128,.5)"
    style = f"display:inline-block;border-radius:14px;padding:1px 12px;margin:0 8px 4px 0;border:{border}"
    bar = "" if choice.share is None else _bar(sheet.Bar(choice.share, hue=GREY), SHORT, THIN)
    return f'<span style="{style}">{escape(choice.name)} {bar} {escape(choice.value)}</span>'


def _table(block: sheet.CellTable) -> str:
    head = "".join(
        f'<th style="{_cell_style(block, k)};{SMALL}">{escape(name)}</th>' for k, name in enumerate(block.head)
    )
    rows = f'<tr style="background:none">{head}</tr>' if block.head else ""
    for number, row in enumerate(block.rows):
        band = "1px solid" if number == block.chosen else "0"
        cells = "".join(f'<td style="{_cell_style(block, k, cell)}">{_cell(cell)}</td>' for k, cell in enumerate(row))
        rows += f'<tr style="border:{band};background:none">{cells}</tr>'
    table = f'<table style="border-collapse:collapse;margin:4px 0;font-size:13px">{rows}</table>'
    return f'<div style="overflow-x:auto">{table}</div>'


def _cell_style(block: sheet.CellTable, column: int, cell: sheet.Cell = "") -> str:
    """Texts take the room that other cells leave."""
    align = "right" if column in block.right else "left"
    wide = isinstance(cell, sheet.Marked) or (isinstance(cell, str) and len(cell) > LONG)
    room = "width:100%;min-width:14em" if wide else "white-space:pre"
    return f"border:0;padding:2px 12px 2px 0;font-weight:normal;vertical-align:top;text-align:{align};{room}"


def _cell(cell: sheet.Cell, length: int = LENGTH, height: int = TALL) -> str:
    if isinstance(cell, sheet.Bar):
        return _bar(cell, length, height) if cell.ring is None else _dots(cell, cell.ring, length)
    if isinstance(cell, sheet.Balance):
        left = _bar(sheet.Bar(-cell.broken, -1.0, 0.0, BAD), length // 2, height)
        return left + _bar(sheet.Bar(cell.corrected, hue=GOOD), length // 2, height)
    if isinstance(cell, sheet.Choice):
        return _choice(cell)
    if isinstance(cell, ScoredSpan):
        return span_html(cell, 1.0)
    if isinstance(cell, sheet.Marked):
        return _marked(cell)
    if isinstance(cell, sheet.Tile):
        return _tile(cell)
    return escape(cell) if isinstance(cell, str) else _phrases(cell)


def _bar(bar: sheet.Bar, length: int, height: int) -> str:
    """A bar from the zero of its column; what is a share of a whole has a ground."""
    if bar.ends:
        return _interval(bar, bar.ends, length, height)
    hue, scale = bar_colour(bar.hue, bar.share, anywhere=True), length / (bar.high - bar.low)
    before, size = round((min(bar.share, 0.0) - bar.low) * scale), round(abs(bar.share) * scale)
    shape = f"display:inline-block;vertical-align:middle;height:{height}px"
    edge = "" if bar.share >= 0 else ";border-bottom:2px dashed;box-sizing:border-box"
    filled = f'<span style="{shape};margin-left:{before}px;width:{size}px;background-color:{hue}{edge}"></span>'
    ground = ";background-color:rgba(128,128,128,.25)" if bar.hue == GREY else ""
    return f'<span style="{shape};width:{length}px;line-height:0{ground}">{filled}</span>'


def _interval(bar: sheet.Bar, ends: tuple[float, float], length: int, height: int) -> str:
    """A bar cut where its line begins and ends and at its tick, since sanitizers let nothing lie on another."""
    cuts = sorted(
        {
            round(length * min(max(place, 0.0), bar.high) / bar.high)
            for place in (0, bar.share, *ends, bar.tick, bar.high)
        }
    )
    pieces = ""
    for begin, end in pairwise(cuts):
        hue = bar_colour(bar.hue, bar.share) if end <= round(length * bar.share / bar.high) else "rgba(128,128,128,.25)"
        line = "2px solid" if length * ends[0] / bar.high - 1 < begin and end < length * ends[1] / bar.high + 1 else "0"
        tick = "2px solid" if begin == round(length * bar.tick / bar.high) else "0"
        pieces += (
            f'<span style="display:inline-block;box-sizing:border-box;width:{end - begin}px;height:{height}px;'
            f'background-color:{hue};border:0;border-bottom:{line};border-left:{tick}"></span>'
        )
    return f'<span style="display:inline-block;vertical-align:middle;line-height:0;width:{length}px">{pieces}</span>'


def _dots(disc: sheet.Bar, ring: float, length: int) -> str:
    """A ring and a disc, joined by a line."""
    places = [round((share - disc.low) * length / (disc.high - disc.low)) for share in (ring, disc.share)]
    fills = sorted(zip(places, ("none", "currentColor"), strict=True))
    box = '<span style="display:inline-block;vertical-align:middle;{}"></span>'
    first, second = (
        box.format(f"width:6px;height:6px;border:2px solid;border-radius:5px;background-color:{fill}")
        for _, fill in fills
    )
    gap = max(fills[1][0] - fills[0][0] - DOT, 0)
    line = box.format(f"width:{gap}px;border-top:1px solid")
    return f"{box.format(f'width:{fills[0][0]}px')}{first}{line}{second}"


def _grid(block: sheet.Grid) -> str:
    head = "".join(_column(name, k in block.gaps) for k, name in enumerate(block.columns))
    rows = "".join(_grid_row(block, row) for row in range(len(block.rows)))
    return (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:12px;margin:4px 0">'
        f'<tr style="background:none"><td style="border:0"></td>{head}</tr>{rows}</table></div>'
    )


def _column(name: str, gap: bool) -> str:
    style = "writing-mode:vertical-rl;transform:rotate(180deg);max-height:9em;overflow:hidden;white-space:nowrap"
    place = f"border:0;padding:0 2px 0 {GAP * gap}px;vertical-align:bottom;text-align:center;font-weight:normal"
    return f'<th style="{place}"><div style="{style}">{escape(name)}</div></th>'


def _grid_row(block: sheet.Grid, row: int) -> str:
    chosen = row == block.chosen
    band = "border-top:1px solid;border-bottom:1px solid" if chosen else "border:0"
    cells = "".join(_grid_cell(block, row, k) for k in range(len(block.columns)))
    if block.remarks and block.remarks[row]:
        remark = escape(block.remarks[row])
        cells = f'<td colspan="{max(len(block.columns), 1)}" style="border:0;text-align:left;{SMALL}">{remark}</td>'
    name = escape(block.rows[row])
    return (
        f'<tr style="{band};background:none"><th style="border:0;padding:0 8px 0 0;text-align:right;'
        f'font-weight:normal;white-space:nowrap">{f"<b>{name}</b>" if chosen else name}</th>{cells}</tr>'
    )


def _grid_cell(block: sheet.Grid, row: int, column: int) -> str:
    share = block.shares[row][column]
    (r, g, b), alpha = colour(share, 1.0, block.scale) if block.hue == SIGNED else (NEUTRAL, STRONGEST * share)
    line = f"border-bottom:2px dashed rgb({r},{g},{b})" if share < 0 and alpha >= FAINT else "border:0"
    box = f"background-color:rgba({r},{g},{b},{alpha:.3f});{line};box-sizing:border-box;width:{CELL}px;height:18px"
    tip = f' title="{escape(block.tips[row][column])}"' if block.tips else ""
    return (
        f'<td{tip} style="border:0;padding:0 1px 1px {GAP * (column in block.gaps)}px"><div style="{box}"></div></td>'
    )


def _chart(block: sheet.Chart) -> str:
    """The curves as a picture for light and dark pages, between the words about them."""
    with fonts.of_interface():
        figure = Figure(figsize=(6.4, 2.3), layout="constrained", facecolor="none")
        draw_chart(figure.add_subplot(), block, MIDDLE)
        source = b64encode(png(figure)).decode("ascii")
    alt = escape(f"{block.quantity}, {block.steps}")
    image = f'<img alt="{alt}" style="display:block;max-width:44em;width:100%" src="data:image/png;base64,{source}">'
    swatch = f'<span style="{SWATCH};border-top:2px {{}} {{}}"></span>'
    names = "".join(
        swatch.format("solid" if dash == "-" else "dashed", hue) + escape(curve.name)
        for curve, (hue, dash) in zip(block.curves, looks(block, MIDDLE), strict=True)
    )
    band = f'<span style="{SWATCH};height:10px;background-color:rgba(128,128,128,.3)"></span>{escape(block.band)}'
    small = f'<div style="{SMALL}">'
    words = f"{names}{band if block.band else ''}"
    return f"{small}{escape(block.quantity)}</div>{image}{small}{escape(block.steps)}</div>{small}{words}</div>"


def _tile(tile: sheet.Tile) -> str:
    text, style = escape(tile.text), "border:1px dashed;opacity:.75"
    if tile.on:
        r, g, b = colours.rgb(tile.hue)
        opacity = colours.TINT if tile.hue is not None else colours.TINT / 3
        style = f"border:1px solid transparent;background-color:rgba({r},{g},{b},{opacity:.2f});font-weight:bold"
    style += ";display:inline-block;box-sizing:border-box;border-radius:4px;text-align:center;padding:0 5px;width:100%"
    return f'<span style="{style}" title="{escape(tile.tip)}">{text if tile.on else f"<s>{text}</s>"}&#8203;</span>'


def _cloud(block: sheet.SizedWords) -> str:
    strong, pale = f"font-weight:600;color:{class_colour(block.hue, anywhere=True)}", "opacity:.75"
    words = (
        f'<span style="font-size:{word.size:.0f}px;{strong if word.strong else pale}'
        f'{";font-style:italic" * word.italic}{";text-decoration:underline" * word.shared}"'
        f' title="{escape(word.tip)}">{escape(word.text)}</span>'
        for word in block.words
    )
    style = "margin:4px 0 12px;line-height:1.25;word-spacing:.3em;overflow-wrap:anywhere"
    return f'<p style="{style}">{" ".join(words)}</p>'


def _card(block: sheet.Card) -> str:
    look = "background-color:rgba(128,128,128,.1)" if block.filled else "border:1px solid rgba(128,128,128,.4)"
    cell = f'<td style="border:0;padding:0;{SMALL};opacity:1;text-align:{{}};vertical-align:top">{{}}</td>'
    room = f'<span style="display:inline-block;min-width:{SHORT}px;margin-left:8px">{{}}</span>'
    end = "".join(room.format(_cell(each, SHORT, THIN)) for each in block.end)
    cells = cell.format("left", _phrases(block.head)) + cell.format("right;white-space:pre", end)
    head = f'<table style="border-collapse:collapse;width:100%"><tr style="background:none">{cells}</tr></table>'
    return f'<div style="{look};border-radius:8px;padding:4px 12px;margin:8px 0">{head}{_blocks(block.blocks)}</div>'


def _beside(block: sheet.Beside) -> str:
    style = "border:0;padding:0 24px 0 0;vertical-align:top;text-align:left"
    cells = "".join(f'<td style="{style}">{_blocks(column)}</td>' for column in block.columns)
    return f'<table style="border-collapse:collapse;width:100%"><tr style="background:none">{cells}</tr></table>'


_BLOCKS: dict[type, Callable[[Any], str]] = {
    sheet.Sentence: _sentence,
    sheet.Heading: _heading,
    sheet.Marked: _marked,
    sheet.Line: _line,
    sheet.CellTable: _table,
    sheet.Grid: _grid,
    sheet.Chart: _chart,
    sheet.SizedWords: _cloud,
    sheet.Note: lambda block: line_html(block.text),
    sheet.Legend: _legend,
    sheet.Card: _card,
    sheet.Beside: _beside,
}
