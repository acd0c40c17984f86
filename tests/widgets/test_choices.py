"""What a page may choose from: a view sends the name of its list of methods, and the list once a page requests it."""

import json

import pytest

import nbsal
from nbsal.methods import catalogue
from nbsal.support.errors import UnknownName
from nbsal.widgets import Highlight
from tests.raising import refuses
from tests.widgets.test_view import TEXT, ask, from_page


@pytest.fixture
def view(reviews):
    highlight = Highlight(nbsal.Explainer(reviews, "decoded-gradcam"), text=TEXT).wait()
    yield highlight
    highlight.close()


def listed(view):
    """The list of methods, as a page requests it."""
    return ask(view, ask="methods", id="1", key=view._choices["methods"])["reply"]


def test_the_state_of_a_view_does_not_hold_the_list(view):
    methods = listed(view)
    assert {method["name"] for method in methods} == set(catalogue.names())
    assert len(json.dumps(view._choices)) < len(json.dumps(methods)) / 20
    state = str(view.get_state())
    assert [m["name"] for m in methods if m["summary"] in state] == ["decoded-gradcam"]


@pytest.mark.parametrize("key", ["unknown", None, 1, ["a"], {}])
def test_a_list_that_does_not_exist_is_refused(view, key):
    assert "error" in ask(view, ask="methods", id="1", key=key)


def test_the_chosen_method_is_described(view):
    entries = {method["name"]: method for method in listed(view)}
    for change in [lambda: from_page(view, method="lime"), lambda: setattr(view, "method", "gradcam")]:
        change()
        assert view._choices["method"] == entries[view.method]
    assert view.method == "gradcam"
    assert Highlight(view.explainer, text=TEXT, method="attcat")._choices["method"] == entries["attcat"]


def test_a_method_that_cannot_run_is_refused(load):
    view = Highlight(nbsal.Explainer(load("bert", decoding=False), "gradcam"), text=TEXT).wait()
    assert {m["name"]: m["unavailable"] for m in listed(view)}["decoded-gradcam"]
    for name in ("decoded-gradcam", "unknown"):
        with refuses("method", UnknownName):
            view.method = name
        from_page(view, method=name)
        assert view.method == "gradcam" and name in view.error
    view.close()
