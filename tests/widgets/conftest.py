"""Fixtures of the tests of views."""

import pytest

import nbsal
from nbsal.widgets.content import token_games


@pytest.fixture(scope="module")
def explain(small):
    return nbsal.Explainer(small, "decoded-gradcam")


@pytest.fixture(autouse=True)
def few_random_orders(monkeypatch):
    """Random orders take most of the time of the games."""
    monkeypatch.setattr(token_games, "RANDOM_ORDERS", 2)
