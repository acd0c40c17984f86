"""Games: every step is what the model says of the tokens that are left, and chance is beside it."""

import threading

import numpy as np
import pytest

import nbsal
from nbsal.errors import InputError
from nbsal.model.masking import MaskedModel
from nbsal.progress import Meter
from nbsal.render import png
from nbsal.widgets import Games
from nbsal.widgets.token_games import MOST, play_games, steps_count
from tests.widgets.test_view import from_page

TEXT = "A warm and oddly funny film."


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


@pytest.fixture
def view(explain):
    made = Games(explain, text=TEXT).wait()
    yield made
    made.close()


@pytest.mark.parametrize("game", ["hiding", "revealing"])
def test_a_step_is_what_the_model_says_of_the_tokens_left(view, reviews, game):
    from_page(view, game=game, at=3)
    row = view.result.row
    kept = [i in view.standing or special for i, special in enumerate(row.special)]
    (logits,) = MaskedModel(reviews).logits([row], [[kept]])
    said = view._game["outcomes"][game][view._game["points"].index(3)]
    assert said == pytest.approx(logits[0].softmax(-1).tolist(), abs=1e-4)


def test_tokens_go_in_the_order_of_importance(view):
    order = view.result.order
    view.at = 2
    assert set(range(len(view.result.tokens))) - set(view.standing) - {0, len(view.result.tokens) - 1} == set(order[:2])
    view.game = "revealing"
    assert view.standing == sorted(order[:2])
    assert view._game["order"] == order


def test_dragging_asks_the_model_nothing(view):
    before = view.result
    from_page(view, at=4)
    assert view.status == "ready" and view.wait().result is before


def test_the_ends_are_the_whole_text_and_none(view, explain):
    outcomes = view._game["outcomes"]
    whole = explain(TEXT).probabilities.tolist()
    assert outcomes["hiding"][0] == pytest.approx(whole, abs=1e-4) == outcomes["revealing"][-1]
    assert outcomes["hiding"][-1] == pytest.approx(outcomes["revealing"][0], abs=1e-4)


def test_the_band_holds_its_mean_and_does_not_depend_on_the_method(view):
    own, chance = view.played.lines("hiding")
    assert (
        (chance.low <= chance.values).all() and (chance.values <= chance.high).all() and chance.low[3] < chance.high[3]
    )
    assert own.area != chance.area
    view.method = "gradcam"
    assert view.wait().played.lines("hiding")[1].values.tolist() == chance.values.tolist()


def test_a_method_that_ranks_well_hides_sooner_than_chance(reviews):
    view = Games(nbsal.Explainer(reviews, "occlusion"), text=TEXT).wait()
    own, chance = view.played.lines("hiding")
    assert own.area < chance.area


def test_another_target_is_followed(view):
    view.target = "negative"
    view.wait()
    assert view._game["unit"] == "negative"
    assert view._game["lines"]["hiding"][0]["values"] == [row[0] for row in view._game["outcomes"]["hiding"]]


def test_the_curve_is_shown_before_chance_is_known(explain, monkeypatch):
    seen = []
    original = Games.show_game
    monkeypatch.setattr(
        Games, "show_game", lambda self, found: (seen.append(found and found.chance), original(self, found))
    )
    Games(explain, text=TEXT).wait()
    assert seen[:2] == [None, None] and seen[-1] is not None


def test_playing_tells_how_far_it_is_and_can_be_cancelled(reviews):
    found = nbsal.Explainer(reviews, "gradcam")(TEXT)
    size, told = steps_count(len(found.order)), []
    list(play_games(found, MaskedModel(reviews), None, Meter(size, lambda done, total: told.append(done))))
    assert told[-1] == size
    cancel = threading.Event()
    steps = play_games(found, MaskedModel(reviews), None, Meter(size, cancel=cancel))
    next(steps)
    cancel.set()
    with pytest.raises(nbsal.errors.Cancelled):
        next(steps)


def test_a_view_that_plays_is_cancelled(explain):
    view = Games(explain, text=TEXT * 8)
    view.cancel()
    assert view.status in ("cancelling", "cancelled")
    assert view.wait(20).status == "cancelled"


def test_a_long_text_has_so_many_steps_at_most(explain):
    view = Games(explain, text=TEXT * 12).wait()
    points = view.played.points
    assert len(points) <= MOST + 1 and points[0] == 0 and points[-1] == len(view.result.order)


@pytest.mark.parametrize(
    ("model", "text"),
    [("demo/nli", ("A man sleeps.", "A man is awake.")), ("demo/answers", ("Who ran?", "The dog ran home."))],
)
def test_pairs_and_spans_are_played(model, text):
    view = Games(nbsal.Explainer(nbsal.load(model), "gradcam"), text=text).wait()
    assert view._game["probable"] is (model == "demo/nli") and np.isfinite(view.played.lines("hiding")[0].area)


def test_results_of_many_texts_are_shown(explain):
    found = nbsal.evaluation.games(explain, [TEXT, "A dull bore."], random=2, progress=False)
    view = Games(found).wait()
    assert [line["name"] for line in view._game["lines"]["hiding"]] == ["decoded-gradcam", "random"]
    area = found.auc().set_index(["explainer", "game"])["auc"]
    assert view._game["lines"]["hiding"][0]["area"] == pytest.approx(area["decoded-gradcam", "hiding"], abs=1e-4)
    assert view.to_frame().equals(found.frame) and view.to_png()[:4] == b"\x89PNG" and "random" in view.to_html()


def test_what_cannot_be_played_is_refused(explain):
    with pytest.raises(InputError, match="give an Explainer"):
        Games(explain(TEXT))
    agreed = nbsal.evaluation.rank_agreement({"a": explain, "b": explain}, [TEXT], progress=False)
    with pytest.raises(InputError, match=r"evaluation\.games"):
        Games(agreed)


def test_exports_hold_text_and_curves(view):
    html = view.to_html()
    assert "funny" in html and "data:image/png;base64," in html and view.to_png()[:4] == b"\x89PNG"
    frame = view.to_frame()
    assert set(frame["order"]) == {"decoded-gradcam", "by chance"} and list(frame.columns)[3] == "positive"


def test_selected_tokens_call_back_with_their_rows(view):
    seen = []
    view.on_select(lambda rows: seen.append(rows["token"].tolist()))
    from_page(view, selection=[2])
    assert seen == [["warm"]]


def test_a_picture_names_its_axis_and_its_bands(view, explain, monkeypatch):

    drawn = []
    monkeypatch.setattr(png, "draw_axes", lambda axes: drawn.append(axes) or b"")
    view.picture()
    Games(nbsal.evaluation.games([explain], [TEXT, "A dull bore."], random=2, progress=False)).wait().picture()
    assert [axes.get_ylabel() for axes in drawn] == ["probability of positive", "accuracy"]
    titles = [axes.figure.legends[0].get_title().get_text() for axes in drawn]
    assert titles == ["shaded: the range of orders by chance", "shaded: 95 % intervals"]
