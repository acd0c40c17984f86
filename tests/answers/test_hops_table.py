"""Test the table of notes that a reply's final value needs."""

import numpy as np
import pytest

import nbsal
from tests.answers import hops

ROW = next(row for row in nbsal.samples.texts("notes") if row["kind"] == "notice" and len(row["source"]) == 4)


@pytest.fixture(scope="module")
def answer():
    answers = hops.answers(nbsal.load("demo/notes"), ROW, ["gae"])
    return answers["gae"]


def test_notes_that_state_the_same_count_as_one(answer):
    units = [unit for unit in answer.reading.units("document") if unit.source]
    scores = np.zeros(answer.scores.shape[1])
    for number, score in enumerate([0.2, 0.4, 0.2, 0.3]):
        scores[units[number].tokens[0]] = score
    assert hops.names_needed(answer, scores, [[0, 2], [1]])
    assert not hops.names_needed(answer, scores, [[0], [1]])


def test_the_table_names_every_column(answer):
    right = hops.cells(answer, ROW)
    assert len(right) == len(hops.COLUMNS) and 0 < right[-1] < 0.2
    (head, line) = hops.lines({"gae": np.array([right]).T})
    assert head.count("|") == line.count("|") == len(hops.COLUMNS)
