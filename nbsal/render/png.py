"""Pictures: a scored text drawn as PNG, laid out in lines as a page would."""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nbsal.render import colours, fonts, html

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

WIDE = 720  # pixels of a line, at SCALE 1
SIZE = 11  # points
LEADING = 23  # pixels from line to line
MARGIN = 12
LONGEST = 60  # characters that surely fit a line
SCALE = 2  # device pixels to one
_PIECE = re.compile(r"\n|[^\S\n]+|\S+")


class Picture:
    """Lines of a picture, filled from left to right."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self._figure = Figure(dpi=72 * SCALE)
        self._measure: Any = FigureCanvasAgg(self._figure).get_renderer()  # type: ignore[no-untyped-call]
        self._widths: dict[tuple[str, float, bool], float] = {}
        self._drawn: list[tuple[float, float, str, float, bool, Any]] = []
        self.x, self.y = 0.0, 0.0

    def write(self, text: str, size: float = SIZE, bold: bool = False, shade: Any = None) -> None:
        """Text at the end of the line, broken between words, and within one that is wider than a line."""
        for piece in _PIECE.findall(html.visible(text)):
            if piece == "\n":
                self.feed()
                continue
            for part in self._fitting(piece, size, bold):
                width = self._width(part, size, bold)
                if self.x and self.x + width > WIDE and not part.isspace():
                    self.feed()
                self._drawn.append((self.x, self.y, part, size, bold, shade))
                self.x += width

    def feed(self) -> None:
        """Begin a new line."""
        self.x, self.y = 0.0, self.y + LEADING

    def line(self, scored_spans: Iterable[html.ScoredSpan], largest: float) -> None:
        """A scored stretch of text, and then a new line."""
        for stretch in scored_spans:
            self.write(stretch.text, shade=_shade(stretch.score, largest))
        self.feed()

    def shaded(self, title: str, parts: Sequence[Sequence[html.ScoredSpan]], largest: float) -> None:
        """A scored text, or pair, under its title, with its scale below."""
        self.write(title, bold=True)
        self.feed()
        for part in parts:
            self.line(part, largest)
        signed = any((stretch.score or 0) < 0 for part in parts for stretch in part)
        for share in (-1.0, 0.0, 1.0) if signed else (0.0, 1.0):
            self.write(f" {colours.scale_label(share * largest)} ", size=9, shade=_shade(share, 1.0))
        self.feed()

    def notes(self, notes: Sequence[str]) -> None:
        """Small print, a line each."""
        for note in notes:
            self.write(note, size=8)
            self.feed()

    def png(self) -> bytes:
        """The picture."""
        from matplotlib.patches import Rectangle
        from matplotlib.text import Text

        wide, high = WIDE + 2 * MARGIN, self.y + LEADING + 2 * MARGIN
        figure = self._figure
        figure.set_size_inches(wide / 72, high / 72)
        for x, y, text, size, bold, shade in self._drawn:
            base, width = high - MARGIN - y - 0.72 * LEADING, self._width(text, size, bold)
            if shade is not None:
                (r, g, b), alpha, against = shade
                box = ((MARGIN + x) / wide, (base - 5) / high), width / wide, (LEADING - 4) / high
                colour = (r / 255, g / 255, b / 255, alpha)
                figure.add_artist(Rectangle(*box, facecolor=colour, linewidth=0))
                if against:
                    line = ((MARGIN + x) / wide, (base - 4) / high), width / wide, 1 / high
                    figure.add_artist(Rectangle(*line, facecolor="0.25", linewidth=0))
            place = (MARGIN + x) / wide, base / high
            figure.add_artist(Text(*place, text, fontproperties=_font(text, size, bold), parse_math=False))
        return _saved(figure)

    def _width(self, text: str, size: float, bold: bool) -> float:
        key = (text, size, bold)
        if key not in self._widths:
            font = _font(text, size, bold)
            with _boxes():
                self._widths[key] = self._measure.get_text_width_height_descent(text, font, ismath=False)[0] / SCALE
        return self._widths[key]

    def _fitting(self, piece: str, size: float, bold: bool) -> Iterator[str]:
        """The piece in parts that fit a line."""
        if len(piece) <= LONGEST and self._width(piece, size, bold) <= WIDE:
            yield piece
        else:
            yield from (piece[start : start + LONGEST] for start in range(0, len(piece), LONGEST))


def highlighted(
    title: str, parts: Sequence[Sequence[html.ScoredSpan]], largest: float, notes: Sequence[str] = ()
) -> bytes:
    """A scored text, or pair, under its title, with the scale and notes below.

    >>> highlighted("A joy", [[render.ScoredSpan("joy", 0.5)]], 0.5)[:4]
    b'\\x89PNG'
    """
    sheet = Picture()
    sheet.shaded(title, parts, largest)
    sheet.notes(notes)
    return sheet.png()


def draw_axes(axes: Any) -> bytes:
    """Matplotlib's axes as PNG."""
    return _saved(axes.figure)


def _shade(score: float | None, largest: float) -> Any:
    """Hue, opacity, and whether it is marked as speaking against."""
    if score is None:
        return None
    hue, alpha = colours.colour(score, largest)
    return hue, alpha, score < 0 and alpha >= colours.FAINT


def _font(text: str, size: float, bold: bool) -> "FontProperties":
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=fonts.families(text), size=size, weight="bold" if bold else "normal")


@contextmanager
def _boxes() -> Iterator[None]:
    """Boxes stand for what no font has, and `fonts` says so once for all of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


def _saved(figure: "Figure") -> bytes:
    from matplotlib.text import Text

    written = [artist for artist in figure.findobj(Text) if isinstance(artist, Text) and artist.get_text()]
    for artist in written:
        artist.set_fontfamily(fonts.families(artist.get_text()))
    fonts.warn_missing_glyphs(artist.get_text() for artist in written)
    found = io.BytesIO()
    with _boxes():
        figure.savefig(found, format="png")
    return found.getvalue()
