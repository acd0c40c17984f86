"""Results as files hold them: single values as JSON, sequences as arrays.

A sequence of dataclasses becomes one array for each field, a sequence of tuples their lengths and one array of all
entries, a sequence of texts their lengths and one array of bytes. So numbers are exact, a file is small, and reading it
takes little more memory than what it holds. Annotations say which type a field has, so nothing else can be restored.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain, pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from nbsal.model.loading.plain_values import from_plain, to_plain

LONG = 1000  # characters from which a single text is stored among the arrays
Arrays = dict[str, NDArray[Any]]
_NUMBERS = {int: np.int64, float: np.float64, bool: np.bool_}
_KINDS = {int: "i", float: "fi", bool: "b"}  # of arrays that numpy makes of them
_INTEGERS = (np.int8, np.int16, np.int32)


def pack(hint: Any, value: Any, arrays: Arrays, leave: Collection[str] = (), name: str = "result") -> Any:
    """The JSON of a value with that annotation, without the fields named in `leave`; its sequences go to `arrays`.

    >>> arrays = {}
    >>> pack(tuple[str, ...], ("a", "bc"), arrays), {name: array.tolist() for name, array in arrays.items()}
    ({'lengths': 'result.lengths', 'text': 'result.text'}, {'result.lengths': [1, 2], 'result.text': [97, 98, 99]})
    """
    origin, parts = _kind(hint)
    if is_dataclass(origin):
        return {
            field: pack(kind, getattr(value, field), arrays, leave, f"{name}.{field}")
            for field, kind in _fields(origin, leave).items()
        }
    if origin is np.ndarray:
        return _store(value, arrays, name)
    if _optional(parts) and origin in (Union, UnionType):
        return None if value is None else pack(parts[0], value, arrays, leave, name)
    if origin is tuple and parts[-1:] == (Ellipsis,):
        return _pack_column(parts[0], value, arrays, leave, name)
    if _is_composite(origin, parts) or (isinstance(value, str) and len(value) > LONG):
        return {"entry": _pack_column(hint, [value], arrays, leave, name)}
    return to_plain(value)


def _pack_column(hint: Any, values: Sequence[Any], arrays: Arrays, leave: Collection[str], name: str) -> Any:
    """The JSON of many values with that annotation, one array or more for all of them."""
    origin, parts = _kind(hint)

    def column(kind: Any, entries: Iterable[Any], part: str) -> Any:
        return _pack_column(kind, list(entries), arrays, leave, f"{name}.{part}")

    if origin in _NUMBERS:
        return _store(_to_array(values, origin), arrays, name)
    if origin is str:
        texts = [text.encode() for text in values]
        joined = np.frombuffer(b"".join(texts), np.uint8)
        return {"lengths": column(int, map(len, texts), "lengths"), "text": _store(joined, arrays, f"{name}.text")}
    if origin is np.ndarray:
        return [_store(array, arrays, f"{name}.{at}") for at, array in enumerate(values)]
    if is_dataclass(origin):
        hints = _fields(origin, leave)
        return {field: column(kind, [getattr(v, field) for v in values], field) for field, kind in hints.items()}
    if origin in (Union, UnionType):
        kinds = [next((at for at, kind in enumerate(parts) if _fits(kind, value)), None) for value in values]
        others = {
            str(at): column(kind, [v for v, own in zip(values, kinds, strict=True) if own == at], str(at))
            for at, kind in enumerate(parts)
            if kind is not NoneType
        }
        return {"kinds": column(int, kinds, "kinds"), "others": others}
    if origin is tuple and parts[-1] is Ellipsis:
        lengths = column(int, map(len, values), "lengths")
        return {"lengths": lengths, "entries": column(parts[0], chain.from_iterable(values), "entries")}
    if origin is tuple:
        return [column(kind, [value[at] for value in values], str(at)) for at, kind in enumerate(parts)]
    if (pairs := _pairs(origin, parts)) is not None:
        return column(pairs, [tuple(value.items()) for value in values], "pairs")
    return to_plain(values)


def unpack(hint: Any, stored: Any, arrays: Arrays) -> Any:
    """The value of which `pack` made this JSON and these arrays, which are taken out; ValueError for anything else."""
    origin, parts = _kind(hint)
    if is_dataclass(origin):
        hints, made = _fields(origin), cast(Any, origin)
        return made(**{field: unpack(hints[field], part, arrays) for field, part in stored.items()})
    if origin is np.ndarray:
        return _take(stored, arrays, get_args(parts[1])[0]).copy()
    if _optional(parts) and origin in (Union, UnionType):
        return None if stored is None else unpack(parts[0], stored, arrays)
    if origin is tuple and parts[-1:] == (Ellipsis,):
        return tuple(_unpack_column(parts[0], stored, arrays))
    if _is_composite(origin, parts) or (origin is str and isinstance(stored, dict)):
        (value,) = _unpack_column(hint, stored["entry"], arrays)
        return value
    return from_plain(hint, stored)


def _unpack_column(hint: Any, stored: Any, arrays: Arrays) -> list[Any]:
    """The values of which `_pack_column` made this."""
    origin, parts = _kind(hint)
    if origin in _NUMBERS:
        return _numbers(stored, arrays, origin).tolist()  # type: ignore[no-any-return]
    if origin is str:
        joined = _take(stored["text"], arrays, np.uint8).tobytes()
        texts = [text.decode() for text in _slices(joined, stored["lengths"], arrays)]
        if get_origin(hint) is Literal and not {*texts} <= {*get_args(hint)}:
            raise ValueError(f"a text that is none of {get_args(hint)}")
        return texts
    if origin is np.ndarray:
        return [_take(name, arrays, get_args(parts[1])[0]).copy() for name in stored]
    if is_dataclass(origin):
        hints, made = _fields(origin), cast(Any, origin)
        columns = {field: _unpack_column(hints[field], part, arrays) for field, part in stored.items()}
        rows = zip(*columns.values(), strict=True)
        return [made(**dict(zip(columns, row, strict=True))) for row in rows]
    if origin in (Union, UnionType):
        kinds = _numbers(stored["kinds"], arrays, int).tolist()
        nothing = {at: [None] * kinds.count(at) for at, kind in enumerate(parts) if kind is NoneType}
        others = {int(at): _unpack_column(parts[int(at)], part, arrays) for at, part in stored["others"].items()}
        members = others | nothing
        if Counter(kinds) != Counter({at: len(part) for at, part in members.items()}):
            raise ValueError("values of different types do not match")
        rest = {at: iter(part) for at, part in members.items()}
        return [next(rest[at]) for at in kinds]
    if origin is tuple and parts[-1] is Ellipsis:
        entries = tuple(_unpack_column(parts[0], stored["entries"], arrays))
        return list(_slices(entries, stored["lengths"], arrays))
    if origin is tuple:
        columns_of_parts = [_unpack_column(kind, part, arrays) for kind, part in zip(parts, stored, strict=True)]
        return list(zip(*columns_of_parts, strict=True))
    if (pairs := _pairs(origin, parts)) is not None:
        items = _unpack_column(pairs, stored, arrays)
        mappings = list(map(dict, items))
        if list(map(len, mappings)) != list(map(len, items)):
            raise ValueError("a name occurs twice")
        return list(map(Counter, mappings)) if origin is Counter else mappings
    return [from_plain(hint, value) for value in stored]


def _kind(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The class of an annotation, and what it is made of."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if hasattr(origin, "__value__"):  # a type alias, which NDArray is from numpy 2.5 on
        return _kind(origin.__value__[parts])
    if origin is Literal and all(isinstance(part, str) for part in parts):
        return str, ()
    return origin, parts


def _fields(kind: Any, leave: Collection[str] = ()) -> dict[str, Any]:
    """The annotations of the fields of a dataclass."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.name not in leave}


def _optional(parts: tuple[Any, ...]) -> bool:
    return len(parts) == 2 and parts[1] is NoneType


def _is_composite(origin: Any, parts: tuple[Any, ...]) -> bool:
    """Whether even a single value is stored as a sequence of one: a union, or a mapping."""
    return origin in (Union, UnionType) or _pairs(origin, parts) is not None


def _pairs(origin: Any, parts: tuple[Any, ...]) -> Any:
    """The annotation of the items of a mapping; None of one that may hold anything, which is JSON."""
    if not (isinstance(origin, type) and issubclass(origin, Mapping)) or not parts or parts[-1] is Any:
        return None
    return tuple[tuple[(*parts, int)[:2]], ...]  # type: ignore[misc]


def _fits(hint: Any, value: Any) -> bool:
    origin, parts = _kind(hint)
    if origin is tuple and isinstance(value, tuple):
        return parts[-1] is Ellipsis or len(parts) == len(value)
    return type(value) is origin or (origin is float and isinstance(value, int | np.floating))


def _to_array(values: Sequence[Any], kind: type) -> NDArray[Any]:
    """Numbers as an array, whole ones of the smallest type that holds them all; ValueError if they are of another."""
    array = np.array(values) if values else np.empty(0, _NUMBERS[kind])
    if array.ndim != 1 or array.dtype.kind not in _KINDS[kind]:
        raise ValueError(f"values that are not all of the type {kind.__name__}")
    sizes = _INTEGERS if kind is int and values else ()
    fitting = (size for size in sizes if np.iinfo(size).min <= array.min() and array.max() <= np.iinfo(size).max)
    return array.astype(next(fitting, _NUMBERS[kind]))


def _store(array: NDArray[Any], arrays: Arrays, name: str) -> str:
    arrays[name] = array
    return name


def _take(name: Any, arrays: Arrays, dtype: Any) -> NDArray[Any]:
    """An array of a type, which is taken once."""
    array = arrays.pop(name)
    if not np.issubdtype(array.dtype, get_origin(dtype) or dtype):
        raise ValueError(f"numbers of another type in {name}")
    return array


def _numbers(name: Any, arrays: Arrays, kind: type) -> NDArray[Any]:
    array = _take(name, arrays, np.signedinteger if kind is int else _NUMBERS[kind])
    if array.ndim != 1:
        raise ValueError(f"{name} is no sequence")
    return array


def _slices(entries: Any, lengths: Any, arrays: Arrays) -> Iterable[Any]:
    """The parts of a sequence, all of it, that have those lengths."""
    sizes = _numbers(lengths, arrays, int).astype(np.int64)
    if sizes.size and not 0 <= sizes.min() <= sizes.max() <= len(entries):
        raise ValueError("lengths that are not there")
    ends = [0, *sizes.cumsum().tolist()]
    if ends[-1] != len(entries):
        raise ValueError("lengths that do not match")
    return (entries[start:end] for start, end in pairwise(ends))
