"""Storage: files are whole or not there, and a folder belongs to one run at a time, wherever it lies."""

import os

import pytest

from nbsal import corpus
from nbsal.corpus.sources import open_source
from nbsal.corpus.storage import LOCK, Storage
from nbsal.errors import InputError


@pytest.mark.parametrize(
    ("place", "reason"), [("foo://corpora/one", "Protocol not known"), ("s3://corpora/one", "s3fs")]
)
def test_places_that_cannot_be_reached_are_a_sentence(place, reason):
    with pytest.raises(InputError, match=f"{place} is no folder that can be reached here: .*{reason}"):
        Storage(place)
    with pytest.raises(InputError, match=f"{place}.csv is no file that can be reached here: .*{reason}"):
        open_source(f"{place}.csv", "text")


def test_a_file_that_cannot_be_put_there_leaves_nothing_behind(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    with pytest.raises(OSError, match="one"):
        Storage(tmp_path).write("one", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]

    def full(handle):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        Storage(tmp_path).write("two", b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("place", ["", "memory://corpora/locked"])
def test_one_run_at_a_time_wherever_it_writes(explain, tmp_path, place):
    place = place or tmp_path
    with Storage(place).locked(), pytest.raises(InputError, match="is being written by process"):
        corpus.explain(explain, ["A joy."], place, progress=False)
    assert corpus.explain(explain, ["A joy."], place, progress=False).complete


def test_a_lock_that_another_run_holds_by_now_is_left_alone(tmp_path):
    with Storage(tmp_path).locked():
        Storage(tmp_path).write(LOCK, b"{}")  # its owner was taken for gone
    assert Storage(tmp_path).read(LOCK) == b"{}"
