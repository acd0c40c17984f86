"""Relevance in mixed precision: sums in float64, products of positive summands and of gradients in float32.

It orders the tokens of real texts as float64 does: a few texts of the demo, and in full 300 of the benchmark tables.
"""

import gc
import os
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from torch.nn import functional

import nbsal
from nbsal.model.running import double
from tests import zoo

METHODS = ["lrp", "partial-lrp", "transformer-attribution", "mask-lrp"]
TEXT = "The striker scored twice and the visitors won the final."
FOLDER = Path(os.environ.get("NBSAL_DATA") or Path(__file__).parents[3] / "shared" / "data")
TABLES = {"samples/reviews": "demo/reviews", "sst2": "demo/reviews", "ag_news": "demo/news", "mnli": "demo/nli"}
TIED = 1e-9  # of the largest score: float64 itself does not tell tokens apart for sure that differ by less


def tie(scores, exact):
    """The scores, with those that are tied in `exact` replaced by their mean."""
    order = np.argsort(exact, kind="stable")
    steps = np.diff(exact[order]) > TIED * np.abs(exact).max()
    groups = np.empty(len(exact), int)
    groups[order] = np.concatenate([[0], steps.cumsum()])
    return (np.bincount(groups, scores) / np.bincount(groups))[groups]


def check_order(scores, exact):
    """Two explanations of a text agree in their five largest scores, and nearly in the order of all."""
    scores, exact = tie(scores, exact), tie(exact, exact)
    assert np.argsort(-scores, kind="stable")[:5].tolist() == np.argsort(-exact, kind="stable")[:5].tolist()
    assert pandas.Series(scores).rank().corr(pandas.Series(exact).rank()) >= 0.9999


def cells():
    """Every method on every table; those that need data of their own with `-m full`."""
    for table in TABLES:
        for method in (*METHODS, "attn-lrp"):
            small = table == "samples/reviews" and method == METHODS[0]
            yield pytest.param(table, method, marks=() if small else pytest.mark.full)


@pytest.mark.parametrize(("table", "method"), list(cells()))
def test_tokens_of_real_texts_keep_their_order(monkeypatch, table, method):
    demo = table.startswith("samples")
    if not demo:
        if not (FOLDER / table).is_dir():
            pytest.skip(f"NBSAL_DATA names no folder with {table}")
        monkeypatch.setenv("NBSAL_DATA", str(FOLDER))
    subject, texts = nbsal.load(TABLES[table]), nbsal.data.texts(nbsal.data.load(table))[: 3 if demo else 100]
    mixed, exact = (
        nbsal.Explainer(subject, method, dtype=dtype).map(texts, batch_size=8, progress=False)
        for dtype in ("mixed", "float64")
    )
    pairs = [(one.scores, same.scores) for one, same in zip(mixed, exact, strict=True)]
    if method != "attn-lrp":  # its rules have no product of positive summands, so nothing is multiplied in float32
        assert any(not np.array_equal(scores, truth) for scores, truth in pairs)
    for scores, truth in pairs:
        check_order(scores, truth)
        assert np.abs(scores - truth).max() <= 1e-5 * np.abs(truth).max() or not demo


def test_a_batch_equals_its_single_texts(reviews):
    explain = nbsal.Explainer(reviews, "transformer-attribution")
    texts = [TEXT, "A joy.", "A dull, endless bore that nobody needs."]
    for one, same in zip(explain.map(texts, progress=False), map(explain, texts), strict=True):
        assert np.abs(one.scores - same.scores).max() <= 1e-6 * np.abs(same.scores).max()


@pytest.fixture
def multiplied(monkeypatch):
    """The precisions of all products that relevance and gradients ask for."""
    precisions, linear = [], functional.linear

    def record(x, weight, bias=None):
        if not torch.overrides._get_current_function_mode_stack():  # the model's own are computed under a mode
            precisions.append((x.dtype, weight.dtype))
        return linear(x, weight, bias)

    monkeypatch.setattr(functional, "linear", record)
    return precisions


@pytest.mark.parametrize(
    ("dtype", "precision"), [("mixed", torch.float32), ("float64", torch.float64), ("model", torch.float32)]
)
def test_products_have_the_precision_that_was_asked_for(reviews, multiplied, dtype, precision):
    nbsal.Explainer(reviews, "transformer-attribution", dtype=dtype)(TEXT)
    inside = multiplied[: -4 if dtype == "mixed" else None]  # the head is converted at once, and has no float32 weights
    assert inside and {pair for pair in inside if pair[0] == precision} == {(precision, precision)}
    assert (torch.float32, torch.float32) not in multiplied or dtype != "float64"


def test_weights_are_converted_once_and_go_with_their_model():
    gc.collect()
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    start, runs = double.cached_bytes(), []
    for _ in range(2):
        scores = nbsal.Explainer(subject, "lrp")(TEXT).scores
        runs.append((scores.tolist(), sorted(kept.data_ptr() for kept in double._CACHE[torch.float64].values())))
    size = sum(weight.numel() * 8 for block in subject.blocks for weight in block.parameters())
    assert runs[0] == runs[1] and double.cached_bytes() == start + size
    del subject
    gc.collect()
    assert double.cached_bytes() == start


def test_one_trace_serves_all_methods_of_a_precision(reviews, forwards):
    nbsal.compare(reviews, METHODS, TEXT)
    assert len(forwards) == 1
