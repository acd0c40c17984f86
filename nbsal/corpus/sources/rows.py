"""Rows of a source: the columns that hold the texts, and rows that cannot be read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbsal.support.errors import InputError, UnknownName

Columns = str | tuple[str, str]


@dataclass(frozen=True)
class UnreadableRow:
    """A row whose text could not be read, and the reason."""

    reason: str


def check_columns(names: Sequence[str], columns: Iterable[Any]) -> None:
    """Refuse names of text columns that the source does not have, or has more than once."""
    available = list(columns)
    for name in names:
        if name not in available:
            choice = f"Its columns: {', '.join(map(repr, available))}. Set text= (--text) to one of them."
            choice = choice if available else "It has no columns."
            raise UnknownName("text", name, available, f"The source has no column {name!r}.", choice)
        if available.count(name) > 1:
            message = f"The source has {available.count(name)} columns {name!r}. Rename all of them but one."
            raise InputError(message, argument="text", value=name)


def select_text(row: Any, names: Sequence[str]) -> Any:
    """The text or the pair in the named columns of a row; a row that is not a mapping is itself the text.

    Without names, all rows are returned as they are.
    """
    if not names or not isinstance(row, Mapping):
        return row
    if missing := [name for name in names if name not in row]:
        columns = " and ".join(map(repr, missing))
        return UnreadableRow(f"The row lacks {columns}; it has {', '.join(map(repr, row))}.")
    return next(merge_columns(*([row[name]] for name in names)))


def merge_columns(*columns: Iterable[Any]) -> Iterator[Any]:
    """One column as it is, two as pairs; a pair with an unreadable member becomes that `UnreadableRow`."""
    for members in zip(*columns, strict=True):
        unreadable = next((member for member in members if isinstance(member, UnreadableRow)), None)
        yield unreadable or (members[0] if len(members) == 1 else members)


def decode(data: Any, place: str = "The text") -> Any:
    """Bytes as text; an `UnreadableRow` that names the place and the byte if they are not UTF-8."""
    if not isinstance(data, bytes):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        position = f"byte 0x{data[error.start]:02x} at position {error.start}"
        return UnreadableRow(f"{place} is not UTF-8: {position}. Convert the source to UTF-8.")
