"""Workbench: four views in one, of which only what is in sight is computed, and the last state always wins."""

import gc
import random
import threading
import time
import tracemalloc

import ipywidgets
import numpy as np
import pytest

import nbsal
from nbsal.errors import InputError
from nbsal.methods.base import Method
from nbsal.widgets import Games, Heads, Highlight, Layers, Workbench
from nbsal.widgets.token_games import TokenGames
from tests.widgets.test_stress import alive, changes, from_page_cancel, settled
from tests.widgets.test_view import TEXT, from_page

PANES = ["layers", "heads", "games"]


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


@pytest.fixture
def view(explain):
    made = Workbench(explain, text=TEXT).wait()
    yield made
    made.close()


def test_it_shows_what_the_four_views_show(view, explain):
    assert view._scores == Highlight(explain, text=TEXT).wait()._scores
    assert view._layers["scores"] == Layers(explain, text=TEXT).wait()._scores
    view.pane = "games"
    assert view.wait()._game == Games(explain, text=TEXT).wait()._game
    view.pane, view.head = "heads", [2, 1]
    alone = Heads(explain, text=TEXT, head=[2, 1]).wait()
    assert (view.wait()._heads, view._attention) == (alone._heads, alone._attention)


def test_only_what_is_in_sight_is_computed(view, monkeypatch):
    assert view._game == {} and view._heads == {} and view._layers
    for name in ("find_layers", "find_game"):
        monkeypatch.setattr(Workbench, name, lambda *_: pytest.fail("out of sight"))
    view.pane, view.text = "heads", "A dull bore."
    assert view.wait()._layers == {}, "what was true of another text is gone"
    view.layer = 2
    assert view.wait().status == "ready"


def test_what_is_known_stays_when_another_pane_is_chosen(view, monkeypatch):
    shown = view._layers
    view.pane = "games"
    assert view.wait()._layers == shown
    view.layer = 1
    assert view.wait()._layers == shown, "layers do not rest on the layer that is chosen"
    monkeypatch.setattr(Workbench, "find_layers", lambda *_: pytest.fail("it is known"))
    view.pane = "layers"
    assert view.wait().status == "ready"


def test_switched_heads_change_what_mask_lrp_says(view, reviews):
    from_page(view, pane="heads", method="mask-lrp", kind="none", toggled=[[2, 0], [3, 8]])
    wanted = nbsal.Explainer(reviews, "mask-lrp", mask=view.mask)(TEXT)
    assert view.mask.selected.sum() == 2 and view.wait().result.scores.tolist() == wanted.scores.tolist()


def test_a_method_without_layers_says_so(view):
    view.method = "attcat"
    assert "has no layers" in view.wait()._layers["why"] and view.layers is None


def test_a_text_of_several_readings_has_no_layers_and_is_not_played(load):
    view = Workbench(nbsal.Explainer(load("bert"), "gradcam", long="window"), text=" ".join([TEXT] * 20)).wait()
    assert view.result.provenance["windows"] > 1 and "longer than the model reads" in view._layers["why"]
    view.pane = "games"
    with pytest.raises(InputError, match="in one reading only"):
        view.wait()
    view.text = TEXT
    assert view.wait()._game and view.pane == "games"


def test_the_method_and_all_others_may_be_chosen(view, explain):
    assert [name for name, *_ in view._choices["methods"]] == [
        name for name, *_ in Highlight(explain, text=TEXT)._choices["methods"]
    ]
    assert Workbench(explain.subject, text=TEXT).method == "decoded-gradcam"


def test_plain_results_are_for_the_single_views(explain, reviews):
    for plain in (explain(TEXT), reviews.mask, 3):
        with pytest.raises(InputError, match="Workbench shows"):
            Workbench(plain)


@pytest.mark.parametrize("pane", PANES)
def test_exports_hold_the_text_and_the_pane(view, pane):
    view.pane = pane
    html = view.wait().to_html()
    assert "funny" in html and {"layers": "<table", "heads": "block 5", "games": "data:image/png"}[pane] in html
    assert view.to_png()[:4] == b"\x89PNG" and view.to_frame()["token"].tolist() == list(view.result.tokens)
    assert view.freeze()._repr_html_() == html[html.index("<div") : html.rindex("</body>")]


def test_it_composes_like_any_widget(view, explain):
    other = Highlight(explain, text=TEXT)
    dropdown = ipywidgets.Dropdown(options=PANES, value="layers")
    links = [
        ipywidgets.link((view, "selection"), (other, "selection")),
        ipywidgets.link((dropdown, "value"), (view, "pane")),
    ]
    far = ipywidgets.jslink((view, "layer"), (other, "layer"))
    assert (far.source, far.target) == ((view, "layer"), (other, "layer"))
    from_page(view, selection=[3])
    dropdown.value = "games"
    assert other.selection == [3] and view.wait()._game
    seen = []
    view.observe(lambda change: seen.append(change["new"]), "at")
    from_page(view, at=2)
    slider = ipywidgets.IntSlider(max=6)
    out = ipywidgets.interactive_output(lambda layer: setattr(view, "layer", layer), {"layer": slider})
    slider.value = 4
    assert seen == [2] and view.wait().result.provenance["parameters"]["layer"] == 4
    assert ipywidgets.HBox([view, other, dropdown, out]).children[0] is view
    for link in [*links, far]:
        link.unlink()


def bench_changes(count, seed):
    """Random edits, layers, targets and methods as in any view, and panes, heads and steps of a game."""
    pick = random.Random(seed)
    for change in changes(count, seed):
        own = [
            {"pane": pick.choice(PANES)},
            {"toggled": [[pick.randrange(6), pick.randrange(12)]]},
            {"head": [pick.randrange(6), pick.randrange(12)]},
            {"at": pick.randrange(9)},
            {"kind": pick.choice(["both", "none", "syntactic"])},
            {"method": "mask-lrp"},
        ]
        yield change if pick.random() < 0.6 else pick.choice(own)


@pytest.mark.filterwarnings("ignore:At the last block")
def test_a_thousand_changes_end_in_the_last(explain):
    stress(explain, count=1000, pause=0.001)


def stress(explain, count, pause):
    """Changes as a page sends them; answers with how much memory was held before and after the second half."""
    view = Workbench(explain, text=TEXT).wait()
    threads, before, held = threading.active_count(), alive(TokenGames), []
    tracemalloc.start()
    for i, change in enumerate(bench_changes(count, seed=1)):
        if i in (count // 2, count - 1):
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        from_page(view, **change)
        time.sleep(pause)
    tracemalloc.stop()
    from_page(view, method="decoded-gradcam", tau=None, layer=3, pane="games")
    settled(view)
    assert view._game["order"] == view.result.order
    assert view.played.reading is view.result
    assert threading.active_count() <= threads + 1
    assert alive(TokenGames) < before + 10, "old games are let go"
    assert held[1] < held[0] + 20e6
    view.close()
    return held


def test_a_game_under_way_is_cancelled_soon(view, capsys):
    """Goal: 200 ms until it is acknowledged; what runs ends at its next step."""
    view.pane = "games"
    view.wait()
    took, ended = [], []
    for layer in (1, 2, 3, 4, 6):
        from_page(view, text=TEXT * 6 + "x" * layer)
        time.sleep(0.1)
        start = time.perf_counter()
        from_page_cancel(view)
        took.append(1000 * (time.perf_counter() - start))
        view.wait(20)
        ended.append(1000 * (time.perf_counter() - start))
        assert view.status == "cancelled"
    with capsys.disabled():
        print(f"\ncancel acknowledged after {max(took):.1f} ms at most, work ended after {np.median(ended):.0f} ms")


def test_an_error_inside_a_method_is_shown_and_the_next_request_works(reviews, capsys):
    class Broken(Method):
        name, family, needs, paper = "broken", "test", frozenset(), ""

        def scores(self, trace):
            raise RuntimeError("no luck")

        def parameters(self):
            return {}

    view = Workbench(nbsal.Explainer(reviews, Broken()), text=TEXT, pane="games")
    with pytest.raises(RuntimeError):
        view.wait()
    assert view.error == "RuntimeError: no luck" and view.status == "error"
    view.method = "gradcam"
    assert view.wait().status == "ready" and view.error == "" and view._game
    capsys.readouterr()
