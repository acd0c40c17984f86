"""Errors keep their message and fields when they cross to another process."""

import pickle

from nbsal.support.errors import (
    Cancelled,
    InputError,
    MissingExtra,
    MissingFile,
    NbsalError,
    OutOfMemory,
    UnknownName,
    listed,
)
from nbsal.support.validation import file_errors, loading
from tests.cases import cases
from tests.raising import refuses

ERRORS = [
    InputError("The text is empty."),
    UnknownName("layer", 9, range(3)),
    MissingExtra("Explaining a corpus", "scale"),
    OutOfMemory("There is not enough memory."),
    Cancelled("Cancelled after 2 of 3 steps."),
]


@cases("error", ERRORS)
def test_errors_can_be_pickled(error: NbsalError):
    error.partial = [1, 2]
    restored = pickle.loads(pickle.dumps(error))
    assert type(restored) is type(error) and str(restored) == str(error) and restored.partial == [1, 2]
    again = type(error).__new__(type(error), *error.args)  # as Dask restores them
    assert str(again) == str(error)


NAMES = ["gradcam", "gradxact", "simple", "rollout", "lime", "shapley", "occlusion", "random", "alti"]


@cases(
    "value, valid, suggestion",
    [
        ("grad-cam", NAMES, "gradcam"),
        ("grad-cam", NAMES[:8], None),
        ("magic", NAMES, None),
        (7, NAMES, None),
        ("7", range(20), None),
    ],
)
def test_the_closest_name_of_a_long_list_is_suggested(value, valid, suggestion):
    error = UnknownName("method", value, valid)
    assert error.suggestion == suggestion and error.valid == tuple(valid)
    assert suggestion is None or str(error).count(suggestion) == 2


def test_a_list_that_is_too_long_to_read_is_replaced_by_the_nearest_names():
    names = [f"method-{letter}" for letter in "abcdefghijklm"]

    def named(value, valid):
        return sum(str(UnknownName("method", value, valid)).count(name) for name in valid)

    assert (named("methods-b", names), named("magic", names), named("magic", names[:12])) == (1, 3, 12)


def test_names_that_a_value_is_a_part_of_are_suggested_too():
    names = [*NAMES, *"abcd", "kernel-shap", "kernel-shap@published"]
    error = UnknownName("method", "shap", names)
    assert error.suggestion == "shapley" and [name for name in NAMES if name in str(error)] == ["shapley"]
    assert "kernel-shap" in str(error) and "@" not in str(error)


def test_errors_of_files_name_what_is_missing(tmp_path):
    path = tmp_path / "none" / "a.json"
    with refuses("path", MissingFile) as caught, file_errors("path", path):
        path.read_bytes()
    assert caught.value.value == path and caught.value.filename == str(path)
    with refuses("path") as caught, loading("file.json", "saved head mask"):
        {}["nbsal"]
    assert "'nbsal'" in str(caught.value) and "KeyError" not in str(caught.value)


def test_the_errors_can_be_imported_under_their_public_name():
    import nbsal.errors

    assert nbsal.errors.InputError is InputError and nbsal.errors.NbsalError is NbsalError


def test_a_list_of_thousands_is_cut_short():
    names = [f"label {number}" for number in range(30_000)]
    assert len(listed(names)) < 200 and "29,988" in listed(names) and listed(names[:3]) == "label 0, label 1, label 2"
    assert len(str(UnknownName("layer", -1, range(30_000)))) < 200
