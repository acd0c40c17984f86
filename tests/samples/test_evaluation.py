"""Test the embedded models on benchmark rows they were not trained on, where a folder has such tables."""

import os
from pathlib import Path

import pytest

import nbsal
from nbsal.samples import base, build_lm
from tests.training import corpora, evaluate

FOLDER = Path(os.environ.get("NBSAL_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture
def tables(monkeypatch):
    """Skip the test without a folder of benchmark tables."""
    if not FOLDER.is_dir():
        pytest.skip("NBSAL_DATA names no folder of benchmark tables")
    monkeypatch.setenv("NBSAL_DATA", str(FOLDER))


@pytest.mark.usefixtures("tables")
def test_the_small_model_is_accurate():
    assert evaluate.accuracy(nbsal.load("demo/reviews-small"), "reviews-small")[0] >= 0.82


@pytest.mark.full  # the weights change only when they are trained again
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(("name", "least"), [("reviews", 0.88), ("news", 0.90), ("nli", 0.75)])
def test_accuracy(name, least):
    assert evaluate.accuracy(nbsal.load(f"demo/{name}"), name, most=200)[0] >= least


@pytest.mark.full
@pytest.mark.usefixtures("tables")
def test_the_lm_head_predicts_masked_tokens_and_decodes_unmasked_ones():
    lm = build_lm()
    texts = [text for collection in evaluate.evaluation_texts().values() for text in collection[:6]]
    examples = corpora.encode(base.tokenizer(), texts, texts, 128)
    share, commonest = evaluate.masked_accuracy(lm, examples)
    assert share > 0.2 > 2 * commonest
    assert min(evaluate.identity(lm.bert, lm, examples)) > 0.9
