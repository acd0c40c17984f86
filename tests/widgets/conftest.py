"""Views are tested alike on fast and on slow machines."""

import pytest

from nbsal.widgets import slow_methods


@pytest.fixture(autouse=True)
def no_method_is_slow(monkeypatch):
    """A quick method would have a preview on a slow machine; tests that need a slow one say so."""
    monkeypatch.setattr(slow_methods, "SLOW", 1000.0)
