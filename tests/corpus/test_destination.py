"""The folder that a run writes to: what may be in it, and what `overwrite` removes."""

import pandas
import pytest

from nbsal.corpus.folder import storage
from nbsal.corpus.folder.manifest import Manifest
from nbsal.corpus.folder.storage import Storage
from tests.cases import cases
from tests.corpus.kills import files
from tests.corpus.test_run import run
from tests.raising import refuses

TEXTS = ["A joy.", "A bore.", "A film."]
FRAME = pandas.DataFrame({"text": TEXTS})


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(explain, source, out, folder, **options):
    """A run that must be refused and leave every file of a folder as it was."""
    before = content(folder)
    for more in ({}, {"overwrite": True}):
        with refuses("out"):
            run(explain, source, out, **options | more)
        assert content(folder) == before


@pytest.fixture
def parts(tmp_path):
    """A folder of three Parquet files with the names of shards."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(3):
        FRAME.to_parquet(folder / f"part-{number:06}.parquet")
    return folder


def test_a_folder_with_other_files_is_refused(explain, tmp_path):
    for number, name in enumerate(("notes.txt", ".hidden", "part-000000.parquet", "folder/deep.txt", "_notes.tmp")):
        folder = tmp_path / str(number)
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"mine")
        refused(explain, TEXTS, folder, tmp_path)
    (tmp_path / "empty").mkdir()
    assert run(explain, TEXTS, tmp_path / "empty").complete


def test_the_source_folder_is_refused_under_any_name(explain, parts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(parts, target_is_directory=True)
    for source in (parts, "source", f"file://{parts}", link):
        for out in (parts, "source", "./source/", "link", f"file://{parts}", parts / ".." / "source", parts / "inner"):
            refused(explain, source, out, tmp_path)


def test_a_corpus_that_holds_the_source_is_refused(explain, tmp_path, monkeypatch):
    out, link = tmp_path / "out", tmp_path / "link"
    run(explain, TEXTS, out)
    (out / "deep").mkdir()
    FRAME.to_csv(out / "texts.csv", index=False)
    FRAME.to_parquet(out / "deep" / "texts.parquet")
    (tmp_path / "outside.csv").symlink_to(out / "texts.csv")
    FRAME.to_csv(tmp_path / "real.csv", index=False)
    (out / "linked.csv").symlink_to(tmp_path / "real.csv")
    link.symlink_to(out, target_is_directory=True)
    monkeypatch.chdir(out)
    for source in (
        out / "texts.csv",
        out / "deep" / "texts.parquet",
        out / "deep",
        "texts.csv",
        "deep/../texts.csv",
        tmp_path / "outside.csv",
        out / "linked.csv",
        f"file://{out}/texts.csv",
        link / "texts.csv",
    ):
        for name in (out, link, ".", f"file://{out}"):
            refused(explain, source, name, tmp_path)
    assert run(explain, tmp_path / "real.csv", out).complete


def test_the_same_rules_hold_in_an_object_store(explain, tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/rules/texts.csv", b"text\nA joy.\n")
    for out in ("memory://rules", "memory:///rules/", "memory://rules/texts.csv"):
        for source in (TEXTS, "memory://rules/texts.csv"):
            with refuses("out"):
                run(explain, source, out)
    run(explain, TEXTS, "memory://ruled")
    memory.pipe("/ruled/texts.csv", b"text\nA joy.\n")
    with refuses("out"):
        run(explain, "memory://ruled/texts.csv", "memory://ruled", overwrite=True)
    assert memory.cat("/rules/texts.csv") == memory.cat("/ruled/texts.csv") == b"text\nA joy.\n"
    assert run(explain, "memory://rules/texts.csv", "memory://ruled", overwrite=True).rows == 1


def test_overwrite_replaces_a_corpus_and_nothing_else(explain, texts, tmp_path):
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    run(explain, texts, out)
    run(explain, TEXTS, fresh)
    foreign = {"part-000099.parquet": b"mine", "notes.txt": b"mine", "_notes.tmp": b"mine", "part-1.txt": b"mine"}
    for name, data in foreign.items():
        (out / name).write_bytes(data)
    with refuses("source"):
        run(explain, TEXTS, out)
    with pytest.warns(UserWarning, match=r"part-000099\.parquet"):
        replaced = run(explain, TEXTS, out, overwrite=True)
    assert files(out) == files(fresh) | foreign
    assert [s.text for s in replaced] == TEXTS


@cases("change", [{"name": "../mine.txt"}, {"rows": -1}, {"rows": None}, {"tokens": 2**70}])
def test_a_manifest_with_values_that_no_run_wrote_is_refused(explain, tmp_path, change):
    (tmp_path / "mine.txt").write_bytes(b"mine")
    run(explain, TEXTS, tmp_path / "out")
    manifest = Manifest.read(Storage(tmp_path / "out"))
    shard = manifest.shards[0]
    manifest.shards[0] = type(shard)(**vars(shard) | change)
    manifest.write(Storage(tmp_path / "out"))
    with refuses("path"):
        run(explain, TEXTS, tmp_path / "out", overwrite=True)
    assert (tmp_path / "mine.txt").exists()


def test_what_a_killed_run_left_before_its_manifest_is_ours(explain, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "HALF_WRITTEN", 0.1)
    for name in ("_lock.json", f"__manifest.json.{'0123456789abcdef' * 2}.tmp"):
        (tmp_path / name).write_bytes(b"{")
    with pytest.warns(UserWarning):
        assert run(explain, TEXTS, tmp_path).complete
    assert set(files(tmp_path)) == {"_manifest.json", "_vocabulary.json", "part-000000.parquet"}
    assert not (tmp_path / "_lock.json").exists()
