"""The base class of views: requests, the newest result, errors, selection, exports, and the static HTML."""

import threading

import ipywidgets
import pytest
import traitlets

import nbsal
from nbsal.methods.base import Method
from nbsal.support.errors import InputError, UnknownName
from nbsal.widgets import Highlight, View
from nbsal.widgets.export import literal
from tests.cases import cases
from tests.raising import refuses

TEXT = "A warm and oddly funny film."


@pytest.fixture
def view(explain):
    highlight = Highlight(explain, text=TEXT).wait()
    yield highlight
    highlight.close()


def from_page(view, **state):
    """Change traits as a page does."""
    view._handle_msg({"content": {"data": {"method": "update", "state": state, "buffer_paths": []}}, "buffers": []})


def ask(view, **content):
    """Send a message as a page does; return the reply."""
    replies, done = [], threading.Event()
    view.send = lambda reply, buffers=None: (replies.append(reply), done.set())
    view._handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})
    assert done.wait(30)
    return replies[0]


class Slow(View):
    """A view whose computation waits for `gate`; `numbers` are the results that were displayed."""

    inputs = ("number",)
    number = traitlets.Int(0).tag(sync=True)
    numbers = traitlets.List().tag(sync=True)
    _esm = "export default { render() {} };"

    def __init__(self, **settings):
        self.gate, self.started = threading.Semaphore(0), threading.Semaphore(0)
        super().__init__(**settings)

    def compute(self, inputs, job):
        self.started.release()
        self.gate.acquire()
        if inputs["number"] < 0:
            raise InputError("number is negative.", argument="number", value=inputs["number"])
        return inputs["number"]

    def publish(self, result):
        return {"numbers": [*self.numbers, result]}


def test_a_view_shows_the_result_of_its_explainer(view, explain):
    expected = explain(TEXT)
    assert view.result.scores.tolist() == expected.scores.tolist()
    assert view._result["caption"] == expected.caption()
    assert view.to_frame().equals(expected.to_frame())


def test_a_change_in_the_page_is_computed(view):
    from_page(view, text="A dull bore.", target="positive")
    assert view.wait().result.prediction == "negative" and view.result.target == "positive"
    from_page(view, target={"contrast": ["positive", "negative"]})
    assert view.wait().result.target == "positive - negative"


def test_a_method_keeps_its_other_settings(reviews):
    explain = nbsal.Explainer(reviews, "decoded-simple", norm=2, renormalise=True)
    view = Highlight(explain, text=TEXT)
    view.layer = 1
    parameters = view.wait().result.provenance["parameters"]
    assert parameters["norm"] == 2 and parameters["renormalise"] and parameters["layer"] == 1


def test_a_finished_result_is_shown_without_an_explainer(explain):
    saliency = explain(TEXT)
    view = Highlight(saliency).wait()
    assert view.result is saliency is view.plain_result and not view._live
    assert (view.text, view.method, view.layer) == (TEXT, "decoded-gradcam", explain.method.layer)


def test_unknown_settings_are_refused_and_the_valid_ones_listed(explain):
    with refuses("laeyr", UnknownName) as caught:
        Highlight(explain, text=TEXT, laeyr=3)
    assert caught.value.value == 3 and {"clip", "gamma", "layer"} < set(caught.value.valid)
    assert not {"status", "_scores"} & set(caught.value.valid)


@cases(
    "name, value, kind",
    [
        ("method", "gradcamm", UnknownName),
        ("layer", 7, UnknownName),
        ("layer", -1, UnknownName),
        ("text", 3, InputError),
    ],
)
def test_impossible_values_are_refused(view, name, value, kind):
    with refuses(name, kind) as caught:
        setattr(view, name, value)
    assert caught.value.value == value != getattr(view, name)


def test_a_text_is_needed(reviews):
    for source in (reviews, nbsal.Explainer(reviews, "gradcam")):
        with refuses("text"):
            Highlight(source)
        with refuses("texts", UnknownName) as caught:
            Highlight(source, texts="A joy.")
        assert caught.value.suggestion == "text"


def test_a_subject_is_explained_by_decoding_if_it_can_be(reviews, load):
    assert Highlight(reviews, text=TEXT).method == "decoded-gradcam"
    assert Highlight(load("bert", decoding=False), text=TEXT).method == "gradcam"


def test_a_slow_method_reports_progress_and_can_be_cancelled(reviews):
    view = Highlight(nbsal.Explainer(reviews, "shapley", samples=2000), text=" ".join([TEXT] * 5))
    reported, shares = threading.Event(), []
    view.observe(lambda change: change["new"] and (shares.append(change["new"]), reported.set()), "progress")
    assert reported.wait(60), "no progress was reported"
    assert ask(view, ask="cancel", id="1")["reply"] in ("cancelling", "cancelled")
    assert view.wait(20).status == "cancelled" and view.result is None
    assert 0 < shares[0] < 0.5, "it was cancelled long before its end"


def test_an_error_is_shown_and_raised_and_the_next_request_works():
    view = Slow(number=-1)
    view.gate.release(2)
    with refuses("number") as caught:
        view.wait(30)
    assert (view.status, view.error) == ("error", str(caught.value))
    view.number = 4
    assert view.wait(30).numbers == [4] and view.error == ""


def test_a_view_cannot_wait_for_itself():
    class Waiting(Slow):
        def compute(self, inputs, job):
            return self.wait()

    view = Waiting()
    with refuses(None):
        view.wait(30)


def test_exports_need_a_result():
    view = Slow()
    view.cancel()
    view.gate.release()
    assert view.wait(30).status == "cancelled"
    for export in (view.to_html, view.to_png, view.to_frame, view.freeze):
        with refuses(None):
            export()


@pytest.mark.parametrize("hook", ["compute", "render_png"])
def test_a_view_without_a_hook_names_what_to_implement(hook):
    class Incomplete(View):
        inputs = ("number",) if hook == "compute" else ()
        number = traitlets.Int(0)

    view = Incomplete()
    with pytest.raises((InputError, NotImplementedError)) as caught:
        view.wait(30).render_png()
    assert f"{hook}(self" in str(caught.value) and "Incomplete" in str(caught.value)


def test_an_error_inside_a_method_is_shown(reviews, capsys):
    class Broken(Method):
        name, family, needs, paper = "broken", "test", frozenset(), ""

        def scores(self, trace):
            raise RuntimeError("no luck")

        def parameters(self):
            return {}

    view = Highlight(nbsal.Explainer(reviews, Broken()), text=TEXT)
    with pytest.raises(RuntimeError):
        view.wait()
    assert view.error == "RuntimeError: no luck" and "Traceback" in capsys.readouterr().err
    view.method = "gradcam"
    assert view.wait().status == "ready"


def test_a_selection_calls_back_with_its_rows(view):
    selections = []
    view.on_select(lambda rows: selections.append(rows["token"].tolist()))
    from_page(view, selection=[2, 5])
    view.selection = [3]
    assert selections == [["warm", "funny"], ["and"]]


def test_a_callback_that_fails_is_shown(view, capsys):
    view.on_select(lambda rows: 1 / 0)
    from_page(view, selection=[2])
    assert "ZeroDivisionError" in view.error and "Traceback" in capsys.readouterr().err


def test_a_callback_may_wait_for_the_view(view):
    """Callbacks run while traits are locked; waiting must release the lock to the worker."""
    layers = []

    def change_layer(rows):
        view.layer = 1
        layers.append(view.wait(30).result.provenance["parameters"]["layer"])

    view.on_select(change_layer)
    from_page(view, selection=[2])
    assert layers == [1]


def test_views_link_like_any_widget(view, explain):
    other = Highlight(explain, text=TEXT)
    dropdown = ipywidgets.Dropdown(options=range(7), value=view.layer)
    links = [
        ipywidgets.link((view, "selection"), (other, "selection")),
        ipywidgets.link((dropdown, "value"), (view, "layer")),
    ]
    view.selection, dropdown.value = [4], 1
    assert other.selection == [4] and view.wait().result.provenance["parameters"]["layer"] == 1
    hovers = []
    view.observe(lambda change: hovers.append(change["new"]), "hover")
    from_page(view, hover=3)
    assert hovers == [3]
    out = ipywidgets.interactive_output(lambda layer: setattr(view, "layer", layer), {"layer": dropdown})
    dropdown.value = 2
    assert view.wait().layer == 2 and ipywidgets.HBox([view, other, out]).children[0] is view
    for link in links:
        link.unlink()


def test_a_frozen_view_does_not_change(view):
    frozen = view.freeze()
    for snapshot in (frozen, view.freeze(interactive=True)):
        assert "run the cell to change it" in snapshot._repr_html_()
        assert "changing it needs Python" not in snapshot._repr_html_()
    for page in (view.to_html(), view.to_html(interactive=True)):
        assert "run the cell to change it" not in page.replace(str(view._esm), "")
        assert "changing it needs Python" in page
    html = frozen._repr_html_()
    view.text = "A dull bore."
    view.wait()
    assert frozen._repr_html_() == html and "funny" in html and "positive" in repr(frozen)
    assert "sandbox" in view.freeze(interactive=True)._repr_html_()


def test_the_page_saves(view):
    assert ask(view, ask="save", id="7", kind="csv")["reply"]["content"].startswith("token,score")
    assert ask(view, ask="save", id="8", kind="html")["reply"]["content"].startswith("<!doctype html>")
    assert ask(view, ask="save", id="9", kind="png")["reply"]["content"].startswith("iVBOR")
    with refuses("kind", UnknownName) as caught:
        view.handle_save("pdf")
    assert caught.value.valid == ("html", "png", "csv")
    assert ask(view, ask="save", id="9", kind="pdf") == {"id": "9", "error": str(caught.value)}
    assert "'dance'" in ask(view, ask="dance", id="9")["error"]


def test_the_counter_is_sent_after_all_that_it_counts(view, monkeypatch):
    """Some hosts report the traits of one message one by one; a page must not draw in between."""
    sent, send = [], view.send_state
    monkeypatch.setattr(
        view, "send_state", lambda key=None: (sent.append({key} if isinstance(key, str) else set(key)), send(key))
    )
    view.layer = 1
    view.wait()
    count = sent.index({"_rev"})
    assert {"_scores", "_result"} <= sent[count - 1] and "_rev" not in sent[count - 1]


def test_the_traits_of_a_result_are_set_together_and_nowhere_else(view, explain):
    """`publish` sets nothing: the base class sets its traits and the result under one lock."""
    traits, result, revision = view.get_state(), view.result, view._rev
    published = view.publish(explain("A dull bore."))
    assert view.get_state() == traits and (view.result, view._rev) == (result, revision)
    seen = []
    view.observe(lambda change: seen.append(view.result.text), "_tokens")
    view.text = "A dull bore."
    view.wait()
    assert seen == ["A dull bore."] and {name: getattr(view, name) for name in published} == published


def test_what_is_no_bytes_cannot_be_written_into_a_page():
    with pytest.raises(TypeError):
        literal({"_scores": {1, 2}})
