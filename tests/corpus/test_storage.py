"""Storage: atomic writes, and a lock that lets one run at a time write to a folder."""

import os

import pytest

from nbsal import corpus
from nbsal.corpus.sources import open_source
from nbsal.corpus.storage import LOCK, Storage
from tests.raising import refuses


@pytest.mark.parametrize("location", ["foo://corpora/one", "s3://corpora/one"])  # an unknown protocol; s3fs is missing
def test_inaccessible_locations_are_refused(location):
    with refuses("location") as caught:
        Storage(location)
    assert caught.value.value == location and isinstance(caught.value.__cause__, ImportError | ValueError)
    with refuses("source") as caught:
        open_source(f"{location}.csv", "text")
    assert caught.value.value == f"{location}.csv"


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    with pytest.raises(OSError) as caught:
        Storage(tmp_path).write("one", b"1")
    assert caught.value.errno is not None
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    full = OSError("No space left on device")

    def fail(handle):
        raise full

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError) as caught:
        Storage(tmp_path).write("two", b"2")
    assert caught.value is full
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("location", ["", "memory://corpora/locked"])
def test_a_second_run_is_refused_at_any_location(explain, tmp_path, location):
    location = location or tmp_path
    with Storage(location).lock(), refuses("out"):
        corpus.explain(explain, ["A joy."], location, progress=False)
    assert corpus.explain(explain, ["A joy."], location, progress=False).complete


def test_a_lock_of_another_run_is_not_removed(tmp_path):
    with Storage(tmp_path).lock():
        Storage(tmp_path).write(LOCK, b"{}")  # another run took the lock over
    assert Storage(tmp_path).read(LOCK) == b"{}"
