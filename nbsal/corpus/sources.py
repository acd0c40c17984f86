"""Sources: the texts of a corpus one after the other, whatever holds them.

A row that cannot be read at all (not UTF-8, no JSON) comes as `Unreadable`: it keeps its place, with what is wrong.
"""

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from nbsal.errors import InputError, UnknownName
from nbsal.validation import loading

FORMATS = (".parquet", ".csv", ".jsonl")
PARQUET = "Parquet file, nor a folder of such"
Columns = str | tuple[str, str]


@dataclass(frozen=True)
class UnreadableRow:
    """A row whose text could not be had, and why."""

    reason: str


@dataclass(frozen=True)
class Source:
    """Texts, pairs, and whatever else stands in their place; `total` is None while unknown."""

    rows: Iterator[Any]
    total: int | None


def open_source(given: Any, text: Columns) -> Source:
    """The rows of a file, a frame or a column of one, a `datasets` table, or any iterable of texts, pairs or dicts.

    >>> list(open_source([{"text": "A joy."}, "A bore."], "text").rows)
    ['A joy.', 'A bore.']
    """
    import pandas

    if not isinstance(text, str) and (not isinstance(text, tuple) or len(text) != 2):
        raise InputError(f"text names the column of texts, or the two columns of a pair, not {text!r:.60}.")
    names = (text,) if isinstance(text, str) else text
    if isinstance(given, str | os.PathLike):
        return _file(os.fspath(given), names)
    if isinstance(given, pandas.DataFrame):
        _check(names, given.columns)
        return Source(_joined(*(given[name].tolist() for name in names)), len(given))
    given = _values(given)
    if hasattr(given, "__arrow_c_stream__") and not hasattr(given, "features"):  # polars, Arrow, DuckDB
        return Source(_streamed(given, names), len(given) if isinstance(given, Sized) else None)
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        raise InputError(
            f"A source is a {', '.join(FORMATS)} file, a frame, one split of a dataset, or an iterable of texts, not "
            f"{type(given).__name__}."
        )
    if columns := getattr(given, "column_names", None):  # datasets
        _check(names, columns)
    return Source((_picked(row, names) for row in given), len(given) if isinstance(given, Sized) else None)


def _values(given: Any) -> Any:
    """What a column of pandas, polars or Arrow holds; `datasets` has tables with that method too, and they stay."""
    import pyarrow

    if isinstance(given, pyarrow.Array | pyarrow.ChunkedArray):
        return given.to_pylist()
    return given.to_list() if hasattr(given, "to_list") and not hasattr(given, "column_names") else given


def _file(path: str, names: Sequence[str]) -> Source:
    import fsspec

    try:
        files, inside = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise InputError(f"{path} is no file that can be reached here: {error}.") from error
    if not files.exists(inside):
        raise InputError(f"There is no {path} to explain.")
    if files.isdir(inside):
        return _parquet(files, inside, names)
    plain = path.removesuffix(".gz")
    ending = next((ending for ending in FORMATS if plain.endswith(ending)), None)
    if ending is None:
        raise UnknownName("format of corpora for", path, FORMATS)
    if ending == ".parquet":
        return _parquet(files, inside, names)
    read = _csv if ending == ".csv" else _jsonl
    return Source(read(path, names), sum(1 for _ in read(path, ())))


def _parquet(files: Any, path: str, names: Sequence[str]) -> Source:
    from pyarrow import dataset

    with loading(path, PARQUET):
        found = dataset.dataset(path, filesystem=files, format="parquet")
        _check(names, found.schema.names)
        return Source(_scanned(found, path, names), found.count_rows())


def _scanned(found: Any, path: str, names: Sequence[str]) -> Iterator[Any]:
    with loading(path, PARQUET):
        for batch in found.to_batches(columns=list(names), batch_size=1024, batch_readahead=2, fragment_readahead=1):
            yield from _batch(batch, names)


def _streamed(given: Any, names: Sequence[str]) -> Iterator[Any]:
    import pyarrow

    reader = pyarrow.RecordBatchReader.from_stream(given)
    _check(names, reader.schema.names)
    for batch in reader:
        yield from _batch(batch, names)


def _batch(batch: Any, names: Sequence[str]) -> Iterator[Any]:
    return _joined(*(map(_decoded, _raw(batch.column(name))) for name in names))


def _raw(column: Any) -> list[Any]:
    """Values of a column; strings as their bytes, since nobody has checked that they are UTF-8."""
    import pyarrow

    kinds = pyarrow.types
    if kinds.is_dictionary(column.type):  # Arrow itself cannot decode those of views, as polars gives them
        values = _raw(column.dictionary)
        return [None if at is None else values[at] for at in column.indices.to_pylist()]
    text = kinds.is_string(column.type) or kinds.is_large_string(column.type) or kinds.is_string_view(column.type)
    found: list[Any] = column.cast(pyarrow.large_binary()).to_pylist() if text else column.to_pylist()
    return found


def _decoded(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        return UnreadableRow(f"The text is not UTF-8: {error}.")


def _csv(path: str, names: Sequence[str]) -> Iterator[Any]:
    import fsspec

    before = csv.field_size_limit(sys.maxsize)  # a text may be longer than the 128 KB of its default
    try:
        opened = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": "", "compression": "infer"}
        with loading(path, "CSV file"), fsspec.open(path, "rt", **opened) as f:
            lines = csv.DictReader(f)
            _check(names, lines.fieldnames or ())
            for row in lines:
                yield _picked({name: _escaped(row[name]) for name in names}, names) if names else None
    finally:
        csv.field_size_limit(before)


def _escaped(value: str | None) -> Any:
    """Bytes that were no UTF-8 come as lone surrogates."""
    return None if value is None else _decoded(value.encode("utf-8", "surrogateescape"))


def _jsonl(path: str, names: Sequence[str]) -> Iterator[Any]:
    import fsspec

    with loading(path, "JSONL file"), fsspec.open(path, "rb", compression="infer") as file:
        for line in file:
            yield _line(line, names) if names else None


def _line(line: bytes, names: Sequence[str]) -> Any:
    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return UnreadableRow(f"The line is not UTF-8: {error}.")
    except (ValueError, RecursionError) as error:
        return UnreadableRow(f"The line is no JSON: {error}.")
    return (
        _picked(found, names)
        if isinstance(found, dict)
        else UnreadableRow(f"The line is no JSON object: {found!r:.60}.")
    )


def _picked(row: Any, names: Sequence[str]) -> Any:
    """The text of a row, or its pair; a row that is no mapping is the text itself."""
    if not isinstance(row, Mapping):
        return row
    if missing := [name for name in names if name not in row]:
        return UnreadableRow(f"The row has no {' and no '.join(map(repr, missing))}, only {', '.join(map(str, row))}.")
    return next(_joined(*([row[name]] for name in names)))


def _joined(*columns: Iterable[Any]) -> Iterator[Any]:
    """Texts as they are, two columns as pairs; a pair that lacks a member is told by it."""
    for members in zip(*columns, strict=True):
        broken = next((member for member in members if isinstance(member, UnreadableRow)), None)
        yield broken or (members[0] if len(members) == 1 else members)


def _check(names: Sequence[str], columns: Iterable[Any]) -> None:
    known = list(columns)
    for name in names:
        if name not in known:
            raise UnknownName("column", name, known)
