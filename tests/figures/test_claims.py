"""Tables of claims: the verdict follows from adjusted p-values and the side of each margin."""

import pandas
import pytest

from nbsal.figures import claims
from tests.raising import refuses


def paired(*margins, measure="aopc", second="b"):
    """Rows of paired tests with these margins and p-values, and adjusted ones that are not to be used."""
    columns = ["first", "second", "measure", "margin", "low", "high", "p", "p_holm", "comparisons"]
    rows = [
        ("a", f"{second}{number}", measure, margin, -0.00001, 0.0, p, 0.5, len(margins))
        for number, (margin, p) in enumerate(margins)
    ]
    return pandas.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [
        ([(0.1, 0.01), (0.2, 0.001)], "yes"),
        ([(-0.1, 0.01), (0.2, 0.4)], "no"),
        ([(-0.1, 0.03), (0.2, 0.4)], "not shown"),  # a p-value of 0.03 is 0.06 among two
        ([(0.1, 0.01), (-0.2, 0.001), (0.1, 0.5)], "in 1 of 3 tests"),
    ],
)
def test_the_verdict_counts_margins_beyond_chance_on_either_side(margins, verdict):
    whole = claims.family({"texts": [paired(*margins)]})
    halves = claims.family({"texts": [paired(margins[0]), paired(*margins[1:], second="c")]})
    assert claims.outcome(whole)[0] == claims.outcome(halves)[0] == verdict
    assert whole["p_holm"].tolist() == halves["p_holm"].tolist() and set(halves["comparisons"]) == {len(margins)}


def test_tests_on_other_texts_are_another_family():
    both = claims.family({"one": [paired((0.1, 0.03))], "other": [paired((0.1, 0.03)), paired((0.1, 0.03))]})
    assert both["p_holm"].tolist() == [0.03, 0.03]  # the same test twice counts once
    assert both["texts"].tolist() == ["one", "other"]


def test_evidence_has_few_margins_as_numbers_and_more_as_a_range():
    one, several = paired((0.1234, 0.0001)), paired((-0.1, 0.001), (0.2, 0.001), (0.3, 0.5))
    evidence = claims.outcome(claims.family({"SST-2": [one], "MNLI": [several]}))[1]
    assert evidence == "SST-2: aopc +0.123 (p < 0.001); MNLI: better in 1 of 3, worse in 1 (-0.10 to +0.30)"


def test_margins_have_a_row_for_each_comparison():
    tests = claims.family({"t": [paired((0.1234, 0.0001)), paired((-0.0001, 0.9), measure="log-odds")]})
    (row,) = claims.margins(tests).to_dict("records")
    assert row == {
        "first": "a",
        "second": "b0",
        "aopc margin": "+0.123 (0.000 to 0.000)",
        "aopc p": "< 0.001",
        "log-odds margin": "0.000 (0.000 to 0.000)",  # and not -0.000
        "log-odds p": "0.9",
        "tests": 2,
    }


def test_comparisons_are_chosen_by_their_explainers():
    rows = pandas.concat([paired((0.1, 0.001), (-0.1, 0.001)), paired((0.2, 0.5)).replace("a", "other")])
    tests = claims.family({"t": [rows]})
    assert claims.outcome(tests, ["b0"], "a") == ("yes", "t: aopc +0.100 (p 0.003)")
    assert claims.outcome(tests, first="other")[0] == "not shown"
    assert list(claims.margins(tests, ["b1"], "a")) == ["second", "aopc margin", "aopc p", "tests"]
    with refuses("tests"):
        claims.outcome(tests, ["b1"], "other")


def test_a_claim_needs_a_test():
    with refuses("tests"):
        claims.family({})
    with refuses("tests"):
        claims.outcome(claims.family({"texts": [paired()]}))


def test_a_table_keeps_its_columns():
    lines = claims.table({"p(a | b)": ("yes", "x")}).splitlines()
    assert lines[1].count("|") == lines[2].count("|") == 4
