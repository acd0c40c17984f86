"""Citations and fields in the Answers view and in its copies: verdicts, what each links, and what the check takes."""

from dataclasses import replace

import pytest

import nbsal
from nbsal.explain.citations.cited import most_passes
from nbsal.explain.citations.sourced import SourcedRows, field_rows
from nbsal.explain.sentences.citation_sentences import SIGNS, USED, WOULD_DO
from nbsal.render.html import visible
from nbsal.render.sheet import Card, Sheet
from nbsal.support.lazy import pandas
from nbsal.widgets import Answers
from tests.answers import writers
from tests.browser import bench
from tests.widgets import cited
from tests.widgets.test_copies import assert_copies_agree, plain

BOTH, CITED, OTHER = (USED[roles] for roles in ((True, True), (True, False), (False, True)))
DUPLICATE = cited.DOCUMENTS | {"Copy": "Mara lives in Oslo, they say."}
CITING = " Mara lives in Oslo [3]. Boris likes tea [1]."
FIELDS = [
    ("name", "Mara", 2, 0, 4, 3.2, "from the documents"),
    ("city[0]", "Oslo", 2, 14, 18, 5.1, "from the documents"),
    ("leaves", "nine", 1, 40, 44, 0.02, "unclear"),
    ("note", "مرحبا " * 20, None, None, None, None, "not from the documents"),
]


def frame(rows=FIELDS):
    return pandas.DataFrame(rows, columns=["path", "value", "document", "start", "end", "drop", "verdict"])


@pytest.fixture(scope="module")
def subject():
    return writers.load()


@pytest.fixture(scope="module")
def answer(subject):
    return cited.answer(subject)


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes")


def show(notes, reply=CITING, **settings):
    return Answers(notes, bench.ASKED, reply, **{"documents": bench.NOTES, "method": "gradxact"} | settings).wait()


def test_each_verdict_has_its_sign_its_statement_and_its_documents(answer):
    rows = answer.sourced.statements
    assert [(row.text, row.mark, row.verdict) for row in rows] == cited.STATEMENTS
    assert len({row.words.split()[0] for row in rows}) == 5 and all(row.words[0] == SIGNS[row.verdict] for row in rows)
    assert len({row.reason for row in rows}) == 5
    assert [dict(row.links) for row in rows] == [  # the question is the first source, document 1 the second
        {2: BOTH},
        {1: CITED},
        {1: OTHER, 4: CITED},
        {3: CITED},
        {1: OTHER, 4: BOTH},
    ]
    reading = answer.reading
    for row in rows:
        first, last = (reading.reply_spans[token] for token in (row.tokens[0], row.tokens[-1]))
        assert reading.reply[first[0] : last[1]].strip() == row.text


def test_a_document_that_would_do_as_well_is_named(subject):
    class EitherDoes(cited.Invented):
        def numbers(self, subsets, meter=None):
            either = subsets.copy()
            either[:, 1] = subsets[:, 1] | subsets[:, 4]
            return super().numbers(either)

    (row,) = cited.answer(subject, cited.STATEMENTS[:1], DUPLICATE, experiment=EitherDoes).sourced.statements
    assert row.verdict == "supported" and dict(row.links) == {2: BOTH, 5: WOULD_DO} and "document 5" in row.reason


def test_numbers_of_no_document_and_inexact_quotes_are_said(subject):
    statements = [
        ("The museum is free", "[9]", "not from the documents"),
        ('It says "IN OSLO" here', "[2]", "supported"),
    ]
    rows = cited.answer(subject, statements).sourced.statements
    assert [row.verdict for row in rows] == [verdict for *_, verdict in statements]
    assert "document 9" in rows[0].reason and not rows[0].links
    exact = cited.answer(subject, [('It says "in Oslo" here', "[2]", "supported")]).sourced.statements[0]
    assert rows[1].reason.startswith(exact.reason) and len(rows[1].reason) > len(exact.reason)


def test_copies_show_what_the_page_shows(answer):
    view = Answers(answer).wait()
    assert view.panels == ["citations"] and view.result is not None
    for sheet in (answer.sheet(), view.sheet()):
        page = assert_copies_agree(sheet)
        rows = view._citations["statements"]
        said = [view._citations["finding"], view._citations["note"]]
        said += [row[name] for row in rows for name in ("words", "name", "text", "mark", "reason", "numbers")]
        assert len(rows) == 5 and [text for text in said if plain(visible(text)) not in page] == []
    cards = [block for block in view.sheet().blocks if isinstance(block, Card)]
    view.panels = []
    assert len([block for block in view.wait().sheet().blocks if isinstance(block, Card)]) == len(cards) - 5
    view.close()


def test_fields_link_their_values_with_a_place_in_the_documents(answer):
    prompt = answer.reading.prompt
    rows = SourcedRows((), field_rows(frame(), prompt))
    name, city, leaves, note = rows.fields
    texts = ["".join(prompt.text[slice(*prompt.spans[i])] for i in row.positions).strip(" ,") for row in rows.fields]
    assert texts == ["Mara", "Oslo", "nine", ""] and {prompt.owners[i] for i in city.positions} == {2}
    assert [dict(row.links).keys() for row in rows.fields] == [{2}, {2}, {1}, set()]
    assert note.numbers == note.mark == "" and len({row.words[0] for row in (name, leaves, note)}) == 3
    page = assert_copies_agree(Sheet("", SourcedRows(answer.sourced.statements, rows.fields).blocks))
    said = [text for row in rows.fields for text in (row.words, row.name, row.text, row.mark, row.numbers)]
    assert [text for text in said if plain(text) not in page] == []


def test_an_answer_with_fields_shows_them_at_once(subject, tmp_path):
    reply = '{"name": "Mara", "city": "Oslo"}'
    settings = {"documents": cited.DOCUMENTS, "method": "gradxact", "progress": False}
    extracted = nbsal.answer(subject, cited.ASKED, reply, **settings).with_fields(progress=False)
    extracted.save(tmp_path / "answer")
    for each in (extracted, nbsal.Answer.load(tmp_path / "answer")):
        view = Answers(each).wait()
        shown = [(row["name"], row["text"], len(row["positions"]) > 0) for row in view._citations["fields"]]
        assert shown == [("name", "Mara", True), ("city", "Oslo", True)] and view._citations["statements"] == []
        view.close()


def test_the_check_is_offered_and_run_when_it_is_opened(notes, forwards):
    view = show(notes)
    most = most_passes(view.result.cited())
    assert str(most) in view._citations["offer"] and "statements" not in view._citations
    forwards.clear()
    view.panels = ["citations"]
    rows, count = view.wait()._citations["statements"], len(forwards)
    assert [row["mark"] for row in rows] == ["[3]", "[1]"] and rows[0]["verdict"] == "supported"
    assert 0 < count <= most
    assert view.result.subsets is not None
    assert view.result.citations()["verdict"].tolist() == [row["verdict"] for row in rows]
    view.method = "simple"
    assert view.wait()._citations["statements"] == rows
    view.close()


def test_other_methods_check_nothing_again(notes, monkeypatch):
    view = show(notes, panels=["citations"])
    monkeypatch.setattr(nbsal.Answer, "check_citations", None)
    view.method = "simple"
    assert view.wait().error == "" and view.result.method == "simple" and view.result.subsets is not None
    view.close()


@pytest.mark.parametrize("reply, documents", [(" Mara lives in Oslo.", bench.NOTES), (CITING, ())])
def test_nothing_is_offered_where_nothing_is_cited(notes, reply, documents):
    view = show(notes, reply, documents=documents, panels=["citations"])
    assert view._citations == {} and view.error == ""
    view.close()


def test_a_saved_answer_shows_what_was_checked(answer, tmp_path):
    for number, each in enumerate((answer, replace(answer, subsets=None))):
        each.save(tmp_path / f"{number}")
        view = Answers(nbsal.Answer.load(tmp_path / f"{number}")).wait()
        rows = [row["verdict"] for row in view._citations.get("statements", [])]
        assert rows == ([] if number else [verdict for *_, verdict in cited.STATEMENTS])
        assert bool(view._citations) == bool(rows)
        view.close()
