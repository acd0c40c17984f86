"""Flowing text: scored texts drawn in lines as they are read, one below the other."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path

from nbsal.figures import style
from nbsal.render import colours, html
from nbsal.render.html import ScoredSpan

POINTS = 72.0  # an inch
LINE, GAP, MARGIN = 14.0, 10.0, 8.0  # points
WIDER = 1.35  # spaces: hinting makes words a little wider than they are measured
LONGEST = 60  # characters of a piece that cannot be broken


@dataclass(frozen=True)
class ScoredText:
    """A scored text with a title above it; `largest` is the score of full colour."""

    title: str
    parts: Sequence[Sequence[ScoredSpan]]
    largest: float


@dataclass(frozen=True)
class Piece:
    """A stretch, or what of it stands in one line, `left` and `below` in points from its passage's corner."""

    text: str
    score: float | None
    left: float
    line: int
    width: float


@style.draw_figure
def draw(passages: Sequence[ScoredText], width: float = style.WIDTH, note: str = "") -> Figure:
    """The passages in one figure; what speaks against is also underlined."""
    set_in_lines = [list(break_lines(passage.parts, width * POINTS - 2 * MARGIN)) for passage in passages]
    lines = [1 + max((piece.line for piece in pieces), default=0) for pieces in set_in_lines]
    height = 2 * MARGIN + sum(LINE * (1 + count) + GAP for count in lines) + (LINE if note else 0)
    figure = Figure(figsize=(width, height / POINTS))
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, width * POINTS), ylim=(height, 0))
    ax.axis("off")
    top = MARGIN
    for passage, pieces, count in zip(passages, set_in_lines, lines, strict=True):
        title = html.visible(passage.title)
        ax.text(MARGIN, top, title, fontsize=style.SMALL, weight="bold", va="top")
        for piece in pieces:
            _draw(ax, piece, top + LINE * (1 + piece.line), passage.largest)
        top += LINE * (1 + count) + GAP
    if note:
        ax.text(MARGIN, top, html.visible(note), fontsize=style.SMALL, va="top", color="0.35")
    return figure


def break_lines(parts: Sequence[Sequence[ScoredSpan]], room: float) -> Iterator[Piece]:
    """The stretches of a text, or of both members of a pair, set in lines that fit the room."""
    line = 0
    for number, part in enumerate(parts):
        line += bool(number)
        left = 0.0
        for unit in _units(part):
            widths = [text_width(" ") * WIDER if text.isspace() else text_width(text) for text, _ in unit]
            if unit[0][0] == "\n" or (left and left + sum(widths) > room):
                line, left = line + 1, 0.0
            for (text, score), own in zip(unit, widths, strict=True):
                if text.isspace() and not left:
                    continue
                yield Piece(text, score, left, line, own)
                left += own


def text_width(text: str) -> float:
    """How wide a text is, in points."""
    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=style.NORMAL), ismath=False)
    return float(width)


def _units(part: Sequence[ScoredSpan]) -> Iterator[list[tuple[str, float | None]]]:
    """Pieces of text that stay in one line: words, whatever tokens they consist of, and the spaces between them."""
    word: list[tuple[str, float | None]] = []
    for stretch in part:
        for text in re.findall(rf"\n|[^\S\n]+|\S{{1,{LONGEST}}}", stretch.text):
            if not text.isspace():
                word.append((html.visible(text), stretch.score))
                continue
            if word:
                yield word
            word = []
            yield [("\n" if text == "\n" else " ", stretch.score)]
    if word:
        yield word


def _draw(ax: Axes, piece: Piece, top: float, largest: float) -> None:
    if piece.score is not None:
        (r, g, b), alpha = colours.colour(piece.score, largest)
        colour = (r / 255, g / 255, b / 255)
        corner = (MARGIN + piece.left, top)
        ax.add_patch(Rectangle(corner, piece.width, LINE - 2, facecolor=(*colour, alpha), edgecolor="none"))
        if piece.score < 0 and alpha >= colours.FAINT:
            ends = (MARGIN + piece.left, MARGIN + piece.left + piece.width)
            ax.plot(ends, [top + LINE - 2.5] * 2, ":", color=colour, linewidth=1)
    if not piece.text.isspace():
        place = (MARGIN + piece.left, top + LINE / 2 - 1)
        ax.text(*place, piece.text, fontsize=style.NORMAL, va="center_baseline")
