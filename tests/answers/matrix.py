"""The table of which method explains the replies of which model, on tiny random models: tests/answers/matrix.md.

`python -m tests.answers.matrix` runs every method on every model and prints the table; `--write` updates the file.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import nbsal
from nbsal.methods import catalogue
from nbsal.support.errors import NbsalError
from tests.answers import writers
from tests.matrix import Hole, method

PATH = Path(__file__).with_name("matrix.md")
OUTDATED = "tests/answers/matrix.md is out of date: run `python -m tests.answers.matrix --write`"
INTRODUCTION = """# Methods and models that reply

Written by `python -m tests.answers.matrix --write`, on tiny random models. "yes": every token of a reply has finite
scores, which are 0 at and behind the token itself; "hides": by hiding units, one run of a subset for all tokens. Any
other entry is the part of the model that the method's error names.
"""
MODELS = (*writers.MODELS, "t5", "bart", "marian")
PROMPT, REPLY = "A warm joy. A dull bore.", " A joy."


def cell(subject: nbsal.Subject, name: str) -> str:
    """What a method does with a reply of a model."""
    explained = method(name)
    try:
        answer = nbsal.answer(subject, PROMPT, REPLY, method=explained, progress=False)
    except NbsalError as error:
        return str(getattr(error, "part", None) or error.argument)
    start, count = answer.reading.start, len(answer.ids)
    if answer.scores.shape != (count, start + count) or not np.isfinite(answer.scores).all():
        raise Hole(f"{name}: scores of the shape {answer.scores.shape}, or not finite")
    if any(answer.scores[token, start + token :].any() for token in range(count)):
        raise Hole(f"{name}: scores at or behind a token")
    if not answer.scores.any():
        raise Hole(f"{name}: no scores")
    return "hides" if "hidden" in answer.provenance else "yes"


def column(model: str) -> dict[str, str]:
    """The cells of a model, by method."""
    subject = writers.load(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: cell(subject, name) for name in catalogue.names()}


def table(columns: dict[str, dict[str, str]]) -> str:
    """The page, with a row for all methods that have the same cells."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in catalogue.names():
        alike.setdefault(tuple(cells[name] for cells in columns.values()), []).append(f"`{name}`")
    rows = [("methods", *columns), ("---",) * (len(columns) + 1)]
    rows += [(", ".join(names), *cells) for cells, names in alike.items()]
    return "\n".join([INTRODUCTION, *(f"| {' | '.join(row)} |" for row in rows), ""])


def read(page: str) -> dict[str, dict[str, str]]:
    """The cells of a page, by model and method."""
    (_, *models), _, *rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    cells = [(name.strip("`"), row) for names, *row in rows for name in names.split(", ")]
    return {model: {name: row[at] for name, row in cells} for at, model in enumerate(models)}


if __name__ == "__main__":
    page = table({model: column(model) for model in MODELS})
    print(page)
    if "--write" in sys.argv:
        PATH.write_text(page, encoding="utf-8")
