"""The Workbench view: four views in one, of which only open panels are computed; the last state wins."""

import json
import threading
import time
from threading import Event

import pytest

import nbsal
from nbsal.evaluation.results import GAMES
from nbsal.support.errors import UnknownName
from nbsal.widgets import Games, Heads, Highlight, Layers, Workbench, cached_view, checked_view
from nbsal.widgets.content.head_parts import UNMASKED, AttentionPanel
from nbsal.widgets.content.token_games import TOO_LONG
from nbsal.widgets.games import GamePanel
from nbsal.widgets.layers import LayersPanel
from nbsal.widgets.workbench import OF_A_STEP
from tests.raising import refuses
from tests.widgets.test_view import TEXT, ask, from_page

PANELS = ["games", "layers", "heads"]
OPEN = ["games", "layers"]


@pytest.fixture(scope="module")
def explain(masked):
    return nbsal.Explainer(masked, "decoded-gradcam")


@pytest.fixture
def view(explain):
    workbench = Workbench(explain, text=TEXT, panels=OPEN).wait()
    yield workbench
    workbench.close()


def test_its_panels_equal_the_four_views(view, explain):
    assert view._scores == Highlight(explain, text=TEXT).wait()._scores
    assert view._layers["scores"] == Layers(explain, text=TEXT).wait()._scores
    games = Games(explain, text=TEXT).wait()._game
    games = {name: value for name, value in games.items() if name not in OF_A_STEP}
    for view.game in GAMES:
        game = view.wait()._game
        per_game = [name for name, value in games.items() if isinstance(value, dict)]
        assert game == games | {name: {view.game: games[name][view.game]} for name in per_game}
    view.panels, view.head, view.method = ["heads"], [2, 1], "mask-lrp"
    alone = Heads(explain, text=TEXT, head=[2, 1]).wait()
    view.wait()
    assert (view._heads, view._attention, view._effect) == (alone._heads, alone._attention, alone._effect)


def test_only_open_panels_are_computed(view, monkeypatch):
    view.panels = []
    view.wait()
    for part in (LayersPanel, GamePanel, AttentionPanel):
        monkeypatch.setattr(part, "compute", lambda *_: pytest.fail("it is folded"))
    view.text = "A dull bore."
    assert view.wait()._layers == view._game == {}, "those of another text are cleared"
    assert view._heads["finding"] == "Heads: 3 of 12 follow syntax or position", "a folded panel names its finding"
    view.layer = 2
    assert view.wait().status == "ready"


def test_unknown_panels_are_refused_and_the_valid_ones_listed(view, explain):
    for name in ("layer", 3, ["layers"]):
        with refuses("panels", UnknownName) as caught:
            view.panels = ["games", name]
        assert (caught.value.value, caught.value.valid) == (name, tuple(PANELS))
        from_page(view, panels=[name])
        assert view.panels == OPEN and "panels" in view.error
    with refuses("panels", UnknownName):
        Workbench(explain, text=TEXT, panels=["layer"])


def test_a_computed_panel_is_cached_while_it_is_folded(view, monkeypatch):
    layers = view._layers
    view.panels = ["games"]
    assert view.wait()._layers == layers
    view.layer = 1
    assert view.wait()._layers == layers, "they do not depend on the chosen layer"
    monkeypatch.setattr(LayersPanel, "compute", lambda *_: pytest.fail("it is cached"))
    view.panels = ["layers"]
    assert view.wait().status == "ready"


def test_scores_come_first_then_games_then_layers(view):
    seen = []
    view.observe(lambda change: seen.append((bool(view._game), bool(view._layers))), "_rev")
    view.text = "A dull bore."
    view.wait()
    assert seen == sorted(seen) and seen[:2] == [(False, False), (True, False)] and seen[-1] == (True, True)


def test_panels_wait_until_a_text_is_no_longer_typed(view, monkeypatch):
    texts, compute = [], GamePanel.compute
    monkeypatch.setattr(GamePanel, "compute", lambda *a: texts.append(a[1].text) or compute(*a))
    waits, wait_for_pause = threading.Event(), cached_view.wait_for_pause
    monkeypatch.setattr(cached_view, "wait_for_pause", lambda *a: waits.set() or wait_for_pause(*a))
    monkeypatch.setattr(cached_view, "PAUSE", 60.0)
    from_page(view, text="A dull")
    assert waits.wait(120) and view.result.text == "A dull", "its scores are there"
    assert view.status == "computing" and "A dull" not in texts
    monkeypatch.setattr(cached_view, "PAUSE", 0.0)
    from_page(view, text="A dull bore.")
    assert view.wait().token_games is not None and [text for text in texts if text != TEXT] == ["A dull bore."]


def test_panels_out_of_sight_are_computed_when_they_come_into_sight(view):
    from_page(view, _unseen=["games"])
    from_page(view, text="A dull bore.")
    while view.status != "ready":
        time.sleep(0.01)
    assert view._layers and not view._game
    from_page(view, _unseen=[])
    assert view.status == "computing" and view.wait()._game
    count = view._rev
    from_page(view, _unseen=["games"])
    from_page(view, _unseen=[])
    assert view._rev == count and view.status == "ready", "there is nothing to compute"


def test_a_check_that_was_pressed_survives_a_panel_that_comes_into_sight(explain, monkeypatch):
    monkeypatch.setattr(checked_view, "LONGEST", 0.0)  # nothing but a press starts the whole check
    view = Workbench(explain, text=TEXT, panels=["layers"]).wait()
    from_page(view, _unseen=["layers"])
    view.text = "A dull bore."
    while view.status != "ready" or not view.result.check:
        time.sleep(0.01)
    started, check = Event(), checked_view.checking.check

    def slow(words, passes, meter):
        if not started.is_set():
            started.set()
            while True:
                meter.check()
        return check(words, passes, meter)

    monkeypatch.setattr(checked_view.checking, "check", slow)
    view.handle_check()
    assert started.wait(60)
    from_page(view, _unseen=[])
    assert view.wait(60).layers is not None and not view.result.check.first
    view.close()


def test_what_is_said_beside_a_curve_is_checked_in_whole(view, monkeypatch):
    monkeypatch.setattr(checked_view, "LONGEST", 0.0)  # nothing else starts the whole check
    view.text = "A dull bore."
    assert view.wait().token_games is not None and not view.result.check.first
    view.panels = []
    view.text = "A great joy."
    assert view.wait().result.check.first


def test_waiting_and_exporting_compute_what_is_out_of_sight(view):
    from_page(view, _unseen=["games", "layers"])
    view.text = "A dull bore."
    assert view.wait().token_games is not None and view.layers is not None
    from_page(view, _unseen=["games"])
    from_page(view, text="A great joy.")
    page = ask(view, ask="save", kind="html", id="1")["reply"]["content"]
    assert '"tags"' in page and "A great joy." in page


def test_a_method_that_heads_act_on_opens_their_panel(view, explain):
    assert view.panels == OPEN
    view.method = "mask-lrp"
    assert view.panels == PANELS and view.wait().effect.off == 0
    view.kind = "both"
    view.wait()
    assert "with 9 of 12 heads off" in view.to_html()
    view.method = "mask-lrp@published"
    view.panels = ["layers"]
    assert "with 9 of 12 heads off" in view.wait().to_html(), "the headline says so while the panel is folded"
    view.panels = ["heads"]
    view.method = "gradxact"
    assert view.panels == [] and view.wait().effect is None
    assert Workbench(nbsal.Explainer(explain.subject, "mask-lrp"), text=TEXT).panels == PANELS


def test_a_method_without_layers_has_those_of_the_default_for_layers(view):
    view.method = "attcat"
    assert view.wait().result.method == "attcat" and view.layers.method == "decoded-gradcam" and view._layers["scores"]


def test_a_text_beyond_the_models_length_has_neither_layers_nor_games(load):
    view = Workbench(nbsal.Explainer(load("bert"), "gradcam", long="window"), text=" ".join([TEXT] * 20), panels=OPEN)
    view.wait()
    assert view.result.provenance["windows"] > 1 and "longer than the model reads" in view._layers["why"]
    assert view._no_games == TOO_LONG and view.token_games is None and view.remaining == []
    assert {why for why in (view._no_games, view._layers["why"]) if why in str(view)} == {TOO_LONG, view._layers["why"]}
    view.text = TEXT
    assert view.wait()._game and view._layers["scores"] and not view._no_games


def test_finished_results_are_for_the_single_views(explain):
    for source in (explain(TEXT), explain.subject.mask, 3):
        with refuses("source"):
            Workbench(source)


@pytest.mark.parametrize("panels", [["layers"], ["games", "heads"]])
def test_exports_hold_the_text_and_the_open_panels(view, panels):
    view.panels = panels
    html = view.wait().to_html()
    signs = {"layers": "layer 2", "games": "data:image/png", "heads": "block 2"}
    assert "funny" in html and [name for name, sign in signs.items() if sign in html] == panels
    assert view.to_png()[:4] == b"\x89PNG" and view.to_frame()["token"].tolist() == list(view.result.tokens)
    assert (UNMASKED in html) == ("heads" in panels), "the method is not one of Mask-LRP's"
    assert f'"panels": {json.dumps(panels)}' in view.to_html(interactive=True)
