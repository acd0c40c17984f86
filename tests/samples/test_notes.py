"""Test the embedded model demo/notes: its tokenizer, its answers to the sample texts, and where these come from."""

import re

import numpy as np
import pytest
import torch

import nbsal
from nbsal import samples
from nbsal.samples import base, notes
from nbsal.samples.notes import prompt
from nbsal.samples.training import notes_evaluate
from nbsal.samples.training.notes_relations import ABSENT

ROWS = samples.texts("notes")
NAME = r"\d+:\d\d|\d+|[A-Z]\w+"
ANSWERABLE = [row for row in ROWS if row["source"]]


@pytest.fixture(scope="module")
def subject():
    return nbsal.load("demo/notes")


def test_the_model_needs_no_base_weights(monkeypatch):
    monkeypatch.setattr(base, "DIGESTS", {})
    monkeypatch.setattr(base, "installed", lambda name: [])
    subject = nbsal.load("demo/notes")
    assert type(subject.model).__name__ == "LlamaForCausalLM" and subject.name == "demo/notes"
    assert subject.mask is None and subject.lm_head is not None
    assert not any(parameter.requires_grad for parameter in subject.model.parameters())


def test_unseen_facts_are_answered(subject):
    rows = ROWS[::2]
    answers = notes_evaluate.replies(subject, [prompt(row["documents"], row["question"]) for row in rows])
    right = {0: [], 1: [], 2: []}
    for row, answer in zip(rows, answers, strict=True):
        right[len(row["source"])].append(answer == row["answer"])
    assert np.mean(right[1]) >= 0.92 and np.mean(right[2]) >= 0.9 and np.mean(right[0]) >= 0.85


def test_answers_depend_on_their_source_and_hardly_on_other_documents(subject):
    sources, others = notes_evaluate.deletions(subject, ANSWERABLE[::6])
    assert len(sources) >= 25 and np.mean(sources) >= 0.95
    assert len(others) >= 75 and np.mean(others) <= 0.06


def test_an_answer_ends_by_itself_and_generation_is_greedy(subject):
    inputs = subject.tokenizer(prompt(["Mara lives in Oslo now."], "Where does Mara live?"), return_tensors="pt")
    ids = subject.model.generate(**inputs)[0]
    assert subject.tokenizer.decode(ids[inputs["input_ids"].shape[1] :]) == " Mara lives in Oslo.</s>"
    with torch.no_grad():
        choices = subject.model(input_ids=ids[None]).logits[0].argmax(-1)
    start = inputs["input_ids"].shape[1]
    assert torch.equal(choices[start - 1 : -1], ids[start:])


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


def test_texts_come_back_from_their_tokens():
    tokenizer = notes.tokenizer()
    for row in ROWS:
        text = prompt(row["documents"], row["question"]) + f" {row['answer']}"
        ids = tokenizer(text)["input_ids"]
        assert ids[0] == notes.START and notes.UNKNOWN not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert tokenizer.decode(tokenizer("Mara met Zaphod.")["input_ids"][1:]) == "Mara<unk><unk>."


def test_the_chat_template_writes_the_prompt():
    tokenizer, row = notes.tokenizer(), ROWS[0]
    messages = [{"role": "user", "content": row["question"]}]
    documents = [{"title": "", "text": text} for text in row["documents"]]
    ids = tokenizer.apply_chat_template(messages, documents=documents, return_dict=True)["input_ids"]
    assert ids == tokenizer(prompt(row["documents"], row["question"]))["input_ids"]
    messages += [{"role": "assistant", "content": "Mara."}, {"role": "user", "content": "Where?"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert text.endswith("\nAnswer: Mara.</s>\nQuestion: Where?\nAnswer:")


def test_answers_can_be_explained(subject):
    row = next(row for row in ROWS if len(row["source"]) == 1)
    saliency = nbsal.Explainer(subject, "gradxact")(prompt(row["documents"], row["question"]))
    assert np.isfinite(saliency.scores).all() and saliency.scores.any()


def test_the_evaluation_prints_every_setting(subject, monkeypatch):
    monkeypatch.setattr(samples, "texts", lambda name: ROWS[::20])
    lines = list(notes_evaluate.report(subject, 4))
    assert len(lines) == len(notes_evaluate.SETTINGS) + 2
    assert all(re.search(r"[01]\.\d{3} of \d", line) for line in lines)
