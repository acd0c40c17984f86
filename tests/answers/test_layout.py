"""Documents that stand behind a number, by which a reply can cite them."""

import json

import numpy as np
import pytest

import nbsal
from nbsal import cli, corpus
from nbsal.support.errors import UnknownName
from nbsal.widgets import Answers
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses

DOCUMENTS = ["Ann wrote the book.", {"title": "Tea", "text": "Ben likes tea."}, "The film is a joy."]
QUESTION = [{"role": "user", "content": "Who wrote the book?"}]
WRITTEN = "[1] Ann wrote the book.\n\n[2] Tea\nBen likes tea.\n\n[3] The film is a joy."
SETTINGS = {"documents": DOCUMENTS, "layout": "numbered", "progress": False}


@pytest.fixture(scope="module")
def subject():
    return writers.load()


@pytest.fixture
def answer(subject):
    return nbsal.answer(subject, QUESTION, " Ann.", method=nbsal.Occlusion(way="text"), **SETTINGS)


@cases(
    "asked, text",
    [
        (QUESTION, f"{WRITTEN}\n\nWho wrote the book?"),
        ("Notes:\n{documents}\nWho?", f"Notes:\n{WRITTEN}\nWho?"),
        ([{"role": "user", "content": "Read {documents}!"}], f"Read {WRITTEN}!"),
    ],
)
def test_numbers_belong_to_the_template(subject, asked, text):
    answer = nbsal.answer(subject, asked, " Ann.", method="random", check=False, **SETTINGS)
    prompt = answer.reading.prompt
    assert text in prompt.text and answer.provenance["layout"] == "numbered"
    for number, owner in enumerate(prompt.owners):
        piece = prompt.text[slice(*prompt.spans[number])]
        assert owner < 0 or not {*"[]123"} & {*piece}, "no source holds a number"
    plain = nbsal.answer(subject, asked, " Ann.", method="random", check=False, **SETTINGS | {"layout": "plain"})
    assert "[1]" not in plain.reading.prompt.text and "layout" not in plain.provenance
    assert [unit.text for unit in plain.units] == [unit.text for unit in answer.units]


def test_other_documents_keep_their_numbers(subject, answer):
    text = answer.running.experiment.text
    hidden = next(unit for unit in answer.units if unit.name == "document 2, Tea")
    shorter = subject.tokenizer.decode(text.write(~np.isin(np.arange(len(text.row)), hidden.tokens)))
    assert "[1] Ann wrote the book.\n\n[3] The film is a joy.\n\nWho wrote the book?" in shorter


def test_a_reply_that_is_written_again_reads_the_same_numbers(answer):
    view = Answers(answer).wait()
    view.struck = [1]
    view.write_again()
    assert WRITTEN.partition("\n\n")[2] in view.wait().result.reading.prompt.text
    assert "[1]" not in view.result.reading.prompt.text
    view.struck = [2]  # of what is left
    view.write_again()
    assert "[3] The film" in view.wait().result.reading.prompt.text and "[2]" not in view.result.reading.prompt.text
    view.close()


def test_a_template_that_places_documents_writes_them_as_it_does():
    subject = writers.load(template="citing")
    with refuses("layout"):
        nbsal.answer(subject, QUESTION, " Ann.", **SETTINGS)
    asked = [{"role": "user", "content": "{documents} Who?"}]
    assert f"{WRITTEN} Who?" in nbsal.answer(subject, asked, " Ann.", **SETTINGS).reading.prompt.text


def test_an_unknown_layout_is_refused(subject):
    with refuses("layout", UnknownName):
        nbsal.answer(subject, QUESTION, " Ann.", documents=DOCUMENTS, layout="bullets")


def test_tables_and_commands_have_the_layout(subject, answer, tmp_path):
    rows = [{"asked": QUESTION, "documents": DOCUMENTS, "reply": " Ann."}]
    columns = {"documents": "documents", "reply": "reply", "progress": False}
    explainer = nbsal.Explainer(subject, nbsal.Occlusion(way="text"))
    stored = corpus.explain_replies(explainer, rows, tmp_path / "rows", layout="numbered", **columns)
    assert np.allclose(stored.scores(0), answer.unit_scores(), atol=1e-5)
    with refuses("replies"):
        corpus.explain_replies(explainer, rows, tmp_path / "rows", **columns)
    subject.model.save_pretrained(tmp_path / "writer")
    subject.tokenizer.save_pretrained(tmp_path / "writer")
    (tmp_path / "notes.txt").write_text("Ann wrote the book.")
    (tmp_path / "rows.jsonl").write_text(json.dumps(rows[0]))
    model = ["--layout", "numbered", "--model", tmp_path / "writer", "--method", "gae"]
    saved = ["Who?", "--reply", " Ann.", "--documents", tmp_path / "notes.txt", "--save", tmp_path / "saved"]
    assert cli.main(["answer", *map(str, [*saved, *model])]) == 0
    assert "[1] Ann wrote" in nbsal.Answer.load(tmp_path / "saved").provenance["rendered"]
    table = [tmp_path / "rows.jsonl", tmp_path / "table", "--asked", "asked", "--documents", "documents"]
    assert cli.main(["corpus", *map(str, [*table, "--reply", "reply", *model])]) == 0
    assert corpus.open_replies(tmp_path / "table").plan.replies["layout"] == "numbered"
