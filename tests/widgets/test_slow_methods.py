"""Slow methods while a text is typed: they wait for a pause, and a quick method stands in for them."""

import threading
import time

import pytest

import nbsal
from nbsal.support.errors import InputError
from nbsal.widgets import Compare, Highlight, Workbench
from nbsal.widgets.page import slow_methods
from tests.widgets.test_view import TEXT


@pytest.fixture
def slow(small):
    """slow(class, method) -> a view of TEXT whose last run took long.

    `view.shown` lists what is displayed when, `view.started` when the slow method itself begins.
    """

    def make(kind, method="integrated", **settings):
        view = kind(nbsal.Explainer(small, method), text=TEXT, **settings).wait()
        view._durations._seconds = dict.fromkeys([*view._durations._seconds, "occlusion"], 2 * slow_methods.SLOW)
        view.shown, view.started, start = [], [], time.perf_counter()
        explain_each = view.explain_each

        def record(*arguments):
            view.started.append(time.perf_counter() - start)
            return explain_each(*arguments)

        view.explain_each = record
        view.observe(
            lambda change: view.shown.append(
                (view._result["method"], view._preview, view._tokens["parts"], time.perf_counter() - start)
            ),
            "_rev",
        )
        return view

    return make


def methods(view):
    return [(method, preview) for method, preview, *_ in view.shown]


@pytest.mark.parametrize("kind", [Highlight, Workbench])
def test_a_slow_method_has_a_preview_and_waits_for_a_pause(slow, kind):
    view = slow(kind)
    view.text = "A dull bore."
    view.wait(60)
    first, is_preview, parts, _ = view.shown[0]
    assert (first, is_preview, parts) == ("attn-lrp", True, ["A dull bore."])
    after = [shown for shown in view.shown if shown[0] == "integrated"]
    assert not any(preview for _, preview, *_ in after) and view.started[0] - view.shown[0][3] >= slow_methods.PAUSE
    assert view.result.method == "integrated" and not view._preview


def test_only_the_last_of_several_texts_is_explained_by_the_slow_method(slow, monkeypatch):
    view = slow(Highlight)
    monkeypatch.setattr(slow_methods, "PAUSE", 600.0)
    for typed in ("A dull", "A dull bo"):
        view.text = typed
        while not view.shown or view.shown[-1][2] != [typed]:
            time.sleep(0.005)
    view.handle_skip_pause("A dull bore.")
    view.text = "A dull bore."
    view.wait(120)
    explained = [parts for method, _, parts, _ in view.shown if method == "integrated"]
    previews = [parts for _, preview, parts, _ in view.shown if preview]
    assert explained == [["A dull bore."]] and len(view.started) == 1
    assert previews == [["A dull"], ["A dull bo"], ["A dull bore."]]


@pytest.mark.parametrize("kind", [Highlight, Compare])
@pytest.mark.parametrize("early", [False, True], ids=["late", "early"])
def test_the_pause_is_skipped_for_a_text_that_is_wanted_at_once(slow, monkeypatch, kind, early):
    monkeypatch.setattr(slow_methods, "PAUSE", 600.0)
    view = slow(kind, **({"other_method": "gradcam"} if kind is Compare else {}))
    view.text = "A dull"
    requests = [lambda: setattr(view, "text", "A dull bore."), lambda: view.handle_skip_pause("A dull bore.")]
    for request in reversed(requests) if early else requests:
        request()
        time.sleep(0.1)
    assert view.wait(120).status == "ready"
    result = view.result.first if kind is Compare else view.result
    assert (result.text, result.method) == ("A dull bore.", "integrated")
    runs = len(view.started)
    view._durations._seconds = dict.fromkeys(view._durations._seconds, 2 * slow_methods.SLOW)
    view.text = "A dull film."
    time.sleep(0.5)
    assert (view.status, len(view.started)) == ("computing", runs), "the next text waits again"
    view.cancel()


def test_the_first_result_of_many_passes_has_a_preview_and_the_time_left(small, monkeypatch):
    monkeypatch.setattr(slow_methods, "MANY", 50)
    left, go = [], threading.Event()
    explain_each = Highlight.explain_each
    monkeypatch.setattr(
        Highlight, "explain_each", lambda view, *arguments: go.wait(120) and explain_each(view, *arguments)
    )
    view = Highlight(nbsal.Explainer(small, "shapley"), text=TEXT)
    view.observe(lambda change: left.append(change["new"]), "_left")
    view._wait_briefly()
    assert (view.result.method, view._preview, view.status) == ("attn-lrp", True, "computing")
    go.set()
    assert "Shapley" in view.to_html() and not view._preview, "an export waits for the result"
    done = [int(words.split("\u202f")[0]) for words in left[:-1] if words]
    assert done == sorted(done) and done[0] <= done[-1] <= 99 and left[-1] == ""


def test_a_text_that_cannot_be_explained_says_so(slow):
    view = slow(Highlight)
    view.text = " "
    with pytest.raises(InputError):
        view.wait(60)
    assert view.result.text == TEXT and not view._preview
    view.text = "Fine."
    assert view.wait(60).result.text == "Fine."
