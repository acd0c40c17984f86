"""Text in pictures: fonts, widths, line breaks, and figures as PNG with fonts for every script.

Lengths are in the pixels of a page, of which an inch has 96.
"""

import io
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
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
    """Break the parts of a text into lines of `room` pixels, if possible between words."""
    line = 0
    for number, part in enumerate(parts):
        line += bool(number)
        left = 0.0
        mirrored = _is_right_to_left(part)
        for word in _words(part):
            width = sum(run.width for run in word)
            if word[0].text == "\n" or (left and left + width > room):
                line, left = line + 1, 0.0
            for run in word:
                if run.text.isspace() and not left:
                    continue
                if left and width > room and left + run.width > room:  # a word wider than a line
                    line, left = line + 1, 0.0
                yield Placed(run, room - left - run.width if mirrored else left, line)
                left += run.width


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


def _is_right_to_left(part: Sequence[Run]) -> bool:
    """Whether the first letter of a text belongs to a script that is written from right to left."""
    directions = (unicodedata.bidirectional(character) for run in part for character in run.text)
    return next((direction for direction in directions if direction in ("L", *RIGHT_TO_LEFT)), "L") != "L"


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
