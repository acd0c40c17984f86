"""Fixtures that free and share memory in tests and doctests; tests/conftest.py registers them for all files."""

import ctypes
import gc
import sys
from functools import cache

import psutil
import pytest

import nbsal

LARGE, GROWN = 50_000_000, 100_000_000  # bytes
PROCESS = psutil.Process()
last_full = [0]  # bytes in use after the last collection of what is frozen, too


@cache
def reviews() -> nbsal.Subject:
    """The embedded classifier of reviews, which lives as long as the tests."""
    return nbsal.load("demo/reviews")


def pytest_collection_finish():
    """Exclude imported modules from garbage collection: going through them takes a third of a second each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)  # a model is thousands of objects: by default, building one collects several times


@pytest.fixture(autouse=True)
def collect_large_garbage():
    """Collect what a test leaves behind at once if it is large: most are models in reference cycles."""
    before = PROCESS.memory_info().rss
    yield
    if PROCESS.memory_info().rss - before > LARGE:
        gc.collect()


@pytest.fixture(autouse=True)
def share_reviews(request):
    """Load the classifier of reviews once for all doctests, most of which explain it; none may change it."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    load, version = nbsal.load, reviews().version

    def load_shared(model, **settings):
        return reviews() if (model, settings) == ("demo/reviews", {}) else load(model, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nbsal, "load", load_shared)
        yield
    assert reviews().version == version, "this example changes the model that all examples share"


@pytest.fixture(scope="module", autouse=True)
def free_memory():
    """Collect models, which are in reference cycles, and close all widgets after each file of tests.

    What is frozen and no longer used stays, so all of it is looked through once memory has grown.
    """
    yield
    if reviews.cache_info().currsize:
        reviews()._copies.clear()
    if "ipywidgets" in sys.modules:
        sys.modules["ipywidgets"].Widget.close_all()
    has_grown = PROCESS.memory_info().rss > last_full[0] + GROWN
    if has_grown:
        gc.unfreeze()
    gc.collect()
    gc.freeze()  # modules that the tests imported
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc
        trim(0)
    if has_grown:
        last_full[0] = PROCESS.memory_info().rss
