"""The Compare view: two explanations of one text on a stated scale, and the agreement of their rankings."""

import dataclasses
import re

import numpy as np
import pytest

import nbsal
from nbsal.evaluation.rankings import kendall
from nbsal.explain.sentences.decision_facts import Candidate, Check
from nbsal.explain.sentences.outcomes import Outcome
from nbsal.render.headline import confidence, percent
from nbsal.render.scores import score_text
from nbsal.render.sheet import Line
from nbsal.widgets import Compare, Highlight, checked_view
from nbsal.widgets.compare import ComparedPair
from nbsal.widgets.page import wire
from tests.browser import bench
from tests.cases import cases
from tests.raising import refuses
from tests.widgets.test_view import TEXT, from_page


@pytest.fixture
def view(small):
    compare = Compare(nbsal.Explainer(small, "gradxact", layer=2), text=TEXT, other_method="simple").wait()
    yield compare
    compare.close()


def test_both_are_shown(view, small):
    first = nbsal.Explainer(small, "gradxact", layer=2)(TEXT)
    second = nbsal.Explainer(small, "simple", layer=2)(TEXT)
    assert view._scores == wire.scores([first.scores, second.scores])
    assert view._other["caption"] == second.caption()


@pytest.fixture(scope="module")
def other(small):
    """The same model with other labels."""
    return nbsal.load(small.model, tokenizer=small.tokenizer, labels=["bad", "good"])


def test_two_models_are_compared(small, other):
    view = Compare(*(nbsal.Explainer(model, "gradcam", layer=2) for model in (small, other)), text=TEXT).wait()
    assert view._other["prediction"] in other.labels
    assert view._other_choices["labels"] != view._choices["labels"]


def test_the_scale_is_own_or_shared(view):
    view.level = "token"
    first, second = view.result.first, view.result.second
    content = list(first.row.content)
    assert [np.abs(shares[content]).max() for shares in view.result.shares] == [1, 1]
    before = view._rev
    view.scale = "shared"
    largest = max(first.largest, second.largest)
    assert view.result.shares[1].tolist() == pytest.approx((second.scores / largest).tolist())
    assert view._rev == before, "nothing is computed again"


def test_finished_results_are_compared(view, small):
    first, second = view.result.first, view.result.second
    plain = Compare(first, second).wait()
    assert plain.agreement == view.agreement and plain.other_method == "simple" and not plain._live
    strongest = [score_text(max(map(abs, each.word_scores))) for each in (first, second)]
    assert re.findall(r"[AB] (\S+)", plain._findings["word"]["maxima"].partition(": ")[2].replace(",", "")) == strongest
    for sources in [(first, view.explainer), (view.explainer, second)]:
        with refuses("other"):
            Compare(*sources, text=TEXT)


def test_explanations_of_different_tokens_are_refused(small):
    explain = nbsal.Explainer(small, "gradcam")
    with refuses("other"):
        ComparedPair(explain("A joy."), explain("A bore."))


def test_both_share_one_forward_pass(view, forwards):
    view.check = False
    for change, runs in [({"other_method": "attcat"}, 1), ({"method": "raw-attention", "other_layer": 1}, 1)]:
        from_page(view, **change)
        view.wait()
        assert len(forwards) == runs
        forwards.clear()
    sides = [view.result.first, view.result.second]
    alone = [nbsal.Explainer(view.subject, "raw-attention")(TEXT), nbsal.Explainer(view.subject, "attcat")(TEXT)]
    for one, other in zip(sides, alone, strict=True):
        assert one.method == other.method and np.abs(one.scores - other.scores).max() < 1e-6


def test_all_windows_of_a_long_text_are_compared(small):
    text = TEXT * 60
    first, second = (nbsal.Explainer(small, name, layer=2, long="window") for name in ("gradxact", "simple"))
    view = Compare(first, text=text, other_method="simple").wait()
    assert view.result.second.scores.tolist() == second(text).scores.tolist()
    assert not view.result.first.row.dropped


def test_the_rankings_of_all_tokens_are_compared(view):
    long = nbsal.Explainer(view.subject, "gradxact", layer=2, long="window")(TEXT * 100)
    order = sorted(long.order, key=lambda i: -abs(long.scores[i]))
    opposite = dataclasses.replace(long, scores=-long.scores)
    assert ComparedPair(long, opposite).agreement == {"rank": 1.0, "overlap": 1.0}, "ranked by size, for or against"
    halved = long.scores.copy()
    halved[order[200:]] = halved[order[:199:-1]]  # the same ranking up to there, the opposite one from there
    tau = ComparedPair(long, dataclasses.replace(long, scores=halved)).agreement["rank"]
    assert tau == kendall(order, [*order[:200], *order[:199:-1]]) < 0.999


def words(first, second, **settings):
    """A pair that gives words such scores, for example words({"a": 1.0}, {"a": 2.0})."""
    saliency = bench.saliency_of(list(first))
    pair = [
        dataclasses.replace(
            saliency, scores=np.array([9.0, *scores.values(), 9.0]), tie_breaker=np.zeros(len(scores) + 2)
        )
        for scores in (first, second)
    ]
    return ComparedPair(*pair, level="word", **settings)


NAMES = ["warm", "funny", "film", "dull", "long", "end"]


@cases(
    "first, second, sentence",
    [
        (
            [4, 3, 2, 1, 0.5, 0.1],
            [4, 1, 2, 3, 0.1, 0.5],
            "Both name warm first and share 4 of their 5 strongest words; they differ most about funny.",
        ),
        (
            [4, 3, 2, 1, 0.5, 0],
            [1, 4, 2, 2.5, 3, 0],
            "A names warm first, B funny; they share their 5 strongest words; they differ most about warm.",
        ),
        (
            [1, 2, 3, 4, 5, 6],
            [2, 4, 6, 8, 10, 12],
            "share their 5 strongest words; they score every word alike.",
        ),
        ([0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], "A scores every word 0; B names warm first."),
        ([0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], "Both score every word 0."),
        ([1, -2], [1, 2], "A counts funny against, B for. Both name funny first."),
        (
            [4, -3, 1, 2],
            [-4, 3, 1, -1],
            "A counts funny against, B for. A counts warm and dull for, B against. Both name warm first.",
        ),
        ([4, -0.9], [4, 2], "Both name warm first; they differ most about funny."),
        ([1], [1], "The only word is warm."),
    ],
)
def test_both_are_compared_in_a_sentence(first, second, sentence):
    pair = words(*(dict(zip(NAMES, map(float, scores), strict=False)) for scores in (first, second)))
    assert pair.caption().endswith(sentence)


def test_the_decision_comes_first_and_every_share_has_its_side(view):
    pair = view.result
    assert pair.caption().startswith(f"positive, {confidence(pair.first.confidence)}. ")
    row, *_ = pair.listed()
    word, (first, second) = row.name, row.shares
    shares = [f"A {percent(round(first, 2), 0)}", f"B {percent(round(second, 2), 0)}"]
    assert row.texts == tuple(shares)
    cells = "</td><td[^>]*>".join(shares)
    assert re.search(rf">{word}</td><td[^>]*>(<span[^>]*></span>)*</td><td[^>]*>{cells}</td>", view.to_html())


def test_decisions_that_differ_come_first(small, other):
    explain = nbsal.Explainer(small, "gradcam")
    by_models = Compare(explain, nbsal.Explainer(other, "gradcam"), text=TEXT).wait()
    lead = re.match(r"A: positive, [\d.]+\u202f%; B: (\S+), [\d.]+\u202f%\. ", by_models.result.caption())
    assert lead[1] in other.labels and not by_models._result["same_model"]
    by_target = Compare(explain, text=TEXT, other_target="negative").wait()
    assert re.match(r"positive, [\d.]+\u202f%\. A explains positive, B negative\. ", by_target.result.caption())
    both = Compare(explain, text=TEXT, target="negative", other_target="negative", other_method="simple").wait()
    assert re.match(r"positive, [\d.]+\u202f%\. Both explain negative\. ", both.result.caption())
    assert by_target._result["same_model"]
    for view, badges in ((by_models, ["A", "B"]), (by_target, ["A", "B"]), (both, [])):
        lines = [block.items for block in view.sheet().blocks if isinstance(block, Line)]
        assert [first for first, *_ in lines if isinstance(first, str)] == badges and lines
    chosen = [
        item.name
        for items in by_target.sheet().blocks
        if isinstance(items, Line)
        for item in items.items[1:]
        if item.chosen
    ]
    assert chosen == ["positive", "negative"]


def test_one_word_has_no_ranking(small):
    view = Compare(nbsal.Explainer(small, "gradcam"), text="Joy").wait()
    assert view.agreement["rank"] is None and view.result.heading() == "One word has no ranking."
    assert dataclasses.replace(view.result, level="token").heading() == "One token has no ranking."


def test_both_are_exchanged(view):
    first, second, rank = view.result.first, view.result.second, view.agreement["rank"]
    assert view.handle_swap() == "swapped"
    pair = view.wait().result
    assert (view.method, view.other_method, pair.first.method) == ("simple", "gradxact", "simple")
    assert pair.second.scores.tolist() == pytest.approx(first.scores.tolist(), abs=1e-6)
    assert view.agreement["rank"] == rank
    plain = Compare(first, second).wait()
    plain.swap()
    assert plain.wait().result.first is second and plain.method == "simple"


def test_it_exports(view):
    assert view.to_png().startswith(b"\x89PNG")
    assert view.to_html().count("funny") >= 3 and view.result.caption() in view.to_html()
    assert "A higher" not in view.to_html()
    view.difference = True
    assert all(end in view.to_html() for end in ("A higher", "B higher"))
    assert view.to_frame()["difference"].equals(view.to_frame()["first"] - view.to_frame()["second"])


def checked(scores, word, after, **settings):
    """A result with such scores of "warm", "funny" and "film", of whose words one was hidden."""
    saliency = words(scores, scores).first
    whole, outcome = Outcome("warm", 0.9), Outcome("warm" if after > 0.5 else "dull", after)
    candidate = Candidate(word, scores[word], (list(scores).index(word),))
    check = Check((candidate,), whole, (outcome,), (0,), outcome, (Outcome("warm", 0.88),), drawn=1, **settings)
    return saliency.with_check(check)


def test_hiding_says_which_of_both_is_right():
    right = checked({"warm": 2.0, "funny": 1.0, "film": 0.1}, "warm", 0.1)
    wrong = checked({"warm": -0.2, "funny": 2.0, "film": 0.1}, "funny", 0.9)
    weaker = checked({"warm": 1.0, "funny": 2.0, "film": 0.1}, "funny", 0.8)
    for pair, said, values in [
        ((wrong, right), "supports B:", {"90.0", "10.0\u202f%"}),
        ((right, wrong), "supports A:", {"90.0", "10.0\u202f%"}),
        ((right, weaker), "supports both, A more:", {"80.0\u202f%", "10.0\u202f%"}),
        ((weaker, right), "supports both, B more:", {"80.0\u202f%", "10.0\u202f%"}),
        ((wrong, wrong), "supports neither:", {"90.0\u202f%"}),
        ((right, right), "supports both:", {"10.0\u202f%"}),
    ]:
        compared = ComparedPair(*pair, level="word")
        assert said in compared.caption() and all(value in compared.caption() for value in values)
        assert (compared.statement().state == "supported") == (right in pair)
        assert len(compared.statement().effects) == 4, "a word and a random word of each"
    refuted = right.with_check(dataclasses.replace(right.check, random=(Outcome("dull", 0.05),)))
    caption = ComparedPair(weaker, refuted, level="word").caption()
    assert "supports A:" in caption and caption.index("80.0") < caption.index("10.0"), "though hiding does more to B"
    assert "Hiding" not in ComparedPair(right, dataclasses.replace(right, checks={})).caption()
    margin = checked({"warm": 2.0, "funny": 1.0, "film": 0.1}, "warm", -0.71239, probable=False)
    assert "\u22120.7124" in ComparedPair(margin, margin, level="word").caption()
    turned = ComparedPair(wrong, right, level="word")
    assert turned.caption().startswith("warm, 90.0\u202f%. A counts warm against, B for. Hiding"), "first of all"
    assert turned.heading().startswith("1 word with opposite signs")


def test_both_are_checked_by_one_set_of_hidden_runs(small, forwards):
    explain = nbsal.Explainer(small, "gradxact", layer=2)
    alone = Compare(explain, text=TEXT, other_method="gradxact", check=20).wait()
    runs = len(forwards)
    forwards.clear()
    single = Highlight(explain, text=TEXT, check=20).wait()
    assert runs <= len(forwards) + 2, "of B, nothing is hidden again"
    assert alone.result.first.check == alone.result.second.check == single.result.check
    assert alone._findings["word"]["statements"]["own"]["state"] == alone.statement.state == single.statement.state
    assert alone._checking == {}


def test_the_whole_check_of_both_waits_for_a_press_where_it_takes_long(small, other, monkeypatch):
    monkeypatch.setattr(checked_view, "LONGEST", 0.0)
    view = Compare(*(nbsal.Explainer(model, "gradcam", layer=2) for model in (small, other)), text=TEXT).wait()
    assert [check.first for check in view.result.checks.values()] == [True, True]
    assert view._checking["state"] == "offered" and view._checking["passes"] == 40
    view.handle_check()
    view.wait()
    assert [check.first for check in view.result.checks.values()] == [False, False] and view._checking == {}
    assert {view.result.second.check.whole.prediction} <= {*other.labels}
    assert view.statement.text() in view.to_html()


def test_a_doubtful_decision_is_called_so(small, other):
    saliency = words({"warm": 1.0}, {"warm": 2.0}).first
    doubtful = dataclasses.replace(saliency, probabilities=np.array([0.4, 0.3, 0.3]))
    assert ComparedPair(doubtful, doubtful).caption().startswith("leaning warm, 40.0\u202f%")
    assert ComparedPair(saliency, saliency).caption().startswith("warm, 90.0\u202f%")
