"""Check that a call is refused, by the class of the error and the argument or part it names, never by its wording."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nbsal.support.errors import InputError, ModelError, NbsalError


@contextmanager
def refuses(argument: str | None, kind: type[NbsalError] = InputError) -> Iterator[pytest.ExceptionInfo[NbsalError]]:
    """A block that must raise an error of that class about that argument, and say something in words."""
    with pytest.raises(kind) as caught:
        yield caught
    assert getattr(caught.value, "argument", None) == argument
    assert str(caught.value).strip()


@contextmanager
def refuses_part(part: str | None, kind: type[ModelError] = ModelError) -> Iterator[pytest.ExceptionInfo[ModelError]]:
    """A block that must raise an error of that class about that part of a model."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.part == part
