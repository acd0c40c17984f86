"""Relevance in mixed precision orders the tokens of real texts as float64 does, on 300 texts of the benchmark tables.

Tokens whose float64 scores differ by less than TIED of the largest score are tied: float64 itself does not tell them
apart for sure. Each of them then counts with the mean score of its ties, in either precision.
"""

import os
from pathlib import Path

import numpy as np
import pandas
import pytest

import nbsal

FOLDER = Path(os.environ.get("NBSAL_DATA") or Path(__file__).parents[3] / "shared" / "data")
TABLES = {"sst2": "demo/reviews", "ag_news": "demo/news", "mnli": "demo/nli"}
METHODS = ("lrp", "partial-lrp", "transformer-attribution", "mask-lrp", "attn-lrp")
COUNT = 100  # texts of each table
TIED = 1e-9


def tie(scores, exact):
    """The scores, with those that are tied in `exact` replaced by their mean."""
    order = np.argsort(exact, kind="stable")
    steps = np.diff(exact[order]) > TIED * np.abs(exact).max()
    groups = np.empty(len(exact), int)
    groups[order] = np.concatenate([[0], steps.cumsum()])
    return (np.bincount(groups, scores) / np.bincount(groups))[groups]


def same_order(scores, exact):
    """Spearman's correlation of two explanations, and whether their five largest scores are the same in order."""
    scores, exact = tie(scores, exact), tie(exact, exact)
    top, exact_top = (np.argsort(-values, kind="stable")[:5].tolist() for values in (scores, exact))
    ranks, exact_ranks = (pandas.Series(values).rank() for values in (scores, exact))
    return ranks.corr(exact_ranks), top == exact_top


@pytest.mark.full
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("table", TABLES)
def test_tokens_of_real_texts_keep_their_order(monkeypatch, table, method):
    if not (FOLDER / table).is_dir():
        pytest.skip(f"NBSAL_DATA names no folder with {table}")
    monkeypatch.setenv("NBSAL_DATA", str(FOLDER))
    subject, texts = nbsal.load(TABLES[table]), nbsal.data.texts(nbsal.data.load(table))[:COUNT]
    assert len(texts) == COUNT
    mixed, exact = (
        nbsal.Explainer(subject, method, dtype=dtype).map(texts, batch_size=8, progress=False)
        for dtype in ("mixed", "float64")
    )
    if method != "attn-lrp":  # its rules have no product of positive summands, so nothing is multiplied in float32
        assert any(not np.array_equal(one.scores, same.scores) for one, same in zip(mixed, exact, strict=True))
    agreement = [same_order(one.scores, same.scores) for one, same in zip(mixed, exact, strict=True)]
    correlations, tops = zip(*agreement, strict=True)
    print(f"{table}, {method}: smallest Spearman {min(correlations):.6f}, {tops.count(False)} top fives changed")
    assert min(correlations) >= 0.9999 and all(tops)
