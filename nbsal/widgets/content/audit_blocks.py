"""The words and slices of an audit in copies of its view, from what its page is sent."""

from collections.abc import Iterator, Sequence
from typing import Any

from nbsal.render.colours import GOOD, GREY
from nbsal.render.headline import Phrase, phrases
from nbsal.render.sheet import Balance, Bar, Block, Cell, CellTable, Heading, Note

ROWS = 24  # words, and slices, of a copy
Wired = dict[str, Any]


def words_blocks(words: Wired, picked: Sequence[str]) -> list[Block]:
    """The words as the page shows them; of two models, the bars of B are below those of A."""
    rows = [cells for row in words["rows"][:ROWS] for cells in _rows_of(row)]
    chosen = next((at for at, row in enumerate(words["rows"][:ROWS]) if [row["word"]] == list(picked)), None)
    each = len(rows) // max(1, len(words["rows"][:ROWS]))  # rows of a word
    head = [title for at, title in enumerate(words["columns"]) if title or words["columns"][at - 1]]
    right = [column for column, title in enumerate(head) if title and column > 1]
    table = [CellTable(rows, head, right, None if chosen is None else chosen * each)] if rows else []
    return [Heading(phrases(words["heading"]), words["note"]), *table, *_more(words["rows"]), *_note(words["rest"])]


def _rows_of(row: Wired) -> Iterator[list[Cell]]:
    """A row of a word for each model; what is said of both is in the first."""
    bars = [cell for cell in row["cells"] if isinstance(cell, dict)]
    texts = [f"{row['name']} {row['kind'][:1]}".rstrip(), *(cell for cell in row["cells"] if isinstance(cell, str))]
    place = 1 + row["cells"].index(bars[0])
    for model, shares in enumerate(zip(*(next(iter(cell.values())) for cell in bars), strict=True)):
        bar = Balance(*shares) if len(shares) == 2 else Bar(shares[0], hue=GOOD)
        words: list[Cell] = ["" if model else text for text in texts]
        yield [*words[:place], bar, *words[place:]]


def slices_blocks(data: Wired) -> list[Block]:
    """The slices as the page shows them."""
    if not data:
        return []
    rows = [
        (row["name"], Bar(rate, hue=GREY, ends=(low, high), tick=rest), _slice_phrases(row))
        for row in data["rows"][:ROWS]
        for rate, low, high, rest in [row["bar"]]
    ]
    return [Heading(phrases(data["heading"]), data["note"]), CellTable(rows), *_more(data["rows"])]


def _more(rows: Sequence[Wired]) -> list[Note]:
    """How many rows a copy leaves out."""
    return _note(f"{len(rows) - ROWS} more" if len(rows) > ROWS else "")


def _note(text: str) -> list[Note]:
    return [Note(text)] if text else []


def _slice_phrases(row: Wired) -> list[Phrase]:
    mark = [("class", f"{row['mark']} ")] if row["mark"] else []
    return phrases(*mark, ("class", row["rate"]), f" {row['text']}")
