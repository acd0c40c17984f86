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
        assert pkgutil.resolve_name(formula.code) is not None


def test_the_index_is_up_to_date():
    assert exhibits.PATH.read_text(encoding="utf-8") == exhibits.page(), exhibits.OUTDATED
    assert exhibits.page().count("| none |") == 0 and exhibits.page().count("not shown: 0") == len(exhibits.PAPERS)
