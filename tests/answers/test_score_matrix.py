"""The scores of a method that hides are held once for each unit, in memory and in a file."""

from dataclasses import replace

import numpy as np
import pytest

import nbsal
from nbsal.explain.scoring.score_matrix import ScoreMatrix
from nbsal.methods.perturbation import scores_by_position
from tests.raising import refuses

UNITS = [(1, 2), (4,), (5, 6, 7)]


def test_columns_of_units_are_those_of_their_tokens():
    unit_scores = np.random.default_rng(0).normal(size=(3, 3))
    dense = scores_by_position(unit_scores, UNITS, 10)
    matrix = ScoreMatrix.of_units(unit_scores, UNITS, 10)
    assert np.array_equal(matrix.array, dense) and matrix.shape == dense.shape
    for other in (matrix, ScoreMatrix(dense)):
        assert np.allclose(other.total([0, 2]), dense[[0, 2]].sum(0))
        assert np.allclose(other.parts([[0], [1, 2]]).array, [dense[0], dense[1:].sum(0)])
        assert np.allclose(other.sums([*UNITS, (0, 3), ()]), [[*row, 0, 0] for row in unit_scores])


@pytest.fixture(scope="module")
def answer():
    """A long reply to a long prompt of one sentence, from a function."""

    def log_probabilities(pairs):
        return [[-len(prompt) / 1e5 - 0.1] * len(reply.split()) for prompt, reply in pairs]

    subject = nbsal.load(nbsal.Endpoint(log_probabilities, budget=10))
    return nbsal.answer(
        subject, " ".join(["word"] * 3000), " ".join(["reply"] * 500), method="occlusion", progress=False
    )


def test_a_long_reply_has_one_column_for_each_unit(answer, tmp_path):
    assert answer.score_matrix.columns.shape == (500, 2) and answer.scores.shape == (500, 3500)
    answer.save(tmp_path / "file")
    assert (tmp_path / "file").stat().st_size < 500_000  # as decimal text of all tokens it was 30 MB
    loaded = nbsal.Answer.load(tmp_path / "file")
    assert np.array_equal(loaded.scores, answer.scores) and loaded.statement() == answer.statement()
    assert loaded.sources().equals(answer.sources().assign(drop=None))


def test_a_matrix_that_does_not_fit_is_refused(answer, tmp_path):
    matrix = answer.score_matrix
    for wrong in (
        replace(matrix, places=matrix.places + 1),
        replace(matrix, places=matrix.places - 1),
        replace(matrix, places=matrix.places[:-1]),
        replace(matrix, places=None),
        replace(matrix, columns=matrix.columns * np.nan),
    ):
        with refuses("path"):
            replace(answer, score_matrix=wrong).save(tmp_path / "file")
