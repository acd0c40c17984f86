"""tests/matrix.md shows what really happens."""

from functools import cache, partial

import pytest
import torch

import nbsal
from nbsal.methods.base import REGISTER
from nbsal.support.errors import ModelError
from tests import matrix, zoo
from tests.cases import cases

PAGE = matrix.read(matrix.PATH.read_text(encoding="utf-8"))


def test_the_page_is_written_by_the_program():
    assert matrix.page(PAGE) == matrix.PATH.read_text(encoding="utf-8"), matrix.OUTDATED
    assert {entry.part for entry in PAGE} == set(matrix.REASONS)  # no reason without a method
    some = {(entry.method, entry.kinds) for entry in PAGE if entry.architecture == "gpt2" and entry.kinds}
    assert some == {(f"{name}@published", "sequence; pair; token; next-token") for name in ("raw-attention", "rollout")}


@pytest.fixture(scope="module")
def load_zoo(checkpoints):
    return cache(partial(zoo.load, checkpoints))


@pytest.mark.some(2)
@pytest.mark.parametrize("architecture", matrix.ARCHITECTURES)
def test_the_page_lists_what_does_not_run(load_zoo, architecture):
    listed = {entry for entry in PAGE if entry.architecture == architecture}
    assert matrix.column(architecture, load_zoo) == listed, matrix.OUTDATED


@cases("change", [lambda scores: scores * 0, lambda scores: scores * torch.nan, lambda scores: scores[:, 1:]])
def test_a_method_that_neither_explains_nor_refuses_is_a_hole(load, monkeypatch, change):
    scores = REGISTER["rollout"].scores
    monkeypatch.setattr(REGISTER["rollout"], "scores", lambda self, record: change(scores(self, record)))
    with pytest.raises(matrix.Hole):
        matrix.check(load("bert"), "rollout", "sequence")


@pytest.mark.parametrize("error", [KeyError("none"), ModelError("Unknown part.", part="none")])
def test_any_other_error_is_no_refusal(load, monkeypatch, error):
    def fail(self, record):
        raise error

    monkeypatch.setattr(REGISTER["rollout"], "scores", fail)
    with pytest.raises(type(error)):
        matrix.column("bert", load)


def test_refusals_name_the_part(load):
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(load("gpt2"), "raw-attention@published")
    assert caught.value.part == "first position"
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(load("deberta-v2"), "lrp@published")("A joy.")
    assert caught.value.part == "attention mask"


def test_an_error_inside_the_blocks_is_not_blamed_on_the_mask(load):
    subject = load("bert")

    def fail(module, args, output):
        raise ValueError("an error of the model")

    handle = subject.blocks[1].register_forward_hook(fail)
    with pytest.raises(ValueError, match="an error of the model"):
        nbsal.Explainer(subject, "lrp@published")("A joy.")
    handle.remove()
