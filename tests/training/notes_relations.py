"""The made-up world of `demo/notes`: its words, what its notes state, and what can be asked about them.

The key stands before the value in every statement, with at most five words between them: what stands further apart
or the other way round takes a model of this size many times longer to learn.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ABSENT = "The notes do not say."
MISSING = {  # what stands in place of the second value of a chain, by its pool
    "city": "a city that is not in the notes",
    "food": "a food that is not in the notes",
    "number": "not in the notes",
    "person": "somebody who is not in the notes",
    "platform": "not in the notes",
    "time": "a time that is not in the notes",
}
MONTHS = "January February March April May June July August September October November December".split()
UNSEEN_QUESTIONS = 2  # the last questions of a relation are never trained on
UNSEEN_CHAIN_QUESTIONS = 1  # and the last one of a chain
_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Relation:
    """A kind of fact: a value for each key, both drawn from the pools of these names."""

    key: str
    value: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    answer: str


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.strip().splitlines())


RELATIONS = {
    name: Relation(row["key"], row["value"], _lines(row["statements"]), _lines(row["questions"]), row["answer"])
    for name, row in _TABLE["relations"].items()
}
# The value of the first fact is the key of the second.
CHAINS = {(row["first"], row["second"]): _lines(row["questions"]) for row in _TABLE["chains"]}
POOLS: dict[str, list[str]] = {name: words.split() for name, words in _TABLE["pools"].items()} | {
    "number": [str(number) for number in range(101, 999, 4)],
    "price": [str(number) for number in range(31, 100)],
    "platform": [str(number) for number in range(1, 25)],
    "time": [f"{hour}:{minute}" for hour in range(7, 22) for minute in ("00", "15", "30", "45")],
    "date": [f"{month} {day}" for day in range(1, 29) for month in MONTHS],
}
CLUTTER: dict[str, list[str]] = _TABLE["clutter"]
