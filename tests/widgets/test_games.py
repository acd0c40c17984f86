"""The Games view: every step is the model's output for the remaining words, beside that of random orders."""

import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import nbsal
from nbsal.ablation.engine import Ablation
from nbsal.evaluation._games import GAMES
from nbsal.render.headline import percent, plain
from nbsal.render.sheet import Chart
from nbsal.support.progress import Meter
from nbsal.widgets import Games
from nbsal.widgets.content import token_games
from nbsal.widgets.content.game_words import _ordinal as ordinal
from nbsal.widgets.content.game_words import (
    finding,
    results_answers,
    results_finding,
    step_changes,
    step_hint,
    step_phrases,
    step_tag,
)
from nbsal.widgets.content.token_games import (
    GameCurve,
    RandomGames,
    TokenGames,
    coalition_count,
    play_games,
    turning_step,
    units,
)
from nbsal.widgets.games import game_traits
from tests.ablation.runs import logits_of
from tests.cases import cases
from tests.raising import refuses
from tests.widgets.test_view import TEXT, from_page

LONG = "A slow start, but the second half is warm, funny and beautifully played."


@pytest.fixture
def view(explain):
    games = Games(explain, text=TEXT).wait()
    yield games
    games.close()


@pytest.mark.parametrize("game", ["hiding", "revealing"])
def test_a_step_is_the_output_for_the_remaining_tokens(view, small, game):
    from_page(view, game=game, at=3)
    row = view.result.row
    coalition = [i in view.remaining or special for i, special in enumerate(row.special)]
    (logits,) = logits_of(small, [row], [[coalition]])
    changes, step = view._game["changes"][game], view._game["points"].index(3)
    shown = {name: now for (name, _), (now, *_) in zip(changes["classes"], changes["steps"][step], strict=True)}
    probabilities = dict(zip(small.labels, logits[0].softmax(-1).tolist(), strict=True))
    assert shown == pytest.approx(probabilities, abs=1e-4)


def test_another_step_runs_no_model(view):
    before = view.result
    from_page(view, at=4)
    assert view.status == "ready" and view.wait().result is before


def test_the_band_of_random_orders_contains_their_mean_and_does_not_depend_on_the_method(view):
    own, random = view.token_games.curves("hiding")
    assert (random.low <= random.values).all() and (random.values <= random.high).all()
    assert random.low[3] < random.high[3] and own.area != random.area
    view.method = "gradcam"
    assert view.wait().token_games.curves("hiding")[1].values.tolist() == random.values.tolist()


def test_the_curve_is_shown_before_those_of_random_orders(view):
    lines = []
    view.observe(lambda change: lines.append(len(view._game.get("lines", {}).get("hiding", []))), "_rev")
    view.text = "A dull bore."
    view.wait()
    assert lines == [0, 1, 2], "the text alone, its curve, that of random orders"


def test_the_games_report_progress_and_can_be_cancelled(small):
    saliency = nbsal.Explainer(small, "gradcam")(TEXT)
    total, reported = coalition_count(len(units(saliency.row))), []
    meter = Meter(total, lambda done, total: reported.append(done))
    *_, games = play_games(saliency, Ablation(small), None, meter)
    assert reported[-1] == total
    forwards, backwards = games.random.outcomes["hiding"][0], games.random.outcomes["revealing"][1]
    but_half = [0, 1, 3, 4]  # of an odd number of words there is no half
    assert forwards[but_half].tolist() == backwards[::-1][but_half].tolist(), "an order and its reverse share passes"
    cancel = threading.Event()
    results = play_games(saliency, Ablation(small), None, Meter(total, cancel=cancel))
    next(results)
    cancel.set()
    with pytest.raises(nbsal.support.errors.Cancelled):
        next(results)


@pytest.mark.parametrize(("labels", "seed"), [(2, 5), (1, 4)])
def test_where_a_game_turns_is_known_to_the_word_however_few_the_steps(reviews, load, labels, seed):
    """As for a long text, whose steps are of several words, and in Workbench even more."""
    explain = nbsal.Explainer(reviews if labels == 2 else load("bert", num_labels=1), "random", seed=seed)
    saliency = explain(" ".join([LONG] * 3))

    def turns(most_steps):
        games = next(play_games(saliency, Ablation(explain.subject), None, Meter(None), most_steps))
        steps = {game: turning_step(game, games.outcomes[game]) for game in GAMES}
        return len(games.steps), {game: step and games.steps[step - 1 : step + 1] for game, step in steps.items()}

    (many, exact), (few, found) = turns(100), turns(8)
    assert few < many and found == exact and all(last - first == 1 for first, last in exact.values())


@pytest.mark.parametrize("head", ["sequence", "span"])
def test_pairs_and_spans_are_played(load, head):
    view = Games(nbsal.Explainer(load("bert", head), "gradcam"), text=("Who ran?", "The dog ran home.")).wait()
    assert bool(view._game["changes"]["hiding"]["classes"]) is (head == "sequence")
    assert np.isfinite(view.token_games.curves("hiding")[0].area)


def test_results_of_many_texts_are_shown(explain):
    results = nbsal.evaluation.games(explain, [TEXT, "A dull bore."], random=2, progress=False)
    view = Games(results).wait()
    lines = view._game["lines"]["hiding"]
    assert [line["name"].split(" \u00b7 ")[0] for line in lines] == ["Decoded Grad-CAM", "random order"]
    assert [line["random"] for line in lines] == [False, True] and len(lines[0]["low"]) == len(lines[0]["at"])
    area = results.auc().set_index(["explainer", "game"])["auc"]
    assert float(lines[0]["title"].split()[-1]) == pytest.approx(area["decoded-gradcam", "hiding"], abs=1e-3)
    values = [percent(line["values"][3], 0) for line in lines]
    assert all(value in view._game["answers"]["hiding"][3] for value in values)
    assert view._game["axes"]["hiding"]["ticks"][1] == [0.25, percent(0.25, 0)]
    assert view.result is results and view.to_frame().equals(results.frame)
    assert view.to_png()[:4] == b"\x89PNG" and "random" in view.to_html()


def test_other_results_are_refused(explain):
    agreement = nbsal.evaluation.rank_agreement({"a": explain, "b": explain}, [TEXT], progress=False)
    for source in (explain(TEXT), agreement):
        with refuses("source") as caught:
            Games(source)
        assert caught.value.value is source


def test_the_half_is_marked_where_it_decides(load, view):
    other = Games(nbsal.Explainer(load("bert"), "random"), text=TEXT).wait()  # of three classes
    for each, halved in ((view, True), (other, False)):
        (chart,) = (block for block in each.sheet().blocks if isinstance(block, Chart))
        assert chart.halved == halved


def test_exports_hold_text_and_curves(view):
    html = view.to_html()
    assert "funny" in html and "data:image/png;base64," in html and view.to_png()[:4] == b"\x89PNG"
    assert view._game["findings"]["hiding"] in html
    frame = view.to_frame()
    names = [curve.name for curve in view.token_games.curves("hiding")]
    assert frame["order"].unique().tolist() == names and list(frame.columns)[3] == "positive"


def games_of(hiding, random=None, labels=("negative", "positive")):
    """Games with the given probabilities of "positive", or outputs of a single label, in the Hiding game."""

    def outcomes(values):
        values = np.array(values, float)
        return np.stack([1 - values, values], -1) if len(labels) > 1 else values[..., None]

    def both(values):
        return {"hiding": outcomes(values), "revealing": outcomes(values)[..., ::-1, :]}

    steps = list(range(len(hiding)))
    baseline = None if random is None else RandomGames(steps, {k: v[None] for k, v in both(random).items()})
    order = [[i] for i in range(1, len(hiding))]
    return TokenGames(saliency_of(len(steps)), order, list(labels), len(labels) - 1, steps, both(hiding), baseline)


def saliency_of(count):
    """What games read of a saliency: the letters of a text of so many."""
    row = SimpleNamespace(parts=["\u2014abcdefgh"], segments=[0] * count, offsets=[(i, i + 1) for i in range(count)])
    return SimpleNamespace(method="gradcam", row=row)


def test_long_texts_have_fewer_random_orders_and_their_band_says_how_many(monkeypatch):
    monkeypatch.setattr(token_games, "RANDOM_ORDERS", 10)
    short, long = (len(token_games._random_orders(size)) for size in (100, 101))
    assert (short, long) == (10, 2)
    assert coalition_count(100, 9) == 2 * (10 + 10 * 5) and coalition_count(101, 9, 1) == 10 + 2 * 5
    games = games_of([0.9, 0.2], [0.9, 0.8])
    assert game_traits(games)["band"] == "range of 1 random orders"


def test_of_many_labels_the_likeliest_at_any_step_are_listed():
    labels = [f"label {number}" for number in range(30)]
    outcomes = np.full((3, 30), 0.001)
    for place, (step, label) in enumerate([(0, 4), (1, 17), (2, 9), (1, 2), (0, 28), (2, 5)]):
        outcomes[step, label] = 0.9 - place / 10
    games = TokenGames(saliency_of(3), [[1], [2]], labels, 9, [0, 1, 2], dict.fromkeys(GAMES, outcomes))
    rows = [step_changes(games, "hiding", step) for step in range(3)]
    assert [name for name, *_ in rows[0]] == [f"label {number}" for number in (4, 28, 17, 9, 2)]
    assert {tuple(name for name, *_ in row) for row in rows} == {tuple(name for name, *_ in rows[0])}
    assert rows[1][0] == ("label 4", 0.9, 0.001, "90.0", percent(0.001)) and rows[0][0][3] == ""


def test_a_step_has_a_tag_and_names_the_words_around_it():
    games = games_of([0.9, 0.8, 0.2])
    assert step_tag(games, "hiding", 2) == f"2 words hidden: positive {percent(0.2)}"
    assert step_tag(games_of([4.0, 3.0], None, ["Paris"]), "hiding", 1) == "1 word hidden: Paris +3.00"
    hints = ["".join(step_hint(games, "hiding", step)) for step in range(3)]
    assert hints == ["Next: a", "Hidden last: a \u00b7 next: b", "Hidden last: b"]
    punctuation = games_of([0.9, 0.8])
    punctuation.order[0][0] = 0
    assert "\u201c\u2014\u201d" in step_hint(punctuation, "revealing", 1)


@cases(
    "hiding, random, expected",
    [
        (
            [0.9, 0.2, 0.1],
            [0.9, 0.8, 0.7],
            "The decision turns to negative after 1 word; random orders, on average, never",
        ),
        ([0.9, 0.2, 0.7], None, "The decision first turns to negative after 1 word"),
        (
            [0.9, 0.8, 0.1],
            [0.9, 0.2, 0.7],
            "The decision turns to negative after 2 words; random orders, on average, need 1",
        ),
        ([0.9, 0.8, 0.7], [0.9, 0.8, 0.7], "Hiding words never turns the decision from positive, nor do random orders"),
        (
            [0.9, 0.8, 0.7],
            [0.9, 0.8, 0.1],
            "from positive; random orders, on average, do after 2 words",
        ),
        ([0.9, 0.8, 0.7], None, "Hiding words never turns the decision from positive"),
    ],
)
def test_the_finding_of_hiding_is_when_the_decision_turns(hiding, random, expected):
    assert expected in finding(games_of(hiding, random), "hiding")


def test_the_finding_of_an_output_is_where_half_of_it_is_gone():
    games = games_of([4.0, 1.0, 0.0], [4.0, 3.0, 0.0], ["Paris"])
    assert finding(games, "hiding") == "1 word holds half of the output for Paris; random orders, on average, need 2"
    assert finding(games, "revealing").startswith("2 words bring half of the output for Paris")
    assert (
        finding(games_of([0.0, 1.0], None, ["Paris"]), "hiding") == "Hiding words does not lower the output for Paris"
    )


def test_the_curves_of_many_texts_are_read_at_the_steps_of_the_first():
    curves = [
        GameCurve("gradcam", [0.0, 0.5, 1.0], np.array([1.0, 0.4, 0.2])),
        GameCurve("random", [0.0, 1.0], np.array([1.0, 0.5])),
    ]
    first, middle, _ = results_answers(curves, "hiding")
    assert first.endswith(f"Grad-CAM {percent(1, 0)}, random order {percent(1, 0)}.")
    assert percent(0.4, 0) in middle and percent(0.75, 0) in middle


def test_a_step_says_what_is_decided_and_which_word_turned_it():
    games = games_of([0.998, 0.9, 0.2, 0.7])
    assert [plain(step_phrases(games, "hiding", step)).replace("\u202f", " ") for step in range(4)] == [
        "The whole text: positive, 99.8 %.",
        "After hiding 1 word: still positive, 90.0 % — it was 99.8 %.",
        "After hiding 2 words: negative, 80.0 % — it was positive, 99.8 %. The second word turned it.",
        "With all 3 words hidden: positive again, 70.0 %, as for an empty text — it was 99.8 %.",
    ]
    assert plain(step_phrases(games, "revealing", 1)).replace("\u202f", " ") == (
        "After revealing 1 word: negative, 80.0 % — with all words positive, 99.8 %. The first word turned it."
    )


def test_a_result_of_many_texts_names_the_best_and_its_rivals(explain):
    texts = [TEXT, "A dull bore.", LONG, "Nothing works here."]
    explainers = {"good": explain, "bad": nbsal.Explainer(explain.subject, "random", seed=3)}
    results = nbsal.evaluation.games(explainers, texts, random=2, progress=False)
    text = results_finding(results, "hiding")
    assert text.startswith(f"{results.best('hiding', ['good', 'bad'])} hides best: mean accuracy ")
    assert "random order " in text
    alone = nbsal.evaluation.games(explain, texts, random=0, progress=False)
    assert results_finding(alone, "hiding").startswith("Decoded Grad-CAM: mean accuracy ")


@pytest.mark.parametrize("game", GAMES)
def test_a_model_without_classes_shows_its_output(load, game):
    explain = nbsal.Explainer(load("bert", num_labels=1), "gradxact")
    view = Games(explain, text="The film is a joy.", game=game, check=False).wait()
    values = view.token_games.outcomes[game][:, 0]
    whole = values[0] if game == "hiding" else values[-1]
    for at in (0, 2, len(view.token_games.order)):
        view.at = at
        sentence, step = view.statement.text(), view.token_games.step(at)
        shown = [float(number.replace("\u2212", "-")) for number in re.findall("[-\u2212]?[0-9]+[.][0-9]+", sentence)]
        expected = [values[step]] if values[step] == whole and len(shown) == 1 else [values[step], whole]
        assert shown == pytest.approx(expected, rel=5e-3), sentence
    view.close()


def test_places_after_the_tenth_are_numbers():
    places = [ordinal(number) for number in (1, 11, 12, 21, 22, 103, 111)]
    assert places[0] == "first" and places[1:] == ["11th", "12th", "21st", "22nd", "103rd", "111th"]
