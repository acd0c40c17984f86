"""Saved: files read back; what is damaged is a sentence, whatever its bytes lead to."""

import csv
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from zipfile import BadZipFile

from nbsal.errors import InputError, NbsalError

# What Python, numpy, pyarrow and zip make of bytes that are not what they should be.
_DAMAGE = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    EOFError, BadZipFile, zlib.error, struct.error, csv.Error,
)  # fmt: skip


@contextmanager
def restored(path: object, what: str) -> Iterator[None]:
    """A sentence in place of what goes wrong while something is read that ought to be `what`.

    >>> import json
    >>> with restored("mask.json", "saved head mask"):  # doctest: +ELLIPSIS
    ...     json.loads("{")
    Traceback (most recent call last):
    nbsal.errors.InputError: mask.json is no saved head mask, or is damaged: ...
    """
    try:
        yield
    except NbsalError:
        raise
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's word, not that of the content
            raise
        raise InputError(f"{path} is no {what}, or is damaged: {error!r:.200}.") from error
