"""The base class of views: requests, the newest result, errors, selection, exports, and the static HTML."""

import inspect
import json
import threading
import time
from types import SimpleNamespace

import pandas
import pytest
import traitlets

import nbsal
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.support.errors import InputError, UnknownName
from nbsal.widgets import Highlight, View
from nbsal.widgets.page import snapshot
from nbsal.widgets.page.html_export import literal
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
    assert done.wait(120)
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
    assert view.result.scores == pytest.approx(expected.scores, abs=1e-6 * expected.largest)
    assert view._result["caption"] == expected.caption()
    pandas.testing.assert_frame_equal(view.to_frame(), expected.to_frame(), atol=1e-6)


def test_a_change_in_the_page_is_computed(view):
    from_page(view, text="A dull bore.", target="positive")
    assert view.wait().result.prediction == "negative" and view.result.target == "positive"
    from_page(view, target={"contrast": ["positive", "negative"]})
    assert view.wait().result.target == "positive - negative"


def test_a_method_keeps_its_other_settings(small):
    explain = nbsal.Explainer(small, "decoded-simple", norm=2, renormalise=True)
    view = Highlight(explain, text=TEXT)
    view.layer = 1
    parameters = view.wait().result.provenance["parameters"]
    assert parameters["norm"] == 2 and parameters["renormalise"] and parameters["layer"] == 1


def test_a_finished_result_is_shown_without_an_explainer(explain):
    saliency = explain(TEXT)
    view = Highlight(saliency).wait()
    assert view.result is saliency is view.plain_result and not view._live
    assert (view.text, view.method, view.layer) == (TEXT, "decoded-gradcam", explain.method.layer)


def test_unknown_settings_are_refused_and_the_valid_ones_listed(small, explain):
    with refuses("laeyr", UnknownName) as caught:
        Highlight(explain, text=TEXT, laeyr=3)
    assert caught.value.value == 3 and {"clip", "gamma", "layer"} < set(caught.value.valid)
    assert not {"status", "_scores"} & set(caught.value.valid)
    assert {*caught.value.valid} < {*inspect.signature(Highlight).parameters}  # which completion reads
    for source in (small, explain):
        with refuses("text"):
            Highlight(source)


@cases(
    "name, value, kind",
    [
        ("method", "gradcamm", UnknownName),
        ("layer", 4, UnknownName),
        ("layer", -1, UnknownName),
        ("text", 3, InputError),
    ],
)
def test_impossible_values_are_refused(view, name, value, kind):
    with refuses(name, kind) as caught:
        setattr(view, name, value)
    assert caught.value.value == value != getattr(view, name)


def test_a_subject_is_explained_by_the_default_method(small, load):
    assert Highlight(small, text=TEXT).method == "attn-lrp"
    assert listed(Highlight(load("bert", decoding=False), text=TEXT).wait())[0]["name"] == "attn-lrp"
    function = nbsal.load(lambda texts: [[0.3, 0.7]] * len(texts))
    assert Highlight(function, text=TEXT).wait().result.method == "occlusion"


def test_a_slow_method_reports_progress_and_can_be_cancelled(small):
    view = Highlight(nbsal.Explainer(small, "shapley", samples=2000), text=" ".join([TEXT] * 5))
    reported, shares = threading.Event(), []
    view.observe(lambda change: change["new"] and (shares.append(change["new"]), reported.set()), "progress")
    assert reported.wait(60), "no progress was reported"
    assert ask(view, ask="cancel", id="1")["reply"] in ("cancelling", "cancelled")
    assert view.wait(120).status == "cancelled" and view.result is None
    assert 0 < shares[0] < 0.5, "it was cancelled long before its end"


def test_an_error_is_shown_and_raised_and_the_next_request_works():
    view = Slow(number=-1)
    view.gate.release(2)
    with refuses("number") as caught:
        view.wait(120)
    assert (view.status, view.error) == ("error", str(caught.value))
    view.number = 4
    assert view.wait(120).numbers == [4] and view.error == ""


def test_a_view_cannot_wait_for_itself():
    class Waiting(Slow):
        def compute(self, inputs, job):
            return self.wait()

    view = Waiting()
    with refuses(None):
        view.wait(120)


def test_exports_need_a_result():
    view = Slow()
    with pytest.raises(TimeoutError):
        view.wait(0.01)
    view.cancel()
    view.gate.release()
    assert view.wait(120).status == "cancelled"
    for export in (view.to_html, view.to_png, view.to_frame, view.freeze):
        with refuses(None):
            export()


@pytest.mark.parametrize("hook", ["compute", "sheet"])
def test_a_view_without_a_hook_names_what_to_implement(hook):
    class Incomplete(View):
        inputs = ("number",) if hook == "compute" else ()
        number = traitlets.Int(0)

    view = Incomplete()
    with pytest.raises((InputError, NotImplementedError)) as caught:
        view.wait(120).render_png()
    assert f"{hook}(self" in str(caught.value) and "Incomplete" in str(caught.value)


def test_an_error_inside_a_method_is_shown(small, capsys):
    class Broken(Method):
        name, family, needs, paper = "broken", "test", frozenset(), ""

        def scores(self, trace):
            raise RuntimeError("no luck")

        def parameters(self):
            return {}

    view = Highlight(nbsal.Explainer(small, Broken()), text=TEXT)
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


@cases("callback", [None, "print", [print]])
def test_what_cannot_be_called_back_is_refused(view, callback):
    with refuses("callback"):
        view.on_select(callback)


def test_a_callback_that_fails_is_shown(view, capsys):
    view.on_select(lambda rows: 1 / 0)
    from_page(view, selection=[2])
    assert "ZeroDivisionError" in view.error and "Traceback" in capsys.readouterr().err


def test_a_callback_may_wait_for_the_view(view):
    """Callbacks run while traits are locked; waiting must release the lock to the worker."""
    layers = []

    def change_layer(rows):
        view.layer = 1
        layers.append(view.wait(120).result.provenance["parameters"]["layer"])

    view.on_select(change_layer)
    from_page(view, selection=[2])
    assert layers == [1]


def test_a_frozen_view_does_not_change(view):
    frozen = view.freeze()
    for copy in (frozen, view.freeze(interactive=True)):
        assert "run the cell to change it" in copy._repr_html_()
        assert "changing it needs Python" not in copy._repr_html_()
    for page in (view.to_html(), view.to_html(interactive=True)):
        assert "run the cell to change it" not in page.replace(str(view._esm), "")
        assert "changing it needs Python" in page
    html = frozen._repr_html_()
    view.text = "A dull bore."
    view.wait()
    assert frozen._repr_html_() == html and "funny" in html and "positive" in repr(frozen)
    assert "sandbox" in view.freeze(interactive=True)._repr_html_()


def test_a_cell_keeps_a_picture_beside_the_live_view(view, monkeypatch):
    outputs = []

    def display(data, **settings):
        outputs.append(data)
        return SimpleNamespace(update=lambda data, raw: outputs.append(data))

    monkeypatch.setattr(snapshot, "display", display)
    monkeypatch.setattr(snapshot, "INTERVAL", 0.01)
    view._ipython_display_()
    picture, live = outputs
    assert "funny" in picture["text/html"] and "Snapshot of " in picture["text/html"]
    assert snapshot.WIDGET in live and live["text/plain"] == ""
    assert view.freeze()._repr_html_() == picture["text/html"].removeprefix(snapshot.STYLE)
    view.text = "A dull bore."
    view.wait()
    while len(outputs) < 3:
        time.sleep(0.01)
    assert "bore" in outputs[2]["text/html"] and "funny" not in outputs[2]["text/html"]


def test_the_page_saves(view):
    assert ask(view, ask="save", id="7", kind="csv")["reply"]["content"].startswith("word,score"), "as shown"
    view.level = "token"
    assert ask(view, ask="save", id="8", kind="csv")["reply"]["content"].startswith("token,score")
    assert ask(view, ask="save", id="8", kind="html")["reply"]["content"].startswith("<!doctype html>")
    assert ask(view, ask="save", id="9", kind="png")["reply"]["content"].startswith("iVBOR")
    view.text, view.level = "=SUM(A1) -1 @home \uff1d2 warm", "word"
    cells = [line.partition(",")[0] for line in view.wait().to_csv().splitlines()[1:]]
    plain = [line.partition(",")[0] for line in view.to_csv(escape_formulas=False).splitlines()[1:]]
    assert {"=", "-", "@", "\uff1d"} <= {cell[:1] for cell in plain} and not any(
        cell[:1] in "=-@\uff1d" for cell in cells
    )
    assert [cell.removeprefix("'") for cell in cells] == plain and "warm" in cells
    assert view.handle_save("csv")["content"] == view.to_csv()
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
    view.check = False
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


def listed(view):
    """The list of methods, as a page requests it."""
    return ask(view, ask="methods", id="1", key=view._choices["methods"])["reply"]


def test_the_state_of_a_view_does_not_hold_the_list(view):
    methods = listed(view)
    assert {method["name"] for method in methods} == set(catalogue.names())
    assert len(json.dumps(view._choices)) < len(json.dumps(methods)) / 20
    state = str(view.get_state())
    assert [m["name"] for m in methods if m["summary"] in state] == ["decoded-gradcam"]


@cases("key", ["unknown", None, 1, ["a"], {}])
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


def test_the_progress_of_one_step_after_another_starts_anew(small):
    shares = []

    class Steps(View):
        inputs = ("text",)
        text = traitlets.Unicode("A joy.").tag(sync=True)

        def compute(self, inputs, job):
            for _ in range(2):
                meter = self.meter(job, 4)
                for _ in range(4):
                    meter.step()
                    shares.append(self.progress)

    Steps().wait()
    assert shares == [0.25, 0.5, 0.75, None] * 2
