"""The embedded models on benchmark rows they were not trained on, where such rows are at hand."""

import os
from pathlib import Path

import pytest

import nbsal
from nbsal.samples import base, build_lm
from nbsal.samples.training import corpora, evaluate

TABLES_AT = Path(os.environ.get("NBSAL_DATA") or Path(__file__).parents[3] / "shared" / "data")
TABLES = {
    "reviews": ("sst2", "validation", lambda row: row["sentence"], 0.88),
    "news": ("ag_news", "test", lambda row: row["text"], 0.90),
    "nli": ("snli", "validation", lambda row: (row["premise"], row["hypothesis"]), 0.75),
}


@pytest.fixture
def tables(monkeypatch):
    """The folder of benchmark tables, for these tests alone: notebooks and others read what comes along."""
    if not TABLES_AT.is_dir():
        pytest.skip("NBSAL_DATA names no folder of benchmark tables")
    monkeypatch.setenv("NBSAL_DATA", str(TABLES_AT))


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("name", TABLES)
def test_accuracy(name):
    table, split, text, least = TABLES[name]
    rows = corpora.rows(table, split)[:900]
    found = evaluate.accuracy(nbsal.load(f"demo/{name}"), [text(row) for row in rows], [row["label"] for row in rows])
    assert found >= least


@pytest.mark.usefixtures("tables")
def test_the_lm_head_predicts_masked_tokens_and_names_clean_ones():
    lm = build_lm()
    texts = [text for found in evaluate.evaluation_texts().values() for text in found[:40]]
    examples = corpora.encode(base.tokenizer(), texts, texts, 128)
    found, commonest = evaluate.masked_accuracy(lm, examples)
    assert found > 0.2 > 2 * commonest
    assert min(evaluate.identity(lm.bert, lm, examples)) > 0.9


def test_answers_overlap_as_squad_counts_them():
    assert evaluate.overlap("The Panthers' defense", "panthers defense!") == 1.0
    assert evaluate.overlap("a red house", "the red car") == pytest.approx(0.5)
    assert evaluate.overlap("red", "blue") == 0.0
