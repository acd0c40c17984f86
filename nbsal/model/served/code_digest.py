"""A digest of what a function does: its code, the values that it closes over or names, and the functions it calls."""

import dis
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
PACKAGE = Path(__file__).parents[2]
# What is installed there counts by its name and version, all other code by what it is.
INSTALLED = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}, str(PACKAGE))
WRITERS = ("append", "extend", "insert", "add", "update", "setdefault")  # methods that change what they are of


def digest_of(function: Any, mutable: bool = True) -> tuple[str, str | None]:
    """The digest of a function, and the first value in it that has none and counts by its class alone.

    What may change while the function is used, such as a list, counts only if `mutable`.

    >>> first, second = (digest_of(eval(code)) for code in ("lambda x: x + 1", "lambda x: x + 2"))
    >>> first == digest_of(eval("lambda  x :x+1")), first == second
    (True, False)
    """
    reader = _Reader(mutable)
    text = reader.describe(function, "the function")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), next(iter(reader.unknown), None)


class _Reader:
    def __init__(self, mutable: bool) -> None:
        self.mutable = mutable
        self.unknown: list[str] = []  # values without a digest, by name
        self._seen: dict[int, int] = {}  # functions and containers that were described, which may hold themselves

    def describe(self, value: Any, name: str) -> str:
        """A text that is the same for the same value in any process."""
        kind = type(value)
        if kind in PLAIN:
            return f"{kind.__name__} {value!r}"
        if isinstance(value, PurePath | np.generic | re.Pattern):
            return f"{kind.__name__} {value!r}"
        if id(value) in self._seen:
            return f"number {self._seen[id(value)]}"
        self._seen[id(value)] = len(self._seen)
        return f"{kind.__name__}({', '.join(self._parts(value, name))})"

    def _parts(self, value: Any, name: str) -> Iterator[str]:
        if isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, ModuleType):
            yield _named(value.__name__, "")
        elif isinstance(value, FunctionType | type) and _is_installed(value):
            yield _named(value.__module__, value.__qualname__)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield value.__qualname__
            yield from self._all([*value.__bases__, *_members(value)], name)
        elif isinstance(value, MethodType):
            yield from self._all([value.__func__, value.__self__], name)
        elif isinstance(value, BuiltinFunctionType):
            yield value.__qualname__
            yield self.describe(value.__self__, name)
        elif isinstance(value, partial):
            yield from self._all([value.func, value.args, value.keywords], name)
        elif isinstance(value, staticmethod | classmethod):
            yield self.describe(value.__func__, name)
        elif isinstance(value, property):
            yield from self._all([value.fget], name)
        elif type(value) is tuple:
            yield from self._all(value, name)
        elif isinstance(value, frozenset):
            yield from sorted(self._all(value, name))
        else:
            yield from self._mutable(value, name)

    def _mutable(self, value: Any, name: str) -> Iterator[str]:
        """What may change while the function is used, and instances of classes."""
        kind = type(value)
        written = not _is_installed(kind) and hasattr(value, "__dict__")  # a class that is read as well
        if written:
            yield self.describe(kind, name)
        if not self.mutable:
            return
        if kind is list:
            yield from self._all(value, name)
        elif kind is set:
            yield from sorted(self._all(value, name))
        elif kind is dict or written:
            entries: Mapping[Any, Any] = value if kind is dict else _state(value)
            yield from self._all([part for entry in entries.items() for part in entry], name)
        elif kind is np.ndarray and not value.dtype.hasobject:
            yield f"{value.dtype.str} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        else:
            self.unknown.append(f"{name} ({kind.__name__})")

    def _all(self, values: Any, name: str) -> list[str]:
        return [self.describe(value, name) for value in values]

    def _code(self, code: CodeType) -> Iterator[str]:
        """Everything but where it stands: neither lines nor names of files."""
        yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        yield repr((code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount))
        yield from self._all(code.co_consts, "a constant")

    def _function(self, function: FunctionType) -> Iterator[str]:
        code = function.__code__
        yield self.describe(code, "the code")
        yield from self._all([function.__defaults__, function.__kwdefaults__], "a default")
        names, attributes, written = _used(code)
        values = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # empty
                values[name] = cell.cell_contents
        for name in sorted(values.keys() - written):
            value = values[name]
            yield f"{name} {self.describe(value, name)}"
            if isinstance(value, ModuleType) and not _is_in(getattr(value, "__file__", None)):
                members = sorted(attributes & vars(value).keys())
                yield from (f"{each} {self.describe(vars(value)[each], f'{name}.{each}')}" for each in members)


def _used(code: CodeType) -> tuple[set[str], set[str], set[str]]:
    """The names that a code uses: global ones, those of attributes, and those to whose values it writes.

    What a function writes, such as a list of what it was asked, is not part of what it does.
    """
    names, attributes, written, before = set[str](), set(code.co_names), set[str](), None
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(each.argval)
        elif each.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR"):
            written.add(each.argval)
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in WRITERS and before is not None:
            written.add(before)
        before = each.argval if each.opname.startswith("LOAD_") and isinstance(each.argval, str) else None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            for mine, theirs in zip((names, attributes, written), _used(inner), strict=True):
                mine |= theirs
    return names, attributes, written


def _members(kind: type) -> list[Any]:
    members = {
        name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__", "__module__")
    }
    return [part for entry in sorted(members.items()) for part in entry]


def _state(instance: Any) -> dict[str, Any]:
    """The attributes of an instance that its methods do not write."""
    methods = [
        each for kind in type(instance).__mro__ for each in vars(kind).values() if isinstance(each, FunctionType)
    ]
    written = {name for each in methods if each.__name__ != "__init__" for name in _used(each.__code__)[2]}
    return {name: value for name, value in vars(instance).items() if name not in written}


def _is_in(file: str | None) -> bool:
    return file is None or file.startswith(("<frozen", *INSTALLED))


def _is_installed(value: Any) -> bool:
    """Whether a function or a class is Python's own, or of an installed package."""
    if isinstance(value, FunctionType):
        return _is_in(value.__code__.co_filename)
    module = sys.modules.get(value.__module__)
    return module is not None and value.__module__ != "__main__" and _is_in(getattr(module, "__file__", None))


def _named(module: str, name: str) -> str:
    version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
    return f"{module} {version} {name}"
