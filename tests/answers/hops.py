"""Which method names the notes that a reply's final value needs: `python -m tests.answers.hops [METHOD ...]`.

A reply of `demo/notes` reaches its final value over earlier words, and mentions notes that the value does not need. The
tables say how often the notes with the highest scores are just those that the value needs: in the value's own row,
through 1, 2 or all earlier words (hops), and in the sum of the reply's rows. Only replies without an error count.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from math import comb
from typing import Any

import numpy as np

import nbsal
from nbsal.methods import catalogue
from nbsal.support.intervals import mean_interval

METHODS = "ifr attn-lrp gae gradxact integrated occlusion rollout raw-attention decoded-gradxact decoded-gradcam random"
KINDS = {"the reply also has notices": ("notice", "restated"), "the reply also has asides": ("aside",)}
HOPS = (0, 1, 2, "all")
COLUMNS = ("direct", "1 hop", "2 hops", "all hops", "sum of rows", "chance")
Row = Mapping[str, Any]


def answers(subject: nbsal.Subject, row: Row, methods: Sequence[str]) -> dict[str, Any]:
    """The reply explained by each method; none if the model does not write the right one."""
    asked = [{"role": "user", "content": row["question"]}]
    settings = {"documents": row["documents"], "unit": "document", "check": False, "progress": False}
    first, *others = methods
    answer = nbsal.answer(subject, asked, method=first, **settings)
    if answer.text != f" {row['answer']}</s>":
        return {}
    return {first: answer} | (nbsal.answer(subject, asked, answer.text, method=others, **settings) if others else {})


def names_needed(answer: Any, scores: np.ndarray, needs: Sequence[Sequence[int]]) -> bool:
    """Whether the notes with the highest scores are those needed; notes that state the same count as one."""
    units = [unit for unit in answer.reading.units("document") if unit.source]
    notes = {unit.source - 1: scores[list(unit.tokens)].sum() for unit in units}
    groups = [sum(notes.pop(number) for number in group) for group in needs]
    return min(groups) > max(notes.values(), default=-np.inf)


def cells(answer: Any, row: Row) -> list[float]:
    """Success in each column."""
    last = row["truth"][row["final"]]
    tokens = answer.tokens_of((last["at"] + 1, last["at"] + 1 + len(last["word"])))
    span, hops = slice(tokens[0], tokens[-1] + 1), HOPS if answer.can_follow else (0,) * len(HOPS)
    columns = [answer.of(span, hops=each).scores for each in hops]
    columns.append(answer.scores.sum(0))
    units = len(row["documents"]) - sum(len(group) - 1 for group in last["needs"])
    right = [names_needed(answer, scores, last["needs"]) for scores in columns]
    return [*right, 1 / comb(units, len(last["needs"]))]


def table(subject: nbsal.Subject, rows: Sequence[Row], methods: Sequence[str]) -> dict[str, np.ndarray]:
    """Success by method, [column, right reply]."""
    results: dict[str, list[list[float]]] = {method: [] for method in methods}
    for row in rows:
        for method, answer in answers(subject, row, methods).items():
            results[method].append(cells(answer, row))
    return {method: np.array(values, float).T for method, values in results.items()}


def lines(results: Mapping[str, np.ndarray]) -> Iterator[str]:
    """The table as text, with 95 % intervals."""
    yield " | ".join([f"{'method':16}", *(f"{column:17}" for column in COLUMNS)])
    for method, values in results.items():
        entries = [f"{method:16}"]
        for column in values[:-1]:
            low, high = mean_interval(column, (0, 1))
            entries.append(f"{column.mean():.2f} [{low:.2f}, {high:.2f}]")
        yield " | ".join([*entries, f"{values[-1].mean():.2f}"])


def main() -> None:
    """Print the tables."""
    subject = nbsal.load("demo/notes")
    methods = sys.argv[1:] or [name for name in METHODS.split() if name in catalogue.names()]
    for title, kinds in KINDS.items():
        rows = [row for row in nbsal.samples.texts("notes") if row["kind"] in kinds]
        results = table(subject, rows, methods)
        print(f"{title}: {results[methods[0]].shape[1]} right replies of {len(rows)}")
        for line in lines(results):
            print(line, flush=True)


if __name__ == "__main__":
    main()
