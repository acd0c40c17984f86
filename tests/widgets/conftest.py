"""Views are tested alike on fast and on slow machines."""

import pytest

import nbsal
from nbsal.widgets.page import slow_methods
from nbsal.widgets.parts import token_games


@pytest.fixture(autouse=True)
def no_method_is_slow(monkeypatch):
    """A quick method would have a preview on a slow machine; tests that need a slow one say so."""
    monkeypatch.setattr(slow_methods, "SLOW", 1000.0)
    monkeypatch.setattr(slow_methods, "MANY", 10**6)


@pytest.fixture(scope="module")
def explain(small):
    return nbsal.Explainer(small, "decoded-gradcam")


@pytest.fixture(autouse=True)
def few_random_orders(monkeypatch):
    """Random orders take most of the time of the games."""
    monkeypatch.setattr(token_games, "RANDOM_ORDERS", 2)
