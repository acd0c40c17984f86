"""Replies that are written together: each is what the model writes by itself, or is written again."""

import threading

import numpy as np
import pytest

import nbsal
from nbsal.answers import batch_generate, replies
from nbsal.errors import Cancelled, InputError
from tests import axioms
from tests.answers import writers

PROMPTS = [
    "The film is a warm joy. The plot is a bore. Who wrote the book?",
    "A joy.",
    {"asked": "Who read it?", "documents": ["Ben read the book, and Ann wrote it."]},
    "The plot is a bore.",
]
SETTINGS = {"max_new_tokens": 5, "progress": False}


@pytest.fixture
def calls(monkeypatch):
    """A list that grows by the number of prompts of every call of `generate`."""
    from transformers import GenerationMixin

    sizes, generate = [], GenerationMixin.generate

    def counted(self, ids, **settings):
        sizes.append(len(ids))
        return generate(self, ids, **settings)

    monkeypatch.setattr(GenerationMixin, "generate", counted)
    return sizes


def alone(explain, row, **settings):
    asked, documents, reply = replies.parse_row(row)
    return explain.reply(asked, reply, documents=documents, **SETTINGS | settings)


@pytest.mark.parametrize("name", writers.MODELS)
def test_replies_that_are_written_together_are_those_of_each_alone(name, calls):
    explain = nbsal.Explainer(writers.load(name), "gradxact")
    answers = explain.replies(PROMPTS, **SETTINGS)
    # In a random Gemma 2, padding fills the window of attention: its replies are written again.
    assert calls[0] == len(PROMPTS) and (len(calls) > 1) == (name == "gemma2")
    for row, answer in zip(PROMPTS, answers, strict=True):
        single = alone(explain, row)
        assert answer.ids == single.ids and answer.provenance == single.provenance
        assert axioms.relative(answer.scores, single.scores) < 1e-7
        assert answer.statistics.drawn == pytest.approx(single.statistics.drawn, abs=1e-7)


def test_replies_of_different_lengths_end_where_each_ends(calls):
    explain = nbsal.Explainer(nbsal.load("demo/notes"), "random")
    notes = ["Mara lives in Oslo.", "Boris borrowed the red book."]
    questions = ["Where does Mara live?", "Where does Mara live, and what did Boris borrow?", "What did Boris borrow?"]
    rows = [{"asked": [{"role": "user", "content": each}], "documents": notes} for each in questions]
    answers = explain.replies(rows, progress=False)
    assert calls == [3] and len({len(answer.ids) for answer in answers}) > 1
    for row, answer in zip(rows, answers, strict=True):
        assert answer.ids == explain.reply(row["asked"], documents=notes, progress=False).ids


@pytest.mark.parametrize(
    "settings",
    [{"do_sample": True, "seed": 3}, {"repetition_penalty": 1.5}, {"num_beams": 2}, {"batch_size": 1}],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_tie_replies_to_padding_or_to_a_seed_write_each_alone(calls, settings):
    explain = nbsal.Explainer(writers.load(), "random")
    answers = explain.replies(PROMPTS, **SETTINGS | settings)
    assert calls == [1] * len(PROMPTS)
    seed = settings.get("seed")
    for at, (row, answer) in enumerate(zip(PROMPTS, answers, strict=True)):
        assert answer.ids == alone(explain, row, **settings | ({} if seed is None else {"seed": seed + at})).ids


def test_a_models_own_penalty_writes_each_alone(calls):
    subject = writers.load()
    subject.model.generation_config.repetition_penalty = 1.5
    nbsal.Explainer(subject, "random").replies(PROMPTS, **SETTINGS)
    assert calls == [1] * len(PROMPTS)


def test_batches_have_a_size_and_leave_out_replies_that_are_given(calls):
    explain = nbsal.Explainer(writers.load(), "random")
    rows = [PROMPTS[0], PROMPTS[1], {"asked": "Who?", "reply": " Ann."}, PROMPTS[3], PROMPTS[0]]
    answers = explain.replies(rows, batch_size=4, **SETTINGS)
    assert calls == [3, 1] and answers[2].text == " Ann." and answers[0].ids == answers[4].ids


def test_a_reply_that_padding_has_changed_is_written_again(calls, monkeypatch):
    explain = nbsal.Explainer(writers.load(), "gradxact")
    truth = [alone(explain, row) for row in PROMPTS]
    generate = batch_generate.run_generate

    def changed(*args):
        output = generate(*args)
        output.sequences[1, -2] += 1
        return output

    monkeypatch.setattr(batch_generate, "run_generate", changed)
    calls.clear()
    answers = explain.replies(PROMPTS, **SETTINGS)
    assert calls == [4, 1]
    assert [answer.ids for answer in answers] == [answer.ids for answer in truth]
    assert np.array_equal(answers[1].scores, truth[1].scores)


def test_a_model_that_cannot_write_together_writes_each_alone(calls, monkeypatch):
    def fail(*args):
        raise RuntimeError("no batches")

    monkeypatch.setattr(batch_generate, "run_generate", fail)
    answers = nbsal.Explainer(writers.load(), "random").replies(PROMPTS, **SETTINGS)
    assert calls == [1] * 4 and len(answers) == 4


def test_a_row_that_cannot_be_read_is_the_one_that_is_named(calls):
    explain = nbsal.Explainer(writers.load(), "random")
    with pytest.raises(InputError) as caught:
        explain.replies([*PROMPTS, {"reply": "x"}, "Who?"], **SETTINGS)
    assert caught.value.argument == "rows" and len(caught.value.partial) == 4
    assert "row 4" in caught.value.__notes__[0] and calls == [5]
    with pytest.raises(InputError) as caught:
        explain.replies(["A joy.", "A bore. " * 200, "Who?"], **SETTINGS)
    assert len(caught.value.partial) == 1 and "row 1" in caught.value.__notes__[0]


def test_writing_together_can_be_cancelled(monkeypatch):
    monkeypatch.setattr(replies, "WRITTEN", 2)
    cancel, explain = threading.Event(), nbsal.Explainer(writers.load(), "random")
    generate, batches = batch_generate.generate_batch, []

    def watched(subject, prompts, settings, check):
        batches.append(tokens := [])

        def follow():
            tokens.append(1)
            if len(batches) == len(tokens) == 2:
                cancel.set()
            check()

        return generate(subject, prompts, settings, follow)

    monkeypatch.setattr(replies, "generate_batch", watched)
    with pytest.raises(Cancelled) as caught:
        explain.replies(PROMPTS, cancel=cancel, **SETTINGS)
    assert len(caught.value.partial) == 2 and list(map(len, batches)) == [5, 2]
