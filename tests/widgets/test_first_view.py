"""The first view is the one that suits what is asked, and print gives its words."""

import re

import pandas as pd
import pytest

import nbsal
from nbsal.support.errors import InputError
from nbsal.widgets import Answers, Audit, Browse, Workbench
from tests.cases import cases

ASKED = [{"role": "user", "content": "Where does Mara live?"}]
DOCUMENTS = ["Mara lives in Oslo.", "Boris lives in Rouen."]
ROWS = nbsal.samples.texts("reviews")[:110]


def frame(count, *columns):
    return pd.DataFrame(ROWS[:count])[list(columns)]


@pytest.fixture
def why():
    views = []
    yield lambda *given, **settings: views.append(nbsal.why(*given, **settings)) or views[-1]
    for view in views:
        view.close()


def test_a_text_is_explained_and_its_words_are_printed(small, why):
    view = why(small, "A warm and funny film.", method="occlusion")
    assert isinstance(view, Workbench) and view.wait().result.method == "occlusion"
    statement = view.result.statement()
    assert statement.state != "unchecked", "printed words are checked"
    assert str(view).startswith(statement.text()) and statement.evidence_line in str(view)
    assert isinstance(why(nbsal.Explainer(small, "gradcam"), "A joy."), Workbench)


def test_a_chat_is_answered(why):
    notes = nbsal.load("demo/notes")
    view = why(notes, ASKED, documents=DOCUMENTS)
    assert isinstance(view, Answers) and "Oslo" in view.wait().result.text
    assert str(view).startswith(view.result.statement().text())
    assert isinstance(why(notes, "Where does Mara live?"), Answers), "a model that writes is asked"


@cases(
    "what, labels, kind",
    [
        ([row["text"] for row in ROWS[:4]], None, Browse),
        ([row["text"] for row in ROWS[:4]], [row["label"] for row in ROWS[:4]], Browse),
        (frame(4, "text", "label"), None, Browse),
        (frame(110, "text", "label"), None, Audit),
        (frame(110, "text", "label").rename(columns={"label": "gold"}), "gold", Audit),
        (frame(110, "text"), None, Browse),
    ],
)
def test_texts_are_listed_or_audited(what, labels, kind):
    view = nbsal.why("demo/reviews-small", what, labels=labels)
    assert isinstance(view, kind)
    view.close()


def test_a_list_is_printed(small, why):
    view = why(small, frame(4, "text", "label"))
    printed = re.sub(r"\[[+-][\d.]+\]", "", str(view))  # without the scores of words
    assert all(row["text"][:40] in printed for row in ROWS[:4]) and ROWS[4]["text"][:40] not in printed


@cases(
    "what, settings",
    [
        ("A joy.", {"documents": DOCUMENTS}),
        (ASKED, {"labels": ["x"]}),
        (pd.DataFrame({"review": ["A joy."]}), {}),
    ],
)
def test_what_does_not_go_together_is_refused(what, settings):
    with pytest.raises(InputError):
        nbsal.why("demo/reviews-small", what, **settings)
