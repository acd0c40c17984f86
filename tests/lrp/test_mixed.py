"""Relevance in mixed precision: sums in float64, products of positive summands and of gradients in float32."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.model.running import products
from nbsal.passes.lrp import rules

METHODS = ["lrp", "partial-lrp", "transformer-attribution", "mask-lrp"]
TEXT = "The striker scored twice and the visitors won the final."


def ranks(scores):
    return np.argsort(np.argsort(scores))


def same_order(scores, exact):
    """Whether two explanations of a text agree in their five largest scores, and nearly in the order of all."""
    assert (np.argsort(-scores, kind="stable")[:5] == np.argsort(-exact, kind="stable")[:5]).all()
    correlation = np.corrcoef(ranks(scores), ranks(exact))[0, 1]
    assert correlation >= 0.9999
    assert np.abs(scores - exact).max() <= 1e-5 * np.abs(exact).max()


@pytest.mark.some(1)
@pytest.mark.parametrize("method", METHODS)
def test_tokens_keep_their_order(reviews, method):
    for text in nbsal.data.load("samples/reviews")["text"].tolist()[:3]:
        mixed, exact = (nbsal.Explainer(reviews, method, dtype=dtype)(text).scores for dtype in ("mixed", "float64"))
        assert not np.array_equal(mixed, exact)
        same_order(mixed, exact)


def test_a_batch_equals_its_single_texts(reviews):
    explain = nbsal.Explainer(reviews, "transformer-attribution")
    texts = [TEXT, "A joy.", "A dull, endless bore that nobody needs."]
    for one, same in zip(explain.map(texts, progress=False), map(explain, texts), strict=True):
        assert np.abs(one.scores - same.scores).max() <= 1e-6 * np.abs(same.scores).max()


@pytest.fixture
def multiplied(monkeypatch):
    """The precisions of all products that relevance and gradients ask for."""
    precisions, multiply = [], products.multiply

    def record(x, weight, bias=None):
        precisions.append((x.dtype, weight.dtype))
        return multiply(x, weight, bias)

    monkeypatch.setattr(products, "multiply", record)
    monkeypatch.setattr(rules, "multiply", record)
    return precisions


@pytest.mark.parametrize(
    ("dtype", "precision"), [("mixed", torch.float32), ("float64", torch.float64), ("model", torch.float32)]
)
def test_products_have_the_precision_that_was_asked_for(reviews, multiplied, dtype, precision):
    nbsal.Explainer(reviews, "transformer-attribution", dtype=dtype)(TEXT)
    inside = multiplied[: -4 if dtype == "mixed" else None]  # the head is converted at once, and has no float32 weights
    assert inside and {pair for pair in inside if pair[0] == precision} == {(precision, precision)}
    assert (torch.float32, torch.float32) not in multiplied or dtype != "float64"


def test_one_trace_serves_all_methods_of_a_precision(reviews, forwards):
    nbsal.compare(reviews, METHODS, TEXT)
    assert len(forwards) == 1
