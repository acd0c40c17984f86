"""Many replies with the same settings: rows of every form, written together or alone, and what stops them."""

import json
import threading

import numpy as np
import pandas
import pytest
from transformers import GenerationMixin

import nbsal
from nbsal.explain import replies
from nbsal.explain.prompt import generate
from nbsal.support.errors import Cancelled
from tests import axioms
from tests.answers import writers
from tests.cases import cases
from tests.raising import refuses

PROMPT = "The film is a warm joy. The plot is a bore. Who wrote the book?"
MESSAGES = [{"role": "user", "content": PROMPT}]
DOCUMENTED = {"asked": "Who read it?", "documents": ["Ben read the book, and Ann wrote it."]}
PROMPTS = [PROMPT, "A joy.", DOCUMENTED, "The plot is a bore."]
GIVEN = {"asked": PROMPT, "reply": " A joy.", "id": 7}
SETTINGS = {"max_new_tokens": 5, "progress": False}


@pytest.fixture
def calls(monkeypatch):
    """A list that grows by the number of prompts of every call of `generate`."""
    sizes, generate = [], GenerationMixin.generate

    def counted(self, ids, **settings):
        sizes.append(len(ids))
        return generate(self, ids, **settings)

    monkeypatch.setattr(GenerationMixin, "generate", counted)
    return sizes


@pytest.fixture(scope="module")
def explain():
    return nbsal.Explainer(writers.load(), "gradxact")


def alone(explain, row, **settings):
    asked, documents, reply = replies.parse_row(row)
    return explain.reply(asked, reply, documents=documents, **SETTINGS | settings)


@pytest.mark.some(2)
@pytest.mark.parametrize("name", writers.MODELS)
def test_replies_that_are_written_together_are_those_of_each_alone(name, calls):
    explain = nbsal.Explainer(writers.load(name), "gradxact")
    forms = [MESSAGES, GIVEN, {"messages": MESSAGES, "documents": {"Notes": "Ann wrote it."}, "reply": [20, 30]}]
    rows = [*PROMPTS, *forms, DOCUMENTED | {"reply": None}]
    answers = explain.replies(rows, unit="word", **SETTINGS)
    # In a random Gemma 2, padding fills the window of attention: its replies are written again.
    assert calls[0] == len(rows) - 2 and (len(calls) > 1) == (name == "gemma2")
    for row, answer in zip(rows, answers, strict=True):
        single = alone(explain, row, unit="word")
        assert answer.ids == single.ids and answer.provenance == single.provenance
        assert axioms.relative(answer.scores, single.scores) < 1e-7
        assert answer.statistics.drawn == pytest.approx(single.statistics.drawn, abs=1e-7, nan_ok=True)


ALONE = [{"do_sample": True, "seed": 3}, {"repetition_penalty": 1.5}, {"num_beams": 2}, {"batch_size": 1}, None]


@cases("settings", ALONE)
def test_settings_that_tie_replies_to_padding_or_to_a_seed_write_each_alone(calls, settings):
    """Also a penalty that the model has by itself; row i draws from the seed plus i."""
    explain = nbsal.Explainer(writers.load(), "random")
    if settings is None:
        settings, explain.subject.model.generation_config.repetition_penalty = {}, 1.5
    calls.clear()
    answers = explain.replies(PROMPTS, **SETTINGS | settings)
    assert calls == [1] * len(PROMPTS)
    for at, (row, answer) in enumerate(zip(PROMPTS, answers, strict=True)):
        seed = {"seed": settings["seed"] + at} if "seed" in settings else {}
        assert answer.ids == alone(explain, row, **settings | seed).ids


def test_batches_have_a_size_and_leave_out_replies_that_are_given(explain, calls):
    answers = explain.replies([PROMPTS[0], PROMPTS[1], GIVEN, PROMPTS[3], PROMPTS[0]], batch_size=4, **SETTINGS)
    assert calls == [3, 1] and answers[2].text == " A joy." and answers[0].ids == answers[4].ids


def test_a_reply_that_padding_has_changed_is_written_again(explain, calls, monkeypatch):
    """And all replies of a model that cannot write several together."""
    truth = [alone(explain, row) for row in PROMPTS]
    run_generate = generate._run_generate

    def changed(subject, ids, *args):
        output = run_generate(subject, ids, *args)
        if len(ids) > 1:
            output.sequences[1, -2] += 1
        return output

    def failing(subject, ids, *args):
        return 1 / 0 if len(ids) > 1 else run_generate(subject, ids, *args)

    for function, expected in ((changed, [4, 1]), (failing, [1] * 4)):
        monkeypatch.setattr(generate, "_run_generate", function)
        calls.clear()
        answers = explain.replies(PROMPTS, **SETTINGS)
        assert calls == expected
        assert [answer.ids for answer in answers] == [answer.ids for answer in truth]
        assert np.allclose(answers[1].scores, truth[1].scores, rtol=1e-9)


def test_frames_are_rows_too(explain, tmp_path):
    columns = {"messages": [MESSAGES, MESSAGES], "reply": [" A joy.", None], "documents": [None, ["x."]]}
    frame = pandas.DataFrame(columns)
    frame.to_parquet(tmp_path / "rows.parquet")
    for table in (frame, pandas.read_parquet(tmp_path / "rows.parquet")):
        first, second = explain.replies(table, **SETTINGS)
        assert first.text == " A joy." and len(second.ids) == 5
        assert [source.kind for source in second.reading.prompt.sources] == ["message", "document"]


@cases(
    "row, argument",
    [
        ({"reply": "x"}, "rows"),
        ({"asked": PROMPT, "messages": MESSAGES}, "rows"),
        ({"asked": PROMPT, "documents": "one text", "reply": "x"}, "documents"),
        ({"asked": PROMPT, "reply": 1.5}, "reply"),
        ("A bore. " * 200, "asked"),
        (3, "asked"),
    ],
)
def test_a_row_that_cannot_be_explained_is_named(explain, row, argument):
    with refuses(argument) as caught:
        explain.replies([PROMPT, row, "Who?"], **SETTINGS)
    assert len(caught.value.partial) == 1 and "row 1" in caught.value.__notes__[0]


@cases("rows", ["one prompt", GIVEN, 3, None, b"x"])
def test_rows_that_are_none_are_refused(explain, rows):
    with refuses("rows"):
        explain.replies(rows, progress=False)
    assert explain.replies([], progress=False) == []


def test_progress_counts_rows_and_cancel_keeps_them(explain):
    cancel, steps = threading.Event(), []

    def progress(done, total):
        steps.append((done, total))
        if done == 2:
            cancel.set()

    with pytest.raises(Cancelled) as caught:
        explain.replies([GIVEN] * 4, progress=progress, cancel=cancel)
    assert steps == [(1, 4), (2, 4)] and len(caught.value.partial) == 2


def test_writing_together_can_be_cancelled(explain, monkeypatch):
    monkeypatch.setattr(replies, "WRITTEN", 2)
    batches, cancel = [], threading.Event()

    def watched(subject, prompts, settings, check):
        batches.append(tokens := [])

        def follow():
            tokens.append(1)
            if len(batches) == len(tokens) == 2:
                cancel.set()
            check()

        return generate.generate_batch(subject, prompts, settings, follow)

    monkeypatch.setattr(replies, "generate_batch", watched)
    with pytest.raises(Cancelled) as caught:
        explain.replies(PROMPTS, cancel=cancel, **SETTINGS)
    assert len(caught.value.partial) == 2 and list(map(len, batches)) == [5, 2]


def test_plain_values_can_be_written_as_json():
    value = {"a": np.array(["x", None], dtype=object), "b": (1, np.float64(2)), "c": float("nan")}
    value["d"] = np.array([{"e": 1}])
    assert json.dumps(replies.plain(value)) == '{"a": ["x", null], "b": [1, 2.0], "c": null, "d": [{"e": 1}]}'
