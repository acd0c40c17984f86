"""The line "Next:": from one text to another class or method, to its layers and heads, and to all texts like it."""

import pytest

import nbsal
from nbsal.support.errors import InputError, UnknownName
from nbsal.widgets import Audit, Browse, Clouds, Compare, Games, Heads, Highlight, Layers, Workbench
from nbsal.widgets.content.asked import answer_steps
from nbsal.widgets.content.text_steps import read_texts
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses
from tests.widgets.test_view import ask

TEXT = "A warm and funny film, if slow."
CSV = 'text,label\n"A funny, warm film.",LABEL_1\nA dull bore.,LABEL_0\nFunny at times.,LABEL_0\n'


@pytest.fixture
def view():
    """Of a model that was shown no texts: other tests show some to theirs."""
    highlight = Highlight(nbsal.Explainer(nbsal.load("demo/reviews-small")), text=TEXT, target="negative").wait()
    yield highlight
    highlight.close()


@pytest.mark.parametrize(
    ("step", "kind", "other"),
    [
        ("games", Games, {}),
        ("layers", Layers, {}),
        ("heads", Heads, {}),
        ("class", Compare, {"other_target": "positive"}),
        ("method", Compare, {"other_method": "occlusion", "other_target": "negative"}),
    ],
)
def test_a_step_carries_the_text_the_class_and_the_method_along(view, step, kind, other):
    after = view.next(step)
    assert isinstance(after, kind) and view.below is after
    assert (after.text, after.target) == (TEXT, "negative")
    assert {name: getattr(after, name) for name in other} == other
    assert kind is not Games or after.method == view.method
    assert step not in after.wait().steps(), "a view does not lead to itself"


def test_the_step_to_all_texts_names_the_word_that_matters_and_the_samples(view):
    after = view.next("texts").wait()
    assert isinstance(after, Browse) and after.token and after.token in TEXT
    assert len(after.to_frame()) > 0 and after.to_frame()["text"].str.lower().str.contains(after.token).all()


def test_the_texts_that_a_model_was_shown_last_are_known(load):
    subject = load("bert")
    alone = Highlight(subject, text=TEXT).wait()
    assert alone.steps()["texts"].needs_file and ["texts", "all texts like this", True] in alone._next
    nbsal.why(subject, ["A funny bore.", "A joy."], labels=["LABEL_0", "LABEL_1"]).close()
    after = alone.next("texts").wait()
    assert len(after.saliencies) == 2 and after.to_frame()["label"].notna().all()
    alone.close()


def test_a_page_may_bring_a_file_of_texts(load):
    view = Highlight(load("roberta"), text=TEXT).wait()
    reply = ask(view, ask="next", id="1", name="texts", file={"name": "mine.csv", "content": CSV})
    assert "reply" in reply and len(view.below.wait().saliencies) == 3
    assert "error" in ask(view, ask="next", id="2", name="texts", file={"name": "a.exe", "content": ""})
    view.close()


JSONL = '{"text": "A joy."}\n{"text": "A bore."}\n'


def test_from_many_texts_there_is_a_way_to_the_mistakes_and_back_to_one_text(small):
    rows = nbsal.samples.texts("reviews")[:6]
    view = nbsal.why(small, [row["text"] for row in rows], labels=[row["label"] for row in rows]).wait()
    assert list(view.steps()) == ["text", "audit", "clouds"]
    one = view.next("text").wait()
    assert isinstance(one, Workbench) and one.text == rows[0]["text"]
    assert "audit" not in view.next("audit").wait().steps() and view.below.audit.labels is not None
    assert view.below.least < 5  # no word is named in that many of six texts
    view.close()


def test_a_part_of_a_reply_is_named_by_its_text():
    settings = {"method": "gradxact", "check": False, "progress": False}
    answer = nbsal.answer(writers.load(), "One lives in Oslo.", " The end", **settings)
    label = answer_steps(answer, range(len(answer.ids)))["part"].label
    assert "The end" in label and "Ġ" in "".join(answer.reading.reply_tokens)


def test_from_a_reply_another_method_answers_and_a_part_has_its_words():
    notes, asked = nbsal.load("demo/notes"), [{"role": "user", "content": "Where does Mara live?"}]
    view = nbsal.why(notes, asked, documents=["Mara lives in Oslo.", "Boris lives in Rouen."]).wait()
    after = view.next("method").wait()
    assert after.method == "ifr" and after.result.text.split() == view.result.text.split()
    assert after.next("method").method == "occlusion"
    view.selection = []
    view.request()
    assert "part" not in view.wait().steps()
    view.selection = [3]
    part = view.next("part").wait()
    assert part.result.target == "Oslo" and part.result.check is not None
    view.close()


@pytest.mark.parametrize("kind", [Browse, Clouds, Audit])
def test_what_is_no_text_is_refused_at_once(kind, small):
    with pytest.raises(InputError):
        kind(nbsal.Explainer(small), [3.0, 4.0])


def test_what_is_compared_leads_on(small):
    view = Compare(nbsal.Explainer(small), text=TEXT, other_method="occlusion").wait()
    assert set(view.steps()) == {"games", "layers", "heads", "texts"}
    view.close()


@cases("name, content, count", [("a.csv", CSV, 3), ("a.jsonl", JSONL, 2), ("a.txt", "A joy.\n\nA bore.\n", 2)])
def test_files_of_texts_are_read(name, content, count):
    texts, labels = read_texts(name, content)
    assert len(texts) == count and (labels is None) == (name != "a.csv")


@cases("name, content", [("a.exe", ""), ("a.json", "{"), ("a.csv", "words\nA joy.\n")])
def test_a_file_without_texts_is_refused(name, content):
    with pytest.raises(InputError):
        read_texts(name, content)


def test_the_view_below_is_replaced_closed_and_in_the_picture(view):
    first = view.next("games").wait()
    assert "highest score first" in view._static_html(), "the picture of a cell holds both"
    second = view.next("layers").wait()
    assert first.comm is None and second.comm is not None
    view.close()
    assert second.comm is None


def test_the_picture_of_a_cell_follows_the_view_below(view):
    after, drawn = view.next("games").wait(), []
    view._snapshots.refresh = lambda: drawn.append(view.below.text)
    after.text = "A dull bore."
    after.wait()
    assert "A dull bore." in drawn


def test_unknown_steps_are_refused_and_finished_results_have_none(view, small):
    with refuses("name", UnknownName) as caught:
        view.next("fix")
    assert set(caught.value.valid) == {"games", "class", "method", "layers", "heads", "texts"}
    assert "error" in ask(view, ask="next", id="1", name="fix")
    assert Highlight(nbsal.Explainer(small)(TEXT)).wait().steps() == {}
    assert set(nbsal.why(small, TEXT).wait().steps()) == {"class", "method", "texts"}, "the rest are its panels"
    assert isinstance(nbsal.why(small, TEXT), Workbench)
