"""Checks of arguments, used everywhere, and the words for counts in messages.

`checked` reads the checks of a public function from its annotations.
"""

import csv
import inspect
import operator
import os
import re
import struct
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set, Sized
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, wraps
from numbers import Real
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints
from zipfile import BadZipFile

from nbsal.support.errors import MODEL_PACKAGES, InputError, MissingPackage, NbsalError, UnknownName, file_error

Text = str | tuple[str, str]
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character in UTF-16
F = TypeVar("F", bound=Callable[..., Any])

# What Python, numpy, pyarrow and zip raise on bytes that are not what they should be.
_DAMAGE = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    EOFError, BadZipFile, zlib.error, struct.error, csv.Error,
)  # fmt: skip


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def whole_number(value: Any, name: str, least: int | None = None) -> int:
    """The value as a plain int, if it is a whole number of any numeric library, and at least `least`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, not {value!r:.60}.", argument=name, value=value) from None
    if abs(number) > sys.maxsize:  # more than numpy and torch can hold
        raise _too_large(value, name)
    if least is not None and number < least:
        raise InputError(f"{name} must be at least {least}, not {number}.", argument=name, value=value)
    return number


def positive_number(value: Any, name: str) -> int:
    """The value as a plain int, if it is a whole number of at least 1."""
    return whole_number(value, name, least=1)


def seed_number(value: Any, name: str = "seed") -> int:
    """The value as a plain int, if it can be the seed of a random generator."""
    return whole_number(value, name, least=0)


def real_number(value: Any, name: str) -> float:
    """The value as a plain float, if it is a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number, not {value!r:.60}.", argument=name, value=value)
    try:
        return float(value)
    except OverflowError:
        raise _too_large(value, name) from None


def _too_large(value: Any, name: str) -> InputError:
    """An error without the number, which may have more digits than Python writes."""
    return InputError(f"{name} is too large. Pass a smaller number.", argument=name, value=value)


def plain_string(value: Any, name: str) -> str:
    """The value, if it is a string of characters; a lone surrogate is none and cannot be written anywhere."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {value!r:.60}.", argument=name, value=value)
    if _SURROGATE.search(value):
        problem = f"{name} contains a lone surrogate, which is not a character: {value!r:.60}."
        raise InputError(f"{problem} Decode it as UTF-16 first.", argument=name, value=value)
    return value


def file_path(value: Any, name: str) -> Any:
    """The value, if it can be the path of a file or the address of a folder."""
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        raise InputError(f"{name} must be a path, not {value!r:.60}.", argument=name, value=value)
    if not (path := os.fspath(value)) or "\0" in path:
        message = f"{name}={path!r:.60} is not a path: it must have a name, without a null character."
        raise InputError(message, argument=name, value=value)
    plain_string(path, name)
    return value


@contextmanager
def file_errors(name: str, value: object) -> Iterator[None]:
    """Raise FileError, which names the argument, instead of the system's error about that file."""
    try:
        yield
    except NbsalError:
        raise
    except OSError as error:
        raise file_error(name, value, error) from error


def is_iterable(values: Any) -> bool:
    """True for an iterable of several values; a string, a mapping or a DataFrame counts as one value."""
    single = isinstance(values, str | bytes | Mapping) or hasattr(values, "columns")
    return not single and isinstance(values, Iterable) and getattr(values, "ndim", 1) != 0


def as_list(values: Any, name: str, rule: str) -> list[Any]:
    """The values as a list; `rule` says in the error what they must be ("must be shares from 0 to 1")."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not is_iterable(values):
        raise InputError(f"{name} {rule}, not {values!r:.80}.", argument=name, value=values)
    return list(values)


def check_one_per_text(values: Sized, name: str, texts: int) -> None:
    """Raise InputError unless there are as many values as texts."""
    if len(values) != texts:
        message = f"{name} must have one entry for each text, not {len(values):,} for {plural(texts, 'text')}."
        raise InputError(message, argument=name, value=values)


def text_list(texts: Any) -> Iterable[Text]:
    """The texts of a call that takes several: a generator as it is, a column or an array as a list."""
    values: Iterable[Text] = texts.tolist() if hasattr(texts, "tolist") else texts
    if isinstance(texts, str | tuple):
        advice = '["..."] for a single text' if isinstance(texts, str) else '[("...", "...")] for a single pair'
    elif not is_iterable(values):
        advice = 'a list, or a column of a frame such as frame["text"]'
    else:
        return values
    message = f"texts must be a list of texts, not a {type(texts).__name__}. Pass {advice}."
    raise InputError(message, argument="texts", value=texts)


def check_texts(texts: Any, first: int = 0) -> list[Text]:
    """One text, or each text of a list, checked; `first` is the number of the first text in error messages."""
    if not isinstance(texts, list):
        _check_text(texts, "The text")
        return [texts]
    if not texts:
        raise InputError("The list of texts is empty. Pass at least one text.", argument="texts", value=texts)
    for number, text in enumerate(texts, first):
        _check_text(text, f"Text {number}")
    if len({isinstance(text, str) for text in texts}) > 1:
        message = "The list mixes single texts and pairs. Pass either texts (str) or pairs (str, str)."
        raise InputError(message, argument="texts", value=texts)
    return texts


def _check_text(text: Any, name: str) -> None:
    parts = (text,) if isinstance(text, str) else text
    pair = isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)
    if not isinstance(text, str) and not pair:
        problem = f"must be a str or a pair (str, str), not {text!r:.80}."
    elif not all(map(str.strip, parts)):
        problem = "is empty or blank. Pass a text with words."
    elif any(map(_SURROGATE.search, parts)):
        problem = "contains a lone surrogate, which is not a character. Decode the bytes as UTF-16 first."
    else:
        return
    raise InputError(f"{name} {problem}", argument="text", value=text)


@contextmanager
def names_missing_package(feature: str) -> Iterator[None]:
    """Raise MissingPackage about a feature if the block imports a package that runs models and is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in MODEL_PACKAGES:
            raise
        raise MissingPackage(feature, error.name) from error


@contextmanager
def loading(path: object, kind: str) -> Iterator[None]:
    """Raise InputError instead of whatever goes wrong while a file that should be of that kind is read."""
    try:
        yield
    except NbsalError:
        raise
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk failed, not the content
            raise
        reason = f"it has no field {error.args[0]!r}" if isinstance(error, KeyError) and error.args else repr(error)
        message = f"{path} is not a {kind}, or it is damaged: {reason:.200}."
        raise InputError(message, argument="path", value=path) from error


def checked(function: F) -> F:
    """Check the arguments of a function, or of every public method of a class, by their annotations.

    Whole numbers, numbers, strings, flags, paths, classes, and lists and dicts of them are checked. An annotation that
    says nothing definite (`Any`, a type variable, a name for type checkers only) is not. An error of the file system
    names the argument that holds the path.

    >>> @checked
    ... def repeat(text: str, count: int = 2) -> str:
    ...     return text * count
    >>> repeat("ab")
    'abab'
    >>> repeat("ab", "x")
    Traceback (most recent call last):
    nbsal.support.errors.InputError: count must be a whole number, not 'x'.
    """
    if isinstance(function, type):
        for name, member in list(vars(function).items()):
            if name.startswith("_") and name not in ("__init__", "__call__", "__getitem__"):
                continue
            if isinstance(member, classmethod):
                setattr(function, name, classmethod(checked(member.__func__)))
            elif inspect.isfunction(member):
                setattr(function, name, checked(member))
        return function
    signature = inspect.signature(function)
    hints = cache(lambda: _hints(function))  # on the first call, when every name is defined

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            if signature.parameters.keys() >= kwargs.keys():
                return function(*args, **kwargs)  # Python's own error names the function
            name = next(name for name in kwargs if name not in signature.parameters)
            problem = f"{function.__qualname__} has no argument {name!r}."
            valid = [parameter for parameter in signature.parameters if parameter != "self"]
            raise UnknownName(name, kwargs[name], valid, problem, spelled=name) from None
        with ExitStack() as stack, names_missing_package(function.__qualname__):
            for name, hint in hints().items():
                if name not in bound.arguments:
                    continue
                value = bound.arguments[name] = check_value(bound.arguments[name], hint, name)
                if value is not None and _is_path(hint):
                    stack.enter_context(file_errors(name, value))
            return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


def check_value(value: Any, hint: Any, name: str) -> Any:
    """The value as the plain number, list or tuple that it stands for, if it fits an annotation."""
    if hint in _CHECKS:
        return _CHECKS[hint](value, name)
    if _is_path(hint):
        return value if value is None and NoneType in get_args(hint) else file_path(value, name)
    with suppress(_Mismatch):
        return _convert(value, hint)
    kinds = [kind for kind in get_args(hint) or [hint] if isinstance(kind, type)]
    if isinstance(value, type) and issubclass(value, tuple(kinds)):
        advice = _ADVICE.get(value.__name__, f"Pass an instance: {value.__name__}(...).")
        problem = f"not the class {value.__name__}. {advice}"
    else:
        problem = " ".join([f"not {value!r:.60}.", *(_ADVICE[k.__name__] for k in kinds if k.__name__ in _ADVICE)])
    raise InputError(f"{name} must be {_describe(hint)}, {problem}", argument=name, value=value)


class _Mismatch(Exception):
    """A value does not fit an annotation."""


def _convert(value: Any, hint: Any) -> Any:
    """The value, plain if it is a number, as a list if it is an array or an iterator; _Mismatch if it does not fit."""
    if hint in _CHECKS:
        try:
            return _CHECKS[hint](value, "")
        except InputError:
            raise _Mismatch from None
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        for part in parts:
            with suppress(_Mismatch):
                return _convert(value, part)
    elif origin in _LISTS:
        if is_iterable(value) or (origin is Collection and isinstance(value, Mapping)):
            lazy = hasattr(value, "tolist") or isinstance(value, Iterator | Set)
            entries = as_list(value, "", "") if lazy else value
            for entry in entries if isinstance(entries, list | tuple) and parts else ():
                _convert(entry, parts[0])
            return entries
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        if isinstance(value, Mapping):
            for pair in value.items() if isinstance(value, dict) else ():
                tuple(map(_convert, pair, parts))
            return value
    elif origin is tuple and Ellipsis not in parts:
        if isinstance(value, tuple) and len(value) == len(parts):
            return tuple(map(_convert, value, parts))
    elif _is_instance(value, origin):
        return value
    raise _Mismatch


def _is_instance(value: Any, kind: Any) -> bool:
    """Whether a value is of a class; what is no class, or a protocol, says nothing at run time."""
    try:
        if kind is _FUNCTION:
            return callable(value)
        scalar = kind is Iterable and getattr(value, "ndim", 1) == 0  # an array that cannot be iterated
        return not isinstance(kind, type) or (isinstance(value, kind) and not scalar)
    except TypeError:
        return True


def _flag(value: Any, name: str) -> bool:
    """The value as True or False, if it is one of them, numpy's too, or 0 or 1."""
    if type(value).__name__ == "bool" or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise InputError(f"{name} must be True or False, not {value!r:.60}.", argument=name, value=value)


_FUNCTION: Any = Callable
_LISTS = (Sequence, Collection, list)
_CHECKS: dict[Any, Callable[[Any, str], Any]] = {
    int: whole_number, float: real_number, bool: _flag, str: plain_string,
    Text: lambda value, name: value,
}  # fmt: skip
_WORDS: dict[Any, str] = {
    int: "a whole number", float: "a number", bool: "True or False", str: "a string", NoneType: "None",
    tuple: "a tuple", _FUNCTION: "a function", Mapping: "a dict", dict: "a dict", **dict.fromkeys(_LISTS, "a list"),
}  # fmt: skip
_ENTRIES: dict[Any, str] = {int: "whole numbers", float: "numbers", str: "strings"}
_ADVICE = {"Subject": "Pass nbsal.load(model), or the `subject` of an explainer."}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's parameters, without those that only a type checker can resolve."""
    hints: dict[str, Any] = {}
    names = getattr(inspect.unwrap(function), "__globals__", {}) | {"pandas": sys.modules.get("pandas")}
    for parameter in inspect.signature(function).parameters.values():
        hint, variable = parameter.annotation, parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if not variable and hint not in (Any, parameter.empty):
            with suppress(NameError, AttributeError, TypeError):
                annotated = SimpleNamespace(__annotations__={parameter.name: hint})
                hints |= get_type_hints(annotated, names)
    return {name: hint for name, hint in hints.items() if hint != Text}  # check_texts has more to say


@cache
def _is_path(hint: Any) -> bool:
    """Whether an annotation means a path: a class of paths, alone or beside a string."""
    classes = [get_origin(part) or part for part in get_args(hint) or [hint]]
    return any(isinstance(kind, type) and issubclass(kind, os.PathLike) for kind in classes)


def _describe(hint: Any) -> str:
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        *others, last = dict.fromkeys(map(_describe, parts))
        return f"{', '.join(others)} or {last}" if others else last
    if origin in _LISTS and parts and parts[0] in _ENTRIES:
        return f"a list of {_ENTRIES[parts[0]]}"
    name = getattr(origin, "__name__", str(origin))
    return _WORDS.get(origin) or f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"
