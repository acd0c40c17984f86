"""Errors keep their message and fields when they cross to another process."""

import pickle

import pytest

from nbsal.errors import Cancelled, InputError, MissingExtra, NbsalError, OutOfMemory, UnknownName

ERRORS = [
    InputError("The text is empty."),
    UnknownName("layer", 9, range(3)),
    MissingExtra("Explaining a corpus", "scale"),
    OutOfMemory("There is not enough memory."),
    Cancelled("Cancelled after 2 of 3 steps."),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_can_be_pickled(error: NbsalError):
    error.partial = [1, 2]
    restored = pickle.loads(pickle.dumps(error))
    assert type(restored) is type(error) and str(restored) == str(error) and restored.partial == [1, 2]
    again = type(error).__new__(type(error), *error.args)  # as Dask restores them
    assert str(again) == str(error)
