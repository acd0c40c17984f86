"""Fixtures that free memory after tests and doctests; tests/conftest.py registers them for all files."""

import ctypes
import gc
import sys

import psutil
import pytest

import nbsal

SESSION_SUBJECTS: list[nbsal.Subject] = []  # subjects that live as long as the tests
LARGE = 50_000_000  # bytes
PROCESS = psutil.Process()


def pytest_collection_finish():
    """Exclude imported modules from garbage collection: going through them takes a third of a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def collect_large_garbage():
    """Collect what a test leaves behind at once if it is large: most are models in reference cycles."""
    before = PROCESS.memory_info().rss
    yield
    if PROCESS.memory_info().rss - before > LARGE:
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def free_memory():
    """Collect models, which are in reference cycles, and close all widgets after each file of tests."""
    yield
    for subject in SESSION_SUBJECTS:
        subject._float64_copy = None
    if "ipywidgets" in sys.modules:
        sys.modules["ipywidgets"].Widget.close_all()
    gc.collect()
    gc.freeze()  # modules that the tests imported
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc
        trim(0)
