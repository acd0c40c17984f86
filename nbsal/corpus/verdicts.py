"""How often the citations of replies are right: the shares of verdicts, between groups of replies."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nbsal.explain.citations.verdicts import VERDICTS
from nbsal.support.errors import InputError, UnknownName
from nbsal.support.intervals import mean_interval
from nbsal.support.lazy import pandas
from nbsal.support.validation import as_list

COLUMNS = ("position", "documents", "words")
ALL = "all"


def verdict_shares(citations: "pandas.DataFrame", by: Any = None) -> "pandas.DataFrame":
    """A row for each group and verdict; see `Replies.verdicts`."""
    rows = []
    for group, part in citations.groupby(_groups(citations, by), sort=True):
        for verdict in VERDICTS:
            shares = (part["verdict"] == verdict).groupby(part["text_id"]).mean().to_numpy()
            low, high = mean_interval(shares, (0, 1))
            rows.append((group, verdict, float(shares.mean()), float(low), float(high), len(shares), len(part)))
    names = ["group", "verdict", "share", "low", "high", "replies", "citations"]
    return pandas.DataFrame(rows, columns=names)


def _groups(citations: "pandas.DataFrame", by: Any) -> "pandas.Series":
    """The group of each citation."""
    if by is None:
        return pandas.Series(ALL, citations.index)
    if isinstance(by, str):
        if by not in COLUMNS:
            raise UnknownName("by", by, COLUMNS)
        column = citations[by]
        if by != "words":
            return column
        middle = int(column.median()) if len(column) else 0
        return pandas.Series(
            np.where(column > middle, f"more than {middle} words", f"up to {middle} words"), citations.index
        )
    values = as_list(by, "by", "must be the name of a column, or a value for each row of the source")
    return pandas.Series([_value_of(values, row) for row in citations["text_id"]], citations.index, dtype=object)


def _value_of(values: Sequence[Any], row: int) -> Any:
    if row >= len(values):
        message = f"by has {len(values)} values, but the source has a row {row}. Pass one for each row."
        raise InputError(message, argument="by", value=values)
    return values[row]
