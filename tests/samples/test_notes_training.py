"""Test the made-up world of demo/notes and the program that trains the model."""

from dataclasses import replace
from random import Random

import pytest
import torch

from nbsal import samples
from nbsal.samples import notes, weight_files
from tests.training import notes as train
from tests.training import notes_batches, notes_model, notes_texts
from tests.training.notes_relations import ABSENT, POOLS
from tests.training.notes_world import Fact, Level, draw_case, held_out

WHOLE = train.LEVELS[-1]


def drawn(number, level=WHOLE, unseen=False, seed=0):
    rng = Random(seed)
    return [draw_case(rng, level, rng.randint(2, 8), unseen) for _ in range(number)]


def test_answers_follow_from_the_notes_of_their_source():
    kinds = set()
    for case in drawn(150) + drawn(150, unseen=True):
        for question in case.questions:
            kinds.add(question.kind)
            assert len(question.source) == {"none": 0, "one": 1, "half": 1, "two": 2}[question.kind]
            for value, number in zip(question.values, question.source, strict=question.kind != "half"):
                assert value in case.notes[number] and value in question.answer
            assert (question.kind == "none") == (question.answer == ABSENT)
    assert kinds == {"none", "one", "half", "two"}


def test_seen_and_unseen_facts_and_questions_do_not_overlap():
    facts = [Fact("lives", person, city) for person in POOLS["person"] for city in POOLS["city"]]
    assert 0.08 < sum(map(held_out, facts)) / len(facts) < 0.12
    plain = Level(turns=9, alike=0.0)
    seen, unseen = ({note for case in drawn(400, plain, part) for note in case.notes} for part in (False, True))
    assert not seen & unseen
    questions = [
        {q.text for case in drawn(200, replace(plain, paraphrase=p)) for q in case.questions} for p in (False, True)
    ]
    assert all(questions) and not questions[0] & questions[1]


def test_the_shipped_texts_and_words_are_what_the_program_writes():
    assert list(notes_texts.rows()) == samples.texts("notes")
    assert list(notes_texts.asides()) == samples.texts("asides")
    assert notes_model.words() == list(notes.vocabulary())


def test_answers_alone_are_learnt_and_values_most():
    encoder = notes_batches.Encoder(notes.vocabulary())
    tokens = list(notes.vocabulary())
    for case in drawn(30):
        encoded = encoder.case(case, Random(0), noise=0.0)
        learnt = [number for number, weight in zip(encoded.ids, encoded.weights, strict=True) if weight]
        answers = "".join(f" {question.answer}</s>" for question in case.questions)
        assert "".join(tokens[number] for number in learnt) == answers
        for question, (kind, start, end) in zip(case.questions, encoded.answers, strict=True):
            assert kind == question.kind and encoded.ids[end - 1] == notes.END
            decisive = encoded.weights[start:end].count(notes_batches.DECISIVE)
            assert 2 + len(question.values) <= decisive < end - start


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(train, "BATCH_TOKENS", 120)
    monkeypatch.setattr(train, "CHECK", 2)
    monkeypatch.setattr(train, "exam", lambda *arguments: {"one": 1.0})


@pytest.mark.usefixtures("short")
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path, capsys):
    train.Run(tmp_path / "whole").go(4)
    first = train.Run(tmp_path / "parts")
    first.learn(4), first.learn(4)
    first.check(), first.save()
    train.Run(tmp_path / "parts").go(4)
    whole, parts = (weight_files.load(tmp_path / name / "notes.safetensors") for name in ("whole", "parts"))
    assert whole.keys() == samples.delta("notes").keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert notes.build(whole).config.vocab_size == len(notes.vocabulary())
    assert "step 4, level 1" in capsys.readouterr().out


def test_the_exam_counts_exact_answers():
    encoder = notes_batches.Encoder(notes.vocabulary())
    level = Level(notes=(2, 2), turns=2)
    model = samples.build("demo/notes")
    assert train.exam(model, encoder, level, 20)["one"] > 0.8
    assert train.exam(notes_model.blank(len(notes.vocabulary()), 0), encoder, level, 20)["one"] < 0.1
