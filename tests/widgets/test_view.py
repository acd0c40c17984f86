"""The base class of views: requests, the newest result, errors, selection, exports, and the static HTML."""

import gc
import threading
import weakref

import ipywidgets
import pytest
import traitlets

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.methods.base import Method
from nbsal.widgets import Compare, Heads, Highlight, Layers, View
from nbsal.widgets.export import literal
from tests.cases import cases
from tests.raising import refuses

TEXT = "A warm and oddly funny film."


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


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


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        ({"layer": 2}, {"layer": 2}),
        ({"tau": 1}, {"tau": 1}),
        ({"method": "gradcam"}, {"method": "gradcam", "layer": 5}),
    ],
)
def test_a_changed_trait_is_computed(view, reviews, change, settings):
    for name, value in change.items():
        setattr(view, name, value)
    expected = nbsal.Explainer(reviews, **{"method": "decoded-gradcam"} | settings)(TEXT)
    assert view.wait().result.scores.tolist() == expected.scores.tolist()


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


def test_pairs_are_explained():
    view = Highlight(nbsal.Explainer(nbsal.load("demo/nli"), "gradcam"), text=("A man sleeps.", "A man is awake."))
    assert view.wait()._tokens["parts"] == ["A man sleeps.", "A man is awake."]
    from_page(view, text=["A dog runs.", "An animal moves."])
    assert view.wait().result.text == ("A dog runs.", "An animal moves.")
    view.close()  # frees the model


def test_answer_spans_are_marked():
    view = Highlight(nbsal.Explainer(nbsal.load("demo/answers"), "gradcam"), text=("Who ran?", "The dog ran home."))
    start, end = view.wait()._result["answer"]
    row = view.result.row
    assert view.result.prediction == row.parts[1][row.offsets[start][0] : row.offsets[end][1]]
    view.close()  # frees the model


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


@pytest.mark.parametrize("kind", [Highlight, Layers, Compare, Heads])
@pytest.mark.parametrize("source", [3, None, "demo/reviews"])
def test_sources_of_another_kind_are_refused(kind, source):
    with refuses("source") as caught:
        kind(source)
    assert caught.value.value == source


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


def test_the_newest_request_wins():
    view = Slow()
    assert view.started.acquire(timeout=30)
    for number in range(1, 6):
        view.number = number
    view.gate.release(10)
    view.wait(30)
    assert view.numbers == [5]


def test_the_last_of_many_changes_is_shown(view):
    for layer in [1, 4, 2, 6, 3] * 5:
        from_page(view, layer=layer)
    assert view.wait().result.provenance["parameters"]["layer"] == 3


def test_a_running_request_is_cancelling_until_it_stops():
    view = Slow()
    assert view.started.acquire(timeout=30) and view.status == "computing"
    view.cancel()
    assert view.status == "cancelling", "it still runs"
    view.gate.release()
    view.wait(30)
    assert view.status == "cancelled" and view.numbers == [] and view.result is None


def test_a_waiting_request_is_cancelled_at_once():
    first, second = Slow(), Slow()
    assert first.started.acquire(timeout=30)
    second.cancel()
    assert second.status == "cancelled"
    first.gate.release()
    assert first.wait(30).numbers == [0] and second.numbers == []


def test_the_page_can_cancel():
    view = Slow()
    assert view.started.acquire(timeout=30)
    assert ask(view, ask="cancel", id="1") == {"id": "1", "reply": "cancelling"}
    view.gate.release()
    assert view.wait(30).status == "cancelled"


def test_a_slow_method_reports_progress_and_can_be_cancelled(reviews):
    view = Highlight(nbsal.Explainer(reviews, "shapley", samples=2000), text=" ".join([TEXT] * 5))
    reported, shares = threading.Event(), []
    view.observe(lambda change: change["new"] and (shares.append(change["new"]), reported.set()), "progress")
    assert reported.wait(60), "no progress was reported"
    view.cancel()
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


def test_waiting_has_a_timeout():
    view = Slow()
    with pytest.raises(TimeoutError):
        view.wait(0.01)
    view.gate.release()
    assert view.wait(30).numbers == [0]


def test_a_view_cannot_wait_for_itself():
    class Waiting(Slow):
        def compute(self, inputs, job):
            return self.wait()

    view = Waiting()
    with refuses(None):
        view.wait(30)


@pytest.mark.parametrize("traits", [{"numbers": 3}, None])
def test_a_result_that_cannot_be_published_is_an_error_too(traits, capsys):
    class Unpublished(Slow):
        def publish(self, result):
            return traits

    view = Unpublished(number=3)
    view.gate.release()
    with pytest.raises((InputError, AttributeError)) as caught:
        view.wait(30)
    assert view.status == "error" and str(caught.value) in view.error
    capsys.readouterr()


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


def test_a_selection_ends_with_its_text(view, explain):
    view.selection, view.hover = [2, 5], 3
    view.layer = 2
    assert view.wait().selection == [2, 5]
    from_page(view, text="Fine.")
    assert (view.selection, view.hover) == ([], None)
    view.selection = [1]
    assert view.wait().selection == [1]
    assert Highlight(explain, text=TEXT, selection=[2]).wait().selection == [2]


def test_positions_beyond_the_text_are_not_called_back(view):
    selections = []
    view.on_select(lambda rows: selections.append(rows["token"].tolist()))
    view.selection = [2, 99]
    assert selections == [["warm"]]


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


def test_a_removed_callback_is_not_called(view):
    selections = []
    view.on_select(selections.append)
    view.on_select(selections.append, remove=True)
    view.selection = [1]
    assert selections == []


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


def test_the_bundle_holds_html_that_a_sanitizer_keeps(view):
    data, _ = view._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert "funny" in data["text/html"]
    for dropped in ("<style", "<script", "<svg", " data-", " on"):
        assert dropped not in data["text/html"].replace(" on ", "")


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


def test_a_closed_view_is_released(explain):
    view = Highlight(explain, text=TEXT).wait()
    reference = weakref.ref(view)
    view.close()
    del view
    gc.collect()
    assert reference() is None


def test_the_view_of_the_documentation_works(explain):
    """The class in the docstring of `base.py` is a complete view."""
    import textwrap

    from nbsal.widgets import base

    source = base.__doc__.split("a complete view:\n\n")[1].split("\n`Bars(")[0]
    namespace = {"View": View, "traitlets": traitlets}
    exec(textwrap.dedent(source), namespace)
    assert len(source.splitlines()) <= 30
    view = namespace["Bars"](explain, text=TEXT).wait()
    assert [word for word, _ in view.bars][1] == "warm" and max(share for _, share in view.bars) == 1
    assert "funny" in view._repr_mimebundle_()[0]["text/html"]


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


def test_a_callback_is_called_once_and_one_that_was_never_added_can_be_removed(reviews):
    view, rows = Highlight(nbsal.Explainer(reviews, "gradcam"), text=TEXT).wait(), []
    view.on_select(print, remove=True)
    view.on_select(rows.append)
    view.on_select(rows.append)
    view.selection = [2]
    assert len(rows) == 1
    view.close()


def test_what_is_no_bytes_cannot_be_written_into_a_page():
    with pytest.raises(TypeError):
        literal({"_scores": {1, 2}})
