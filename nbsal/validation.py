"""Checks of arguments, used everywhere, and the words for counts in messages."""

import csv
import operator
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from numbers import Real
from typing import Any
from zipfile import BadZipFile

from nbsal.errors import InputError, NbsalError

Text = str | tuple[str, str]

# What Python, numpy, pyarrow and zip raise on bytes that are not what they should be.
_DAMAGE = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    EOFError, BadZipFile, zlib.error, struct.error, csv.Error,
)  # fmt: skip


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "text"), plural(2000, "text")
    ('1 text', '2,000 texts')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def whole_number(value: Any, name: str) -> int:
    """The value as a plain int, if it is a whole number of any numeric library.

    >>> whole_number(3, "layer")
    3
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, not {value!r}.", argument=name, value=value) from None


def positive_number(value: Any, name: str) -> int:
    """The value as a plain int, if it is a whole number of at least 1."""
    number = whole_number(value, name)
    if number < 1:
        raise InputError(f"{name} must be at least 1, not {number}.", argument=name, value=value)
    return number


def real_number(value: Any, name: str) -> float:
    """The value as a plain float, if it is a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number, not {value!r}.", argument=name, value=value)
    return float(value)


def is_iterable(values: Any) -> bool:
    """True for an iterable of several values; a string, a mapping or a DataFrame counts as one value.

    >>> is_iterable(["A joy."]), is_iterable("A joy."), is_iterable(42)
    (True, False, False)
    """
    single = isinstance(values, str | bytes | Mapping) or hasattr(values, "columns")
    return not single and isinstance(values, Iterable)


def as_list(values: Any, name: str, rule: str) -> list[Any]:
    """The values as a list; `rule` says in the error what they must be ("must be shares from 0 to 1").

    >>> as_list(range(3), "k", "must be a list of numbers")
    [0, 1, 2]
    """
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
    """The texts of a call that takes several: a generator as it is, a column or an array as a list.

    >>> import numpy
    >>> text_list(numpy.array(["A joy.", "A bore."]))
    ['A joy.', 'A bore.']
    """
    if isinstance(texts, str | tuple):
        raise InputError(
            "texts must be a list. To explain one text, call explain(text).", argument="texts", value=texts
        )
    values: Iterable[Text] = texts.tolist() if hasattr(texts, "tolist") else texts
    if not is_iterable(values):
        raise InputError(
            f'texts must be a list of texts or a column of them such as frame["text"], not {type(texts).__name__}.',
            argument="texts",
            value=texts,
        )
    return values


def check_texts(texts: Any, first: int = 0) -> list[Text]:
    """One text, or each text of a list, checked; `first` is the number of the first text in error messages."""
    many = texts if isinstance(texts, list) else [texts]
    if not many:
        raise InputError("The list of texts is empty. Pass at least one text.", argument="texts", value=texts)
    for number, text in enumerate(many, first):
        _check_text(text, f"Text {number}" if isinstance(texts, list) else "The text")
    if len({isinstance(text, str) for text in many}) > 1:
        raise InputError(
            "The list mixes single texts and pairs. Pass either texts (str) or pairs (str, str).",
            argument="texts",
            value=texts,
        )
    return many


def _check_text(text: Any, name: str) -> None:
    parts = (text,) if isinstance(text, str) else text
    pair = isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)
    if not isinstance(text, str) and not pair:
        raise InputError(f"{name} must be a str or a pair (str, str), not {text!r:.80}.", argument="text", value=text)
    for part in parts:
        if not part.strip():
            raise InputError(f"{name} is empty or blank. Pass a text with words.", argument="text", value=text)
        if any(0xD800 <= ord(character) <= 0xDFFF for character in part):
            raise InputError(
                f"{name} contains a lone surrogate, which is not a character. Decode the bytes as UTF-16 first.",
                argument="text",
                value=text,
            )


@contextmanager
def loading(path: object, kind: str) -> Iterator[None]:
    """Raise InputError instead of whatever goes wrong while a file that should be of that kind is read.

    >>> import json
    >>> with loading("mask.json", "saved head mask"):  # doctest: +ELLIPSIS
    ...     json.loads("{")
    Traceback (most recent call last):
    nbsal.errors.InputError: mask.json is not a saved head mask, or it is damaged: ...
    """
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
