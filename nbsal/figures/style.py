"""Shared look of all figures: sizes, fonts, colours and the drawing helpers built on them.

The colours suit every kind of colour vision, and line styles and hatches repeat what colours say. Figures are plain
`matplotlib.figure.Figure` objects, created without pyplot, so that none stays open in a notebook.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from io import BytesIO
from typing import Any, ParamSpec, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context
from numpy.typing import NDArray

from nbsal.evaluation.results import Results
from nbsal.methods.labels import layer_of, look
from nbsal.model.head_mask import HeadMask
from nbsal.render import html, sheet_png
from nbsal.render.html import ScoredSpan
from nbsal.render.looks import HUES, Look
from nbsal.render.sheet import Heading, Marked, Sheet
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.validation import checked

WIDTH = 7.0  # inches: a page of text
SMALL, NORMAL, LARGE = 7.5, 9.0, 10.0  # points
ROLE_COLOURS = ("#009e73", "#0072b2", "#cc79a7", "#999999")  # syntactic, positional, both, neither
SYNTACTIC, POSITIONAL, BOTH, NEITHER = range(4)
ROLES = ("syntactic", "positional", "both", "neither")
ROLE_HATCHES = ("//", "..", "xx", "")
BACKGROUND, LINE_GREY = "white", "0.5"
MAX_BANDS = 4  # more confidence bands in one panel cannot be told apart
DPI = 150
MAX_MARKERS = 12  # on a line; with more points, they stand along it instead of at every point
MARKER_SIZE, MARKER_STEP = 3.5, 0.12
MORE_HUES = ("#882255", "#999933", "#332288", "#44aa99", "#8c564b")  # of lines whose hue another line has
THIN, THICK = 1.2, 2.6  # lines: the first is on top and thin, so that one below it on the same place is still seen
SETTINGS = {
    "font.size": NORMAL, "axes.titlesize": LARGE, "axes.labelsize": NORMAL, "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL, "legend.fontsize": SMALL, "legend.frameon": False, "axes.spines.top": False,
    "axes.spines.right": False, "figure.facecolor": BACKGROUND, "savefig.facecolor": BACKGROUND, "lines.linewidth": 1.5,
    "hatch.linewidth": 0.6, "text.usetex": False, "text.parse_math": False,
}  # fmt: skip
P = ParamSpec("P")
R = TypeVar("R")
Panels = NDArray[Any]


def draw_figure(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorate a drawing function to use these settings; the user's own settings are restored afterwards."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> R:
        with context(["default", SETTINGS]):
            return draw(*args, **kwargs)

    return checked(styled)


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, Panels]:
    """Create a figure with panels [row, column]; `width` and `height` are those of one panel, in inches."""
    if not rows * columns:
        raise InputError(
            "There is nothing to draw. Pass at least one of each.", argument="panels", value=(rows, columns)
        )
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes: Panels = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.tick_params(labelsize=SMALL)
    return figure, axes


def grid(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Create a figure with that many panels, in rows of `columns`; the empty places of the last row are hidden."""
    figure, axes = panels(-(-count // columns), columns, width, height)
    for ax in axes.flat[count:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:count])


def set_titles(ax: Axes, title: str = "", x: str = "", y: str = "") -> None:
    """Set the title and axis labels of a panel; no text is parsed as a formula."""
    ax.set_title(html.visible(title))
    ax.set_xlabel(html.visible(x))
    ax.set_ylabel(html.visible(y))


def add_legend(
    figure: Figure, axes: Axes | Sequence[Axes], columns: int = 1, position: Any = "outside right upper"
) -> None:
    """Add one legend for all panels beside them, with each label once."""
    panels = [axes] if isinstance(axes, Axes) else axes
    handles = {label: handle for ax in panels for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if "random" in handles:
        handles["random"] = handles.pop("random")  # the random baseline comes last
    figure.legend(list(handles.values()), list(handles), loc=position, ncols=columns)


def head_roles(mask: HeadMask) -> NDArray[np.intp]:
    """Return the role [block, head] of every attention head, as an index into `ROLES`."""
    syntactic, positional = mask.syntactic | mask.unnamed, mask.positional
    return np.select([syntactic & positional, syntactic, positional], [BOTH, SYNTACTIC, POSITIONAL], NEITHER)


def label_columns(ax: Axes, names: Sequence[str], upright: bool = False) -> None:
    """Write names below the columns of a panel: slanted, or `upright` where columns are narrow."""
    labels = [html.label(name) for name in names]
    place = {"rotation": 90} if upright else {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(names)), labels, parse_math=False, **place)


def label_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write names beside the rows of a panel."""
    ax.set_yticks(range(len(names)), [html.label(name) for name in names], parse_math=False)


def line_colour(number: int) -> str:
    return HUES[number % len(HUES)]


def line_looks(names: Sequence[str]) -> dict[str, Look]:
    """The look of every line of a figure: that of its method, but no two lines have the same colour.

    Layers of one method have colours by their number. Another line whose colour is taken gets a free one.

    >>> looks = line_looks(["decoded Grad-CAM l4", "decoded Grad-CAM l5", "gradxact", "random"])
    >>> len({look.colour for look in looks.values()})
    4
    """
    looks = {name: look(name, number) for number, name in enumerate(names)}
    layers = {name: layer for name in names if (layer := layer_of(name)) is not None}
    colours = {name: HUES[layer % len(HUES)] for name, layer in layers.items()} if len(layers) > 1 else {}
    for name, line in looks.items():
        free = [line.colour, *HUES, *MORE_HUES]
        hue = colours.get(name, line.colour)
        taken = [colours[other] for other in colours if other != name]
        colours[name] = hue if hue not in taken else next((h for h in free if h not in taken), line.colour)
    return {name: replace(line, colour=colours[name]) for name, line in looks.items()}


def draw_curves(
    ax: Axes,
    results: Results,
    measure: str,
    explainers: Sequence[str],
    looks: Mapping[str, Look] | None = None,
    bands: bool = True,
) -> None:
    """Draw one line per explainer, the first ones above the others; explainers with the same curve share a line.

    With few lines, each has its 95 % confidence band over texts. Explainers with several random runs always have a
    band: the standard deviation between the runs. `bands` leaves out those over texts.
    """
    curves = {name: _curve(results, measure, name) for name in explainers}
    lines = line_looks(explainers) if looks is None else looks
    for name in draw_lines(ax, {name: curve[:2] for name, curve in curves.items()}, lines):
        x, y, low, high, spread = curves[name]
        if several_runs := not np.isnan(spread).any():
            low, high = y - spread, y + spread
        if several_runs or (bands and len(explainers) <= MAX_BANDS):
            ax.fill_between(x, low, high, color=lines[name].colour, alpha=0.12, linewidth=0)


def draw_lines(ax: Axes, curves: Mapping[str, NDArray[Any]], looks: Mapping[str, Look]) -> list[str]:
    """Draw curves [x or y, point] by name, the first above the others; return the first name of every line.

    Equal curves are one line with all their names.
    """
    names: dict[str, list[str]] = {}
    for name, curve in curves.items():
        same = next((first for first in names if np.array_equal(curves[first], curve)), name)
        names.setdefault(same, []).append(name)
    for number, (name, shared) in enumerate(names.items()):
        (x, y), line, below = curves[name], looks[name], number / len(names)
        how: dict[str, Any] = {
            "color": line.colour,
            "marker": line.marker,
            "markersize": MARKER_SIZE,
            "zorder": 3 - below,
        }
        how |= {"markersize": MARKER_SIZE, "markevery": None if len(x) <= MAX_MARKERS else MARKER_STEP}
        width = THIN + (THICK - THIN) * below
        ax.plot(x, y, line.line, label=html.visible(" = ".join(shared)), linewidth=width, **how)
    return list(names)


def _curve(results: Results, measure: str, name: str) -> NDArray[Any]:
    """The points, values, ends of intervals and spreads of an explainer, one row each."""
    metric, frame = results.metric, results.frame
    rows = frame[(frame["explainer"] == name) & (frame[metric.measure] == measure)]
    if rows.empty:
        raise UnknownName("explainer", name, results.explainers)
    return rows[[metric.point, metric.value, "low", "high", "spread"]].to_numpy(float).T


def curve_panels(
    results: Results, explainers: Sequence[str] | None, labels: Mapping[str, tuple[str, str]], height: float
) -> Figure:
    """Create a figure with the curves of each measure in a panel; `labels` maps a measure to its axis labels."""
    figure, axes = panels(1, len(labels), 3.1, height)
    for ax, (measure, (x, y)) in zip(axes[0], labels.items(), strict=True):
        draw_curves(ax, results, measure, results.explainers if explainers is None else explainers)
        set_titles(ax, results.heading(measure), x, y)
    add_legend(figure, axes[0][0])
    return figure


def hide_axes(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)


def png_bytes(figure: Figure) -> bytes:
    """Return the figure as a PNG without a time stamp, so that equal figures have equal bytes."""
    file = BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def texts(scored: Sequence[tuple[str, Sequence[Sequence[ScoredSpan]], float]], note: str) -> "Figure":
    """Texts under their titles, each with the score that gets full colour, above a note."""
    texts = ((Heading([("text", title)]), Marked(spans, largest, large=False)) for title, spans, largest in scored)
    blocks = [block for pair in texts for block in pair]
    return sheet_png.draw(Sheet("", blocks, [note]))
