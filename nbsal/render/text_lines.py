"""Scored text drawn in lines with matplotlib, and figures saved as PNG with fonts for every script."""

import io
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from nbsal.render import colours, fonts, html
from nbsal.render.html import ScoredSpan
from nbsal.render.scores import score_texts
from nbsal.support.lazy import Axes, Figure

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

POINTS = 72.0  # per inch
WIDTH = 7.0  # inches
SIZE = 9.0  # points
ASCENT = 0.76 * SIZE  # of matplotlib's own font, above the baseline
LINE, GAP, MARGIN = 14.0, 8.0, 8.0  # points
LONGEST = 40  # characters of a word that stay in one line
SPACE = 1.35  # factor for spaces: at a low resolution words are drawn a little wider than measured
TEXT, FAINT_TEXT = "black", "0.35"
DPI = 200
RIGHT_TO_LEFT = ("R", "AL")  # categories of characters that are written from right to left
COMPRESSION = {"compress_level": 3}  # of pictures: the usual 6 takes half as long again and saves a tenth at most


@dataclass(frozen=True)
class ScoredText:
    """A scored text with a title above it; a score as large as `largest` gets full colour.

    `legend` draws the colour scale below the text.
    """

    title: str
    parts: Sequence[Sequence[ScoredSpan]]
    largest: float
    legend: bool = False


@dataclass(frozen=True)
class Bars:
    """A titled list of bars: (name, share of the longest from -1 to 1, value as text)."""

    title: str
    rows: Sequence[tuple[str, float, str]]
    neutral: bool = False  # grey, of values that speak neither for nor against


@dataclass(frozen=True)
class LinePiece:
    """A span of text, or the part of it that fits in one line; `left` and `width` are in points."""

    text: str
    score: float | None
    left: float
    line: int
    width: float
    struck: bool = False


def draw(
    texts: Sequence[ScoredText],
    width: float = WIDTH,
    notes: Sequence[str] = (),
    below: float = 0.0,
    bars: Sequence[Bars] = (),
) -> "Figure":
    """Draw scored texts one below the other in a figure of `width` inches, with bars and then notes under them.

    Negative scores are also underlined. `below` leaves that many inches free under the notes for other panels.
    """
    figure = Figure(figsize=(width, 1.0), facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, width * POINTS))
    ax.axis("off")
    room = width * POINTS - 2 * MARGIN
    top = MARGIN
    for text in texts:
        for line in wrap(text.title, room, bold=True):
            top = _write(ax, line, top, bold=True)
        top = _draw_pieces(ax, list(break_lines(text.parts, room)), top, text.largest)
        if text.legend:
            top = _draw_pieces(ax, _legend(text), top + GAP / 2, text.largest)
        top += GAP
    for part in bars:
        top = _draw_bars(ax, part, top, room) + GAP
    for note in notes:
        for line in wrap(note, room):
            top = _write(ax, line, top, colour=FAINT_TEXT)
    height = top + MARGIN + below * POINTS
    figure.set_size_inches(width, height / POINTS)
    ax.set_ylim(height, 0)
    return figure


def png(figure: "Figure") -> bytes:
    """A figure as PNG; every text is drawn in fonts that have its characters, and none is parsed as a formula."""
    from matplotlib.text import Text

    texts = [artist for artist in figure.findobj(Text) if isinstance(artist, Text) and artist.get_text()]
    for text in texts:
        text.set_parse_math(False)
        if text.get_fontfamily() != (families := fonts.families(text.get_text())):
            text.set_fontfamily(families)
    fonts.warn_missing_glyphs(text.get_text() for text in texts)
    file = io.BytesIO()
    with _without_glyph_warnings():
        figure.savefig(file, format="png", dpi=DPI, pil_kwargs=COMPRESSION)
    return file.getvalue()


def break_lines(parts: Sequence[Sequence[ScoredSpan]], room: float, bold: bool = False) -> Iterator[LinePiece]:
    """Break a scored text, or both texts of a pair, into lines of `room` points, if possible between words."""
    line, space = 0, SPACE * text_width(" ", bold)
    for number, part in enumerate(parts):
        line += bool(number)
        left = 0.0
        mirrored = _is_right_to_left(part)
        for word in _words(part):
            widths = [space if s.text.isspace() else text_width(s.text, bold) for s in word]
            if word[0].text == "\n" or (left and left + sum(widths) > room):
                line, left = line + 1, 0.0
            for span, width in zip(word, widths, strict=True):
                if span.text.isspace() and not left:
                    continue
                if left and sum(widths) > room and left + width > room:  # a word wider than a line
                    line, left = line + 1, 0.0
                place = room - left - width if mirrored else left
                yield LinePiece(span.text, span.score, place, line, width, span.struck)
                left += width


def wrap(text: str, room: float, bold: bool = False) -> list[str]:
    """Break plain text into lines of `room` points."""
    pieces = break_lines([[ScoredSpan(text)]], room, bold)
    return ["".join(piece.text for piece in line) for _, line in groupby(pieces, key=lambda piece: piece.line)]


def text_width(text: str, bold: bool = False) -> float:
    """The width of a text in points."""
    from matplotlib.textpath import text_to_path

    with _without_glyph_warnings():
        width, _, _ = text_to_path.get_text_width_height_descent(text, _font(text, bold), ismath=False)
    return float(width)


def _words(part: Sequence[ScoredSpan]) -> Iterator[list[ScoredSpan]]:
    """Words and the spaces between them; a word is a list of its spans."""
    word: list[ScoredSpan] = []
    for span in part:
        for text in re.findall(rf"\n|[^\S\n]+|\S{{1,{LONGEST}}}", span.text):
            if not text.isspace():
                word.append(replace(span, text=html.visible(text)))
                continue
            if word:
                yield word
            word = []
            yield [replace(span, text="\n" if text == "\n" else " ")]
    if word:
        yield word


def _is_right_to_left(part: Sequence[ScoredSpan]) -> bool:
    """Whether the first letter of a text belongs to a script that is written from right to left."""
    directions = (unicodedata.bidirectional(character) for span in part for character in span.text)
    return next((direction for direction in directions if direction in ("L", *RIGHT_TO_LEFT)), "L") != "L"


def _write(ax: "Axes", line: str, top: float, colour: str = TEXT, bold: bool = False) -> float:
    """Write one line of plain text; return where the next one begins."""
    ax.text(MARGIN, top, line, fontproperties=_font(line, bold), va="top", color=colour, parse_math=False)
    return top + LINE


def _draw_bars(ax: "Axes", bars: Bars, top: float, room: float) -> float:
    """Draw a list of bars from a common zero; return where the next line begins."""
    from matplotlib.patches import Rectangle

    top = _write(ax, bars.title, top, bold=True)
    names = [html.label(name) for name, *_ in bars.rows]
    left = MARGIN + max(map(text_width, names), default=0.0) + GAP
    least = min((share for _, share, _ in bars.rows), default=0.0)
    value_width = max((text_width(text) for *_, text in bars.rows), default=0.0)
    scale = (room - left - 2 * MARGIN - value_width) / (1.0 - min(least, 0.0))
    zero = left - min(least, 0.0) * scale
    for name, (_, share, text) in zip(names, bars.rows, strict=True):
        hue = colours.NEUTRAL if bars.neutral else colours.FOR if share >= 0 else colours.AGAINST
        corner, hatch = (zero + min(share, 0.0) * scale, top), None if share >= 0 else "////"
        bar = Rectangle(corner, abs(share) * scale, LINE - 6, facecolor=colours.hex_colour(hue), hatch=hatch)
        bar.set(edgecolor="white", linewidth=0)
        ax.add_patch(bar)
        ax.text(room + MARGIN, top, text, fontproperties=_font(text), va="top", ha="right", color=TEXT)
        top = _write(ax, name, top)
    return top


def _draw_pieces(ax: "Axes", pieces: Sequence[LinePiece], top: float, largest: float) -> float:
    """Draw the pieces of a text; return where the next line begins."""
    from nbsal.render.line_text import LineText

    tops = [top + LINE * piece.line for piece in pieces]
    _draw_marks(ax, list(zip(pieces, tops, strict=True)), largest)
    for piece, at in zip(pieces, tops, strict=True):
        if not piece.text.isspace():
            style: dict[str, Any] = {"color": FAINT_TEXT if piece.struck else TEXT, "parse_math": False}
            place = MARGIN + piece.left, at + LINE / 2 - 1 + ASCENT / 2
            ax.add_artist(LineText(*place, piece.text, fontproperties=_font(piece.text), **style))
    return top + LINE * (1 + max((piece.line for piece in pieces), default=-1))


def _draw_marks(ax: "Axes", pieces: Sequence[tuple[LinePiece, float]], largest: float) -> None:
    """Draw the boxes and lines of pieces, with their tops, as few artists: one for each piece would take long."""
    from matplotlib.collections import LineCollection, PolyCollection

    boxes, fills, struck, strikes, dots, dot_colours = [], [], [], [], [], []
    for piece, top in pieces:
        left, right = MARGIN + piece.left, MARGIN + piece.left + piece.width
        box = [(left, top), (right, top), (right, top + LINE - 2), (left, top + LINE - 2)]
        if piece.struck:
            struck.append(box)
            strikes.append([(left, top + LINE / 2 - 1), (right, top + LINE / 2 - 1)])
        elif piece.score is not None:
            (r, g, b), alpha = colours.colour(piece.score, largest)
            boxes.append(box)
            fills.append((r / 255, g / 255, b / 255, alpha))
            if piece.score < 0 and alpha >= colours.FAINT:
                dots.append([(left, top + LINE - 2.5), (right, top + LINE - 2.5)])
                dot_colours.append((r / 255, g / 255, b / 255))
    collections = (
        PolyCollection(boxes, facecolor=fills, edgecolor="none"),
        PolyCollection(struck, facecolor="0.96", edgecolor="0.82", hatch="////", linewidth=0),
        LineCollection(strikes, colors=FAINT_TEXT, linewidths=0.8, capstyle="projecting"),
        LineCollection(dots, colors=dot_colours, linewidths=1, linestyles=":"),
    )
    for collection in collections:
        if collection.get_paths():
            ax.add_collection(collection, autolim=False)


def _legend(text: ScoredText) -> list[LinePiece]:
    """The colour scale of a text in one line; it has negative scores only if the text has some."""
    negative = any((span.score or 0.0) < 0 for part in text.parts for span in part)
    scores = [share * text.largest for share in ((-1.0, -0.5, 0.0, 0.5, 1.0) if negative else (0.0, 0.5, 1.0))]
    numbers, power = score_texts(scores)
    pieces, left = [], 0.0
    for number, score in zip([*numbers, power], [*scores, None], strict=True):
        label = f" {number} "
        pieces.append(LinePiece(label, score, left, 0, text_width(label)))
        left += pieces[-1].width
    return pieces


def _font(text: str, bold: bool = False) -> "FontProperties":
    return _font_of(tuple(fonts.families(text)), bold)


@cache
def _font_of(families: tuple[str, ...], bold: bool) -> "FontProperties":
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=families, size=SIZE, weight="bold" if bold else "normal")


@contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """Silence the warning for each missing glyph: `fonts.warn_missing_glyphs` warns once of all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield
