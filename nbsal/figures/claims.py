"""Tests of the claims of a paper, and tables of whether each holds here and the numbers that say so."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas

from nbsal.evaluation.permutation import holm
from nbsal.evaluation.results import Results
from nbsal.support.errors import InputError
from nbsal.support.validation import checked

LEVEL = 0.05  # adjusted p-values below it count
YES, NO, OPEN = "yes", "no", "not shown"
HEAD = "| claim of the paper | holds here? | evidence |\n|---|---|---|"
SMALLEST = 0.001  # a p-value below it is printed as such
LISTED = 2  # tests on the same texts that are listed one by one; more are counted


@checked
def family(tests: Mapping[str, Sequence[pandas.DataFrame]]) -> pandas.DataFrame:
    """Join paired tests, and adjust their p-values for all tests on the same texts (Holm 1979).

    `tests` maps a set of texts to frames of `Results.paired`. `p_holm` and `comparisons`, which those frames have for
    themselves, are replaced by those of all tests on a set.

    >>> row = {"first": "a", "second": "b", "aopc": "aopc", "margin": 0.1, "low": 0.05, "high": 0.2, "p": 0.02}
    >>> both = family({"SST-2": [pandas.DataFrame([row]), pandas.DataFrame([row | {"second": "c"}])]})
    >>> both["p_holm"].tolist(), both["comparisons"].tolist()
    ([0.04, 0.04], [2, 2])
    """
    parts = []
    for texts, frames in tests.items():
        named = [frame.rename(columns={frame.columns[2]: "measure"}) for frame in frames]
        rows = pandas.concat(named).drop_duplicates(["first", "second", "measure"])
        adjusted = holm(rows["p"].to_numpy())
        parts.append(rows.assign(texts=texts, p_holm=adjusted, comparisons=int(rows["p"].notna().sum())))
    if not parts:
        message = "tests is empty. Pass rows of `Results.paired` for at least one set of texts."
        raise InputError(message, argument="tests", value=tests)
    return pandas.concat(parts, ignore_index=True)


@checked
def margins(tests: pandas.DataFrame, second: Collection[str] = (), first: str | None = None) -> pandas.DataFrame:
    """Rows of `family` for reading: one row for each comparison, with the margin and the adjusted p of each measure.

    `second` and `first` choose comparisons; a chosen first explainer is left out of the columns.

    >>> row = {"first": "a", "second": "b", "aopc": "aopc", "margin": 0.1, "low": 0.05, "high": 0.2, "p": 0.0002}
    >>> margins(family({"SST-2": [pandas.DataFrame([row])]})).iloc[0].tolist()[:4]
    ['a', 'b', '+0.100 (0.050 to 0.200)', '< 0.001']
    """
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for test in _chosen(tests, second, first).to_dict("records"):
        pair = {"first": test["first"], "second": test["second"]}
        row = rows.setdefault((test["texts"], *pair.values()), pair)
        ends = f"{_unsigned(test['low'])} to {_unsigned(test['high'])}"
        row[f"{test['measure']} margin"] = f"{_signed(test['margin'])} ({ends})"
        row[f"{test['measure']} p"] = _p(test["p_holm"])
        row["tests"] = test["comparisons"]
    frame = pandas.DataFrame(list(rows.values()), index=[key[0] for key in rows])
    columns = [*(column for column in frame if column != "tests"), "tests"]
    return frame[columns if first is None else columns[1:]].fillna("")


@checked
def outcome(tests: pandas.DataFrame, second: Collection[str] = (), first: str | None = None) -> tuple[str, str]:
    """Whether the first explainer is better than others in rows of `family`, and the evidence in words.

    The verdict is "yes" if every margin is beyond chance and in favour of the first explainer, "no" if none is and some
    are beyond chance against it, "not shown" if none is beyond chance, and otherwise the number of margins in its
    favour. `second` and `first` choose comparisons.

    >>> row = {"first": "a", "second": "b", "aopc": "aopc", "margin": 0.1, "low": 0.05, "high": 0.2, "p": 0.02}
    >>> outcome(family({"SST-2": [pandas.DataFrame([row])]}))
    ('yes', 'SST-2: aopc +0.100 (p 0.02)')
    """
    rows = _chosen(tests, second, first)
    better, worse = _counts(rows)
    verdicts = {len(rows): YES, 0: NO if worse else OPEN}
    verdict = verdicts.get(better, f"in {better} of {len(rows)} tests")
    groups = rows.groupby("texts", sort=False)
    return verdict, "; ".join(f"{texts}: {', '.join(_evidence(part))}" for texts, part in groups)


@checked
def untested(holds: bool, evidence: str) -> tuple[str, str]:
    """The verdict of a count or a threshold, and its evidence.

    >>> untested(True, "3 of 3")
    ('yes, untested', '3 of 3')
    """
    return f"{YES if holds else NO}, untested", evidence


@checked
def leads(panels: Mapping[str, Results], measure: str, first: str, among: Collection[str]) -> tuple[str, str]:
    """Whether an explainer is the best of several by a measure on every set of texts, and which is; without a test.

    >>> import nbsal
    >>> explainers = {name: nbsal.Explainer(nbsal.load("demo/reviews"), name) for name in ("gae", "random")}
    >>> results = nbsal.evaluation.faithfulness(explainers, ["A joy.", "A bore."], progress=False)
    >>> leads({"two texts": results}, "aopc", "gae", ["gae", "random"])
    ('yes, untested', 'best here: two texts gae')
    """
    best = {name: results.best(measure, among) for name, results in panels.items()}
    here = ", ".join(f"{name} {explainer}" for name, explainer in best.items())
    return untested(set(best.values()) == {first}, f"best here: {here}")


def _chosen(tests: pandas.DataFrame, second: Collection[str], first: str | None) -> pandas.DataFrame:
    """The rows of some comparisons; all by default."""
    rows = tests[tests["second"].isin(list(second))] if second else tests
    rows = rows if first is None else rows[rows["first"] == first]
    if not len(rows):
        raise InputError("tests has no such rows, so there is nothing to judge.", argument="tests", value=second)
    return rows


@checked
def table(rows: Mapping[str, tuple[str, str]]) -> str:
    """Write claims as a Markdown table; each maps to whether it holds, and the evidence.

    >>> print(table({"a beats b": ("yes", "+0.1")}))
    | claim of the paper | holds here? | evidence |
    |---|---|---|
    | a beats b | yes | +0.1 |
    """
    cells = ((claim, *result) for claim, result in rows.items())
    lines = (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells)
    return "\n".join([HEAD, *lines])


def _counts(rows: pandas.DataFrame) -> tuple[int, int]:
    """How many margins are beyond chance, for the first explainer and against it."""
    certain = rows["p_holm"] < LEVEL
    return int((certain & (rows["margin"] > 0)).sum()), int((certain & (rows["margin"] < 0)).sum())


def _evidence(rows: pandas.DataFrame) -> Iterator[str]:
    """The margins on one set of texts: few one by one, more as their range and how many are beyond chance."""
    if len(rows) <= LISTED:
        for test in rows.to_dict("records"):
            yield f"{test['measure']} {_signed(test['margin'])} (p {_p(test['p_holm'])})"
        return
    better, worse = _counts(rows)
    against = f", worse in {worse}" if worse else ""
    low, high = (_signed(margin, 2) for margin in (rows["margin"].min(), rows["margin"].max()))
    yield f"better in {better} of {len(rows)}{against} ({low} to {high})"


def _p(value: float) -> str:
    """An adjusted p-value for reading."""
    return "< 0.001" if value < SMALLEST else f"{value:.2g}"


def _signed(value: float, digits: int = 3) -> str:
    """A margin with its sign; what rounds to 0 has none."""
    return _unsigned(value, digits) if round(value, digits) == 0 else f"{value:+.{digits}f}"


def _unsigned(value: float, digits: int = 3) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no -0.000
