"""Sources of corpora: files, data frames, tables and iterables, read row by row.

A row that cannot be read (text that is not UTF-8, a line that is not JSON) becomes an `UnreadableRow` with the reason.
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
PARQUET = "Parquet file or a folder of Parquet files"
Columns = str | tuple[str, str]


@dataclass(frozen=True)
class UnreadableRow:
    """A row whose text could not be read, and the reason."""

    reason: str


@dataclass(frozen=True)
class Source:
    """The rows of a source: texts, pairs, or any other values, which are refused later; `total` is None if unknown."""

    rows: Iterator[Any]
    total: int | None


def open_source(source: Any, text: Columns) -> Source:
    """The rows of a file, a data frame, a column of one, a `datasets` table, or an iterable of texts, pairs or dicts.

    >>> list(open_source([{"text": "A joy."}, "A bore."], "text").rows)
    ['A joy.', 'A bore.']
    """
    import pandas

    if not isinstance(text, str) and (not isinstance(text, tuple) or len(text) != 2):
        raise InputError(
            f"text must be the name of the text column, or a pair of names for pairs of texts, not {text!r:.60}.",
            argument="text",
            value=text,
        )
    names = (text,) if isinstance(text, str) else text
    if isinstance(source, str | os.PathLike):
        return _open_file(os.fspath(source), names)
    if isinstance(source, pandas.DataFrame):
        _check_columns(names, source.columns)
        return Source(_merge_columns(*(source[name].tolist() for name in names)), len(source))
    source = _column_to_list(source)
    if hasattr(source, "__arrow_c_stream__") and not hasattr(source, "features"):  # polars, Arrow, DuckDB
        return Source(_read_stream(source, names), len(source) if isinstance(source, Sized) else None)
    if isinstance(source, Mapping | bytes) or not isinstance(source, Iterable):
        raise InputError(
            f"source must be a {', '.join(FORMATS)} file, a data frame, one split of a dataset, or an iterable of "
            f"texts, not {type(source).__name__}.",
            argument="source",
            value=source,
        )
    if columns := getattr(source, "column_names", None):  # datasets
        _check_columns(names, columns)
    return Source((_select_text(row, names) for row in source), len(source) if isinstance(source, Sized) else None)


def _column_to_list(source: Any) -> Any:
    """The values of a pandas, polars or Arrow column; anything else as it is, including tables of `datasets`."""
    import pyarrow

    if isinstance(source, pyarrow.Array | pyarrow.ChunkedArray):
        return source.to_pylist()
    return source.to_list() if hasattr(source, "to_list") and not hasattr(source, "column_names") else source


def _open_file(path: str, names: Sequence[str]) -> Source:
    import fsspec

    try:
        files, inside = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise InputError(f"Cannot access the file {path}: {error}.", argument="source", value=path) from error
    if not files.exists(inside):
        raise InputError(f"There is no file or folder {path}.", argument="source", value=path)
    if files.isdir(inside):
        return _open_parquet(files, inside, names)
    plain = path.removesuffix(".gz")
    extension = next((extension for extension in FORMATS if plain.endswith(extension)), None)
    if extension is None:
        raise UnknownName("source", path, FORMATS)
    if extension == ".parquet":
        return _open_parquet(files, inside, names)
    read = _read_csv if extension == ".csv" else _read_jsonl
    return Source(read(path, names), sum(1 for _ in read(path, ())))


def _open_parquet(files: Any, path: str, names: Sequence[str]) -> Source:
    from pyarrow import dataset

    with loading(path, PARQUET):
        parquet = dataset.dataset(path, filesystem=files, format="parquet")
        _check_columns(names, parquet.schema.names)
        return Source(_read_parquet(parquet, path, names), parquet.count_rows())


def _read_parquet(parquet: Any, path: str, names: Sequence[str]) -> Iterator[Any]:
    with loading(path, PARQUET):
        for batch in parquet.to_batches(columns=list(names), batch_size=1024, batch_readahead=2, fragment_readahead=1):
            yield from _read_batch(batch, names)


def _read_stream(source: Any, names: Sequence[str]) -> Iterator[Any]:
    import pyarrow

    reader = pyarrow.RecordBatchReader.from_stream(source)
    _check_columns(names, reader.schema.names)
    for batch in reader:
        yield from _read_batch(batch, names)


def _read_batch(batch: Any, names: Sequence[str]) -> Iterator[Any]:
    return _merge_columns(*(map(_decode, _column_values(batch.column(name))) for name in names))


def _column_values(column: Any) -> list[Any]:
    """The values of a column; strings as bytes, because they have not been checked to be UTF-8."""
    import pyarrow

    types = pyarrow.types
    if types.is_dictionary(column.type):  # Arrow cannot decode dictionaries of string views, which polars uses
        values = _column_values(column.dictionary)
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    text = types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type)
    plain: list[Any] = column.cast(pyarrow.large_binary()).to_pylist() if text else column.to_pylist()
    return plain


def _decode(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        return UnreadableRow(f"The text is not UTF-8: {error}.")


def _read_csv(path: str, names: Sequence[str]) -> Iterator[Any]:
    import fsspec

    before = csv.field_size_limit(sys.maxsize)  # the default limit is 128 KB
    try:
        options = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": "", "compression": "infer"}
        with loading(path, "CSV file"), fsspec.open(path, "rt", **options) as file:
            rows = csv.DictReader(file)
            _check_columns(names, rows.fieldnames or ())
            for row in rows:
                yield _select_text({name: _decode_escaped(row[name]) for name in names}, names) if names else None
    finally:
        csv.field_size_limit(before)


def _decode_escaped(value: str | None) -> Any:
    """Text in which bytes that are not UTF-8 were read as lone surrogates."""
    return None if value is None else _decode(value.encode("utf-8", "surrogateescape"))


def _read_jsonl(path: str, names: Sequence[str]) -> Iterator[Any]:
    import fsspec

    with loading(path, "JSONL file"), fsspec.open(path, "rb", compression="infer") as file:
        for line in file:
            yield _parse_line(line, names) if names else None


def _parse_line(line: bytes, names: Sequence[str]) -> Any:
    try:
        row = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return UnreadableRow(f"The line is not UTF-8: {error}.")
    except (ValueError, RecursionError) as error:
        return UnreadableRow(f"The line is not JSON: {error}.")
    if not isinstance(row, dict):
        return UnreadableRow(f"The line is not a JSON object: {row!r:.60}.")
    return _select_text(row, names)


def _select_text(row: Any, names: Sequence[str]) -> Any:
    """The text or the pair in the named columns of a row; a row that is not a mapping is itself the text."""
    if not isinstance(row, Mapping):
        return row
    if missing := [name for name in names if name not in row]:
        columns = " and ".join(map(repr, missing))
        return UnreadableRow(f"The row lacks {columns}; it has {', '.join(map(str, row))}.")
    return next(_merge_columns(*([row[name]] for name in names)))


def _merge_columns(*columns: Iterable[Any]) -> Iterator[Any]:
    """One column as it is, two as pairs; a pair with an unreadable member becomes that `UnreadableRow`."""
    for members in zip(*columns, strict=True):
        unreadable = next((member for member in members if isinstance(member, UnreadableRow)), None)
        yield unreadable or (members[0] if len(members) == 1 else members)


def _check_columns(names: Sequence[str], columns: Iterable[Any]) -> None:
    available = list(columns)
    for name in names:
        if name not in available:
            choice = f"Its columns: {', '.join(map(str, available))}. Set text= (--text) to one of them."
            raise UnknownName("text", name, available, f"The source has no column {name!r}.", choice)
