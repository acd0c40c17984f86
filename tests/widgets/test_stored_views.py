"""Views of a stored corpus: they show what they show of its explanations in memory, and read only what they show."""

import pytest

import nbsal
from nbsal.corpus import dataset
from nbsal.evaluation import clouds
from nbsal.widgets import Browse
from nbsal.widgets.content.text_table import PAGE
from tests.raising import refuses

pytest.importorskip("pyarrow")
TEXTS = [row["text"] for row in nbsal.samples.texts("reviews")[:30]]
TEXTS[3] = ""  # a text that fails


@pytest.fixture(scope="module")
def corpus(small, tmp_path_factory):
    out = tmp_path_factory.mktemp("stored") / "corpus"
    explain = nbsal.Explainer(small, "gradcam")
    return nbsal.corpus.explain(explain, TEXTS, out, shard_rows=7, progress=False)


@pytest.fixture
def loaded(monkeypatch):
    """The arguments with which explanations are made from stored rows."""
    calls, from_table = [], dataset.from_table
    monkeypatch.setattr(dataset, "from_table", lambda *arguments: calls.append(arguments) or from_table(*arguments))
    return calls


def test_a_page_loads_only_its_texts(corpus, loaded):
    view = Browse(nbsal.corpus.open(corpus.location)).wait()
    assert view.result.listed == len(corpus) == 29 and "29 texts" in view.to_html()
    assert len(loaded) <= PAGE + 4, "the texts of the page, the opened one, and the first one for its notes"


def test_pairs_and_spans_are_listed(load, tmp_path):
    explain = nbsal.Explainer(load("bert", "span"), "gradcam")
    pairs = [("Who wrote it?", "Ann wrote the book."), ("When?", "It was written in May.")]
    corpus = nbsal.corpus.explain(explain, pairs, tmp_path / "c", progress=False)
    stored, listed = (Browse(source, sort="confidence").wait() for source in (corpus, list(corpus)))
    assert stored._table == listed._table and stored.to_frame().equals(listed.to_frame())
    assert sorted(stored.to_frame()["text"]) == [" | ".join(pair) for pair in sorted(pairs)]


@pytest.mark.parametrize("unit", ["token", "word"])
def test_clouds_of_a_corpus_are_those_of_its_explanations(corpus, loaded, unit):
    stored = nbsal.corpus.open(corpus.location)
    for normalise in (True, False):
        cloud = stored.clouds(unit=unit, normalise=normalise)
        assert not loaded
        expected = clouds.rank(list(corpus), unit=unit, normalise=normalise)
        loaded.clear()
        assert cloud.labels == expected.labels == ["negative", "positive"]
        for label in cloud.labels:
            assert cloud.weights[label] == pytest.approx(dict(expected.weights[label]), rel=1e-12, abs=1e-12)
            assert cloud.top(label)[unit].tolist() == expected.top(label)[unit].tolist()


def test_values_have_no_clouds(load, tmp_path):
    explain = nbsal.Explainer(load("bert", problem_type="regression", num_labels=1), "gradcam")
    corpus = nbsal.corpus.explain(explain, ["A joy."], tmp_path / "c", progress=False)
    with refuses("saliencies"):
        corpus.clouds()
    with refuses("unit"):
        corpus.clouds(unit="letter")
