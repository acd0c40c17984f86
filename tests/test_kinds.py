"""tests/kinds.md shows what happens, and a model of every kind gives what its library gives.

The axioms of explanations hold on all of them.
"""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import nbsal
from nbsal.errors import ModelError
from tests import axioms, kind_examples, kinds
from tests.cases import cases
from tests.kind_examples import KINDS

PAGE = kinds.read(kinds.PATH.read_text(encoding="utf-8"))
EXPLAINED = {family: methods[1] for family, methods in kinds.FAMILIES.items()}  # a method of each family
COSTLY = {"shapley": {"samples": 5}, "lime": {"samples": 20}}
ROUNDED = 1e-3  # of the largest score, in float32


@cache
def example(name):
    """The example of a kind, or a skipped test without its library."""
    if KINDS[name].library:
        pytest.importorskip(KINDS[name].library, reason="needs the extra peers")
    return KINDS[name].build(Path(tempfile.mkdtemp(prefix="nbsal-kind-")))


@pytest.fixture(autouse=True, scope="module")
def forget():
    yield
    example.cache_clear()


@pytest.mark.some(8)
@pytest.mark.parametrize("name", KINDS)
def test_cells_show_what_happens(name):
    assert name in PAGE, kinds.OUTDATED
    assert {family: kinds.cell(example(name), family) for family in kinds.FAMILIES} == PAGE[name], kinds.OUTDATED


@cases("name", KINDS)
def test_outputs_are_those_of_the_library(name):
    """Single texts, pairs, a padded batch and a text that is cut."""
    case = example(name)
    long = [] if case.long is None else [case.long]
    for texts in (case.texts, case.pairs, case.texts[:1], long, [*case.texts, *long]):
        if len(texts):
            ours, truth = np.asarray(case.ours(case.subject, texts)), np.asarray(case.truth(texts))
            assert ours.shape == truth.shape and np.abs(ours - truth).max() < 1e-5


@pytest.mark.some(8)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KINDS)
def test_axioms(name):
    case = example(name)
    runs = [family for family in kinds.FAMILIES if PAGE[name][family] == kinds.RUNS]
    if (
        case.coarse or case.reply
    ):  # the library rounds the states of a batch together; tests/answers has those of replies
        return
    for family in runs:
        explain = nbsal.Explainer(case.subject, EXPLAINED[family], **COSTLY.get(EXPLAINED[family], {}))
        texts = list(case.texts)
        together = axioms.explain_batched(explain, texts) if not case.subject.usage.zero_shot else []
        for text, saliency in zip(texts, together, strict=False):
            alone = explain(text)
            assert saliency.prediction == alone.prediction
            assert axioms.relative(saliency.scores, alone.scores) < ROUNDED, (family, text)
    if PAGE[name]["relevance"] == kinds.RUNS:
        assert nbsal.Explainer(case.subject, "lrp")(case.texts[0]).scores.sum() == pytest.approx(1, abs=1e-4)
    if PAGE[name]["gradients"] == kinds.RUNS and case.continuous:
        notes = nbsal.Explainer(case.subject, "integrated", baseline="mask", steps=60)(case.texts[0]).provenance
        assert abs(notes["gap"]) < 1e-2 * abs(notes["change"])


def test_the_page_is_written_by_the_program():
    assert kinds.table(PAGE) == kinds.PATH.read_text(encoding="utf-8"), kinds.OUTDATED
    assert list(PAGE) == list(KINDS), kinds.OUTDATED
    cells = {cell for cells in PAGE.values() for cell in cells.values()}
    assert {kinds.STACKS if "except" in cell else cell for cell in cells} == {kinds.RUNS, *kinds.FOOTNOTES}


def test_an_error_without_a_footnote_is_a_hole(monkeypatch):
    def fail(case, method):
        raise ModelError("An error of its own.", part="none")

    monkeypatch.setattr(kinds, "check", fail)
    with pytest.raises(ModelError):
        kinds.cell(kind_examples.function(Path()), "occlusion and sampling")


def test_methods_of_a_family_that_differ_are_a_hole(monkeypatch):
    def fail(case, method):
        if method == "lime":
            raise ModelError("An error of the model.", part="model")

    monkeypatch.setattr(kinds, "check", fail)
    with pytest.raises(kinds.Hole):
        kinds.cell(kind_examples.function(Path()), "occlusion and sampling")
