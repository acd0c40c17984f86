"""tests/kinds.md shows what happens; tests/model/wrappers compares the models with their libraries."""

import tempfile
from pathlib import Path

import pytest

import nbsal
from nbsal.support.errors import ModelError
from tests import axioms, kind_examples, kinds, wrapped
from tests.kind_examples import KINDS

PAGE = kinds.read(kinds.PATH.read_text(encoding="utf-8"))
METHODS = {"gradients": "gradxact", "relevance": "attn-lrp"}


@pytest.mark.some(4)
@pytest.mark.parametrize("name", KINDS)
def test_cells_show_what_happens_and_batches_equal_singles(name):
    if KINDS[name].library:
        wrapped.peer(KINDS[name].library)
    assert name in PAGE, kinds.OUTDATED
    example = KINDS[name].build(Path(tempfile.mkdtemp(prefix="nbsal-kind-")))
    assert {family: kinds.cell(example, family) for family in kinds.FAMILIES} == PAGE[name], kinds.OUTDATED
    if "8-bit" in name or example.reply or example.subject.usage.zero_shot:  # 8 bits are rounded together
        return
    for family, method in METHODS.items():
        if PAGE[name][family] == kinds.RUNS:
            explain = nbsal.Explainer(example.subject, method)
            for text, saliency in zip(example.texts, axioms.explain_batched(explain, list(example.texts)), strict=True):
                assert axioms.relative(saliency.scores, explain(text).scores) < 1e-3, (family, text)


def test_the_page_is_written_by_the_program():
    assert kinds.table(PAGE) == kinds.PATH.read_text(encoding="utf-8"), kinds.OUTDATED
    assert set(PAGE) == set(KINDS), kinds.OUTDATED


@pytest.mark.parametrize(("part", "error"), [("none", ModelError), ("model", kinds.Hole)])
def test_what_is_no_refusal_of_all_methods_is_a_hole(monkeypatch, part, error):
    def fail(case, method):
        if method == "lime":
            raise ModelError("An error of the model.", part=part)

    monkeypatch.setattr(kinds, "check", fail)
    with pytest.raises(error):
        kinds.cell(kind_examples.function(Path()), "occlusion and sampling")
