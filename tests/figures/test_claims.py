"""Tables of claims: the verdict follows from adjusted p-values and the side of each margin."""

import pandas
import pytest

from nbsal.figures import claims
from tests.raising import refuses


def paired(*margins, measure="aopc"):
    """Rows of paired tests with these margins and adjusted p-values."""
    columns = ["first", "second", measure, "margin", "low", "high", "p", "p_holm", "comparisons"]
    rows = [
        ("a", f"b{number}", "aopc", margin, 0.0, 0.0, p / 2, p, len(margins))
        for number, (margin, p) in enumerate(margins)
    ]
    return pandas.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [
        ([(0.1, 0.01), (0.2, 0.001)], "yes"),
        ([(-0.1, 0.01), (0.2, 0.4)], "no"),
        ([(-0.1, 0.06), (0.2, 0.4)], "not shown"),  # an unadjusted p of 0.03 does not count
        ([(0.1, 0.01), (-0.2, 0.001), (0.1, 0.5)], "in 1 of 3 tests"),
    ],
)
def test_the_verdict_counts_margins_beyond_chance_on_either_side(margins, verdict):
    assert claims.outcome({"texts": paired(*margins)})[0] == verdict
    halves = {"first": paired(margins[0]), "others": paired(*margins[1:])}
    assert claims.outcome(halves)[0] == verdict


def test_evidence_has_one_margin_as_a_number_and_several_as_a_range():
    one, several = paired((0.1234, 0.0001)), paired((-0.1, 0.01), (0.2, 0.001), (0.3, 0.5))
    evidence = claims.outcome({"SST-2": one, "MNLI": several})[1]
    assert evidence == (
        "SST-2: aopc +0.123 (p < 0.001); MNLI: aopc better than 1 of 3, worse than 1 (-0.100 to +0.300)"
    )


def test_a_claim_needs_a_test():
    for nothing in ({}, {"texts": paired()}):
        with refuses("tests"):
            claims.outcome(nothing)


def test_a_table_keeps_its_columns():
    lines = claims.table([("p(a | b)", "yes", "x")]).splitlines()
    assert lines[1].count("|") == lines[2].count("|") == 4
