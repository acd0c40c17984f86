"""Errors: each is a sentence, and stays one where it is read in another process."""

import pickle

import pytest

from nbsal.errors import Cancelled, InputError, MissingExtra, NbsalError, OutOfMemory, UnknownName

RAISED = [
    InputError("The text is empty."),
    UnknownName("layer", 9, range(3)),
    MissingExtra("Explaining a corpus", "scale"),
    OutOfMemory("There is no room."),
    Cancelled("Cancelled after 2 of 3 steps."),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_errors_cross_from_one_process_to_another(error: NbsalError):
    error.partial = [1, 2]
    read = pickle.loads(pickle.dumps(error))
    assert type(read) is type(error) and str(read) == str(error) and read.partial == [1, 2]
    again = type(error).__new__(type(error), *error.args)  # as Dask makes them
    assert str(again) == str(error)
