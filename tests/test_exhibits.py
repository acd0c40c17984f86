"""Test that every figure, table, algorithm and equation of the papers is shown in a notebook and in code."""

import pkgutil

import pytest

from tests import exhibits

by_paper = pytest.mark.parametrize("paper", exhibits.PAPERS, ids=lambda paper: paper.notebook)


@by_paper
def test_nothing_is_missing(paper):
    assert exhibits.missing(paper) == []


@by_paper
def test_equations_name_code_that_exists(paper):
    for formula in paper.formulas:
        assert formula.code and all(pkgutil.resolve_name(name) is not None for name in formula.code)


def test_all_equations_are_listed():
    decoding, mask_lrp = (
        [formula.number for formula in paper.formulas if formula.number.startswith("Equation")]
        for paper in exhibits.PAPERS
    )
    assert decoding == [f"Equation {number}" for number in range(1, 7)]
    assert mask_lrp == [f"Equation {number}" for number in range(1, 14)]


def test_the_index_is_up_to_date():
    assert exhibits.PATH.read_text(encoding="utf-8") == exhibits.page(), exhibits.OUTDATED
    assert exhibits.page().count("| none |") == 0 and exhibits.page().count("not shown: 0") == len(exhibits.PAPERS)


def test_a_cell_without_its_tag_is_noticed(tmp_path, monkeypatch):
    for paper in exhibits.PAPERS:
        script = (exhibits.FOLDER / f"{paper.notebook}.py").read_text(encoding="utf-8")
        (tmp_path / f"{paper.notebook}.py").write_text(script.replace('"figure-2"', '"other"'), encoding="utf-8")
    monkeypatch.setattr(exhibits, "FOLDER", tmp_path)
    assert [exhibits.missing(paper) for paper in exhibits.PAPERS] == [["Figure 2"], ["Figure 2"]]
