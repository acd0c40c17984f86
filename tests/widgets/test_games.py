"""The Games view: every step is the model's output for the remaining tokens, beside that of random orders."""

import threading

import numpy as np
import pytest

import nbsal
from nbsal.model.masking import MaskedModel
from nbsal.progress import Meter
from nbsal.widgets import Games
from nbsal.widgets.games import curves_figure, results_curves
from nbsal.widgets.token_games import MAX_STEPS, RANDOM_NAME, coalition_count, play_games
from tests.raising import refuses
from tests.widgets.test_view import from_page

TEXT = "A warm and oddly funny film."


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


@pytest.fixture
def view(explain):
    games = Games(explain, text=TEXT).wait()
    yield games
    games.close()


@pytest.mark.parametrize("game", ["hiding", "revealing"])
def test_a_step_is_the_output_for_the_remaining_tokens(view, reviews, game):
    from_page(view, game=game, at=3)
    row = view.result.row
    coalition = [i in view.remaining or special for i, special in enumerate(row.special)]
    (logits,) = MaskedModel(reviews).logits([row], [[coalition]])
    probabilities = view._game["outcomes"][game][view._game["points"].index(3)]
    assert probabilities == pytest.approx(logits[0].softmax(-1).tolist(), abs=1e-4)


def test_tokens_are_hidden_in_the_order_of_their_scores(view):
    order = view.result.order
    view.at = 2
    assert set(range(len(view.result.tokens))) - set(view.remaining) - {0, len(view.result.tokens) - 1} == set(
        order[:2]
    )
    view.game = "revealing"
    assert view.remaining == sorted(order[:2])
    assert view._game["order"] == order


def test_another_step_runs_no_model(view):
    before = view.result
    from_page(view, at=4)
    assert view.status == "ready" and view.wait().result is before


def test_the_ends_are_the_whole_text_and_none(view, explain):
    outcomes = view._game["outcomes"]
    whole = explain(TEXT).probabilities.tolist()
    assert outcomes["hiding"][0] == pytest.approx(whole, abs=1e-4) == outcomes["revealing"][-1]
    assert outcomes["hiding"][-1] == pytest.approx(outcomes["revealing"][0], abs=1e-4)


def test_the_band_of_random_orders_contains_their_mean_and_does_not_depend_on_the_method(view):
    own, random = view.token_games.curves("hiding")
    assert (random.low <= random.values).all() and (random.values <= random.high).all()
    assert random.low[3] < random.high[3] and own.area != random.area
    view.method = "gradcam"
    assert view.wait().token_games.curves("hiding")[1].values.tolist() == random.values.tolist()


def test_a_method_that_ranks_well_has_less_area_than_random_orders(reviews):
    view = Games(nbsal.Explainer(reviews, "occlusion"), text=TEXT).wait()
    own, random = view.token_games.curves("hiding")
    assert own.area < random.area


def test_another_target_is_followed(view):
    view.target = "negative"
    view.wait()
    assert view._game["unit"] == "negative"
    assert view._game["lines"]["hiding"][0]["values"] == [row[0] for row in view._game["outcomes"]["hiding"]]


def test_the_curve_is_shown_before_those_of_random_orders(view):
    lines = []
    view.observe(lambda change: lines.append(len(view._game.get("lines", {}).get("hiding", []))), "_rev")
    view.text = "A dull bore."
    view.wait()
    assert lines == [0, 1, 2], "the text alone, its curve, that of random orders"


def test_the_games_report_progress_and_can_be_cancelled(reviews):
    saliency = nbsal.Explainer(reviews, "gradcam")(TEXT)
    total, reported = coalition_count(len(saliency.order)), []
    list(play_games(saliency, MaskedModel(reviews), None, Meter(total, lambda done, total: reported.append(done))))
    assert reported[-1] == total
    cancel = threading.Event()
    results = play_games(saliency, MaskedModel(reviews), None, Meter(total, cancel=cancel))
    next(results)
    cancel.set()
    with pytest.raises(nbsal.errors.Cancelled):
        next(results)


def test_a_view_is_cancelled_during_a_game(explain):
    view = Games(explain, text=TEXT * 8)
    view.cancel()
    assert view.status in ("cancelling", "cancelled")
    assert view.wait(20).status == "cancelled"


def test_the_steps_of_a_long_text_are_limited(explain):
    view = Games(explain, text=TEXT * 12).wait()
    steps = view.token_games.steps
    assert len(steps) <= MAX_STEPS + 1 and steps[0] == 0 and steps[-1] == len(view.result.order)


@pytest.mark.parametrize(
    ("model", "text"),
    [("demo/nli", ("A man sleeps.", "A man is awake.")), ("demo/answers", ("Who ran?", "The dog ran home."))],
)
def test_pairs_and_spans_are_played(model, text):
    view = Games(nbsal.Explainer(nbsal.load(model), "gradcam"), text=text).wait()
    assert view._game["probable"] is (model == "demo/nli") and np.isfinite(view.token_games.curves("hiding")[0].area)


def test_results_of_many_texts_are_shown(explain):
    results = nbsal.evaluation.games(explain, [TEXT, "A dull bore."], random=2, progress=False)
    view = Games(results).wait()
    assert [line["name"] for line in view._game["lines"]["hiding"]] == ["decoded-gradcam", "random"]
    area = results.auc().set_index(["explainer", "game"])["auc"]
    assert view._game["lines"]["hiding"][0]["area"] == pytest.approx(area["decoded-gradcam", "hiding"], abs=1e-4)
    assert view.result is results and view.to_frame().equals(results.frame)
    assert view.to_png()[:4] == b"\x89PNG" and "random" in view.to_html()


def test_other_results_are_refused(explain):
    agreement = nbsal.evaluation.rank_agreement({"a": explain, "b": explain}, [TEXT], progress=False)
    for source in (explain(TEXT), agreement):
        with refuses("source") as caught:
            Games(source)
        assert caught.value.value is source


def test_a_text_beyond_the_models_length_is_refused(load):
    view = Games(nbsal.Explainer(load("bert"), "gradcam", long="window"), text=" ".join([TEXT] * 20))
    with refuses("text"):
        view.wait()
    assert view.result.provenance["windows"] > 1, "its scores are shown"


def test_exports_hold_text_and_curves(view):
    html = view.to_html()
    assert "funny" in html and "data:image/png;base64," in html and view.to_png()[:4] == b"\x89PNG"
    frame = view.to_frame()
    names = [curve.name for curve in view.token_games.curves("hiding")]
    assert frame["order"].unique().tolist() == names and list(frame.columns)[3] == "positive"


def test_selected_tokens_call_back_with_their_rows(view):
    selections = []
    view.on_select(lambda rows: selections.append(rows["token"].tolist()))
    from_page(view, selection=[2])
    assert selections == [["warm"]]


def test_a_picture_names_its_axes_and_bands(view):
    figure = curves_figure({game: view.token_games.curves(game) for game in ("hiding", "revealing")}, "Unit", "Band")
    left, right = figure.axes
    assert (left.get_ylabel(), figure.legends[0].get_title().get_text()) == ("Unit", "Band")
    assert "Hiding" in left.get_title() and "Revealing" in right.get_title()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["decoded-gradcam", RANDOM_NAME]


def test_the_curves_of_results_keep_their_names_and_intervals(explain):
    results = nbsal.evaluation.games([explain], [TEXT, "A dull bore."], random=2, progress=False)
    curves = results_curves(results)
    assert [curve.name for curve in curves["hiding"]] == ["decoded-gradcam", "random"]
    assert all((curve.low <= curve.high).all() for game in curves.values() for curve in game)
