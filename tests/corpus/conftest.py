"""A tiny explainer and a few texts for all tests of corpora."""

import pytest

import nbsal
from nbsal import corpus
from tests.corpus import kills


@pytest.fixture(scope="session")
def explain(load):
    """Grad-CAM of a tiny model, which gives many equal scores."""
    return nbsal.Explainer(load("bert", dtype="float32"), "gradcam")


@pytest.fixture(scope="session")
def texts():
    """Forty texts, some of them empty."""
    some = kills.texts()[:40]
    assert "" in some
    return some


@pytest.fixture(scope="session")
def whole(explain, texts, tmp_path_factory):
    """The folder of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole")
    corpus.explain(explain, texts, out, shard_rows=8, progress=False)
    return out
