"""A stored corpus: what can be read without its model, and games with its stored scores."""

import copy
import socket
from collections.abc import Sequence

import duckdb
import pandas
import polars
import pytest
from pandas.testing import assert_frame_equal

import nbsal
from nbsal import corpus, evaluation
from nbsal.corpus import stored_method, units
from nbsal.support.errors import NoSuchRow, UnknownName
from tests.raising import refuses


@pytest.fixture(scope="module")
def explainers(load):
    subject = load("bert", dtype="float32")
    return [nbsal.Explainer(subject, name) for name in ("gradcam", "gradxact")]


@pytest.fixture(scope="module")
def explained(explainers, texts, tmp_path_factory):
    out = tmp_path_factory.mktemp("corpus")
    return corpus.explain(explainers, texts, out, shard_rows=16, progress=False)


def test_other_libraries_read_the_dataset_in_one_line(explained, texts):
    out = explained.location
    frames = [
        pandas.read_parquet(out),
        polars.read_parquet(f"{out}/*.parquet").to_pandas(),
        duckdb.sql(f"select * from '{out}/*.parquet' order by text_id").df(),
    ]
    for frame in frames:
        assert frame["text"].tolist() == texts
        for i in (3, 20):
            saliency, row = explained.saliency(i, "gradxact"), frame.iloc[i]
            assert (row["gradxact"] * row["gradxact_scale"]).tolist() == pytest.approx(saliency.scores.tolist())
            spans = zip(row["starts"], row["lengths"], strict=True)
            assert tuple((start, start + length) for start, length in spans) == saliency.offsets


def test_columns_are_read_lazily(explained):
    table = explained.dataset.to_table(columns=["text_id", "prediction"])
    assert table.column_names == ["text_id", "prediction"] and len(table) == explained.rows
    assert explained.to_frame(["prediction"]).columns.tolist() == ["prediction"]
    with refuses("columns", UnknownName) as caught:
        explained.to_frame(["predicted"])
    assert caught.value.value == "predicted" and {"text_id", "gradcam"} < set(caught.value.valid)
    with refuses("columns"):
        explained.to_frame("prediction")


def test_a_corpus_can_be_empty(explainers, tmp_path):
    empty = corpus.explain(explainers, [], tmp_path, progress=False)
    assert empty.complete and list(empty) == [] and empty.rows == 0
    with refuses("location"):
        empty.to_frame()


def test_games_use_the_stored_scores(explained, explainers, texts, monkeypatch):
    rows = [row for row, text in enumerate(texts) if text][2:6]
    truth = evaluation.games(explainers, [texts[row] for row in rows], random=2, progress=False)
    for name in ("gradcam", "gradxact"):
        monkeypatch.setattr(nbsal.methods.catalogue.REGISTER[name], "scores", None)
    results = explained.games(explainers[0].subject, rows=rows, random=2, progress=False)
    assert_frame_equal(results.frame, truth.frame)


def test_a_model_without_a_name_is_never_looked_up(load, tmp_path, monkeypatch):
    """Its name is that of its class, which the hub would be asked for."""
    requests = []

    def refuse(*arguments, **settings):
        requests.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(stored_method, "load", refuse)
    model = copy.deepcopy(load("bert").model)
    model.config.name_or_path = ""
    subject = nbsal.load(model, tokenizer=load("bert").tokenizer)
    stored = corpus.explain(nbsal.Explainer(subject, "gradcam"), ["A joy.", "A bore."], tmp_path / "c", progress=False)
    reopened = corpus.open(stored.location)
    with refuses("subject"):
        reopened.games(random=1, progress=False)
    assert len(reopened.games(subject, random=1, progress=False).frame) and not requests
    named = copy.deepcopy(load("bert"))
    stored = corpus.explain(nbsal.Explainer(named, "gradcam"), ["A joy."], tmp_path / "named", progress=False)
    with pytest.raises(OSError, match="no network"):
        stored.games(random=1, progress=False)
    assert requests == [(named.name,)]


def test_games_with_scores_from_several_windows_are_refused(load, tmp_path):
    """The model reads fewer tokens of such a text than have scores, and tokens are hidden in a single window only."""
    explain = nbsal.Explainer(load("bert", max_position_embeddings=32), "gradcam", long="window")
    explained = corpus.explain(explain, ["A joy.", "joy " * 60], tmp_path, progress=False)
    with refuses("rows"):
        explained.games(explain.subject, random=0, progress=False)
    assert explained.games(explain.subject, rows=[0], random=0, progress=False).explainers == ["gradcam"]


def test_words_counted_a_few_texts_at_a_time_are_those_of_all_at_once(small, tmp_path, monkeypatch):
    texts = [*nbsal.data.load("samples/reviews")["text"].tolist()[:6], ""]  # one cannot be explained
    stored = corpus.explain(nbsal.Explainer(small, "gradxact"), texts, tmp_path / "out", progress=False)
    for unit in ("token", "word"):
        monkeypatch.undo()
        read = stored.units(unit)
        whole = read.frequencies()
        assert sum(counts.total() for counts in whole.values()) > 20
        for count in (1, 3, 7):
            monkeypatch.setattr(units, "TEXTS", count)
            assert read.frequencies() == whole


def test_a_number_that_no_row_has_is_named_and_ends_a_loop(explained, texts):
    for number in (len(texts), -len(texts) - 1):
        with refuses("index", NoSuchRow) as caught:
            explained[number]
        assert isinstance(caught.value, IndexError)
    assert len([*Sequence.__iter__(explained)]) == len(explained)
