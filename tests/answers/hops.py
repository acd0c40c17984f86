"""Which method names both notes that a reply's final value needs: `python -m tests.answers.hops [METHOD ...]`.

The tables say how often the two documents with the highest scores are those of a question that needs two: in the
final value's own row, through 1, 2 or all earlier words (hops), and in the sum of the reply's rows. Replies of the
first table are the model's own, and right; those of the second are given, and also say what the final value does not
need. They count if the model would go on with that value.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import comb
from typing import Any

import numpy as np

import nbsal
from nbsal.explain.answer import Answer
from nbsal.methods import catalogue
from nbsal.support.intervals import mean_interval

METHODS = "ifr gae attn-lrp gim gradxact integrated occlusion rollout raw-attention random"
HOPS = (0, 1, 2, "all")
COLUMNS = ("direct", "1 hop", "2 hops", "all hops", "sum of rows", "chance")
COUNT = 40


def replies(subject: nbsal.Subject, methods: Sequence[str], name: str) -> Iterator[tuple[dict[str, Answer], list[int]]]:
    """Replies to questions of two notes, explained by each method, and the numbers of the two."""
    for row in nbsal.samples.texts(name):
        if len(row["source"]) == 2 and "not in the notes" not in row.get("answer", ""):
            asked = [{"role": "user", "content": row["question"]}]
            settings = {"documents": row["documents"], "unit": "document", "check": False, "progress": False}
            given = f" {row['reply']}" if "reply" in row else None
            answers = nbsal.answer(subject, asked, given, method=methods, **settings)
            first = next(iter(answers.values()))
            if first.statistics.rank[_value(first)] == 1 if given else first.text == f" {row['answer']}":
                yield answers, row["source"]


def _value(answer: Answer) -> int:
    """The place of the last word of a reply."""
    return [i for i in answer.reading.content if any(map(str.isalnum, answer.reading.reply_tokens[i]))][-1]


def cells(answer: Answer, source: Sequence[int]) -> list[float]:
    """Success in each column; methods that hide have no scores to follow."""
    columns = [answer.of(_value(answer), hops=hops if answer.can_follow else 0).scores for hops in HOPS]
    units = [unit for unit in answer.reading.units("document") if unit.name.startswith("document")]
    right = []
    for scores in [*columns, answer.scores.sum(0)]:
        sums = np.array([scores[list(unit.tokens)].sum() for unit in units])
        right.append(float(set(np.argsort(-sums)[:2].tolist()) == set(source)))
    return [*right, 1 / comb(len(units), 2)]


def table(
    subject: nbsal.Subject, methods: Sequence[str], count: int = COUNT, name: str = "notes"
) -> dict[str, np.ndarray]:
    """Success by method, [column, reply], on a collection of sample texts."""
    some = list(islice(replies(subject, methods, name), count))
    return {method: np.array([cells(answers[method], source) for answers, source in some]).T for method in methods}


def lines(results: Mapping[str, np.ndarray]) -> Iterator[str]:
    """The table as text, with 95 % intervals."""
    yield " | ".join([f"{'method':14}", *(f"{column:17}" for column in COLUMNS)])
    for method, values in results.items():
        ends = [mean_interval(column, (0, 1)) for column in values[:-1]]
        entries = [
            f"{column.mean():.2f} [{low:.2f}, {high:.2f}]" for column, (low, high) in zip(values, ends, strict=False)
        ]
        yield " | ".join([f"{method:14}", *entries, f"{values[-1].mean():.2f}"])


def main() -> None:
    """Print both tables."""
    methods: list[Any] = sys.argv[1:] or [name for name in METHODS.split() if name in catalogue.names()]
    subject = nbsal.load("demo/notes")
    for name in ("notes", "asides"):
        results = table(subject, methods, name=name)
        print(f"{name}: {len(next(iter(results.values()))[0])} replies")
        for line in lines(results):
            print(line, flush=True)


if __name__ == "__main__":
    main()
