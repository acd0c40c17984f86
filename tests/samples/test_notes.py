"""Test the embedded model demo/notes: its tokenizer, its answers to the sample texts, and where these come from."""

import re

import numpy as np
import pytest

import nbsal
from nbsal import samples
from nbsal.samples import notes
from nbsal.samples.notes import prompt
from tests.training import notes_evaluate
from tests.training.notes_relations import ABSENT

ROWS = samples.texts("notes")
NAME = r"\d+:\d\d|\d+|[A-Z]\w+"
ANSWERABLE = [row for row in ROWS if row["source"]]


@pytest.fixture(scope="module")
def subject():
    return nbsal.load("demo/notes")


@pytest.mark.full
def test_unseen_facts_are_answered(subject):
    rows = ROWS[::2]
    answers = notes_evaluate.replies(subject, [prompt(row["documents"], row["question"]) for row in rows])
    right = {0: [], 1: [], 2: []}
    for row, answer in zip(rows, answers, strict=True):
        right[len(row["source"])].append(answer == row["answer"])
    assert np.mean(right[1]) >= 0.92 and np.mean(right[2]) >= 0.9 and np.mean(right[0]) >= 0.85


@pytest.mark.full
def test_answers_depend_on_their_source_and_hardly_on_other_documents(subject):
    sources, others = notes_evaluate.deletions(subject, ANSWERABLE[::6])
    assert len(sources) >= 25 and np.mean(sources) >= 0.95
    assert len(others) >= 75 and np.mean(others) <= 0.06


def test_sources_and_answers_of_the_texts():
    """Names and numbers that an answer adds to its question stand in its sources only."""
    assert [sum(len(row["source"]) == n for row in ROWS) for n in range(3)] == [30, 110, 60]
    for row in ROWS:
        assert (row["answer"] == ABSENT) == (not row["source"])
        names = set(re.findall(NAME, row["answer"])) - set(re.findall(NAME, row["question"])) - {"The"}
        documents = [set(re.findall(NAME, document)) for document in row["documents"]]
        holding = {number for number, words in enumerate(documents) if names & words}
        assert holding <= set(row["source"]) and max(row["source"], default=0) < len(documents)
    assert len({row["question"] + str(row["documents"]) for row in ROWS}) == 200


def test_the_chat_template_writes_the_prompt():
    tokenizer, row = notes.tokenizer(), ROWS[0]
    messages = [{"role": "user", "content": row["question"]}]
    documents = [{"title": "", "text": text} for text in row["documents"]]
    ids = tokenizer.apply_chat_template(messages, documents=documents, return_dict=True)["input_ids"]
    assert ids == tokenizer(prompt(row["documents"], row["question"]))["input_ids"]
    messages += [{"role": "assistant", "content": "Mara."}, {"role": "user", "content": "Where?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert text.endswith("\nAnswer: Mara.</s>\nQuestion: Where?\nAnswer:")


def test_the_evaluation_prints_every_setting(subject, monkeypatch):
    monkeypatch.setattr(samples, "texts", lambda name: ROWS[::20])
    lines = list(notes_evaluate.report(subject, 4))
    assert len(lines) == len(notes_evaluate.SETTINGS) + 2
    assert all(re.search(r"[01]\.\d{3} of \d", line) for line in lines)
