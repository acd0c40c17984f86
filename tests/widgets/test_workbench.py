"""The Workbench view: four views in one, of which only the pane on display is computed; the last state wins."""

import gc
import random
import threading
import time
import tracemalloc

import ipywidgets
import numpy as np
import pytest

import nbsal
from nbsal.methods.base import Method
from nbsal.widgets import Games, Heads, Highlight, Layers, Workbench
from nbsal.widgets.games import GamePart
from nbsal.widgets.layers import LayersPart
from nbsal.widgets.token_games import TokenGames
from tests.raising import refuses
from tests.widgets.test_stress import cancel_from_page, changes, count_alive, give_way, settle
from tests.widgets.test_view import TEXT, from_page

PANES = ["layers", "heads", "games"]


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


@pytest.fixture
def view(explain):
    workbench = Workbench(explain, text=TEXT).wait()
    yield workbench
    workbench.close()


def test_its_panes_equal_the_four_views(view, explain):
    assert view._scores == Highlight(explain, text=TEXT).wait()._scores
    assert view._layers["scores"] == Layers(explain, text=TEXT).wait()._scores
    view.pane = "games"
    assert view.wait()._game == Games(explain, text=TEXT).wait()._game
    view.pane, view.head = "heads", [2, 1]
    alone = Heads(explain, text=TEXT, head=[2, 1]).wait()
    assert (view.wait()._heads, view._attention) == (alone._heads, alone._attention)


def test_only_the_pane_on_display_is_computed(view, monkeypatch):
    assert view._game == {} and view._heads == {} and view._layers
    for part in (LayersPart, GamePart):
        monkeypatch.setattr(part, "compute", lambda *_: pytest.fail("it is not on display"))
    view.pane, view.text = "heads", "A dull bore."
    assert view.wait()._layers == {}, "layers of another text are cleared"
    view.layer = 2
    assert view.wait().status == "ready"


def test_a_computed_pane_is_cached_when_another_one_is_chosen(view, monkeypatch):
    layers = view._layers
    view.pane = "games"
    assert view.wait()._layers == layers
    view.layer = 1
    assert view.wait()._layers == layers, "they do not depend on the chosen layer"
    monkeypatch.setattr(LayersPart, "compute", lambda *_: pytest.fail("it is cached"))
    view.pane = "layers"
    assert view.wait().status == "ready"


def test_switched_heads_change_mask_lrp(view, reviews):
    from_page(view, pane="heads", method="mask-lrp", kind="none", toggled=[[2, 0], [3, 8]])
    expected = nbsal.Explainer(reviews, "mask-lrp", mask=view.mask)(TEXT)
    assert view.mask.selected.sum() == 2 and view.wait().result.scores.tolist() == expected.scores.tolist()


def test_a_method_without_layers_shows_the_reason(view):
    view.method = "attcat"
    assert "attcat" in view.wait()._layers["why"] and view.layers is None


def test_a_text_beyond_the_models_length_has_neither_layers_nor_games(load):
    view = Workbench(nbsal.Explainer(load("bert"), "gradcam", long="window"), text=" ".join([TEXT] * 20)).wait()
    assert view.result.provenance["windows"] > 1 and view._layers["why"]
    view.pane = "games"
    with refuses("text"):
        view.wait()
    view.text = TEXT
    assert view.wait()._game and view.pane == "games"


def test_all_methods_can_be_chosen(view, explain):
    assert [name for name, *_ in view._choices["methods"]] == [
        name for name, *_ in Highlight(explain, text=TEXT)._choices["methods"]
    ]
    assert Workbench(explain.subject, text=TEXT).method == "decoded-gradcam"


def test_finished_results_are_for_the_single_views(explain, reviews):
    for source in (explain(TEXT), reviews.mask, 3):
        with refuses("source"):
            Workbench(source)


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
    steps = []
    view.observe(lambda change: steps.append(change["new"]), "at")
    from_page(view, at=2)
    slider = ipywidgets.IntSlider(max=6)
    out = ipywidgets.interactive_output(lambda layer: setattr(view, "layer", layer), {"layer": slider})
    slider.value = 4
    assert steps == [2] and view.wait().result.provenance["parameters"]["layer"] == 4
    assert ipywidgets.HBox([view, other, dropdown, out]).children[0] is view
    for link in [*links, far]:
        link.unlink()


def bench_changes(count, seed):
    """Random edits, layers, targets and methods as in any view, and panes, heads and steps of a game."""
    pick = random.Random(seed)
    for change in changes(count, seed):
        others = [
            {"pane": pick.choice(PANES)},
            {"toggled": [[pick.randrange(6), pick.randrange(12)]]},
            {"head": [pick.randrange(6), pick.randrange(12)]},
            {"at": pick.randrange(9)},
            {"kind": pick.choice(["both", "none", "syntactic"])},
            {"method": "mask-lrp"},
        ]
        yield change if pick.random() < 0.6 else pick.choice(others)


@pytest.mark.filterwarnings("ignore:At the last layer")
def test_a_thousand_changes_end_in_the_last(explain):
    view = Workbench(explain, text=TEXT).wait()
    threads, before = threading.active_count(), count_alive(TokenGames)
    count, memory = 1000, []
    tracemalloc.start()
    for i, change in enumerate(bench_changes(count, seed=1)):
        if i in (count // 2, count - 1):
            gc.collect()
            memory.append(tracemalloc.get_traced_memory()[0])
        from_page(view, **change)
        if i % 5 == 0:
            give_way(view)
    tracemalloc.stop()
    from_page(view, method="decoded-gradcam", tau=None, layer=3, pane="games")
    settle(view)
    assert view._game["order"] == view.result.order and view.token_games.saliency is view.result
    assert threading.active_count() <= threads + 1
    assert count_alive(TokenGames) < before + 10, "old games are released"
    assert memory[1] < memory[0] + 20e6
    view.close()


def test_a_running_game_is_cancelled_soon(view, capsys):
    """Goal: 200 ms until the cancel is acknowledged; the work ends at its next step."""
    view.pane = "games"
    view.wait()
    acknowledged, ended = [], []
    for layer in (1, 2, 3, 4, 6):
        computing = threading.Event()
        view.observe(lambda change, computing=computing: change["new"] and computing.set(), "progress")
        from_page(view, text=TEXT * 6 + "x" * layer)
        assert computing.wait(20), "no progress was reported"
        start = time.perf_counter()
        cancel_from_page(view)
        acknowledged.append(1000 * (time.perf_counter() - start))
        view.wait(20)
        ended.append(1000 * (time.perf_counter() - start))
        assert view.status == "cancelled"
    with capsys.disabled():
        print(f"\ncancel acknowledged after {max(acknowledged):.1f} ms at most, ended after {np.median(ended):.0f} ms")


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
