"""What a page sends to a view: only traits that pages may set are set, and no message raises an error."""

import threading

import pytest

import nbsal
from nbsal.widgets import Answers, Audit, Browse, Clouds, Compare, Games, Heads, Highlight, Layers, View, Workbench
from tests.browser import bench
from tests.cases import cases
from tests.widgets.test_view import TEXT, from_page

TEXTS = ["A warm film.", "A dull bore.", "A joy."]
SHADED = {
    "selection": [2], "hover": 1, "text": "A dull bore.", "method": "simple", "layer": 2, "target": "negative",
    "tau": 3, "level": "token", "signed": False, "gamma": 0.5, "clip": 0.5,
}  # fmt: skip
SHADING = {name: SHADED[name] for name in ("level", "signed", "gamma", "clip")}
SWITCHES = {"kind": "none", "synt": 0.3, "pos": 0.3, "toggled": [[0, 1]], "head": [1, 2]}
GAME = {"game": "revealing", "at": 2}
MASK_LRP = {"method": "mask-lrp@published"}
# Every trait that the page of a view may set, with a value that differs from its default.
SETTABLE = {
    View: {"selection": [2], "hover": 1},
    Highlight: SHADED,
    Layers: SHADED | {"scale": "shared"},
    Compare: SHADED
    | {"other_method": "simple", "other_layer": 2, "other_target": "negative", "other_tau": 3, "scale": "shared"}
    | {"difference": True},
    Heads: SHADED | MASK_LRP | SWITCHES,
    Games: SHADED | GAME,
    Workbench: SHADED | SWITCHES | GAME | {"panels": ["heads"], "_unseen": ["layers"], "scale": "shared"},
    Browse: SHADING | {"selection": [2], "hover": 1, "sort": "top", "descending": True, "label": "positive"}
    | {"wrong": True, "token": "film", "page": 1, "opened": 1},
    Answers: SHADING | {"selection": [2], "hover": 1, "source_selection": [7], "level": "sentence", "layer": 1}
    | {"method": "occlusion", "at": 3, "rival": "Rouen", "struck": [2], "panels": ["curve"], "hops": 1}
    | {"certainty": True, "written": 1},
    Audit: {"selection": [2], "hover": 1, "picked": ["warm"], "opened": 1},
    Clouds: {"selection": [2], "hover": 1, "k": 20, "unit": "token", "form": "list", "picked": ["positive", "warm"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def explain(masked):
    return nbsal.Explainer(masked, "decoded-gradcam")


def build(kind, explain):
    """A view of that class, with a result."""
    if kind is View:
        return View()
    if kind is Answers:
        view = Answers(nbsal.load("demo/notes"), bench.ASKED, documents=bench.NOTES, method="gradxact").wait(60)
        view.write_again()  # so that there are two
        view.wait(60).written = 0
        return view.wait(60)
    if kind is Audit:
        return Audit(explain, TEXTS, least=1).wait(60)
    settings = {"texts": TEXTS} if kind in (Browse, Clouds) else {"text": TEXT}
    view = kind(explain, **settings)
    return view.wait(60)


@pytest.fixture(scope="module", params=SETTABLE, ids=lambda kind: kind.__name__)
def view(request, explain):
    view = build(request.param, explain)
    yield view
    view.close()


def kind_of(view):
    """The class of a view; each view has a subclass of its own."""
    return next(kind for kind in type(view).__mro__ if kind in SETTABLE)


def values(view):
    """The values of all synced traits except those that report the progress of a computation."""
    changing = ("status", "progress", "error", "_rev", "_seconds")
    return {name: repr(getattr(view, name)) for name in view.trait_names(sync=True) if name not in changing}


def test_every_view_is_tested():
    kinds = {thing for thing in vars(nbsal.widgets).values() if isinstance(thing, type) and issubclass(thing, View)}
    assert kinds <= set(SETTABLE)


OTHER = [True, False, 7, -1, 0.5, "other", [], [1], {}, {"a": 1}, None, memoryview(b"other"), ["a", "b"]]


@pytest.mark.some(4)
def test_a_page_cannot_set_other_traits(view):
    before = values(view)
    others = set(view.trait_names(sync=True)) - set(SETTABLE[kind_of(view)])
    assert {"_esm", "_rev", "_live", "status", "error", "progress", "layout", "_model_module"} <= others
    for name in sorted(others):
        shown = getattr(view, name)
        for value in OTHER:
            from_page(view, **{name: value})
            assert getattr(view, name) is shown or getattr(view, name) == shown, name
    for name in ("comm", "explainer", "_computed", "_lock", "keys", "__class__", "self", "_trait_values", "close", ""):
        shown = getattr(view, name or "keys", None)
        view.set_state({name: "other"})
        assert getattr(view, name or "keys", None) is shown or getattr(view, name or "keys", None) == shown
    assert values(view) == before and view.error == ""


@pytest.mark.some(4)
def test_a_page_can_set_its_traits(explain, view):
    kind = kind_of(view)
    assert set(view.trait_names(sync=True, page=True)) == set(SETTABLE[kind])
    fresh = build(kind, explain)
    for name, value in SETTABLE[kind].items():
        assert getattr(fresh, name) != value, "the value is no change"
        from_page(fresh, **{name: value})
        assert getattr(fresh, name) == value and fresh.error == "", name
        if kind is not View:
            fresh.wait(60)
    fresh.close()


HUGE = "x" * 250_001
DEEP = [[]]
for _ in range(500):
    DEEP = [DEEP]
WRONG = [
    HUGE, [HUGE], "\ud800", DEEP, [1] * 1_000_000, {"contrast": HUGE}, {"contrast": []}, {"contrast": 5},
    {"contrast": ["a"]}, {"contrast": ["a", "b"], "c": 1}, {"a": 1}, float("nan"), float("inf"), -float("inf"),
    10**400, 2**63, -(10**30), 10**5000, memoryview(b"x"), memoryview(HUGE.encode()), [float("nan")], [None], [[]],
    [{}], "unknown", "\0", -1, 0.5, 99, True, 1.5, ["a", "b", "c"], ["", ""], [10**400], [[1, 2, 3]], [[-1, 0]],
    [["0", "1"]], [[10**30, 0]], [memoryview(b"x")], {}, [], "", None,
]  # fmt: skip


@pytest.mark.some(4)
@pytest.mark.filterwarnings("ignore:At the last layer")
def test_wrong_values_are_refused_with_a_text(explain, view):
    """Whatever a page sends: no exception; the value is refused and the view says so, or it is valid."""
    kind, refused, accepted = kind_of(view), 0, 0
    fresh = build(kind, explain)
    for name in SETTABLE[kind]:
        for value in WRONG:
            before = getattr(fresh, name)
            fresh.error = ""
            from_page(fresh, **{name: value})
            after = getattr(fresh, name)
            if after == before and fresh.error:
                assert len(fresh.error) < 2000
                refused += 1
            else:
                accepted += 1
                assert len(repr(after)) < 300_000
                fresh._trait_values[name] = before
    for name, value in SETTABLE[kind].items():
        from_page(fresh, **{name: value})
    if kind is not View:
        assert fresh.wait(60).status == "ready"
    assert refused > accepted
    fresh.close()


def test_a_refused_value_leaves_the_others_of_its_message(explain):
    view = Highlight(explain, text=TEXT, check=False).wait()
    sent = []
    view.send_state = lambda key=None: sent.append(set(key))
    from_page(view, layer=99, gamma=0.5, signed=False, evil=1, status="computing")
    assert (view.gamma, view.signed, view.status) == (0.5, False, "ready") and view.layer != 99
    assert "99" in view.error and "evil" not in view.error
    assert {"layer"} in sent, "the page is told the value that holds"
    del view.send_state
    from_page(view, layer=2)
    assert view.wait().error == "" and view.result.provenance["parameters"]["layer"] == 2
    view.close()


def test_an_observer_that_fails_does_not_break_the_view(explain, capsys):
    view = Highlight(explain, text=TEXT, check=False).wait()

    def fail(change):
        raise RuntimeError("broken observer")

    view.observe(fail, "gamma")
    from_page(view, gamma=0.5)
    assert "broken observer" in view.error and "broken observer" in capsys.readouterr().err
    from_page(view, text="A joy.")
    assert view.wait().result.text == "A joy."
    view.close()


def test_a_text_from_python_may_be_longer(small):
    """The limit is one of messages from pages."""
    view = Highlight(nbsal.Explainer(small, "gradcam"), text="A joy. " * 50_000).wait(120)
    assert len(view.text) == 350_000 and view.status == "ready"
    view.close()


def message(view, content, buffers=()):
    """Send a message as a page does; return what the view sent back."""
    replies = []
    view.send = lambda reply, buffers=None: replies.append(reply)
    view._handle_msg({"content": {"data": content}, "buffers": list(buffers)})
    idle = threading.Event()
    view._worker.submit("test", lambda job: idle.set())
    assert idle.wait(60)
    return replies


ASKS = [
    "evil", "", "__init__", "comm_opened", "control_comm_opened", None, 5, ["save"], {"a": 1}, HUGE, "save\0",
    "\ud800", True,
]  # fmt: skip


ARGUMENTS = [
    {}, {"kind": "exe"}, {"kind": None}, {"kind": ["html"]}, {"kind": {"a": 1}}, {"kind": HUGE},
    {"kind": "csv", "path": "/tmp/x"}, {"kind": "csv", "self": 1}, {"kind": float("nan")}, {"kind": DEEP},
]  # fmt: skip


REQUESTS = [*({"ask": ask, "comm": 1, "msg": 1} for ask in ASKS), *({"ask": "save"} | each for each in ARGUMENTS)]


@cases("content", REQUESTS)
def test_wrong_requests_are_answered_with_an_error(explain, capsys, content):
    view = Highlight(explain, text=TEXT, check=False).wait()
    (reply,) = message(view, {"method": "custom", "content": content | {"id": "1"}})
    assert reply["id"] == "1" and 0 < len(reply["error"]) < 500
    assert "Traceback" not in capsys.readouterr().err
    view.close()


def test_malformed_messages_are_ignored(explain):
    view = Highlight(explain, text=TEXT, check=False).wait()
    before = values(view)
    for state in ([], "text", None, 5, [["layer", 1]], {1: 2}):
        message(view, {"method": "update", "state": state, "buffer_paths": []})
    for paths in ([["layer"]], [["a", "b", "c"]], [[]], [None], 5, [["layer", 0]], "layer", None):
        message(view, {"method": "update", "state": {"layer": 1}, "buffer_paths": paths}, [b"x"] * 3)
    identifiers = [{"id": 1}, {"id": {"a": memoryview(b"x")}}]
    for content in ([], "text", 5, ["ask", "save"], [["ask", "save"]], {}, None, *identifiers):
        message(view, {"method": "custom", "content": content})
    for data in ({}, *({"method": method} for method in ("evil", None, "update", "custom")), [], None, "text"):
        message(view, data)
    after = values(view.wait())
    assert {name for name in before if before[name] != after[name]} <= {
        "layer",
        "_inputs",
        "_result",
        "_scores",
        "_statements",
    }
    assert view.wait().status == "ready"
    view.close()
