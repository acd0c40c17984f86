"""Runs of a corpus: stored explanations, and arguments that are refused."""

import sys

import pytest

import nbsal
from nbsal import corpus
from nbsal.corpus.shards import token_batches
from nbsal.support.errors import MissingExtra, UnknownName
from tests.axioms import relative
from tests.raising import refuses


def run(explain, texts, out, **options):
    return corpus.explain(explain, texts, out, shard_rows=8, **{"progress": False} | options)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["gradcam", "gradxact", "decoded-gradcam"])
def test_stored_explanations_equal_those_of_the_explainer(load, texts, tmp_path, name, dtype):
    explain = nbsal.Explainer(load("bert"), name)
    explained = run(explain, texts, tmp_path, dtype=dtype)
    nonempty = [text for text in texts if text.strip()]
    counts = (len(explained), explained.rows, explained.failed)
    assert counts == (len(nonempty), len(texts), len(texts) - len(nonempty))
    for text, truth, stored in zip(nonempty, explain.map(nonempty, progress=False), explained, strict=True):
        assert stored.text == text and stored.row == truth.row and stored.order == truth.order
        assert relative(stored.scores, truth.scores) < (1e-3 if dtype == "float16" else 1e-6)
        assert relative(stored.probabilities, truth.probabilities) < 1e-6
        for attribute in ("target", "prediction", "method", "provenance"):
            assert getattr(stored, attribute) == getattr(truth, attribute)


def test_rows_are_in_the_order_of_the_source(explain, texts, whole):
    explained = corpus.open(whole)
    frame = explained.to_frame()
    assert frame["text_id"].tolist() == list(range(len(texts))) and frame["text"].tolist() == texts
    for i in (0, 9, 39):
        if texts[i]:
            assert explained.saliency(i).text == texts[i]
    nonempty = [text for text in texts if text]
    assert explained[-1].text == nonempty[-1] and [s.text for s in explained[3:9]] == nonempty[3:9]
    with refuses("i") as caught:
        explained.saliency(40)
    assert caught.value.value == 40
    with pytest.raises(IndexError):
        explained[len(explained)]
    with refuses("method", UnknownName) as caught:
        explained.saliency(0, "lime")
    assert caught.value.valid == ("gradcam",)


def test_pairs_spans_and_next_tokens(load, tmp_path):
    for head, text in (("sequence", ("A film.", "A joy.")), ("span", ("Who?", "The river.")), ("causal", "The film")):
        explain = nbsal.Explainer(load("gpt2" if head == "causal" else "bert", head), "gradxact")
        stored, truth = run(explain, [text], tmp_path / head)[0], explain(text)
        assert stored.row == truth.row and stored.caption() == truth.caption()


def test_batches_are_limited_by_tokens_and_hold_similar_lengths(explain, texts):
    rows = explain.subject.encode([text for text in texts if text])
    batches = list(token_batches(rows, 128))
    assert sorted(place for batch in batches for place in batch) == list(range(len(rows)))
    assert all(len(batch) * max(len(rows[i]) for i in batch) <= 128 for batch in batches)
    assert len(batches) < len(rows) / 2
    assert [len(batch) for batch in token_batches(rows, 0)] == [1] * len(rows)


def test_wrong_arguments_are_refused(load, explain, texts, tmp_path, monkeypatch):
    with refuses("dtype", UnknownName) as caught:
        run(explain, texts, tmp_path, dtype="int8")
    assert caught.value.valid == ("float16", "float32")
    other_model = nbsal.Explainer(load("bert", seed=3), "gradcam")
    windowed = nbsal.Explainer(explain.subject, "gradcam", long="window")
    for explainers in ({"a": explain, "b": other_model}, {"a": explain, "b": windowed}, {"a": [explain, explain]}):
        with refuses("explainers") as caught:
            run(explainers, texts, tmp_path)
        assert caught.value.value is explainers
    with refuses("location"):
        corpus.open(tmp_path)
    with refuses("shard_rows"):
        corpus.explain(explain, texts, tmp_path, shard_rows=0)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra) as missing:
        run(explain, texts, tmp_path)
    assert missing.value.extra == "scale"
