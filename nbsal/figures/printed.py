"""The numbers in the tables of the two papers, and the numbers computed here beside them.

Rows have the names of nbsal's methods, and the layers of the paper's model of 12 blocks. What Song et al. call GAE is
here `transformer-attribution`, which is what their program ran; ALTC is `alti`.
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
def beside(
    panels: Mapping[str, Results],
    table: Mapping[str, Numbers],
    measures: Sequence[str] | None = None,
    intervals: bool = False,
) -> pandas.DataFrame:
    """Numbers computed here beside the whole table of a paper, for reading: one row for each method.

    `panels` has results by the name of the data set in the paper; a data set or a method that only one of the two has
    keeps its place. `intervals` adds the 95 % interval to each number computed here.

    >>> import nbsal
    >>> explain = nbsal.Explainer(nbsal.load("demo/reviews"), "lrp")
    >>> results = nbsal.evaluation.faithfulness(explain, ["A joy.", "A bore."], progress=False)
    >>> frame = beside({"SST-2": results}, {"SST-2": DELETION["SST-2"]}, ["aopc"])
    >>> frame["paper"].tolist()[:3], frame.index.tolist()[:3]
    (['0.336', '0.374', '0.337'], ['lrp', 'raw-attention', 'rollout'])
    """
    unknown = [name for name in panels if name not in table]
    if unknown:
        message = f"The paper's table has no data set {unknown[0]!r}. It has: {', '.join(table)}."
        raise InputError(message, argument="panels", value=unknown[0])
    first = next(iter(panels.values()), None)
    kinds = GAMES if first is not None and first.metric.summary == "auc" else LOSSES
    chosen = list(kinds if measures is None else measures)
    ours = (name for results in panels.values() for name in results.explainers)
    names = list(dict.fromkeys([*ours, *(name for rows in table.values() for name in rows)]))
    columns: dict[str, list[str]] = {}
    for data, rows in table.items():
        for measure in chosen:
            heading = " ".join([data] * (len(table) > 1) + [measure] * (len(chosen) > 1))
            if data in panels:
                here = _here(panels[data], measure, intervals)
                columns[f"{heading} here".strip()] = [here.get(name, "") for name in names]
            at = kinds.index(measure)
            columns[f"{heading} paper".strip()] = [f"{rows[name][at]:.3f}" if name in rows else "" for name in names]
    return pandas.DataFrame(columns, index=names)


@checked
def deletion(panels: Mapping[str, Results], measure: str) -> pandas.DataFrame:
    """Tables 1 and 4 of Song et al. by one measure, whole, with the numbers computed here, as in `beside`.

    The paper's deviation between five random masks has a row of its own.

    >>> deletion({}, "aopc").loc["± between random masks"].tolist()
    ['0.005', '0.004', '0.005', '0.002', '0.001']
    """
    frame = beside(panels, DELETION, [measure])
    at = LOSSES.index(measure)
    cells = {f"{name} paper": f"{deviations[at]:.3f}" for name, deviations in DEVIATIONS.items()}
    row = pandas.DataFrame([cells], index=["± between random masks"]).reindex(columns=frame.columns, fill_value="")
    below = list(frame.index).index("random mask") + 1
    return pandas.concat([frame.iloc[:below], row, frame.iloc[below:]])


def _here(results: Results, measure: str, intervals: bool) -> dict[str, str]:
    """The number of each explainer by a measure, as tables print it."""
    summary = results.metric.summary
    frame = results.auc() if summary == "auc" else results.mean()
    rows = frame[frame[results.metric.measure] == measure].set_index("explainer")
    return {
        str(name): f"{row[summary]:.3f}" + (f" ({row['low']:.3f} to {row['high']:.3f})" if intervals else "")
        for name, row in rows.iterrows()
    }
