"""The numbers in the tables of the two papers, and how they compare with numbers computed here.

Rows have the names of nbsal's methods. What Song et al. call GAE is here `transformer-attribution`, which is what their
program ran; ALTC is `alti`.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas

from nbsal.evaluation.results import Results
from nbsal.support.errors import InputError
from nbsal.support.validation import checked

Numbers = Mapping[str, Sequence[float]]
_TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
AREAS: Mapping[str, Numbers] = _TABLES["AREAS"]  # Hou and Castanon, Table 1: revealing, hiding
SIMPLE_AREAS: Mapping[str, Numbers] = _TABLES["SIMPLE_AREAS"]  # Hou and Castanon, Table 2: revealing, hiding
DELETION: Mapping[str, Numbers] = _TABLES["DELETION"]  # Song et al., Tables 1 and 4: AOPC, log-odds
DEVIATIONS: Numbers = _TABLES["DEVIATIONS"]  # of the random mask in that table, over five masks
MASK_PARTS: Mapping[str, Numbers] = _TABLES["MASK_PARTS"]  # Song et al., Table 3: AOPC, log-odds
ANSWERS: Mapping[str, Numbers] = _TABLES["ANSWERS"]  # Song et al., Table 2: Precision@20 in percent, for three models
GAMES, LOSSES, ANSWER_MODELS = ("revealing", "hiding"), ("aopc", "log-odds"), ("BERT base", "GPT-2", "RoBERTa")


@checked
def frame(table: Mapping[str, Numbers], measures: tuple[str, ...]) -> pandas.DataFrame:
    """A table of a paper as a frame: one row per method, columns by data set and measure.

    >>> float(frame(AREAS, GAMES).loc["random", ("AG News", "hiding")])
    0.841
    """
    parts = {name: pandas.DataFrame(dict(rows), index=list(measures)).T for name, rows in table.items()}
    rows = dict.fromkeys(name for numbers in table.values() for name in numbers)
    joined: pandas.DataFrame = pandas.concat(parts, axis=1).loc[list(rows)]
    return joined


@checked
def flat(table: pandas.DataFrame) -> pandas.DataFrame:
    """A table with one row of headings instead of several: the levels of each column, joined.

    >>> flat(frame(AREAS, GAMES)).columns.tolist()[:2]
    ['SST-2 revealing', 'SST-2 hiding']
    """
    return table.set_axis([" ".join(map(str, column)) for column in table.columns], axis=1)


@checked
def beside(
    panels: Mapping[str, Results], table: Mapping[str, Numbers], counterparts: Mapping[str, str] | None = None
) -> pandas.DataFrame:
    """Numbers computed here, those of a paper, and the difference, by data set and measure.

    `panels` has results by the name of the data set in the paper. `counterparts` maps a row of the results to the row
    of the paper that it is compared with, where the two have different names.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "lrp")
    >>> results = nbsal.evaluation.faithfulness(explain, ["A joy.", "A bore."], progress=False)
    >>> [float(number) for number in beside({"SST-2": results}, DELETION)["SST-2", "aopc", "paper"]]
    [0.336]
    """
    columns: dict[tuple[str, str, str], pandas.Series] = {}
    for name, results in panels.items():
        if name not in table:
            message = f"The paper's table has no data set {name!r}. It has: {', '.join(table)}."
            raise InputError(message, argument="panels", value=name)
        summary = results.metric.summary
        means = (results.auc() if summary == "auc" else results.mean()).set_index(["explainer", results.metric.measure])
        measures = GAMES if summary == "auc" else LOSSES
        rows = {row: table[name].get((counterparts or {}).get(row, row)) for row in results.explainers}
        for at, measure in enumerate(measures):
            here = pandas.Series({row: means.at[(row, measure), summary] for row in results.explainers})
            paper = pandas.Series({row: numbers[at] if numbers else None for row, numbers in rows.items()}, dtype=float)
            columns |= {(name, measure, "here"): here, (name, measure, "paper"): paper}
            columns[name, measure, "difference"] = here - paper
    return pandas.DataFrame(columns).reindex(
        list(dict.fromkeys(row for part in columns.values() for row in part.index))
    )
