"""A page of a table of texts, as copies and as the page of a view draw it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nbsal.render import html
from nbsal.render.headline import percent, phrases
from nbsal.render.sheet import Block, Cell, CellTable, Marked, Note
from nbsal.widgets.content.excerpts import excerpt_spans
from nbsal.widgets.content.text_table import Entry, TablePage

HINTS = {
    "empty": "No text matches.",
    "closed": "Select a text to read it here.",
    "keys": "↑ ↓ next text · Esc close",
    "order": "More texts were explained.",
}
HEADINGS = ("No.", "Text", "Prediction", "Ranked first")


def table_blocks(page: TablePage, start: Callable[[int], str]) -> list[Block]:
    """The rows of the page; `start` gives the first characters of a text that is not explained yet."""
    rows = [_cells(entry) for entry in page.rows]
    rows += [[str(number), [("quiet", start(number))], "", ""] for number in page.waiting]
    opened = next((at for at, entry in enumerate(page.rows) if entry.number == page.opened_number), None)
    empty = [] if rows else [Note(HINTS["empty"])]
    return [CellTable(rows, HEADINGS, chosen=opened), *empty, Note(page.position())]


def _cells(entry: Entry) -> list[Cell]:
    text = Marked([excerpt_spans(entry.pieces)], 1.0, large=False)
    if entry.remark:
        text = replace(text, parts=[*text.parts, [html.ScoredSpan(entry.remark[1])]])
    wrong = f"\n\N{BALLOT X} labelled {entry.label}" if entry.misclassified else ""
    verdict = f"{entry.name} {_share(entry)}".rstrip()
    return [
        str(entry.number),
        text,
        phrases(verdict, ("quiet", wrong)),
        [("against" if entry.against else "text", entry.top)],
    ]


def traits(page: TablePage, start: Callable[[int], str]) -> dict[str, Any]:
    """The page as a view's page draws it."""
    waiting = [{"number": number, "pieces": [[start(number), 0.0, False]]} for number in page.waiting]
    rows = [
        vars(entry) | {"name": entry.name, "wrong": entry.misclassified, "share": _share(entry)} for entry in page.rows
    ]
    listing = page.filters.listing
    return {
        "rows": [*rows, *waiting],
        "labels": list(page.labels),
        "judged": page.columns.is_labelled,
        "page": page.page,
        "pages": page.pages,
        "position": page.position(),
        "elsewhere": "other pages need Python" if page.pages > 1 else "",
        "hints": HINTS,
        "heading": listing.heading if listing else [],
        "sentence": listing.sentence if listing else [],
        "counts": [len(page.scope), len(page.errors)],
        "explained": page.explained,
        "total": page.total,
        "opened": None,
    }


def _share(entry: Entry) -> str:
    return "" if entry.confidence is None else percent(entry.confidence)
