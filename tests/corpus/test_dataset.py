"""Opened: what can be had of a corpus without its model, and what the games ask it."""

import duckdb
import pandas
import polars
import pytest
from pandas.testing import assert_frame_equal

import nbsal
from nbsal import clouds, corpus, evaluation
from nbsal.errors import InputError, UnknownName


@pytest.fixture(scope="module")
def explainers(load):
    subject = load("bert", dtype="float32")
    return [nbsal.Explainer(subject, name) for name in ("gradcam", "gradxact")]


@pytest.fixture(scope="module")
def opened(explainers, texts, tmp_path_factory):
    out = tmp_path_factory.mktemp("corpus")
    return corpus.explain(explainers, texts, out, shard_rows=16, progress=False)


def test_others_read_it_in_one_line(opened, texts):
    out = opened.place
    frames = [
        pandas.read_parquet(out),
        polars.read_parquet(f"{out}/*.parquet").to_pandas(),
        duckdb.sql(f"select * from '{out}/*.parquet' order by text_id").df(),
    ]
    for frame in frames:
        assert frame["text"].tolist() == texts
        for i in (3, 20):
            found, row = opened.saliency(i, "gradxact"), frame.iloc[i]
            assert (row["gradxact"] * row["gradxact_scale"]).tolist() == pytest.approx(found.scores.tolist())
            spans = zip(row["starts"], row["lengths"], strict=True)
            assert tuple((start, start + length) for start, length in spans) == found.offsets


def test_columns_are_read_lazily(opened):
    table = opened.dataset.to_table(columns=["text_id", "prediction"])
    assert table.column_names == ["text_id", "prediction"] and len(table) == opened.rows
    assert opened.to_frame(["prediction"]).columns.tolist() == ["prediction"]
    with pytest.raises(UnknownName, match=r"'predicted'.*text_id.*gradcam"):
        opened.to_frame(["predicted"])


def test_a_corpus_of_no_text_is_one(explainers, tmp_path):
    opened = corpus.explain(explainers, [], tmp_path, progress=False)
    assert opened.complete and list(opened) == [] and opened.rows == 0
    with pytest.raises(InputError, match="no finished shard"):
        opened.to_frame()


def test_clouds_are_those_of_the_explanations(opened, explainers, texts):
    said = [text for text in texts if text]
    truth = clouds.rank(explainers[1].map(said, progress=False))
    found = opened.clouds("gradxact")
    assert found.labels == truth.labels
    for label in truth.labels:
        weights = [dict(cloud.top(label, 1000).itertuples(index=False)) for cloud in (found, truth)]
        assert weights[0] == pytest.approx(weights[1], rel=5e-3, abs=1e-4)


def test_games_are_those_of_the_explainers_and_nothing_is_explained_again(opened, explainers, texts, monkeypatch):
    said = [text for text in texts if text]
    truth = evaluation.games(explainers, said, random=2, progress=False)
    for name in ("gradcam", "gradxact"):
        monkeypatch.setattr(nbsal.methods.catalogue.REGISTER[name], "scores", None)
    found = opened.games(explainers[0].subject, random=2, progress=False)
    assert_frame_equal(found.frame, truth.frame)


def test_games_of_some_rows_with_labels(opened, explainers, texts):
    rows = [i for i, text in enumerate(texts) if text][:4]
    labels = ["LABEL_0", "LABEL_1", "LABEL_2", "LABEL_0"]
    truth = evaluation.games(explainers, [texts[i] for i in rows], labels, random=0, progress=False)
    found = opened.games(explainers[0].subject, labels, rows, random=0, progress=False)
    assert_frame_equal(found.frame, truth.frame)


def test_games_with_another_model_are_refused(opened, load):
    with pytest.raises(InputError, match="other weights"):
        opened.games(load("bert", seed=9))


def test_games_of_texts_that_were_read_by_windows_say_so(load, tmp_path):
    """The model reads less of such a text than was scored, and tokens are hidden in one reading only."""
    explain = nbsal.Explainer(load("bert", max_position_embeddings=32), "gradcam", long="window")
    opened = corpus.explain(explain, ["A joy.", "joy " * 60], tmp_path, progress=False)
    with pytest.raises(InputError, match=r"other tokens than the model reads in 'joy joy.*leave such rows out"):
        opened.games(explain.subject, random=0, progress=False)
    assert opened.games(explain.subject, rows=[0], random=0, progress=False).explainers == ["gradcam"]
