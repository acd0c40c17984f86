"""Sources of corpora: files, data frames, tables and iterables, read row by row.

A row that cannot be read (text that is not UTF-8, a line that is not JSON) becomes an `UnreadableRow` with the reason.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from nbsal.corpus.folder.storage import inaccessible, reading_source
from nbsal.corpus.sources.rows import Columns as Columns
from nbsal.corpus.sources.rows import UnreadableRow as UnreadableRow
from nbsal.corpus.sources.rows import check_columns, decode, merge_columns, select_text
from nbsal.corpus.sources.text_files import count_csv, count_jsonl, csv_columns, read_csv, read_jsonl
from nbsal.explain.reply_settings import ASKED
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.lazy import dataset, fsspec, pandas, pyarrow
from nbsal.support.validation import file_path, is_iterable, plural

FORMATS = (".parquet", ".csv", ".jsonl")
PARQUET = "Parquet file or a folder of Parquet files"


@dataclass(frozen=True)
class RowStream:
    """The rows of a source: texts, pairs, or any other values, which are refused later; `total` is None if unknown."""

    rows: Iterator[Any]
    total: int | None


def open_source(source: Any, text: Columns) -> RowStream:
    """The rows of a file, a data frame or a column, a `datasets` table, or an iterable of texts, pairs or dicts."""
    if not isinstance(text, str) and (not isinstance(text, tuple) or len(text) != 2):
        raise InputError(
            f"text must be the name of the text column, or a pair of names for pairs of texts, not {text!r:.60}.",
            argument="text",
            value=text,
        )
    return open_columns(source, (text,) if isinstance(text, str) else text)


def open_columns(source: Any, names: Sequence[str], texts: bool = True) -> RowStream:
    """The named columns of a source, rows of several as tuples; `texts` refuses columns that hold anything else."""
    if isinstance(source, str | os.PathLike):
        return _open_file(os.fspath(file_path(source, "source")), names, texts)
    if isinstance(source, pandas.DataFrame):
        check_columns(names, source.columns)
        if texts:
            _check_frame_types(names, source)
        return RowStream(merge_columns(*(source[name].tolist() for name in names)), len(source))
    source = _column_to_list(source)
    if hasattr(source, "__arrow_c_stream__") and not hasattr(source, "features"):  # polars, Arrow, DuckDB
        reader = pyarrow.RecordBatchReader.from_stream(source)
        _check_schema(names, reader.schema, texts)
        return RowStream(_read_batches(reader, names), len(source) if isinstance(source, Sized) else None)
    if isinstance(source, Mapping | bytes) or not is_iterable(source):
        raise InputError(
            f"source must be a {', '.join(FORMATS)} file, a data frame, one split of a dataset, or an iterable of "
            f"texts, not {type(source).__name__}.",
            argument="source",
            value=source,
        )
    if columns := getattr(source, "column_names", None):  # datasets
        check_columns(names, columns)
    elif isinstance(source, Sequence):
        _check_rows(names, source)
    return RowStream((select_text(row, names) for row in source), len(source) if isinstance(source, Sized) else None)


def find_asked(source: Any, text: str) -> tuple[Any, dict[str, str] | None]:
    """A source for a model that writes replies, and the columns of what it is asked; None if it has texts.

    A table is asked if it has the column "asked" or "messages", and not that of texts. Any other source goes by its
    first row: a list of messages, or a dict with such a key; its rows are then read whole, without columns.
    """
    if (names := _column_names(source)) is None:
        source, row = _first_row(source)
        messages = isinstance(row, list) and bool(row) and isinstance(row[0], Mapping)
        asked = isinstance(row, Mapping) and not row.keys().isdisjoint(ASKED) and text not in row
        return source, {} if messages or asked else None
    columns = [name for name in ASKED if name in names]
    if not columns or text in names:
        return source, None
    if len(columns) > 1:
        message = f"The source has the columns {' and '.join(columns)}. Pass asked= with the name of one of them."
        raise InputError(message, argument="asked", value=None)
    return source, {"asked": columns[0]} | {name: name for name in ("documents", "reply") if name in names}


def _column_names(source: Any) -> list[str] | None:
    """The names of the columns of a table, or of a file with a header; None for any other source."""
    if not isinstance(source, str | os.PathLike):
        names = getattr(source, "column_names", None)
        names = getattr(source, "columns", None) if names is None else names
        return None if names is None else list(names)
    path = os.fspath(file_path(source, "source"))
    files, inside, extension = _find_file(path)
    if extension == ".parquet":
        with reading_source(path, PARQUET):
            return list(dataset.dataset(inside, filesystem=files, format="parquet").schema.names)
    return csv_columns(path) if extension == ".csv" else None


def _first_row(source: Any) -> tuple[Any, Any]:
    """A source without columns, and its first row, if it has one; an iterator goes on with that row."""
    if isinstance(source, str | os.PathLike):
        return source, next(read_jsonl(os.fspath(file_path(source, "source")), ()), None)
    source = _column_to_list(source)
    if isinstance(source, Mapping | bytes) or hasattr(source, "__arrow_c_stream__") or not is_iterable(source):
        return source, None
    rows = iter(source)
    first = list(islice(rows, 1))
    return chain(first, rows) if rows is source else source, first[0] if first else None


def _check_rows(names: Sequence[str], rows: Sequence[Any]) -> None:
    """Refuse names of text columns that no row has; a single row without them fails alone, later."""
    if rows and all(isinstance(row, Mapping) and not row.keys() >= set(names) for row in rows):
        check_columns(names, dict.fromkeys(key for row in rows for key in row))


def _column_to_list(source: Any) -> Any:
    """The values of a pandas, polars or Arrow column; anything else as it is, including tables of `datasets`."""
    if isinstance(source, pyarrow.Array | pyarrow.ChunkedArray):
        return source.to_pylist()
    return source.to_list() if hasattr(source, "to_list") and not hasattr(source, "column_names") else source


def _open_file(path: str, names: Sequence[str], texts: bool) -> RowStream:
    files, inside, extension = _find_file(path)
    if extension == ".parquet":
        return _open_parquet(files, inside, path, names, texts)
    csv = extension == ".csv"
    total = count_csv(path, names) if csv else count_jsonl(path)
    return RowStream(_counted((read_csv if csv else read_jsonl)(path, names), total, path), total)


def _find_file(path: str) -> tuple[Any, str, str]:
    """The file system of a file, its path there, and its format."""
    try:
        files, inside = fsspec.core.url_to_fs(path)
        files.invalidate_cache(inside)
        exists, folder = files.exists(inside), files.isdir(inside)
    except Exception as error:  # whatever the library of a store raises
        raise inaccessible(path, "source", error) from error
    if not exists:
        raise InputError(f"There is no file or folder {path}.", argument="source", value=path)
    plain = ".parquet" if folder else path.removesuffix(".gz")
    extension = next((extension for extension in FORMATS if plain.endswith(extension)), None)
    if extension is None:
        problem = f"source={path!r:.200} has an unsupported format."
        choice = f"Save it as one of: {', '.join(FORMATS)}."
        raise UnknownName("source", path, FORMATS, problem, choice)
    return files, inside, extension


def _counted(rows: Iterable[Any], total: int, path: str) -> Iterator[Any]:
    """The rows of a file; an error if they are not as many as were counted, because something writes to it."""
    count = 0
    for count, row in enumerate(rows, 1):
        if count <= total:
            yield row
    _check_count(count, total, path)


def _check_count(count: int, total: int, path: str) -> None:
    if count != total:
        raise InputError(
            f"{path} was changed while it was read: it had {plural(total, 'row')} at first, and {count:,} at the end. "
            "Finished shards are kept. Run it again once nothing writes to the file.",
            argument="source",
            value=path,
        )


def _open_parquet(files: Any, inside: str, path: str, names: Sequence[str], texts: bool) -> RowStream:
    with reading_source(path, PARQUET):
        open_dataset = partial(dataset.dataset, inside, filesystem=files, format="parquet")
        _check_schema(names, open_dataset().schema, texts)
        total = open_dataset().count_rows()
    return RowStream(_counted(_read_parquet(open_dataset, path, names, total), total, path), total)


def _read_parquet(open_dataset: Callable[[], Any], path: str, names: Sequence[str], total: int) -> Iterator[Any]:
    options = {"batch_size": 1024, "batch_readahead": 2, "fragment_readahead": 1}
    with reading_source(path, PARQUET):
        yield from _read_batches(open_dataset().to_batches(columns=list(names), **options), names)
        _check_count(open_dataset().count_rows(), total, path)  # what was opened goes by the number of rows at first


def _read_batches(batches: Iterable[Any], names: Sequence[str]) -> Iterator[Any]:
    for batch in batches:
        yield from merge_columns(*(map(decode, _column_values(batch.column(name))) for name in names))


def _check_schema(names: Sequence[str], schema: Any, texts: bool) -> None:
    """Refuse columns that are not there or, where they must be texts, that Arrow does not store as such."""
    check_columns(names, schema.names)
    for name in names if texts else ():
        if not _is_text(schema.field(name).type):
            raise _not_texts(name, schema.field(name).type)


def _check_frame_types(names: Sequence[str], frame: Any) -> None:
    """Refuse columns of numbers, truth values and times; a column of objects may hold texts."""
    from pandas.api import types

    for name in names:
        column = frame[name].dtype
        if not types.is_string_dtype(column) and not types.is_object_dtype(column) and column != "category":
            raise _not_texts(name, column)


def _not_texts(name: str, column: Any) -> InputError:
    message = f"The column {name!r} holds values of type {column}, not texts. Set text= (--text) to a column of texts."
    return InputError(message, argument="text", value=name)


def _is_text(column: Any) -> bool:
    """Whether a type is that of strings, or of bytes that may be strings."""
    names = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    column = column.value_type if pyarrow.types.is_dictionary(column) else column
    return any(getattr(pyarrow.types, f"is_{name}")(column) for name in names)


def _column_values(column: Any) -> list[Any]:
    """The values of a column; strings as bytes, because they have not been checked to be UTF-8."""
    if pyarrow.types.is_dictionary(column.type):  # Arrow cannot decode dictionaries of string views, which polars uses
        values = _column_values(column.dictionary)
        return [None if index is None else values[index] for index in column.indices.to_pylist()]
    plain: list[Any] = (column.cast(pyarrow.large_binary()) if _is_text(column.type) else column).to_pylist()
    return plain
