"""CSV and JSONL files, read row by row.

A row that cannot be read becomes an `UnreadableRow`. A CSV file with a quote that is not closed is refused as a whole,
because it is not certain where its rows begin.
"""

import codecs
import csv
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from nbsal.corpus.folder.storage import reading_source
from nbsal.corpus.sources.rows import UnreadableRow, check_columns, decode, merge_columns, select_text
from nbsal.support.errors import InputError
from nbsal.support.lazy import fsspec
from nbsal.support.validation import plural

MAX_ROW_LINES = 1000  # of a row in a CSV file; with more, a quote is probably not closed
CELL = re.compile(r'(?P<quoted>"(?:[^"]+|"")*(?P<end>"?))?(?P<rest>[^,\r\n]*)[,\r\n]*')


def read_csv(path: str, names: Sequence[str]) -> Iterator[Any]:
    """The texts or pairs in the named columns of a CSV file."""
    rows = _csv_rows(path, names)
    _, header = next(rows)
    columns = [header.index(name) for name in names]
    for line, cells in rows:
        place = f"{_base_name(path)}, line {line},"
        if len(cells) != len(header):
            hint = " Put texts that contain commas in quotes." if len(cells) > len(header) else ""
            yield UnreadableRow(f"{place} has {plural(len(cells), 'field')}, but the header has {len(header)}.{hint}")
        else:
            yield next(merge_columns(*([_decode_cell(cells[column], place)] for column in columns)))


def count_csv(path: str, names: Sequence[str]) -> int:
    """The number of rows of a CSV file; refuses one that `read_csv` could not read to its end."""
    return sum(1 for _ in _csv_rows(path, names)) - 1


def csv_columns(path: str) -> list[str]:
    """The names of the columns of a CSV file."""
    return next(_csv_rows(path, ()))[1]


def _csv_rows(path: str, names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The header of a CSV file, which has the named columns, and its rows that are not blank, with their lines."""
    options = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    with reading_source(path, "CSV file"), _open(path, "rt", **options) as file:
        rows = _split_csv(file, path)
        line, header = next(rows, (1, []))
        for name in header:
            if isinstance(cell := _decode_cell(name, f"{path}, line {line},"), UnreadableRow):
                raise InputError(cell.reason, argument="source", value=path)
        check_columns(names, header)
        yield line, header
        yield from rows


def _split_csv(file: Iterable[str], path: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row that is not blank, with the number of the line in which it begins."""
    lines: list[str] = []  # of the row that is being read

    def row_lines() -> Iterator[str]:
        for line in file:
            lines.append(line)
            if len(lines) > MAX_ROW_LINES:
                raise csv.Error(f"the row has more than {MAX_ROW_LINES:,} lines")
            yield line

    reader, first = csv.reader(row_lines(), strict=True), 1
    while True:
        limit = csv.field_size_limit(sys.maxsize)  # the default limit is 128 KB, and holds for the whole process
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{path}: the quote that opens in line {first + _open_quote(lines)} is not closed, or text follows it "
                f"({error}). Put texts that contain commas, quotes or line breaks in quotes, and write each quote in "
                'them twice ("").',
                argument="source",
                value=path,
            ) from None
        finally:
            csv.field_size_limit(limit)
        if cells is None:
            return
        if cells:
            yield first, cells
        first += len(lines)
        lines.clear()


def _open_quote(lines: Sequence[str]) -> int:
    """The index of the line in which a quoted cell begins that is not closed, or that is followed by text."""
    for cell in CELL.finditer("".join(lines)):
        if cell["quoted"] and (cell["rest"] or not cell["end"]):
            ends = accumulate(map(len, lines))
            return next(at for at, end in enumerate(ends) if cell.start() < end)
    return 0


def _decode_cell(cell: str, place: str) -> Any:
    """A cell in which bytes that are not UTF-8 were read as lone surrogates."""
    if "\0" in cell:
        return UnreadableRow(f"{place} contains a NUL byte. Convert the source to UTF-8.")
    return cell if cell.isascii() else decode(cell.encode("utf-8", "surrogateescape"), place)


def read_jsonl(path: str, names: Sequence[str]) -> Iterator[Any]:
    """The texts or pairs under the named keys of a JSONL file."""
    for number, line in _jsonl_lines(path):
        yield _parse_line(line, names, f"{_base_name(path)}, line {number},")


def count_jsonl(path: str) -> int:
    return sum(1 for _ in _jsonl_lines(path))


def _jsonl_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSONL file that are not blank, and their numbers."""
    with reading_source(path, "JSONL file"), _open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if content.strip():
                yield number, content


class _Object(dict[str, Any]):
    """An object of JSON; `repeated` are the keys that it has several times."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        keys = [key for key, _ in pairs] if len(self) < len(pairs) else []
        self.repeated = {key for key in keys if keys.count(key) > 1}


def _parse_line(line: bytes, names: Sequence[str], place: str) -> Any:
    text = decode(line, place)
    if isinstance(text, UnreadableRow):
        return text
    try:
        row = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        return UnreadableRow(f"{place} is not JSON: {error}.")
    if not isinstance(row, _Object):
        return UnreadableRow(f"{place} is not a JSON object: {row!r:.60}.")
    if repeated := [name for name in names if name in row.repeated]:
        return UnreadableRow(f"{place} has the key {repeated[0]!r} several times.")
    if missing := [name for name in names if name not in row]:
        return UnreadableRow(f"{place} lacks {' and '.join(map(repr, missing))}; it has {', '.join(row)}.")
    return select_text(row, names)


def _open(path: str, mode: str, **options: Any) -> Any:
    """Open a file, compressed or not; refuse UTF-16 and UTF-32, in which line ends and quotes are other bytes."""
    with fsspec.open(path, "rb", compression="infer") as file:
        start: bytes = file.read(4)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start:
        raise InputError(
            f"{path} is not UTF-8: it begins with the bytes {start.hex(' ')}, as files in UTF-16 or UTF-32 do. Convert "
            "it to UTF-8.",
            argument="source",
            value=path,
        )
    return fsspec.open(path, mode, compression="infer", **options)


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]
