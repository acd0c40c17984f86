"""Curves with their ranges, drawn in axes of matplotlib."""

from collections.abc import Sequence

from nbsal.render.headline import percent
from nbsal.render.looks import LINES
from nbsal.render.sheet import Chart
from nbsal.support.lazy import Axes

RANDOM_DASH = (0, (5, 4))
ACCENT = "#3b7dd8"
# The colours of curves on white, and those that are visible on white and on black; the first is that of the text.
DARK = ("#1c1e22", "#00706b", "#7c3fa8", "#8a5a00", "#a8326e")
MIDDLE = ("#7d828b", "#1b9a91", "#a06cc9", "#b07d1c", "#d0588f")


def looks(chart: Chart, hues: Sequence[str] = DARK) -> list[tuple[str, str | tuple[int, tuple[int, int]]]]:
    """The colour and the dash of each curve."""
    methods = [curve for curve in chart.curves if not curve.random]
    return [
        (hues[0], RANDOM_DASH)
        if curve.random
        else (hues[methods.index(curve) % len(hues)], LINES[methods.index(curve) % len(LINES)])
        for curve in chart.curves
    ]


def draw_chart(ax: "Axes", chart: Chart, hues: Sequence[str] = DARK) -> None:
    """Draw the curves, and the step on display."""
    ink = hues[0]
    for curve, (hue, dash) in zip(chart.curves, looks(chart, hues), strict=True):
        ax.plot(curve.steps, curve.values, linestyle=dash, color=hue, linewidth=1.2 if curve.random else 1.8)
        if curve.band is not None:
            ax.fill_between(curve.steps, *curve.band, color=hue, alpha=0.12, linewidth=0)
    if chart.point is not None:
        ax.axvline(chart.point[0], color=ACCENT, linewidth=1)
        ax.plot(*chart.point, "o", color=ACCENT, markersize=6, markerfacecolor="none", markeredgewidth=1.5)
    if chart.probable:
        ax.set_ylim(-0.02, 1.02)
        ax.set_yticks([0, 0.5, 1], ["0", percent(0.5, 0), percent(1, 0)])
    if chart.halved:
        ax.axhline(0.5, color=ink, linewidth=0.8, linestyle=":", alpha=0.7)
    ax.set_xlim(-0.01, 1.01)
    ax.set_xticks(*zip(*chart.ticks, strict=True))
    ax.patch.set_alpha(0.0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[:].set_color(ink)
    ax.tick_params(colors=ink, labelsize=9)
