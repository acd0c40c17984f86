"""The base of every view: requests, the newest result, errors, selection, exports, and what stands in for the view."""

import gc
import threading
import weakref

import ipywidgets
import pytest
import traitlets

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.methods.base import Method
from nbsal.widgets import Highlight, View

TEXT = "A warm and oddly funny film."


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


@pytest.fixture
def view(explain):
    made = Highlight(explain, text=TEXT).wait()
    yield made
    made.close()


def from_page(view, **state):
    """A change as a page sends it."""
    view._handle_msg({"content": {"data": {"method": "update", "state": state, "buffer_paths": []}}, "buffers": []})


def ask(view, **content):
    """A message as a page sends it, and the reply."""
    replies, done = [], threading.Event()
    view.send = lambda reply, buffers=None: (replies.append(reply), done.set())
    view._handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})
    assert done.wait(10)
    return replies[0]


class Slow(View):
    """A view that computes when it is let."""

    inputs = ("number",)
    number = traitlets.Int(0).tag(sync=True)
    shown = traitlets.List().tag(sync=True)
    _esm = "export default { render() {} };"

    def __init__(self, **settings):
        self.gate, self.began = threading.Semaphore(0), threading.Semaphore(0)
        super().__init__(**settings)

    def compute(self, wanted, job):
        self.began.release()
        self.gate.acquire()
        if wanted["number"] < 0:
            raise InputError("number is negative.")
        return wanted["number"]

    def publish(self, found):
        self.shown = [*self.shown, found]


def test_a_view_shows_what_its_explainer_says(view, explain):
    said = explain(TEXT)
    assert view.result.scores.tolist() == said.scores.tolist()
    assert view._result["caption"] == said.caption()
    assert view.to_frame().equals(said.to_frame())


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        ({"layer": 2}, {"layer": 2}),
        ({"tau": 1}, {"tau": 1}),
        ({"method": "gradcam"}, {"method": "gradcam", "layer": 5}),
    ],
)
def test_a_change_is_answered(view, reviews, change, settings):
    for name, value in change.items():
        setattr(view, name, value)
    method = {"method": "decoded-gradcam"} | settings
    wanted = nbsal.Explainer(reviews, **{"method": method.pop("method")} | method)(TEXT)
    assert view.wait().result.scores.tolist() == wanted.scores.tolist()


def test_a_change_in_the_page_is_answered(view):
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


def test_pairs_are_explained(reviews):
    view = Highlight(nbsal.Explainer(nbsal.load("demo/nli"), "gradcam"), text=("A man sleeps.", "A man is awake."))
    assert view.wait()._tokens["parts"] == ["A man sleeps.", "A man is awake."]
    from_page(view, text=["A dog runs.", "An animal moves."])
    assert view.wait().result.text == ("A dog runs.", "An animal moves.")


def test_answers_are_marked():
    view = Highlight(nbsal.Explainer(nbsal.load("demo/answers"), "gradcam"), text=("Who ran?", "The dog ran home."))
    start, end = view.wait()._result["answer"]
    row = view.result.row
    assert view.result.prediction == row.parts[1][row.offsets[start][0] : row.offsets[end][1]]


def test_a_plain_result_is_shown_without_an_explainer(explain):
    found = explain(TEXT)
    view = Highlight(found).wait()
    assert view.result is found and not view._live and view.text == TEXT


def test_unknown_settings_are_refused_and_the_valid_ones_listed(explain):
    with pytest.raises(UnknownName, match=r"'laeyr'.*clip, gamma.*layer, level"):
        Highlight(explain, text=TEXT, laeyr=3)


@pytest.mark.parametrize(("name", "value"), [("method", "gradcamm"), ("layer", 7), ("layer", -1), ("text", 3)])
def test_values_that_cannot_be_are_refused(view, name, value):
    with pytest.raises((UnknownName, InputError)):
        setattr(view, name, value)
    assert getattr(view, name) != value


def test_what_cannot_be_shown_is_refused(reviews):
    with pytest.raises(InputError, match="an Explainer, a Subject or a Saliency, not int"):
        Highlight(3)
    with pytest.raises(InputError, match="text="):
        Highlight(nbsal.Explainer(reviews, "gradcam"))


def test_a_subject_is_explained_by_decoding_where_it_can(reviews, load):
    assert Highlight(reviews, text=TEXT).method == "decoded-gradcam"
    assert Highlight(load("bert", decoding=False), text=TEXT).method == "gradcam"


def test_of_many_requests_the_newest_wins():
    view = Slow()
    assert view.began.acquire(timeout=5)
    for number in range(1, 6):
        view.number = number
    view.gate.release(10)
    view.wait(5)
    assert view.shown == [5]


def test_the_last_of_many_changes_is_shown(view):
    for layer in [1, 4, 2, 6, 3] * 5:
        from_page(view, layer=layer)
    assert view.wait().result.provenance["parameters"]["layer"] == 3


def test_cancel_is_honest():
    view = Slow()
    assert view.began.acquire(timeout=5) and view.status == "computing"
    view.cancel()
    assert view.status == "cancelling", "it still runs"
    view.gate.release()
    view.wait(5)
    assert view.status == "cancelled" and view.shown == []


def test_a_request_that_waits_is_cancelled_at_once():
    first, second = Slow(), Slow()
    assert first.began.acquire(timeout=5)
    second.cancel()
    assert second.status == "cancelled"
    first.gate.release()
    assert first.wait(5).shown == [0] and second.shown == []


def test_the_page_can_cancel():
    view = Slow()
    assert view.began.acquire(timeout=5)
    assert ask(view, ask="cancel", id="1") == {"id": "1", "reply": "cancelling"}
    view.gate.release()
    assert view.wait(5).status == "cancelled"


def test_a_method_that_takes_long_tells_how_far_it_is_and_can_be_stopped(reviews):
    view = Highlight(nbsal.Explainer(reviews, "shapley", samples=2000), text=" ".join([TEXT] * 5))
    told, seen = threading.Event(), []
    view.observe(lambda change: change["new"] and (seen.append(change["new"]), told.set()), "progress")
    assert told.wait(60), "nothing was told of the work"
    view.cancel()
    assert view.wait(20).status == "cancelled" and view.result is None
    assert 0 < seen[0] < 0.5, "it was stopped long before its end"


def test_an_error_is_shown_and_raised_and_the_next_request_works():
    view = Slow(number=-1)
    view.gate.release(2)
    with pytest.raises(InputError, match=r"number is negative\."):
        view.wait(5)
    assert (view.status, view.error) == ("error", "number is negative.")
    view.number = 4
    assert view.wait(5).shown == [4] and view.error == ""


def test_waiting_ends_where_it_was_told_to():
    view = Slow()
    with pytest.raises(TimeoutError, match=r"Slow is still computing after 0\.01 seconds"):
        view.wait(0.01)
    view.gate.release()
    assert view.wait(5).shown == [0]


def test_a_view_that_waits_for_itself_is_told():
    class Waiting(Slow):
        def compute(self, wanted, job):
            return self.wait()

    view = Waiting()
    with pytest.raises(InputError, match="would wait for itself"):
        view.wait(5)


def test_what_fails_while_it_is_shown_is_an_error_too():
    class Unshown(Slow):
        def publish(self, found):
            raise InputError(f"{found} cannot be shown.")

    view = Unshown(number=3)
    view.gate.release()
    with pytest.raises(InputError, match="3 cannot be shown"):
        view.wait(5)
    assert (view.status, view.error) == ("error", "3 cannot be shown.")


def test_what_is_not_there_cannot_be_exported():
    view = Slow()
    with pytest.raises(InputError, match="Slow has no picture"):
        view.picture()
    view.cancel()
    view.gate.release()
    assert view.wait(5).status == "cancelled"
    with pytest.raises(InputError, match="Slow has no result yet"):
        view.to_html()


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


def test_selection_calls_back_with_its_rows(view):
    seen = []
    view.on_select(lambda rows: seen.append(rows["token"].tolist()))
    from_page(view, selection=[2, 5])
    view.selection = [3]
    assert seen == [["warm", "funny"], ["and"]]


def test_a_selection_ends_with_its_text(view, explain):
    view.selection, view.hover = [2, 5], 3
    view.layer = 2
    assert view.wait().selection == [2, 5]
    from_page(view, text="Fine.")
    assert (view.selection, view.hover) == ([], None)
    view.selection = [1]
    assert view.wait().selection == [1]
    assert Highlight(explain, text=TEXT, selection=[2]).wait().selection == [2]


def test_places_that_are_not_there_are_not_called_back(view):
    seen = []
    view.on_select(lambda rows: seen.append(rows["token"].tolist()))
    view.selection = [2, 99]
    assert seen == [["warm"]]


def test_a_callback_that_fails_is_shown(view, capsys):
    view.on_select(lambda rows: 1 / 0)
    from_page(view, selection=[2])
    assert "ZeroDivisionError" in view.error and "Traceback" in capsys.readouterr().err


def test_a_callback_may_wait_for_the_view(view):
    """Callbacks run while traits are locked; waiting must let the worker have the lock."""
    seen = []

    def relayer(rows):
        view.layer = 1
        seen.append(view.wait(5).result.provenance["parameters"]["layer"])

    view.on_select(relayer)
    from_page(view, selection=[2])
    assert seen == [1]


def test_a_removed_callback_is_not_called(view):
    seen = []
    view.on_select(seen.append)
    view.on_select(seen.append, remove=True)
    view.selection = [1]
    assert seen == []


def test_views_link_like_any_widget(view, explain):
    other = Highlight(explain, text=TEXT)
    dropdown = ipywidgets.Dropdown(options=range(7), value=view.layer)
    links = [
        ipywidgets.link((view, "selection"), (other, "selection")),
        ipywidgets.link((dropdown, "value"), (view, "layer")),
    ]
    view.selection, dropdown.value = [4], 1
    assert other.selection == [4] and view.wait().result.provenance["parameters"]["layer"] == 1
    seen = []
    view.observe(lambda change: seen.append(change["new"]), "hover")
    from_page(view, hover=3)
    assert seen == [3]
    out = ipywidgets.interactive_output(lambda layer: setattr(view, "layer", layer), {"layer": dropdown})
    dropdown.value = 2
    assert view.wait().layer == 2 and ipywidgets.HBox([view, other, out]).children[0] is view
    for link in links:
        link.unlink()


def test_the_bundle_holds_html_that_a_sanitiser_keeps(view):
    data, _ = view._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert "funny" in data["text/html"]
    for dropped in ("<style", "<script", "<svg", " data-", " on"):
        assert dropped not in data["text/html"].replace(" on ", "")


def test_a_frozen_view_stays_as_it_was(view):
    frozen = view.freeze()
    kept = frozen._repr_html_()
    view.text = "A dull bore."
    view.wait()
    assert frozen._repr_html_() == kept and "funny" in kept
    assert "sandbox" in view.freeze(interactive=True)._repr_html_()


def test_the_page_saves(view):
    assert ask(view, ask="save", id="7", kind="csv")["reply"]["content"].startswith("token,score")
    assert ask(view, ask="save", id="8", kind="html")["reply"]["content"].startswith("<!doctype html>")
    assert ask(view, ask="save", id="9", kind="png")["reply"]["content"].startswith("iVBOR")
    assert "Valid: html, png, csv" in ask(view, ask="save", id="9", kind="pdf")["error"]
    assert "no answer to 'dance'" in ask(view, ask="dance", id="9")["error"]


def test_a_closed_view_is_let_go(explain):
    view = Highlight(explain, text=TEXT).wait()
    gone = weakref.ref(view)
    view.close()
    del view
    gc.collect()
    assert gone() is None


def test_the_view_of_the_documentation_works(explain):
    """The class in the text of `base.py` is a view of its own."""
    import textwrap

    from nbsal.widgets import base

    source = base.__doc__.split("a whole view:\n\n")[1].split("\nA view of this package")[0]
    namespace = {"View": View, "traitlets": traitlets}
    exec(textwrap.dedent(source), namespace)
    assert len(source.splitlines()) <= 30
    view = namespace["Bars"](explain, text=TEXT).wait()
    assert [word for word, _ in view.bars][1] == "warm" and max(share for _, share in view.bars) == 1
    assert "funny" in view._repr_mimebundle_()[0]["text/html"]


def test_the_counter_is_told_after_all_it_counts(view, monkeypatch):
    """Some hosts tell of the traits in one message as they come to them; a page must not draw in between."""
    told, send = [], view.send_state
    monkeypatch.setattr(
        view, "send_state", lambda key=None: (told.append({key} if isinstance(key, str) else set(key)), send(key))
    )
    view.layer = 1
    view.wait()
    counted = told.index({"_rev"})
    assert {"_scores", "_result"} <= told[counted - 1] and "_rev" not in told[counted - 1]
