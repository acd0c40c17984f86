"""Answers of demo/notes, whose sources are known: methods find them, chance does not."""

import numpy as np
import pytest

import nbsal

QUESTIONS = 6
FEWEST, MOST = 5, 7  # documents of a question: exact Shapley values of more took most of the time
FIND = ("attn-lrp", "gae", "shapley", "occlusion", "contextcite", "ridge")


@pytest.fixture(scope="module")
def hits():
    subject = nbsal.load("demo/notes")
    rows = [row for row in nbsal.samples.texts("notes") if len(row["source"]) == 1]
    rows = [row for row in rows if FEWEST <= len(row["documents"]) <= MOST]
    hits = {name: [] for name in (*FIND, "random")}
    for row in rows[:QUESTIONS]:
        question = [{"role": "user", "content": row["question"]}]
        settings = {"documents": row["documents"], "unit": "document", "method": list(hits), "progress": False}
        for name, answer in nbsal.answer(subject, question, " " + row["answer"], **settings).items():
            scores = answer.unit_scores().sum(0)
            documents = [i for i, unit in enumerate(answer.units) if unit.name.startswith("document")]
            assert len(documents) == len(row["documents"])
            hits[name].append(int(np.argmax(scores[documents])) == row["source"][0])
    return hits


@pytest.mark.some(2)
@pytest.mark.parametrize("method", FIND)
def test_methods_find_the_note_that_the_answer_is_from(hits, method):
    assert np.mean(hits[method]) >= 0.75


def test_chance_does_not(hits):
    assert np.mean(hits["random"]) <= 0.3


def test_the_model_replies_by_itself_and_its_reply_is_explained():
    subject = nbsal.load("demo/notes")
    documents = {
        "homes": "Mara lives in Oslo now.",
        "keys": "The keys to the attic are with Mara.",
        "trips": "Boris lives in Rouen.",
    }
    question = [{"role": "user", "content": "Where does Mara live?"}]
    answer = nbsal.answer(subject, question, documents=documents, unit="document", method="occlusion", progress=False)
    assert answer.text == " Mara lives in Oslo.</s>"
    assert answer.matrix("word", "document").loc["Oslo"].idxmax() == "document 1, homes"
    assert answer.provenance["documents"] == "by the template"
    assert answer.judge().beats_chance
    against = answer.rather(" Rouen", at="Oslo")
    assert against.target == "Oslo - Rouen"
