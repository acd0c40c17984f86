"""tests/answers/matrix.md shows what every method really does with replies."""

import pytest

from nbsal.methods import catalogue
from nbsal.methods.base import REGISTER
from tests.answers import matrix, writers
from tests.matrix import Hole

PAGE = matrix.read(matrix.PATH.read_text(encoding="utf-8"))


def test_every_method_is_in_a_row_and_every_model_has_a_column():
    assert list(PAGE) == list(matrix.MODELS), matrix.OUTDATED
    assert all(sorted(cells) == sorted(catalogue.names()) for cells in PAGE.values()), matrix.OUTDATED
    assert matrix.table(PAGE) == matrix.PATH.read_text(encoding="utf-8"), matrix.OUTDATED


@pytest.mark.some(1)
@pytest.mark.parametrize("model", matrix.MODELS)
def test_cells_show_what_happens(model):
    assert matrix.column(model) == PAGE[model], matrix.OUTDATED


def test_a_method_without_scores_is_a_hole_or_refused(monkeypatch):
    scores = REGISTER["rollout"].scores
    monkeypatch.setattr(REGISTER["rollout"], "scores", lambda self, record: scores(self, record) * 0)
    with pytest.raises(Hole):
        matrix.cell(writers.load(), "rollout")
    monkeypatch.setattr(REGISTER["rollout"], "scores", lambda self, record: scores(self, record) * float("nan"))
    assert matrix.cell(writers.load(), "rollout") == "scores"
