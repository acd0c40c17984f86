"""Storage: atomic writes, and a lock that lets one run at a time write to a folder."""

import json
import os
import socket
import threading
from pathlib import Path

import psutil
import pytest

from nbsal import corpus
from nbsal.corpus.folder import storage as storage_module
from nbsal.corpus.folder.owner import Owner
from nbsal.corpus.folder.storage import LOCK, Storage
from nbsal.corpus.sources.open import open_source
from tests.cases import cases
from tests.corpus.kills import run_and_die
from tests.raising import refuses

DEAD = f'{{"host": "{socket.gethostname()}", "pid": 1, "began": 0}}'.encode()


@cases("location", ["foo://corpora/one", "gs://corpora/one"])  # an unknown protocol; gcsfs is missing
def test_inaccessible_locations_are_refused(location):
    with refuses("location") as caught:
        Storage(location)
    assert isinstance(caught.value.__cause__, ImportError | ValueError)
    with refuses("source"):
        open_source(f"{location}.csv", "text")


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    full = OSError("No space left on device")

    def fail(handle):
        raise full

    (tmp_path / "one").mkdir()
    with pytest.raises(OSError):
        Storage(tmp_path).write("one", b"1")
    with pytest.raises(OSError):
        Storage(tmp_path).read("one" * 200)
    with Storage(tmp_path / "other").lock():
        Storage(tmp_path / "other").write(LOCK, b"{}")  # another run took the lock over
    assert Storage(tmp_path / "other").read(LOCK) == b"{}"
    Storage(tmp_path / "other").remove(LOCK)
    (tmp_path / "other").rmdir()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError) as caught:
        Storage(tmp_path).write("two", b"2")
    assert caught.value is full
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("location", ["", "memory://corpora/owned"], ids=["local", "memory"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_interrupted_run_frees_the_lock(explain, texts, tmp_path, location):
    location = location or str(tmp_path)
    for error in (KeyboardInterrupt, GeneratorExit):

        def interrupt(done, total, error=error):
            if done:
                raise error

        with pytest.raises(error):
            corpus.explain(explain, texts, location, shard_rows=8, progress=interrupt)
        assert Storage(location).read(LOCK) is None
    Storage(location).write(LOCK, Owner.current().to_lock())  # as if it had been interrupted while releasing it
    assert corpus.explain(explain, texts, location, shard_rows=8, progress=False).complete
    assert Storage(location).read(LOCK) is None
    with Storage(location).lock(), refuses("out"):
        corpus.explain(explain, texts, location, progress=False)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_killed_while_it_took_over_a_lock_does_not_block_others(tmp_path, monkeypatch):
    (tmp_path / LOCK).write_bytes(DEAD)
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "write", lambda *arguments: os._exit(1))
        run_and_die(Storage(tmp_path).lock().__enter__)
    assert len(list(tmp_path.iterdir())) == 2, "it was not killed while it took over the lock"
    with Storage(tmp_path).lock():
        assert Owner.from_lock((tmp_path / LOCK).read_bytes()).is_running()
    assert not list(tmp_path.iterdir())


@cases("content", [b"", b"{}", b"[1]", b"\xff", DEAD[:-1]])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_half_written_lock_is_taken_over_after_a_while(tmp_path, monkeypatch, content):
    monkeypatch.setattr(storage_module, "HALF_WRITTEN", 0.1)
    (tmp_path / LOCK).write_bytes(content)
    with Storage(tmp_path).lock():
        assert Owner.from_lock((tmp_path / LOCK).read_bytes()).is_running()
    assert not list(tmp_path.iterdir())


def test_a_lock_that_is_being_written_is_waited_for(tmp_path):
    """A reader may see a lock that has been created and not yet written."""
    (tmp_path / LOCK).touch()
    owner = Owner(socket.gethostname(), os.getppid(), psutil.Process(os.getppid()).create_time())
    timer = threading.Timer(0.3, lambda: (tmp_path / LOCK).write_bytes(owner.to_lock()))
    timer.start()
    with refuses("out"), Storage(tmp_path).lock():
        pass
    timer.join()
    assert (tmp_path / LOCK).read_bytes() == owner.to_lock()


@cases(
    "change, running",
    [
        ({}, True),
        ({"host": "elsewhere"}, True),
        ({"began": 0.0}, False),  # its process id is used again
        ({"pid": 2**22 + 1}, False),
        ({"pid": -1}, False),
        ({"pid": 10**30}, False),
        ({"began": float("nan")}, False),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_only_locks_of_running_processes_count(tmp_path, change, running):
    process = psutil.Process(os.getppid())
    owner = {"host": socket.gethostname(), "pid": process.pid, "began": process.create_time()}
    lock = json.dumps(owner | change)
    (tmp_path / LOCK).write_text(lock)
    if running:
        with refuses("out"), Storage(tmp_path).lock():
            pass
        assert (tmp_path / LOCK).read_text() == lock
    else:
        with Storage(tmp_path).lock():
            pass
        assert not list(tmp_path.iterdir())


def test_a_file_system_without_hard_links_works(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", None)
    monkeypatch.setattr(Path, "hardlink_to", None)
    with Storage(tmp_path).lock(), refuses("out"), Storage(tmp_path).lock():
        pass


def test_a_lock_that_can_be_neither_created_nor_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_module, "HALF_WRITTEN", 0.1)
    (tmp_path / LOCK).symlink_to(tmp_path / "nowhere")
    with refuses("out"), Storage(tmp_path).lock():
        pass


def test_a_store_without_conditional_writes_is_named(explain, monkeypatch):
    """File systems that only have the methods of fsspec look whether a file exists, and then write."""
    from fsspec.implementations.memory import MemoryFileSystem

    out = "memory://corpora/plain"
    monkeypatch.delattr(MemoryFileSystem, "pipe_file")
    with pytest.warns(UserWarning) as caught:
        assert corpus.explain(explain, ["A joy."], out, progress=False).complete
    assert any(out in str(warning.message) and warning.filename == __file__ for warning in caught)
    with pytest.warns(UserWarning), Storage(out).lock(), refuses("out"):
        corpus.explain(explain, ["A joy."], out, progress=False)
