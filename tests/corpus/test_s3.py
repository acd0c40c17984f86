"""Corpora on an object store: the lock is exclusive, and a run survives a store that fails."""

import contextlib
import uuid
import warnings

import fsspec
import pandas
import pytest

from nbsal import corpus
from nbsal.corpus.folder.owner import Owner
from nbsal.corpus.folder.storage import LOCK, Storage
from nbsal.corpus.sources.open import open_source
from nbsal.support.errors import InputError
from tests.cases import cases
from tests.corpus import kills
from tests.corpus.s3_server import BUCKET, Fault, serve
from tests.raising import refuses

FOREVER = 10**9


@pytest.fixture(scope="module")
def server():
    with serve() as (store, options), pytest.MonkeyPatch.context() as patch:
        patch.setitem(fsspec.config.conf, "s3", options)
        # By default s3fs repeats five rounds of five requests, which on a store that always fails takes half a minute.
        patch.setattr(fsspec.get_filesystem_class("s3"), "retries", 2)
        fsspec.filesystem("s3").mkdir(BUCKET)
        yield store, options
        fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture
def store(server):
    """The server without faults."""
    yield server[0]
    server[0].faults.clear()
    server[0].requests.clear()
    server[0].conditional = True


@pytest.fixture
def out(store):
    """The address of a folder that does not exist."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


def run(explain, texts, out):
    return corpus.explain(explain, texts, out, shard_rows=8, progress=False)


def files(out):
    """The content of all files of a folder."""
    system, folder = fsspec.core.url_to_fs(out)
    system.invalidate_cache()
    return {path.rsplit("/", 1)[-1]: system.cat_file(path) for path in system.find(folder)}


def test_a_run_writes_the_same_files_as_a_local_one(explain, texts, whole, out):
    run(explain, texts, out)
    assert files(out) == kills.files(whole)
    assert corpus.open(out)[0].text == texts[0]


@cases("conditional", [False, None])
def test_a_store_without_conditional_writes_is_named(explain, store, out, conditional):
    out = f"{out}/{conditional}"
    store.conditional = conditional
    with pytest.warns(UserWarning) as caught:
        assert run(explain, ["A joy."], out).complete
    assert any(out in str(warning.message) and warning.filename == __file__ for warning in caught)
    with pytest.warns(UserWarning), Storage(out).lock(), refuses("out"):  # the other run has begun before
        run(explain, ["A joy."], out)


TARGETS = [("PUT", LOCK), ("PUT", "_manifest.json"), ("PUT", "part-000002"), ("DELETE", LOCK)]


@cases("kind, target", [(503, TARGETS[2]), ("lost", TARGETS[0])])
def test_a_request_that_fails_is_repeated(explain, texts, whole, store, out, kind, target):
    out = f"{out}/{kind}-{TARGETS.index(target)}"
    store.faults[:] = [Fault(kind, *target)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert run(explain, texts, out).complete
    assert store.faults[0].used == 1 and files(out) == kills.files(whole)
    assert ("PUT", f"{out.removeprefix('s3:/')}/{LOCK}", 412) in store.requests


@pytest.mark.full
@cases("target", TARGETS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_on_a_store_that_fails_resumes(explain, texts, whole, store, out, target):
    out = f"{out}/{TARGETS.index(target)}"
    store.faults.append(Fault("lost", *target, times=FOREVER))
    with contextlib.suppress(InputError):  # a lock that cannot be released does not stop a run
        run(explain, texts, out)
    assert store.faults[0].used
    store.faults.clear()
    assert run(explain, texts, out).complete
    assert files(out) == kills.files(whole)


def test_a_store_that_refuses_is_an_error_of_the_argument(explain, store, out):
    store.faults.append(Fault(403, times=FOREVER))  # which no client repeats
    with refuses("out") as caught:
        run(explain, ["A joy."], out)
    assert caught.value.value == out and caught.value.__cause__
    with refuses("location"):
        corpus.open(out)
    with refuses("source"):
        open_source(f"{out}.csv", "text")


@cases("status", [409, 412])
def test_other_answers_to_a_conditional_write(store, out, status):
    store.faults.append(Fault(status, "PUT", LOCK, times=2))
    with Storage(out).lock():
        assert Owner.from_lock(Storage(out).read(LOCK)).is_running()
    assert not files(out)


@pytest.mark.full
@cases("kind, fault", [("csv", 500), ("jsonl", "reset"), ("parquet", 403), ("parquet", "reset")])
def test_a_source_that_cannot_be_read_is_an_error_of_the_argument(store, out, kind, fault):
    frame = pandas.DataFrame({"text": ["A joy.", "A bore."]})
    data = {
        "csv": frame.to_csv(index=False).encode(),
        "jsonl": b'{"text": "A joy."}\n' * 2,
        "parquet": frame.to_parquet(),
    }
    path = f"{out}/{fault}/texts.{kind}"
    Storage(f"{out}/{fault}").write(f"texts.{kind}", data[kind])
    assert len(list(open_source(path, "text").rows)) == 2
    store.faults[:] = [Fault(fault, "GET", f"texts.{kind}", times=FOREVER)]
    with refuses("source") as caught:
        list(open_source(path, "text").rows)
    assert caught.value.value == path
    store.faults.clear()
