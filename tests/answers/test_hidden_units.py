"""Tests that scores of documents, which are hidden as one, are shown as those of documents and not of their words."""

import re

import numpy as np
import pytest

import nbsal
from nbsal.widgets import Answers, Highlight
from tests.cases import cases

DOCUMENTS = ["Mara lives in Oslo now, and she likes it there.", "Boris lives in Rouen."]
ASKED = [{"role": "user", "content": "Where does Mara live?"}]
TEXTS = {"document 1": DOCUMENTS[0], "document 2": DOCUMENTS[1], "your question": ASKED[0]["content"]}


@pytest.fixture(scope="module")
def answer():
    return nbsal.answer(nbsal.load("demo/notes"), ASKED, " In Oslo.", documents=DOCUMENTS, progress=False)


def unit_scores(answer, scores):
    """The score of each source, in the order of their texts."""
    by_text = {unit.text: float(scores[list(unit.tokens)].sum()) for unit in answer.units}
    return [by_text[text] for text in TEXTS.values()]


@cases("explain", [lambda answer: answer.of("Oslo"), lambda answer: answer.rather(" Rouen", at=1)])
def test_a_part_of_a_reply_ranks_documents_and_not_their_words(answer, explain, tmp_path):
    part = explain(answer)
    scores = unit_scores(answer, part.scores)
    frame = part.by_word()
    frame = frame[frame["segment"] == 0]
    assert frame["word"].tolist() == [*TEXTS] and frame["score"].tolist() == pytest.approx(scores)
    order = np.array([*TEXTS])[np.argsort(-np.abs(scores))].tolist()
    part.save(tmp_path / "part.nbsal")
    for each in (part, nbsal.Saliency.load(tmp_path / "part.nbsal")):
        ranked = each.ranked_words(5)
        assert [entry.name[1] for entry in ranked] == order
        assert all(entry.aside[2:20] == TEXTS[entry.name[1]][:18] for entry in ranked)
        page = re.sub(r"<[^>]*>", "\n", str(each.to_html()))
        assert f"100\u202f% = {order[0]}" in page and {*TEXTS.values()} <= {line.strip() for line in page.split("\n")}
    (legend,) = Highlight(part).wait()._result["legends"]
    assert legend["strongest"]["word"][0] == order[0]
    assert [row["name"][1] for row in legend["ranked"]["word"]["rows"]] == order


@cases("level", ["word", "sentence", "document"])
def test_a_document_is_shaded_as_one(answer, level):
    view = Answers(answer, level=level, selection=answer.tokens_of("Oslo")).wait()
    picture = view.picture()
    scores = unit_scores(answer, picture.total)
    shaded = {span.text: span.score for part in picture.words() for span in part if span.score is not None}
    assert shaded == pytest.approx(dict(zip(TEXTS.values(), scores, strict=True)))
    assert f"100\u202f% = {[*TEXTS][int(np.argmax(np.abs(scores)))]}" in str(view.to_html())


def test_the_page_shades_a_document_as_one(answer):
    view = Answers(answer).wait()
    flags = memoryview(view._tokens["flags"]).cast("H")
    begins = {i for i in range(answer.reading.start) if flags[i] & 1 and not flags[i] & 2}
    assert begins == {unit.tokens[0] for unit in answer.units} and view._facts["hides_parts"]


def test_words_that_are_hidden_alone_stay_words():
    settings = {"documents": DOCUMENTS, "unit": "word", "method": "occlusion", "progress": False}
    answer = nbsal.answer(nbsal.load("demo/notes"), ASKED, " In Oslo.", **settings)
    assert "Mara" in answer.of("Oslo").by_word()["word"].tolist()
    assert "document 1" not in str(answer.of("Oslo").to_html()) and not Answers(answer).wait()._facts["hides_parts"]
