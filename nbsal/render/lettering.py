"""Text in pictures: fonts, widths, line breaks, and figures as PNG with fonts for every script.

Lengths are in the pixels of a page, of which an inch has 96.
"""

import io
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from nbsal.render import fonts, html

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

INCH, POINT = 96.0, 96.0 / 72.0  # in pixels
DPI = 200
LONGEST = 40  # characters of a word that stay in one line
RIGHT_TO_LEFT = ("R", "AL")  # categories of characters that are written from right to left
COMPRESSION = {"compress_level": 3}  # of pictures: the usual 6 takes half as long again and saves a tenth at most


@dataclass(frozen=True)
class Run:
    """A text of one size and weight; `mark` is what is drawn with it."""

    text: str
    size: float
    bold: bool = False
    mark: Any = None
    italic: bool = False

    @property
    def font(self) -> "FontProperties":
        return _font(self._families, self.size, self.bold, self.italic)

    @property
    def width(self) -> float:
        return 0.0 if self.text == "\n" else _drawn_width(self.text, self._families, self.size, self.bold)

    @property
    def _families(self) -> tuple[str, ...]:
        return tuple(fonts.families(self.text, fonts.interface()))


@dataclass(frozen=True)
class Placed:
    """A run, or the part of it that fits in one line."""

    run: Run
    left: float
    line: int


def break_lines(parts: Sequence[Sequence[Run]], room: float) -> Iterator[Placed]:
    """Break the parts of a text into lines of `room` pixels, if possible between words, and place their runs."""
    lines = ((part, line) for part in parts for line in _lines(part, room))
    for number, (part, line) in enumerate(lines):
        mirrored = _direction(part) == "R"
        left = room - sum(run.width for run in line) if mirrored else 0.0
        places = [0.0] * len(line)
        for k in _visual_order(line, mirrored):
            places[k], left = left, left + line[k].width
        yield from (Placed(run, place, number) for run, place in zip(line, places, strict=True))


def _lines(part: Sequence[Run], room: float) -> Iterator[list[Run]]:
    line: list[Run] = []
    left = 0.0
    for word in _words(part):
        width = sum(run.width for run in word)
        if word[0].text == "\n" or (left and left + width > room):
            yield line
            line, left = [], 0.0
        for run in word:
            if run.text.isspace() and not left:
                continue
            if left and width > room and left + run.width > room:  # a word wider than a line
                yield line
                line, left = [], 0.0
            line.append(run)
            left += run.width
    yield line


def _visual_order(line: Sequence[Run], mirrored: bool) -> list[int]:
    """The runs of a line from left to right, by the bidirectional algorithm of Unicode for whole runs."""
    base = "R" if mirrored else "L"
    kinds = [_direction([run]) for run in line]
    letters = _latest([kind.replace("N", "") for kind in kinds], base)
    strong = [last if kind else "" for kind, last in zip(kinds, letters, strict=True)]  # numbers go with what precedes
    before, after = _latest(strong, base), _latest(strong[::-1], base)[::-1]
    sides = [last if last == following else base for last, following in zip(before, after, strict=True)]
    levels = [1 if side == "R" else 2 * mirrored for side in sides]
    return _turned(_turned(range(len(line)), levels, 2), levels, 1)


def _latest(kinds: Sequence[str], base: str) -> list[str]:
    """At each place, the last kind that is known."""
    return list(accumulate(kinds, lambda last, kind: kind or last, initial=base))[1:]


def _turned(order: Iterable[int], levels: Sequence[int], level: int) -> list[int]:
    """The order with each stretch of that level, or a higher one, turned around."""
    groups = [list(group) for _, group in groupby(order, lambda k: levels[k] >= level)]
    return [k for group in groups for k in (group[::-1] if levels[group[0]] >= level else group)]


def png(figure: "Figure") -> bytes:
    """A figure as PNG; every text is drawn in fonts that have its characters, and none is parsed as a formula."""
    from matplotlib.text import Text

    texts = [artist for artist in figure.findobj(Text) if isinstance(artist, Text) and artist.get_text()]
    for text in texts:
        text.set_parse_math(False)
        own = list(text.get_fontfamily())
        if own != (families := fonts.families(text.get_text(), own)):
            text.set_fontfamily(families)
    fonts.warn_missing_glyphs(text.get_text() for text in texts)
    file = io.BytesIO()
    with _without_glyph_warnings():
        figure.savefig(file, format="png", dpi=DPI, pil_kwargs=COMPRESSION)
    return file.getvalue()


def _words(part: Sequence[Run]) -> Iterator[list[Run]]:
    """Words and the spaces between them; a word is a list of its runs."""
    word: list[Run] = []
    for run in part:
        for text in re.findall(rf"\n|[^\S\n]+|\S{{1,{LONGEST}}}", run.text):
            if not text.isspace():
                word.append(replace(run, text=html.visible(text)))
                continue
            if word:
                yield word
            word = []
            yield [replace(run, text="\n" if text == "\n" else " ")]
    if word:
        yield word


def _direction(part: Sequence[Run]) -> str:
    """The direction of the first letter of a text: L or R; N if there are only numbers, nothing if not even these."""
    kinds = [unicodedata.bidirectional(character) for run in part for character in run.text]
    letter = next((kind for kind in kinds if kind in ("L", *RIGHT_TO_LEFT)), "")
    return ("L" if letter == "L" else "R") if letter else "N" * any(kind in ("EN", "AN") for kind in kinds)


@cache
def _font(families: tuple[str, ...], size: float, bold: bool, italic: bool = False) -> "FontProperties":
    from matplotlib.font_manager import FontProperties

    look: dict[str, Any] = {"weight": "bold" if bold else "normal", "style": "italic" if italic else "normal"}
    return FontProperties(family=families, size=size / POINT, **look)


@cache
def _drawn_width(text: str, families: tuple[str, ...], size: float, bold: bool) -> float:
    with _without_glyph_warnings():
        width, _, _ = _renderer().get_text_width_height_descent(text, _font(families, size, bold), False)
    return float(width) * INCH / DPI


@cache
def _renderer() -> Any:
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, DPI)  # type: ignore[no-untyped-call]


@contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """Silence the warning for each missing glyph: `fonts.warn_missing_glyphs` warns once of all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield
