"""Tables: what explainers reached on several data sets, in the manner of the papers' tables."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pandas

from nbsal.errors import InputError
from nbsal.evaluation.results import Results
from nbsal.render import html

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

CELLS = [{"selector": "td, th", "props": "text-align: right; padding: 1px 8px; white-space: nowrap"}]


def score_table(
    panels: Mapping[str, Results],
    ours: Collection[str] = (),
    explainers: Sequence[str] | None = None,
    measures: Sequence[str] | None = None,
    beside: bool = False,
) -> "Styler":
    """Explainers by measures for every data set, below each other or `beside` each other, each with its 95 % interval.

    The best of a data set is bold, its best competitor italic: any explainer but the best, or any but `ours`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> found = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> score_table({"two texts": found}).data.shape
    (1, 4)
    """
    if not panels:
        raise InputError("A table needs results: give at least one data set.")
    parts = {name: _part(found, ours, explainers, measures) for name, found in panels.items()}
    axis: Literal[0, 1] = 1 if beside else 0
    numbers: pandas.DataFrame = pandas.concat({name: part[0] for name, part in parts.items()}, axis=axis)
    styles: pandas.DataFrame = pandas.concat({name: part[1] for name, part in parts.items()}, axis=axis).fillna("")
    notes = [f"{name}: {'. '.join(found.notes)}" for name, found in panels.items()]
    return framed(numbers, " | ".join(notes), styles)


def framed(numbers: "pandas.DataFrame", caption: str, styles: "pandas.DataFrame | None" = None) -> "Styler":
    """A frame in the papers' manner: three digits, names escaped, styles a cell.

    >>> "0.123" in framed(pandas.DataFrame({"auc": [0.12345]}), "areas").to_html()
    True
    """
    found = numbers.style.format(precision=3, na_rep="", escape="html")
    found = found.format_index(_named).format_index(_named, axis=1)
    if styles is not None:
        found = found.apply(lambda _: styles, None)
    return found.set_caption(html.escape(caption)).set_table_styles(CELLS)  # type: ignore[arg-type]


def _named(name: Any) -> str:
    return html.escape(str(name))


def _part(
    found: Results, ours: Collection[str], explainers: Sequence[str] | None, measures: Sequence[str] | None
) -> tuple["pandas.DataFrame", "pandas.DataFrame"]:
    """Numbers and styles of one data set."""
    head = found.sheet.summary
    summed = (found.auc() if head == "auc" else found.mean()).set_index(["explainer", found.sheet.measure])
    names = [name for name in found.explainers if explainers is None or name in explainers]
    wanted = [measure for measure in found.measures if measures is None or measure in measures]
    columns, styles = {}, {}
    for measure in wanted:
        own = summed.xs(measure, level=1).reindex(names)
        headed = found.headed(measure)
        columns[headed] = own[head]
        columns[f"95 % {measure}"] = pandas.Series(
            {
                n: "" if pandas.isna(low) else f"{low:.3f} to {high:.3f}"
                for n, low, high in own[["low", "high"]].itertuples()
            }
        )
        styles[headed], styles[f"95 % {measure}"] = found.marks(measure, ours, names), dict.fromkeys(names, "")
    return pandas.DataFrame(columns, index=names), pandas.DataFrame(styles, index=names)
