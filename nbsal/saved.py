"""Saved: files that nbsal wrote, read back; what is damaged is a sentence, whatever its bytes lead to."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from zipfile import BadZipFile

from nbsal.errors import InputError

# What Python, numpy and zip make of bytes that are not what they should be.
_DAMAGE = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    EOFError, BadZipFile, zlib.error, struct.error,
)  # fmt: skip


@contextmanager
def restored(path: object, what: str) -> Iterator[None]:
    """A sentence in place of what goes wrong while `what` is read from a path.

    >>> import json
    >>> with restored("mask.json", "head mask"):  # doctest: +ELLIPSIS
    ...     json.loads("{")
    Traceback (most recent call last):
    nbsal.errors.InputError: mask.json is not a saved head mask, or is damaged: ...
    """
    try:
        yield
    except InputError:
        raise
    except _DAMAGE as error:
        raise InputError(f"{path} is not a saved {what}, or is damaged: {error!r:.200}.") from error
