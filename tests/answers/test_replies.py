"""Many replies with the same settings: rows of every form, seeds, and what stops them."""

import json
import threading

import numpy as np
import pandas
import pytest

import nbsal
from nbsal.answers.replies import parse_row, plain
from nbsal.errors import Cancelled, InputError
from tests.answers import writers
from tests.cases import cases

PROMPT = "The film is a joy. The plot is a bore."
MESSAGES = [{"role": "user", "content": PROMPT}]
ROWS = [
    PROMPT,
    MESSAGES,
    {"asked": PROMPT, "reply": " A joy.", "id": 7},
    {"messages": MESSAGES, "documents": {"Notes": "Ann wrote it."}, "reply": [20, 30]},
    {"asked": PROMPT, "documents": ["Ben read it."], "reply": None},
]


@pytest.fixture(scope="module")
def explain():
    return nbsal.Explainer(writers.load(), "ridge")


def test_rows_of_every_form_are_single_replies(explain):
    settings = {"progress": False, "max_new_tokens": 4}
    answers = explain.replies(ROWS, unit="word", **settings)
    assert len(answers) == len(ROWS)
    for row, answer in zip(ROWS, answers, strict=True):
        asked, documents, reply = parse_row(row)
        alone = explain.reply(asked, reply, documents=documents, unit="word", **settings)
        assert np.array_equal(alone.scores, answer.scores) and alone.ids == answer.ids
        assert alone.provenance == answer.provenance
    assert [answer.provenance["reply"].split()[0] for answer in answers[1:3]] == ["generated", "given"]


def test_frames_are_rows_too(explain, tmp_path):
    frame = pandas.DataFrame(
        {"messages": [MESSAGES, MESSAGES], "reply": [" A joy.", None], "documents": [None, ["x."]]}
    )
    frame.to_parquet(tmp_path / "rows.parquet")
    for table in (frame, pandas.read_parquet(tmp_path / "rows.parquet")):
        first, second = explain.replies(table, max_new_tokens=3, progress=False)
        assert first.text == " A joy." and len(second.ids) == 3 and second.units[-1].text.strip()
        assert [source.kind for source in second.reading.prompt.sources] == ["message", "document"]


def test_row_i_draws_from_seed_plus_i(explain):
    settings = {"do_sample": True, "temperature": 1.5, "max_new_tokens": 8, "progress": False}
    answers = explain.replies([PROMPT] * 3, seed=5, **settings)
    assert len({answer.ids for answer in answers}) > 1
    for i, answer in enumerate(answers):
        assert explain.reply(PROMPT, seed=5 + i, **settings).ids == answer.ids
        assert answer.provenance["seed"] == 5 + i


def test_progress_counts_rows_and_cancel_keeps_them(explain):
    cancel, steps = threading.Event(), []

    def progress(done, total):
        steps.append((done, total))
        if done == 2:
            cancel.set()

    with pytest.raises(Cancelled) as caught:
        explain.replies([{"asked": PROMPT, "reply": " A joy."}] * 4, progress=progress, cancel=cancel)
    assert steps == [(1, 4), (2, 4)] and len(caught.value.partial) == 2


@cases(
    "row, argument",
    [
        ({"reply": "x"}, "rows"),
        ({"asked": PROMPT, "messages": MESSAGES}, "rows"),
        ({"asked": PROMPT, "documents": "one text", "reply": "x"}, "documents"),
        ({"asked": PROMPT, "reply": 1.5}, "reply"),
        (3, "asked"),
    ],
)
def test_a_row_that_cannot_be_explained_is_named(explain, row, argument):
    with pytest.raises(InputError) as caught:
        explain.replies([{"asked": PROMPT, "reply": " A."}, row], progress=False)
    assert caught.value.argument == argument and len(caught.value.partial) == 1
    assert "row 1" in caught.value.__notes__[0]


def test_rows_that_are_none_are_refused(explain):
    for rows in ("one prompt", {"asked": PROMPT}, 3, None, b"x"):
        with pytest.raises(InputError) as caught:
            explain.replies(rows, progress=False)
        assert caught.value.argument == "rows"
    with pytest.raises(InputError):
        explain.replies([PROMPT], tempertaure=1, progress=False)
    assert explain.replies([], progress=False) == []


def test_plain_values_can_be_written_as_json():
    value = {
        "a": np.array(["x", None], dtype=object),
        "b": (1, np.float64(2)),
        "c": float("nan"),
        "d": np.array([{"e": 1}]),
    }
    assert json.dumps(plain(value)) == '{"a": ["x", null], "b": [1, 2.0], "c": null, "d": [{"e": 1}]}'
