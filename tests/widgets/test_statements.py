"""Everything that a view says of a decision, in every form, is made of the same measured facts."""

import re
from html import unescape
from threading import Event

import pytest

import nbsal
from nbsal.render.headline import confidence
from nbsal.widgets import Browse, Clouds, Compare, Games, Heads, Highlight, Layers, Workbench, checked_view
from tests.raising import refuses

TEXTS = [
    "The opening sentence is a beauty; the four hundred pages that follow are a swamp.",
    "Ugly computer effects ruin what little suspense the shipwreck has.",
    "A warm and unbelievably funny film, though its ending drags on and on.",
    "Warm, warm, warm: a joy.",
    "Nothing <b>warm</b> here, only a dull mess of a film.",
    "I would not call it bad.",
    "Two hours of noise, and not one joke that works.",
    "!",
    "x",
    "Too few flashes of brilliance, and far too long.",
]
VIEWS = [Highlight, Layers, Heads, Games, Workbench]


def readable(page):
    """The text of a page without its tags."""
    return unescape(re.sub("<[^>]+>", "", page))


def percentages(text):
    return set(re.findall(r"[0-9.]+(?=\u202f%)", text))


@pytest.mark.some(5)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", VIEWS)
def test_no_two_statements_disagree(small, tmp_path, kind, text):
    settings = {"kind": "all"} if kind in (Heads, Workbench) else {}
    view = kind(nbsal.Explainer(small, "decoded-gradcam"), text=text, check=True, **settings).wait()
    result, row, statement = view.result, view.checked_row, view.statement
    check = result.checks[row]
    assert view._statements[row] == statement.to_json() and statement.state == check.state and view._checking == {}
    outcomes = [check.whole, check.together, *check.alone, *check.random]
    values = {confidence(outcome.value) for outcome in outcomes}
    measured = percentages(" ".join(values)) | percentages(result.rows()[row].statement().text())
    assert percentages(" ".join([statement.text(), *statement.notes])) <= measured
    page = readable(view.to_html())
    assert statement.text() in page and all(note in page for note in statement.notes)
    result.save(tmp_path / "result.json")
    loaded = type(result).load(tmp_path / "result.json")
    assert loaded.rows()[row].statement(view.target_probability) == statement
    view.close()


def test_a_badge_tells_how_far_a_sentence_was_checked(small, monkeypatch):
    monkeypatch.setattr(checked_view, "LONGEST", 0.0)  # the whole check is not begun
    explain = nbsal.Explainer(small)
    saliency = explain("A warm and funny film, if slow.")
    first = Highlight(explain, text=saliency.text).wait().result
    badges = [each.statement().badge for each in (saliency, first, explain.check(saliency))]
    assert all(badges) and len(set(badges)) == 3


def test_what_is_said_is_checked_on_request_or_in_time(small, monkeypatch):
    explain = nbsal.Explainer(small, "decoded-gradcam")
    view = Highlight(explain, text=TEXTS[0], check=False).wait()
    assert (view.statement.state, view._checking["state"]) == ("unchecked", "offered")
    view.handle_check()
    assert view.wait().statement.state == "supported" and view._checking == {}
    monkeypatch.setattr(checked_view, "LONGEST", 0.0)
    view.check = "auto"
    view.text = TEXTS[1]
    assert view.wait().result.check.first and view._checking["note"].endswith(" s")
    view.handle_check()
    assert not view.wait().result.check.first and view._checking == {}
    view.close()
    with refuses("check"):
        Highlight(explain, text=TEXTS[0], check="always")


@pytest.fixture
def function():
    """A black box that decides by one word, the texts that it was asked about, and an explainer of it."""
    asked = []

    def ask(texts):
        asked.extend(texts)
        return [[0.1, 0.9] if "warm" in text.lower() else [0.8, 0.2] for text in texts]

    return asked, nbsal.Explainer(nbsal.load(ask, labels=["bad", "good"]), "occlusion")


def test_the_first_answer_runs_three_passes_and_names_only_what_was_hidden(function, monkeypatch):
    asked, explain = function
    monkeypatch.setattr(checked_view, "LONGEST", 0.0)  # as if the whole check took long
    text = "The warm film of the year is the best of the three."
    asked.clear()
    explain(text)
    own = len(asked)
    asked.clear()
    view, said = Highlight(explain, text="A film."), []
    view.wait()
    view.observe(lambda change: said.append(change["new"][0]), "_statements")
    asked.clear()
    view.text = text
    view.wait()
    assert len(asked) == own + 3, "the strongest word, the strongest set, and random words"
    (first,) = said
    assert first["state"] == "supported" and first == view.statement.to_json()
    hidden = [{word.text for word in view.result.words} - set(re.findall(r"\w+|[^\w\s]", rest)) for rest in asked[-3:]]
    named = {words for kind, words in first["sentence"] if kind in ("for", "against")}
    assert named in hidden and named == {"warm"}
    assert view._checking["state"] == "offered", "the whole check waits for a press"
    view.close()


def test_nothing_is_hidden_unasked_where_that_is_switched_off(function):
    asked, explain = function
    view = Highlight(explain, text="A warm film.", check=False).wait()
    asked.clear()
    view.text = "The warm film."
    assert view.wait().statement.state == "unchecked" and "Ranked first: warm" in view.statement.text()
    own = len(asked)
    asked.clear()
    explain("The warm film.")
    assert own == len(asked)
    view.close()


def test_a_model_whose_words_cannot_be_hidden_answers_unchecked(small, monkeypatch):
    def fail(*arguments):
        raise nbsal.support.errors.ModelError("No.", part="mask")

    monkeypatch.setattr(checked_view.checking, "first_check", fail)
    view = Highlight(nbsal.Explainer(small, "decoded-gradcam"), text=TEXTS[0]).wait()
    assert (view.status, view.statement.state, view._checking["state"]) == ("ready", "unchecked", "failed")
    view.close()


def test_a_preview_is_checked_as_well(small, monkeypatch):
    checks, first_check = [], checked_view.checking.first_check
    monkeypatch.setattr("nbsal.widgets.page.slow_methods.MANY", 0)
    monkeypatch.setattr(
        checked_view.checking,
        "first_check",
        lambda *given: checks.append(given[0].saliency.method) or first_check(*given),
    )
    for kind in (Highlight, Games):
        kind(nbsal.Explainer(small, "occlusion"), text="A warm and funny film.", check=True).wait(120).close()
    assert checks == ["attn-lrp", "occlusion"] * 2


def test_further_sets_are_searched_on_request(small):
    view = Highlight(nbsal.Explainer(small, "decoded-gradcam"), text="The plot is thin and the acting is dreadful.")
    statement = view.wait().statement
    assert (statement.state, statement.advice) == ("weak", "search")
    view.handle_search()
    check = view.wait().result.check
    assert check.search.words == ("thin", "dreadful") and check.search.outcome.prediction == "positive"
    assert check.search.exact and view.statement.advice == "" and view._checking == {}
    assert view._statements[0] == view.statement.to_json() and "thin and dreadful" in view.statement.text()
    assert check.search.words == nbsal.flip(view.explainer, view.text).words
    view.target = "positive"
    assert view.wait().result.check.search is None
    view.handle_search()
    assert view.wait().result.check.search.outcome.prediction == "positive", "the class that is explained"
    view.close()


def test_another_layer_is_checked_once_it_is_chosen(small):
    view = Layers(nbsal.Explainer(small, "decoded-gradcam"), text=TEXTS[0], check=True).wait()
    first = view.chosen
    view.layer = 2
    assert set(view.wait().result.checks) == {first, 2}
    checked = [statement["state"] != "unchecked" for statement in view._statements]
    assert checked == [layer in (first, 2) for layer in range(4)]
    view.close()


def test_a_newer_text_ends_the_check(small, monkeypatch):
    started, check = [], checked_view.checking.check

    def slow(words, passes, meter):
        started.append(words.saliency.text)
        if len(started) == 1:
            view.text = TEXTS[1]
            while True:
                meter.check()
        return check(words, passes, meter)

    monkeypatch.setattr(checked_view.checking, "check", slow)
    view = Highlight(nbsal.Explainer(small, "decoded-gradcam"), text=TEXTS[0], check=True)
    assert view.wait(60).result.text == TEXTS[1] and view.statement.state == "supported"
    assert started == TEXTS[:2]
    view.close()


def test_a_check_can_be_stopped_and_started_again(small, monkeypatch):
    started, check = Event(), checked_view.checking.check

    def endless(words, passes, meter):
        started.set()
        while True:
            meter.check()

    monkeypatch.setattr(checked_view.checking, "check", endless)
    view = Highlight(nbsal.Explainer(small, "decoded-gradcam"), text=TEXTS[0], check=True)
    assert started.wait(60)
    view.handle_cancel()
    assert (view.wait(120).status, view._checking["state"]) == ("ready", "offered") and view.result.check.first
    monkeypatch.setattr(checked_view.checking, "check", check)
    view.handle_check()
    assert view.wait(60).statement.state == "supported" and view._checking == {} and not view.result.check.first
    assert len(view._ablation.value._results) == 1
    view.text = TEXTS[1]
    assert view.wait(60).statement.state != "unchecked"
    assert len(view._ablation.value._results) == 1, "one text is kept"
    view.close()


def test_a_model_that_cannot_run_without_words_is_not_blamed_on_the_text(small, monkeypatch):
    def fail(*arguments):
        raise nbsal.support.errors.ModelError("No.", part="mask")

    monkeypatch.setattr(checked_view.checking, "check", fail)
    view = Highlight(nbsal.Explainer(small, "decoded-gradcam"), text=TEXTS[0], check=True).wait()
    assert (view.status, view.error, view._checking["state"]) == ("ready", "", "failed")
    assert view._checking["note"].endswith("No.")
    view.close()


@pytest.mark.parametrize("kind", [Browse, Clouds, Compare])
def test_views_of_several_explanations_say_the_same_in_every_form(small, kind):
    explain = nbsal.Explainer(small, "decoded-gradcam")
    if kind is Compare:
        view = Compare(explain, text=TEXTS[0], other_method="gradxact").wait()
        sentences = [view._findings["word"]["statements"]["own"]["sentence"]]
    else:
        view = kind(explain.map(TEXTS[:5], progress=False)).wait()
        opened = view._table["opened"]["statement"] if kind is Browse else None
        assert opened is None or opened == view.statement_of(0, view.result.opened).to_json()
        sentences = [opened["sentence"]] if opened else []
    page = readable(view.to_html())
    assert view.result.caption() in page
    assert all("".join(text for _, text in sentence) in page for sentence in sentences)
    view.close()
