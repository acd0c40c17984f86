"""Dataclasses as files hold them: as plain values, which are restored by the annotations of the fields."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray


def to_plain(value: Any, leave: Collection[str] = ()) -> Any:
    """Lists, dicts, texts and numbers in place of dataclasses, tuples and arrays, without the fields named in `leave`.

    >>> to_plain({"scores": (np.ones(2), None)})
    {'scores': [[1.0, 1.0], None]}
    """
    if is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name), leave) for f in fields(value) if f.name not in leave}
    if isinstance(value, Mapping):
        return {name: to_plain(entry, leave) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(entry, leave) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def from_plain(hint: Any, value: Any) -> Any:
    """The value with that annotation of which `to_plain` made this one; ValueError if any part has another type.

    >>> from_plain(tuple[int, ...], [1, 2])
    (1, 2)
    >>> from_plain(tuple[int, ...], [1, None])
    Traceback (most recent call last):
    ValueError: None is not of the type int
    """
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin is Any or (origin is Literal and value in parts):
        return value
    if origin in (Union, UnionType):
        return _from_union(parts, value)
    if hasattr(origin, "__value__"):  # a type alias, which NDArray is from numpy 2.5 on
        return from_plain(origin.__value__[parts], value)
    if origin is np.ndarray:
        return numbers(value, *get_args(parts[1]))
    if origin is tuple and isinstance(value, list | tuple):
        kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(from_plain(kind, entry) for kind, entry in zip(kinds, value, strict=True))
    if isinstance(value, dict):
        if is_dataclass(hint):
            hints = get_type_hints(hint)
            return hint(**{name: from_plain(hints[name], entry) for name, entry in value.items()})  # type: ignore[operator]
        if isinstance(origin, type) and issubclass(origin, Mapping):
            key, kind = (*parts, int)[:2] if parts else (str, Any)
            entries = {key(name): from_plain(kind, entry) for name, entry in value.items()}
            return Counter(entries) if origin is Counter else entries
    if type(value) is not origin and not (origin is float and type(value) is int):
        raise ValueError(f"{value!r:.40} is not of the type {getattr(hint, '__name__', hint)}")
    return value


def _from_union(kinds: tuple[Any, ...], value: Any) -> Any:
    """A value of the first of some types that it fits."""
    if value is None and type(None) in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not type(None))
    for kind in others:
        try:
            return from_plain(kind, value)
        except ValueError:
            continue
    return from_plain(last, value)


def numbers(values: Any, dtype: Any) -> NDArray[Any]:
    """The array that nested lists of finite numbers hold; True and strings are no numbers."""
    array = np.array(values, dtype)
    leaves = [values]
    for _ in range(array.ndim):
        leaves = chain.from_iterable(leaves)  # type: ignore[assignment]
    if not {type(leaf) for leaf in leaves} <= ({int} if array.dtype.kind == "i" else {int, float}):
        raise ValueError("numbers of another type")
    if not np.isfinite(array).all():
        raise ValueError("numbers that are NaN or infinite")
    return array
