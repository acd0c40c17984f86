"""Tables of the claims of a paper: whether each holds here, and the numbers that say so."""

from collections.abc import Iterator, Mapping, Sequence

import pandas

from nbsal.support.errors import InputError
from nbsal.support.validation import checked

LEVEL = 0.05  # adjusted p-values below it count
YES, NO, OPEN = "yes", "no", "not shown"
HEAD = "| claim of the paper | holds here? | evidence |\n|---|---|---|"
SMALLEST = 0.001  # a p-value below it is printed as such


@checked
def outcome(tests: Mapping[str, pandas.DataFrame]) -> tuple[str, str]:
    """Whether an explainer is better than others in paired tests, and the evidence in words.

    `tests` maps a set of texts to rows of `Results.paired`. The verdict is "yes" if every margin is beyond chance and
    in favour of the first explainer, "no" if none is and some are beyond chance against it, "not shown" if none is
    beyond chance, and otherwise the number of margins in its favour.

    >>> row = {"first": "a", "second": "b", "measure": "aopc", "margin": 0.1, "low": 0.05, "high": 0.2, "p_holm": 0.02}
    >>> outcome({"SST-2": pandas.DataFrame([row])})
    ('yes', 'SST-2: aopc +0.100 (p 0.02)')
    """
    rows = pandas.concat(list(tests.values())) if tests else pandas.DataFrame()
    if not len(rows):
        message = "tests is empty. Pass rows of `Results.paired` for at least one set of texts."
        raise InputError(message, argument="tests", value=tests)
    better, worse = _counts(rows)
    verdicts = {len(rows): YES, 0: NO if worse else OPEN}
    verdict = verdicts.get(better, f"in {better} of {len(rows)} tests")
    return verdict, "; ".join(f"{name}: {', '.join(_evidence(frame))}" for name, frame in tests.items())


@checked
def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Write claims as a Markdown table: each has the claim, whether it holds, and the evidence.

    >>> print(table([("a beats b", "yes", "+0.1")]))
    | claim of the paper | holds here? | evidence |
    |---|---|---|
    | a beats b | yes | +0.1 |
    """
    lines = (f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
    return "\n".join([HEAD, *lines])


def _counts(rows: pandas.DataFrame) -> tuple[int, int]:
    """How many margins are beyond chance, for the first explainer and against it."""
    certain = rows["p_holm"] < LEVEL
    return int((certain & (rows["margin"] > 0)).sum()), int((certain & (rows["margin"] < 0)).sum())


def _evidence(rows: pandas.DataFrame) -> Iterator[str]:
    """The margins by measure: one as a number, several as their range and how many are beyond chance."""
    for measure, group in rows.groupby(rows.columns[2], sort=False):
        margins = group["margin"]
        if len(group) == 1:
            p = group["p_holm"].item()
            yield f"{measure} {margins.item():+.3f} (p {'< 0.001' if p < SMALLEST else f'{p:.2g}'})"
        else:
            better, worse = _counts(group)
            counts = f"better than {better} of {len(group)}{f', worse than {worse}' if worse else ''}"
            yield f"{measure} {counts} ({margins.min():+.3f} to {margins.max():+.3f})"
