"""What a picture is drawn of: texts, boxes and strokes, in the pixels of a page from its upper left corner."""

from collections.abc import Sequence
from typing import Any

from nbsal.render import colours, fonts
from nbsal.render.chart import draw_chart
from nbsal.render.html import ScoredSpan
from nbsal.render.lettering import INCH, POINT, Run, break_lines
from nbsal.render.sheet import Chart
from nbsal.support.lazy import Figure

PLAIN, SMALL, LINE = 13.0, 12.0, 20.0  # sizes of type; height of a line of plain type
FAINT, PALE = "#5d6066", "#dcdde0"  # ink of what is less important; of lines
Shade = tuple[float, float, float, float]


class Canvas:
    """What is drawn, collected so that few artists draw it: one for each piece would take long."""

    def __init__(self) -> None:
        self.boxes: list[tuple[float, float, float, float, Any]] = []  # left, top, width, height, colour
        self.strokes: list[tuple[float, float, float, float, Any, float, bool]] = []  # from, to, colour, width, dashed
        self.texts: list[tuple[float, float, Run, str, bool]] = []  # left, baseline; or centre, bottom if upright
        self.frames: list[tuple[float, float, float, float, float, str, float]] = []  # and roundness, colour, width
        self.charts: list[tuple[float, float, float, float, Chart]] = []
        self.rings: list[tuple[float, float, str, bool]] = []

    def write(
        self,
        parts: Sequence[Sequence[Run]],
        left: float,
        top: float,
        room: float,
        height: float = LINE,
        ink: str = colours.INK,
    ) -> float:
        """Write a text in lines of some height; return where what follows begins."""
        last = -1
        for placed in break_lines(parts, room):
            last = max(last, placed.line)
            if placed.run.mark or not placed.run.text.isspace():
                self._place(placed.run, left + placed.left, top + height * placed.line + height / 2, ink)
        return top + height * (last + 1)

    def plain(
        self, text: str, left: float, top: float, room: float, size: float = PLAIN, ink: str = colours.INK
    ) -> float:
        return self.write([[Run(text, size)]], left, top, room, LINE if size == PLAIN else LINE - 2, ink)

    def _place(self, run: Run, left: float, middle: float, ink: str) -> None:
        base, right = middle + 0.36 * run.size, left + run.width
        if isinstance(run.mark, tuple):
            span, largest, scale = run.mark
            self._shade(span, largest, scale, left, middle, run)
            ink = FAINT if span.struck else ink
        elif run.mark in ("for", "against"):
            hue = colours.hex_colour(colours.FOR if run.mark == "for" else colours.AGAINST)
            self.stroke(left, base + 0.24 * run.size, right, dashed=run.mark == "against", hue=hue)
        elif run.mark == "struck":
            self.stroke(left, base - 0.28 * run.size, right, hue=FAINT, width=1.2)
            ink = FAINT
        if not run.text.isspace():
            self.texts.append((left, base, run, FAINT if run.mark == "quiet" else ink, False))

    def _shade(
        self, span: ScoredSpan, largest: float, scale: colours.Scale, left: float, middle: float, run: Run
    ) -> None:
        tall = 0.68 * run.size
        if span.chosen and span.score is None:
            self.stroke(left, middle + 0.6 * run.size, left + run.width, hue=colours.INK)
        elif span.struck:
            self.boxes.append((left, middle - tall, run.width, 2 * tall, "#f0f0f1"))
            self.stroke(left, middle, left + run.width, hue=FAINT, width=1.2)
        elif span.score is not None:
            shade, faint = shade_of(span.score / largest if largest else 0.0, scale)
            self.boxes.append((left, middle - tall, run.width, 2 * tall, shade))
            if span.score < 0 and not faint:
                hue = colours.hex_colour(colours.AGAINST)
                self.stroke(left, middle + tall - 1, left + run.width, dashed=True, hue=hue)

    def stroke(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float | None = None,
        *,
        hue: Any,
        width: float = 2.0,
        dashed: bool = False,
    ) -> None:
        self.strokes.append((left, top, right, top if bottom is None else bottom, hue, width, dashed))

    def figure(self, width: float, height: float) -> "Figure":
        from matplotlib.collections import LineCollection, PolyCollection
        from matplotlib.patches import FancyBboxPatch

        from nbsal.render.line_text import LineText

        figure = Figure(figsize=(width / INCH, height / INCH), facecolor="white")
        ax = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        ax.axis("off")
        corners = [[(x, y), (x + w, y), (x + w, y + h), (x, y + h)] for x, y, w, h, _ in self.boxes]
        ax.add_collection(
            PolyCollection(corners, facecolor=[box[-1] for box in self.boxes], edgecolor="none", antialiased=False)
        )
        for dashed in (False, True):
            lines = [stroke for stroke in self.strokes if stroke[-1] == dashed]
            dash: Any = (0, (2, 1.5)) if dashed else "-"
            ends = [[(x, y), (right, bottom)] for x, y, right, bottom, *_ in lines]
            widths = [stroke[5] / POINT for stroke in lines]
            ax.add_collection(
                LineCollection(ends, colors=[stroke[4] for stroke in lines], linewidths=widths, linestyles=dash)
            )
        for x, y, w, h, radius, edge, thick in self.frames:
            shape = f"round,pad=0,rounding_size={radius}"
            ax.add_patch(FancyBboxPatch((x, y), w, h, shape, facecolor="none", edgecolor=edge, linewidth=thick))
        for x, y, hue, filled in self.rings:
            ax.plot(x, y, "o", markersize=7, markeredgewidth=1.5, color=hue, markerfacecolor=hue if filled else "white")
        for x, y, run, ink, upright in self.texts:
            style: dict[str, Any] = {"fontproperties": run.font, "color": ink}
            if upright:
                ax.text(x, y, run.text, rotation=90, ha="center", va="bottom", parse_math=False, **style)
            else:
                ax.add_artist(LineText(x, y, run.text, parse_math=False, **style))
        for x, y, w, h, chart in self.charts:
            with fonts.of_interface():
                place = (x / width, 1 - (y + h) / height, w / width, h / height)
                draw_chart(figure.add_axes(place), chart)
        return figure


def shade_of(share: float, scale: colours.Scale = colours.LINEAR) -> tuple[Shade, bool]:
    """The colour of a share of the strongest, and whether it is too faint to be underlined."""
    (r, g, b), alpha = colours.colour(share, 1.0, scale)
    return tint((r, g, b), alpha), alpha < colours.FAINT


def tint(hue: tuple[int, int, int], opacity: float) -> Shade:
    r, g, b = hue
    return r / 255, g / 255, b / 255, opacity
