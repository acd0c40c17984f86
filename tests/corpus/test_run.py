"""Runs of a corpus: what is written, what is gone on with, and what is refused."""

import json
import resource
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import nbsal
from nbsal import corpus
from nbsal.corpus import parquet
from nbsal.corpus.shards import token_batches
from nbsal.corpus.storage import LOCK, Storage
from nbsal.errors import Cancelled, InputError, MissingExtra, UnknownName
from tests.axioms import relative
from tests.corpus.kills import files


def kept(explain, texts, out, **options):
    return corpus.explain(explain, texts, out, shard_rows=8, **{"progress": False} | options)


def stopped(explain, texts, out, after=3):
    """A run that was cancelled when it had so many shards."""
    cancel = threading.Event()

    def progress(done, total):
        assert total == len(texts)
        if done > 8 * after:
            cancel.set()

    with pytest.raises(Cancelled) as told:
        kept(explain, texts, out, progress=progress, cancel=cancel)
    assert 0 < len(told.value.partial.shards) < 5 and not told.value.partial.complete
    assert "not complete" in repr(corpus.open(out))
    return told.value.partial


@pytest.fixture(scope="module")
def whole(explain, texts, tmp_path_factory):
    """The folder of a run that nothing befell."""
    out = tmp_path_factory.mktemp("whole")
    kept(explain, texts, out)
    return out


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["gradcam", "gradxact", "decoded-gradcam"])
def test_what_is_kept_is_what_explainers_say(load, texts, tmp_path, name, dtype):
    explain = nbsal.Explainer(load("bert"), name)
    opened = kept(explain, texts, tmp_path, dtype=dtype)
    said = [text for text in texts if text.strip()]
    assert (len(opened), opened.rows, opened.failed) == (len(said), len(texts), len(texts) - len(said))
    for text, truth, found in zip(said, explain.map(said, progress=False), opened, strict=True):
        assert found.text == text and found.row == truth.row and found.order == truth.order
        assert relative(found.scores, truth.scores) < (1e-3 if dtype == "float16" else 1e-6)
        assert relative(found.probabilities, truth.probabilities) < 1e-6
        plain = ("target", "prediction", "method", "provenance")
        assert [getattr(found, part) for part in plain] == [getattr(truth, part) for part in plain]


def test_ranks_come_back_though_rounding_makes_scores_equal(explain, texts, whole, monkeypatch):
    orders = [s.order for s in explain.map([text for text in texts if text.strip()], progress=False)]
    assert [s.order for s in corpus.open(whole)] == orders
    monkeypatch.setattr(corpus.dataset, "from_table", forgetful)
    assert [s.order for s in corpus.open(whole)] != orders


def forgetful(*arguments):
    """A mutant that forgets the order of equal scores."""
    found = parquet.from_table(*arguments)
    return replace(found, tie_breaker=found.scores)


def test_rows_stand_in_the_order_of_the_source(explain, texts, whole):
    opened = corpus.open(whole)
    frame = opened.to_frame()
    assert frame["text_id"].tolist() == list(range(len(texts))) and frame["text"].tolist() == texts
    for i in (0, 9, 39):
        if texts[i]:
            assert opened.saliency(i).text == texts[i]
    said = [text for text in texts if text]
    assert opened[-1].text == said[-1] and [s.text for s in opened[3:9]] == said[3:9]
    with pytest.raises(InputError, match="no row 40"):
        opened.saliency(40)
    with pytest.raises(IndexError):
        opened[len(opened)]


def test_several_methods_share_a_folder(load, texts, tmp_path):
    subject = load("bert")
    explainers = [nbsal.Explainer(subject, name) for name in ("gradxact", "attcat")]
    opened = kept(explainers, texts, tmp_path)
    alone = kept(explainers[1], texts, tmp_path / "alone")
    assert opened.methods == ["gradxact", "attcat"]
    place = next(i for i, text in enumerate(texts) if text)
    assert opened.saliency(place, "attcat").scores.tolist() == alone.saliency(place).scores.tolist()
    with pytest.raises(UnknownName, match="gradxact, attcat"):
        opened.saliency(place, "lime")


def test_pairs_spans_and_next_tokens(load, tmp_path):
    for head, value in (("sequence", ("A film.", "A joy.")), ("span", ("Who?", "The river.")), ("causal", "The film")):
        explain = nbsal.Explainer(load("gpt2" if head == "causal" else "bert", head), "gradxact")
        found, truth = kept(explain, [value], tmp_path / head)[0], explain(value)
        assert found.row == truth.row and found.caption() == truth.caption()


def test_windows_are_read_and_kept(load, tmp_path):
    explain = nbsal.Explainer(load("bert", max_position_embeddings=32), "gradxact", long="window")
    found = kept(explain, ["joy " * 60, "A joy."], tmp_path)[0]
    assert found.provenance["windows"] > 1 and found.row.dropped == 0 and len(found.tokens) > 60


def test_batches_hold_so_many_tokens_and_like_lengths(explain, texts):
    rows = {i: explain.subject.encode(text)[0] for i, text in enumerate(texts) if text}
    made = list(token_batches(rows, 128))
    assert sorted(place for batch in made for place in batch) == sorted(rows)
    assert all(len(batch) * max(len(rows[i]) for i in batch) <= 128 for batch in made)
    assert len(made) < len(rows) / 2
    assert [len(batch) for batch in token_batches(rows, 0)] == [1] * len(rows)


def test_a_cancelled_run_goes_on(explain, texts, whole, tmp_path):
    done = stopped(explain, texts, tmp_path).shards
    before = {shard.name: (tmp_path / shard.name).stat().st_mtime_ns for shard in done}
    kept(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)
    assert before == {name: (tmp_path / name).stat().st_mtime_ns for name in before}, "done again"


def test_a_cancel_stops_a_slow_method_within_its_batch(explain, forwards, tmp_path):
    cancel = threading.Event()
    slow = nbsal.Explainer(explain.subject, "occlusion")
    whole = kept(slow, ["A joy.", "A bore."], tmp_path / "whole")
    needed = len(forwards)
    handle = explain.subject.blocks[0].register_forward_hook(lambda *_: len(forwards) > needed + 1 and cancel.set())
    with pytest.raises(Cancelled):
        kept(slow, ["A joy.", "A bore."], tmp_path / "stopped", cancel=cancel)
    handle.remove()
    assert whole.complete and needed < len(forwards) < 2 * needed


def test_a_damaged_shard_is_noticed_and_redone(explain, texts, whole, tmp_path):
    kept(explain, texts, tmp_path)
    shard = tmp_path / "part-000002.parquet"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    (tmp_path / "part-000003.parquet").unlink()
    for row in (16, 24):
        with pytest.raises(InputError, match="is damaged"):
            corpus.open(tmp_path).saliency(row)
    kept(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)


def test_a_full_disk_ends_a_run_that_can_go_on(explain, texts, whole, tmp_path):
    stopped(explain, texts, tmp_path)
    before = files(tmp_path)
    room = max(map(len, (data for name, data in before.items() if name.startswith("_"))))
    assert room < 6000 < min(len(data) for name, data in files(whole).items() if name.startswith("part"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limits[1]))
        with pytest.raises(OSError, match="too large"):
            kept(explain, texts, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files(tmp_path) == before, "something half written was left"
    kept(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)


def test_what_a_killed_writer_left_is_swept(explain, texts, whole, tmp_path):
    (tmp_path / "_part-000001.parquet.abc.tmp").write_bytes(b"half")
    kept(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)


def test_what_a_worker_left_that_was_killed_during_the_run_is_swept(explain, texts, whole, tmp_path):
    left = tmp_path / "_part-000001.parquet.abc.tmp"
    corpus.explain(explain, texts, tmp_path, shard_rows=8, progress=lambda done, total: left.write_bytes(b"half"))
    assert files(tmp_path) == files(whole)


def test_a_second_run_on_one_folder_is_refused(explain, texts, tmp_path):
    with Storage(tmp_path).locked(), pytest.raises(InputError, match="is being written by process"):
        kept(explain, texts, tmp_path)
    kept(explain, texts, tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_the_lock_of_a_dead_process_is_taken_over_and_that_is_said(explain, texts, whole, tmp_path):
    hold = f"from nbsal.corpus.storage import Storage; lock = Storage({str(tmp_path)!r}).locked(); lock.__enter__(); "
    subprocess.run([sys.executable, "-c", hold + "import os; os._exit(1)"], check=False)
    assert (tmp_path / LOCK).exists()
    with pytest.warns(UserWarning, match="which is gone"):
        kept(explain, texts, tmp_path)
    assert files(tmp_path) == files(whole)


@pytest.mark.filterwarnings("ignore:.*which is gone")
def test_one_of_many_takes_a_dead_lock_over(tmp_path):
    (tmp_path / LOCK).write_text(json.dumps({"host": socket.gethostname(), "pid": 1, "began": 0}))
    outcomes, start, end = [], threading.Barrier(8), threading.Barrier(8)

    def attempt():
        start.wait()
        try:
            with Storage(tmp_path).locked():
                outcomes.append("taken")
                end.wait()
        except InputError:
            outcomes.append("refused")
            end.wait()

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["refused"] * 7 + ["taken"] and not list(tmp_path.iterdir())


def test_only_the_same_run_is_gone_on_with(load, explain, texts, tmp_path):
    stopped(explain, texts, tmp_path)
    other = load("bert", dtype="float32", seed=5)
    other = nbsal.Explainer(nbsal.Subject(other.model, other.tokenizer, name=explain.subject.name), "gradcam")
    with pytest.raises(InputError, match="begun with weights"):
        kept(other, texts, tmp_path)
    with pytest.raises(InputError, match="begun with methods"):
        kept(nbsal.Explainer(explain.subject, "gradcam", layer=1), texts, tmp_path)
    mask = nbsal.heads.HeadMask.from_array(np.eye(3, 4))
    kept(nbsal.Explainer(explain.subject, "mask-lrp", mask=mask), texts[:8], tmp_path / "masked")
    with pytest.raises(InputError, match="begun with masks"):
        kept(nbsal.Explainer(explain.subject, "mask-lrp", mask=~mask), texts[:8], tmp_path / "masked")
    with pytest.raises(InputError, match=r"begun with target='None', not .*LABEL_1"):
        kept(explain, texts, tmp_path, target="LABEL_1")
    with pytest.raises(InputError, match=r"source has changed.*rows 0 to 7"):
        kept(explain, ["other", *texts[1:]], tmp_path)
    with pytest.raises(InputError, match="fewer rows"):
        kept(explain, texts[:8], tmp_path)
    with pytest.raises(InputError, match="holds a corpus already"):
        kept(explain, texts, tmp_path, resume=False)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ('{"plan": {"schema": 0}}', "was written in schema 0; this nbsal reads schema 1"),
        ('{"plan": {"schema": 1}, "checksum": ""}', "no manifest of a corpus, or is damaged: .*checksum"),
        ("{", "no manifest of a corpus, or is damaged"),
    ],
)
def test_manifests_of_other_versions_and_damaged_ones_are_told(explain, texts, tmp_path, written, sentence):
    (tmp_path / "_manifest.json").write_text(written)
    for use in (corpus.open, lambda out: kept(explain, texts, out)):
        with pytest.raises(InputError, match=sentence):
            use(tmp_path)


def test_generators_and_object_stores_serve_as_well(explain, texts, whole):
    place = "memory://corpora/one"
    kept(explain, (text for text in texts), place)
    opened = corpus.open(place)
    assert [s.order for s in opened] == [s.order for s in corpus.open(whole)]
    assert opened.dataset.count_rows() == len(texts)
    storage = Storage(place)
    assert {name: storage.read(name) for name in files(whole)} == files(whole)


def test_mistakes_are_sentences(load, explain, texts, tmp_path, monkeypatch):
    with pytest.raises(UnknownName, match="float16, float32"):
        kept(explain, texts, tmp_path, dtype="int8")
    with pytest.raises(InputError, match="one model"):
        kept({"a": explain, "b": nbsal.Explainer(load("bert", seed=3), "gradcam")}, texts, tmp_path)
    with pytest.raises(InputError, match="long texts in one way"):
        kept({"a": explain, "b": nbsal.Explainer(explain.subject, "gradcam", long="window")}, texts, tmp_path)
    with pytest.raises(InputError, match="name the runs apart"):
        kept({"a": [explain, explain]}, texts, tmp_path)
    with pytest.raises(InputError, match="holds no corpus"):
        corpus.open(tmp_path)
    with pytest.raises(InputError, match="shard_rows must be at least 1"):
        corpus.explain(explain, texts, tmp_path, shard_rows=0)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"nbsal\[scale\]"):
        kept(explain, texts, tmp_path)
