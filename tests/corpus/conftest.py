"""A tiny explainer and a few texts, for all tests of corpora."""

import pytest

import nbsal
from tests.corpus import kills


@pytest.fixture(scope="session")
def explain(load):
    """Grad-CAM on a tiny model: many equal scores."""
    return nbsal.Explainer(load("bert", dtype="float32"), "gradcam")


@pytest.fixture(scope="session")
def texts():
    """Forty texts, some of them empty."""
    found = kills.texts()[:40]
    assert "" in found
    return found
