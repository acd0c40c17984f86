"""A page of a table of texts as static HTML and as lines of a picture."""

from collections.abc import Callable
from typing import Any

from nbsal.render import html
from nbsal.render.headline import percent
from nbsal.render.text_lines import ScoredText
from nbsal.widgets.content.excerpts import excerpt_html
from nbsal.widgets.content.text_table import Entry, TablePage

HEADINGS = ("No.", "Text", "Prediction", "Ranked first")
LINE = "border:0;border-bottom:1px solid rgba(128,128,128,.4)"
CELL = f"{LINE};padding:5px 12px 5px 0;text-align:left;vertical-align:baseline"
PALE = '<span style="opacity:.75">{}</span>'  # of a text that is not explained yet


def table_html(page: TablePage, start: Callable[[int], str]) -> str:
    """The rows of the page; `start` gives the first characters of a text that is not explained yet."""
    head = "".join(f'<th style="{CELL};white-space:nowrap">{name}</th>' for name in HEADINGS)
    body = "".join(_row_html(entry, entry.number == page.opened_number) for entry in page.rows)
    waiting = "".join(_cells_html(str(i), PALE.format(html.escape(start(i))), "", "") for i in page.waiting)
    table = f'<table style="border-collapse:collapse;width:100%;font-size:90%"><tr>{head}</tr>{body}{waiting}</table>'
    return f'<div style="overflow-x:auto">{table}</div><div style="{html.SMALL};margin:6px 0">{page.position()}</div>'


def pictured(page: TablePage, most: int | None = None) -> list[ScoredText]:
    """The rows of the page as texts of a picture."""
    return [
        ScoredText(_heading(entry), [[html.ScoredSpan(text, share) for text, share, _ in entry.pieces]], 1)
        for entry in page.rows[:most]
    ]


def _heading(entry: Entry) -> str:
    """A text's number, prediction, confidence and label in one line."""
    label = f", \N{BALLOT X} labelled {entry.label}" if entry.misclassified else ""
    remark = f" \N{MIDDLE DOT} {entry.remark[1]}" if entry.remark else ""
    return f"{entry.number}  {entry.verdict}{label}{remark}"


def _row_html(entry: Entry, opened: bool) -> str:
    wrong = f'<div style="{html.SMALL}">\N{BALLOT X} labelled {html.escape(entry.label or "")}</div>'
    text = f'<div style="min-width:14em;line-height:1.75">{excerpt_html(entry.pieces)}</div>'
    if entry.remark:
        text += f'<div style="{html.SMALL}">{html.escape(entry.remark[1])}</div>'
    top = html.escape(html.label(entry.top))
    if entry.against:
        top += f'<div style="{html.SMALL}">against</div>'
    verdict = f"{html.escape(entry.verdict)}{wrong if entry.misclassified else ''}"
    return _cells_html(str(entry.number), text, verdict, top, opened)


def _cells_html(number: str, text: str, verdict: str, top: str, opened: bool = False) -> str:
    narrow = [f'<td style="{CELL};white-space:nowrap">{cell}</td>' for cell in (number, verdict, top)]
    background = ' style="background-color:rgba(128,128,128,.16)"' if opened else ""
    return f'<tr{background}>{narrow[0]}<td style="{CELL};width:100%">{text}</td>{narrow[1]}{narrow[2]}</tr>'


def traits(page: TablePage, start: Callable[[int], str]) -> dict[str, Any]:
    """The page as a view's page draws it."""
    waiting = [{"number": number, "pieces": [[start(number), 0.0, False]]} for number in page.waiting]
    rows = [vars(entry) | {"wrong": entry.misclassified, "share": _share(entry)} for entry in page.rows]
    listing = page.filters.listing
    return {
        "rows": [*rows, *waiting],
        "labels": list(page.labels),
        "judged": page.columns.is_labelled,
        "page": page.page,
        "pages": page.pages,
        "position": page.position(),
        "heading": listing.heading if listing else [],
        "sentence": listing.sentence if listing else [],
        "counts": [len(page.scope), len(page.errors)],
        "explained": page.explained,
        "total": page.total,
        "opened": None,
    }


def _share(entry: Entry) -> str:
    return "" if entry.confidence is None else percent(entry.confidence)
