"""Tables of evaluation results on several data sets, laid out as in the papers."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import pandas

from nbsal.evaluation.results import DIGITS, Results, intervals_note
from nbsal.render import html
from nbsal.support.errors import InputError
from nbsal.support.lazy import Styler
from nbsal.support.validation import checked

CELL_STYLES = [{"selector": "td, th", "props": "text-align: right; padding: 1px 8px; white-space: nowrap"}]


@checked
def score_table(
    panels: Mapping[str, Results],
    ours: Collection[str] = (),
    explainers: Sequence[str] | None = None,
    measures: Sequence[str] | None = None,
    side_by_side: bool = False,
) -> "Styler":
    """Tabulate explainers by measures for every data set, each number with its 95 % confidence interval.

    `panels` maps the name of each data set to its results; they stand below each other or `side_by_side`. The best
    explainer of a data set is bold and its best competitor italic. The competitor is the best of all others, or of
    those that are not in `ours`.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam")
    >>> results = nbsal.evaluation.games(explain, ["A joy.", "A bore."], random=0, progress=False)
    >>> score_table({"two texts": results}).data.shape
    (1, 4)
    """
    if not panels:
        raise InputError("panels is empty. Pass the results of at least one data set.", argument="panels", value=panels)
    parts = {name: _numbers_and_styles(results, ours, explainers, measures) for name, results in panels.items()}
    axis: Literal[0, 1] = 1 if side_by_side else 0
    numbers: pandas.DataFrame = pandas.concat({name: part[0] for name, part in parts.items()}, axis=axis)
    styles: pandas.DataFrame = pandas.concat({name: part[1] for name, part in parts.items()}, axis=axis).fillna("")
    notes = [f"{name}: {'; '.join(results.notes)}" for name, results in panels.items()]
    notes.append(intervals_note(sum(part[2] for part in parts.values())))
    return style_frame(numbers, " | ".join(notes), styles)


@checked
def style_frame(numbers: pandas.DataFrame, caption: str, styles: pandas.DataFrame | None = None) -> "Styler":
    """Format a frame as a table: three digits, names escaped; `styles` holds the CSS of each cell.

    >>> "0.123" in style_frame(pandas.DataFrame({"auc": [0.12345]}), "areas").to_html()
    True
    """
    styler = numbers.style.format(precision=DIGITS, na_rep="", escape="html")
    styler = styler.format_index(_escape_name).format_index(_escape_name, axis=1)
    if styles is not None:
        styler = styler.apply(lambda _: styles, None)
    return styler.set_caption(html.escape(caption)).set_table_styles(CELL_STYLES)  # type: ignore[arg-type]


def _escape_name(name: Any) -> str:
    return html.escape(str(name))


def _numbers_and_styles(
    results: Results, ours: Collection[str], explainers: Sequence[str] | None, measures: Sequence[str] | None
) -> tuple[pandas.DataFrame, pandas.DataFrame, int]:
    """Return the numbers of one data set, the style of each cell, and how many intervals there are."""
    summary = results.metric.summary
    frame = results.auc() if summary == "auc" else results.mean()
    frame = frame.set_index(["explainer", results.metric.measure])
    names = [name for name in results.explainers if explainers is None or name in explainers]
    columns, styles, count = {}, {}, 0
    for measure in results.measures:
        if measures is not None and measure not in measures:
            continue
        rows = frame.xs(measure, level=1).reindex(names)
        heading, interval = results.heading(measure), f"95 % {measure}"
        columns[heading] = rows[summary]
        count += int(rows["low"].notna().sum())
        columns[interval] = pandas.Series(
            {
                name: "" if pandas.isna(low) else f"{low:.3f} to {high:.3f}"
                for name, low, high in rows[["low", "high"]].itertuples()
            }
        )
        styles[heading], styles[interval] = results.cell_styles(measure, ours, names), dict.fromkeys(names, "")
    return pandas.DataFrame(columns, index=names), pandas.DataFrame(styles, index=names), count
