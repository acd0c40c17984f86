"""Interrupted and damaged runs: what is resumed, what is restored, and what is refused."""

import json
import socket
import threading
from functools import partial

import numpy as np
import pytest

import nbsal
from nbsal import corpus
from nbsal.corpus.folder import manifest
from nbsal.corpus.folder.storage import LOCK, Storage
from nbsal.support.errors import Cancelled, InputError
from tests.answers import writers
from tests.cases import cases
from tests.corpus import kills
from tests.corpus.kills import files, run_and_die
from tests.corpus.test_run import run
from tests.raising import refuses

FULL = [(True, 3), (False, 20)]


def cancel_run(explain, texts, out, after=3):
    """Cancel a run after some shards; returns the unfinished corpus."""
    cancel = threading.Event()

    def progress(done, total):
        assert total == len(texts)
        if done > 8 * after:
            cancel.set()

    with pytest.raises(Cancelled) as caught:
        run(explain, texts, out, progress=progress, cancel=cancel)
    partial = caught.value.partial
    assert 0 < len(partial.shards) < 5 and not partial.complete
    assert "not complete" in repr(corpus.open(out))
    return partial


@pytest.mark.parametrize(
    ("replies", "times"), [(False, 2), (True, 1), *(pytest.param(*cell, marks=pytest.mark.full) for cell in FULL)]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_that_is_killed_repeatedly_ends_with_the_same_files(explain, tmp_path, replies, times):
    subject, rows, settings = explain.subject, kills.texts(), {"shard_rows": kills.SHARD, "progress": False}
    if replies:
        subject, settings = writers.load(), settings | {"do_sample": True, "seed": 1, "max_new_tokens": 2}
        rows = [[{"role": "user", "content": text}] for text in rows[: 6 * kills.SHARD]]
    run_rows = partial(corpus.explain, nbsal.Explainer(subject, "rollout"), rows, **settings)
    run_rows(tmp_path / "whole")
    shards = len(rows) // kills.SHARD
    counts = kills.killed(run_rows, tmp_path / "interrupted", times, shards)
    assert files(tmp_path / "whole") == files(tmp_path / "interrupted")
    assert counts == sorted(counts) and any(0 < count < shards for count in counts), counts


def test_a_cancelled_run_resumes(explain, texts, whole, tmp_path):
    finished = cancel_run(explain, texts, tmp_path).shards
    times = {shard.name: (tmp_path / shard.name).stat().st_mtime_ns for shard in finished}
    run(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)
    assert times == {name: (tmp_path / name).stat().st_mtime_ns for name in times}, "a finished shard was run again"


def test_a_slow_method_is_cancelled_within_a_batch(explain, forwards, tmp_path):
    cancel = threading.Event()
    slow = nbsal.Explainer(explain.subject, "occlusion")
    complete = run(slow, ["A joy.", "A bore."], tmp_path / "complete")
    total = len(forwards)
    handle = explain.subject.blocks[0].register_forward_hook(lambda *_: len(forwards) > total + 1 and cancel.set())
    with pytest.raises(Cancelled):
        run(slow, ["A joy.", "A bore."], tmp_path / "cancelled", cancel=cancel)
    handle.remove()
    assert complete.complete and total < len(forwards) < 2 * total


def test_damaged_and_missing_shards_are_noticed_and_restored(explain, texts, whole, tmp_path):
    run(explain, texts, tmp_path)
    shard = tmp_path / "part-000002.parquet"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    (tmp_path / "part-000003.parquet").unlink()
    for row in (16, 24):
        with refuses("location"):
            corpus.open(tmp_path).saliency(row)
    run(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)


def test_the_lock_of_a_dead_process_is_taken_over_with_a_warning(explain, texts, whole, tmp_path):
    lock = Storage(tmp_path).lock()
    run_and_die(lock.__enter__)
    assert (tmp_path / LOCK).exists()
    with pytest.warns(UserWarning) as caught:
        run(explain, texts, tmp_path)
    assert any(str(tmp_path) in str(warning.message) for warning in caught)
    assert files(tmp_path) == files(whole)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_only_one_of_several_runs_takes_over_a_dead_lock(tmp_path):
    (tmp_path / LOCK).write_text(json.dumps({"host": socket.gethostname(), "pid": 1, "began": 0}))
    outcomes, start, end = [], threading.Barrier(8), threading.Barrier(8)

    def attempt():
        start.wait()
        try:
            with Storage(tmp_path).lock():
                outcomes.append("locked")
                end.wait()
        except InputError:
            outcomes.append("refused")
            end.wait()

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(outcomes) == ["locked"] + ["refused"] * 7 and not list(tmp_path.iterdir())


def test_a_run_only_resumes_with_the_same_plan(explain, texts, tmp_path):
    cancel_run(explain, texts, tmp_path)
    with refuses("methods") as caught:
        run(nbsal.Explainer(explain.subject, "gradcam", layer=1), texts, tmp_path)
    assert caught.value.value == 1
    with refuses("methods") as caught:
        run([explain, nbsal.Explainer(explain.subject, "rollout")], texts, tmp_path)
    assert caught.value.value == ["gradcam", "rollout"]
    mask = nbsal.heads.HeadMask.from_array(np.eye(3, 4))
    run(nbsal.Explainer(explain.subject, "mask-lrp", mask=mask), texts[:8], tmp_path / "masked")
    with refuses("masks"):
        run(nbsal.Explainer(explain.subject, "mask-lrp", mask=~mask), texts[:8], tmp_path / "masked")
    with refuses("target") as caught:
        run(explain, texts, tmp_path, target="LABEL_1")
    assert "LABEL_1" in caught.value.value


def test_a_run_only_resumes_with_the_same_source(explain, texts, tmp_path):
    cancel_run(explain, texts, tmp_path)
    for source in (["other", *texts[1:]], texts[:8]):
        with refuses("source"):
            run(explain, source, tmp_path)
    with refuses("out"):
        run(explain, texts, tmp_path, resume=False)


def test_a_run_resumes_what_was_begun_before_files_said_labels(explain, texts, tmp_path, monkeypatch):
    early = {name: value for name, value in explain.provenance.items() if name not in ("label", "promise")}
    with monkeypatch.context() as patch:
        patch.setattr(type(explain), "provenance", early)
        cancel_run(explain, texts, tmp_path)
    run(explain, texts, tmp_path)
    resumed = corpus.open(tmp_path)
    assert len(resumed) + resumed.failed == len(texts)
    assert all("Grad-CAM, layer 2" in saliency.notes()[0] for saliency in resumed)


def test_batches_stay_as_large_as_where_a_run_was_started(explain, texts, whole, tmp_path, monkeypatch):
    cancel_run(explain, texts, tmp_path)
    monkeypatch.setattr(manifest, "TOKENS", {"cpu": 64})  # as on another device
    run(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)


def test_a_run_in_another_format_is_refused_and_nothing_is_mixed_with_it(explain, texts, tmp_path, monkeypatch):
    gae, chats = nbsal.Explainer(writers.load(), "gae"), [[{"role": "user", "content": "Who?"}]]
    cancel_run(explain, texts, tmp_path / "texts")
    corpus.explain(gae, chats, tmp_path / "replies", max_new_tokens=2, progress=False)
    monkeypatch.setattr(manifest, "SCHEMA", manifest.SCHEMA + 1)
    for kind, explainer, rows in (("texts", explain, texts), ("replies", gae, chats)):
        out, again = tmp_path / kind, partial(corpus.explain, explainer, rows, progress=False)
        before = files(out)
        for use in (corpus.open, again, partial(again, overwrite=True)):
            with refuses("location"):
                use(out)
        assert files(out) == before


@cases(
    "content, argument",
    [
        ('{"plan": {"schema": 1}}', "location"),
        ('{"plan": {"schema": 2}, "checksum": ""}', "path"),
        ("{", "path"),
    ],
)
def test_manifests_of_other_versions_and_damaged_ones_are_refused(explain, texts, tmp_path, content, argument):
    (tmp_path / "_manifest.json").write_text(content)
    for use in (corpus.open, lambda out: run(explain, texts, out)):
        with refuses(argument):
            use(tmp_path)
