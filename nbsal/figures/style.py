"""Style: sizes, type and colours that all figures share, and the small pieces they are drawn from.

Colours are told apart by every kind of colour vision, and lines and hatches repeat what colours say. Figures are bare
`matplotlib.figure.Figure`s: pyplot neither knows nor keeps them.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from io import BytesIO
from typing import Any, ParamSpec, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.style import context
from numpy.typing import NDArray

from nbsal.errors import UnknownName
from nbsal.evaluation.results import HUES, LINES, Results
from nbsal.render import colours, html

WIDTH = 7.0  # inches: a page of text
SMALL, NORMAL, LARGE = 7.5, 9.0, 10.0  # points
SHADES = ("#009e73", "#0072b2", "#cc79a7", "#999999")  # syntactic, positional, both, neither
SYNTACTIC, POSITIONAL, BOTH, NEITHER = range(4)
ROLES = ("syntactic", "positional", "both", "neither")
HATCHES = ("//", "..", "xx", "")
FACE, GRID, CHANCE = "white", "0.5", "0.35"
FEW = 4  # lines whose bands can be told apart
DOTS = 150  # an inch, in pictures
TYPE = {
    "font.size": NORMAL, "axes.titlesize": LARGE, "axes.labelsize": NORMAL, "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL, "legend.fontsize": SMALL, "legend.frameon": False, "axes.spines.top": False,
    "axes.spines.right": False, "figure.facecolor": FACE, "savefig.facecolor": FACE, "lines.linewidth": 1.5,
    "hatch.linewidth": 0.6, "text.usetex": False, "text.parse_math": False,
}  # fmt: skip
P = ParamSpec("P")
Made = TypeVar("Made")
Panels = NDArray[Any]


def draw_figure(draw: Callable[P, Made]) -> Callable[P, Made]:
    """Draw in this style; the user's own settings come back afterwards."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Made:
        with context(["default", TYPE]):
            return draw(*args, **kwargs)

    return styled


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, Panels]:
    """A figure with its panels [row, column]; sizes are those of one panel, in inches."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes: Panels = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.tick_params(labelsize=SMALL)
    return figure, axes


def titled(ax: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Title and labels of a panel, taken as they are."""
    ax.set_title(html.visible(title))
    ax.set_xlabel(html.visible(x))
    ax.set_ylabel(html.visible(y))


def legend(figure: Figure, axes: Axes | Sequence[Axes], columns: int = 1, at: Any = "outside right upper") -> None:
    """The lines and bars of panels, each named once, beside the figure."""
    panels = [axes] if isinstance(axes, Axes) else axes
    named = {n: h for ax in panels for h, n in zip(*ax.get_legend_handles_labels(), strict=True)}
    if "random" in named:
        named["random"] = named.pop("random")  # chance comes last
    figure.legend(list(named.values()), list(named), loc=at, ncols=columns)


def across(ax: Axes, names: Sequence[str], turned: bool = True) -> None:
    """Names below the columns of a panel."""
    way: dict[str, Any] = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    ax.set_xticks(range(len(names)), [html.label(name) for name in names], parse_math=False, **way)


def down(ax: Axes, names: Sequence[str]) -> None:
    """Names beside the rows of a panel."""
    ax.set_yticks(range(len(names)), [html.label(name) for name in names], parse_math=False)


def hue(at: int) -> str:
    """The colour of the line of that number."""
    return HUES[at % len(HUES)]


def dash(at: int) -> str:
    """The line style of that number: it changes where colours begin anew."""
    return LINES[at // len(HUES) % len(LINES)]


def curves(ax: Axes, results: Results, measure: str, explainers: Sequence[str], first: int = 0) -> None:
    """A line an explainer; chance is grey.

    Where few lines are drawn each has its band, 95 % over texts; explainers that draw at random always have one, the
    deviation between their runs. `first` is the number of the first line's colour.
    """
    sheet, frame = results.sheet, results.frame
    for at, name in enumerate(explainers, first):
        own = frame[(frame["explainer"] == name) & (frame[sheet.measure] == measure)]
        if own.empty:
            raise UnknownName("explainer in these results", name, results.explainers)
        x, y, low, high, spread = (own[c].to_numpy() for c in (sheet.point, sheet.value, "low", "high", "spread"))
        colour, line = (CHANCE, ":") if name == "random" else (hue(at), dash(at))
        ax.plot(x, y, line, color=colour, label=html.visible(name), marker="o" if len(x) == 1 else "")
        if runs := not np.isnan(spread).any():
            low, high = y - spread, y + spread
        if runs or len(explainers) <= FEW:
            ax.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)


def one_way() -> LinearSegmentedColormap:
    """From white to what speaks for the target."""
    return LinearSegmentedColormap.from_list("relevance", ["#ffffff", colours.hex_colour(colours.FOR)])


def bare(ax: Axes) -> None:
    """A panel without frame and ticks."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)


def png(figure: Figure) -> bytes:
    """The figure as a picture; it says nothing of when it was made."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=DOTS, metadata={"Software": None})
    return file.getvalue()
