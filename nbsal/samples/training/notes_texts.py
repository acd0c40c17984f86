"""Write the vocabulary and the sample texts of `demo/notes`: `python -m nbsal.samples.training.notes_texts`.

The texts state facts that are never trained on. The words of an answer that are not in its question stand in the
documents that are its source and in no other, so they can have been copied from nowhere else.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from nbsal.samples import notes
from nbsal.samples.training import notes_model
from nbsal.samples.training import notes_relations as relations
from nbsal.samples.training.notes_answers import Value
from nbsal.samples.training.notes_world import Case, Level, draw_case

TEXTS = Path(notes.__file__).parent / "notes.jsonl"
SEED = 7
# How many questions of each kind and number of needed notes, what they are drawn from, and of how many facts.
FIRST = (
    {("one", 1): 110, ("two", 2): 60, ("none", 0): 30},
    Level(statements=4, turns=1, absent=0.3, clutter=0.6, chains=0.5),
    (3, 8),
)
NOTICES = (
    {("notice", 1): 10, ("notice", 2): 28, ("notice", 3): 12, ("restated", 1): 4, ("restated", 2): 10},
    Level(turns=1, clutter=0.2, chains=0.8, further=0.5, notices=1.0, restate=0.2),
    (5, 8),
)
ASIDES = (
    {("aside", 1): 8, ("aside", 2): 12, ("three", 3): 4, ("twice", 1): 8},
    Level(turns=1, clutter=0.2, chains=0.7, further=0.3, related=0.6, asides=0.7, twice=0.3),
    (5, 8),
)


def states(note: str, value: Value) -> bool:
    """Whether a note has a word of a value."""
    return not set(value.word.split()).isdisjoint(word.strip() for word in re.findall(notes.TOKEN, note))


def is_unambiguous(case: Case) -> bool:
    """Whether the values of the first question's answer stand in its sources only."""
    question = case.questions[0]
    others = [text for number, text in enumerate(case.notes) if number not in question.source]
    return not any(states(note, value) for note in others for value in question.values)


def has_unneeded_notices(case: Case) -> bool:
    """Whether an answer also has all notices that it may, of notes that its final value does not need."""
    question = case.questions[0]
    final = question.values[question.final]
    needed = {number for group in final.needs for number in group}
    others = [text for number, text in enumerate(case.notes) if number not in needed]
    steps = question.values[: question.final + 1]
    has_notices = len(question.source) == len(needed) + len(relations.NOTICES)
    return has_notices and not any(states(note, value) for note in others for value in steps)


def row(case: Case) -> dict[str, Any]:
    """The notes and the first question with its answer, and the notes behind each word of the answer."""
    question = case.questions[0]
    return {
        "kind": question.kind,
        "question": question.text,
        "documents": case.notes,
        "answer": question.answer,
        "source": list(question.source),
        "truth": [
            value._asdict() | {"direct": list(value.direct), "needs": [list(group) for group in value.needs]}
            for value in question.values
        ],
        "final": question.final if question.values else None,
    }


def rows() -> Iterator[dict[str, Any]]:
    """The rows of `nbsal.samples.texts("notes")`."""
    yield from drawn(*FIRST, is_unambiguous)
    yield from drawn(*NOTICES, has_unneeded_notices)
    yield from drawn(*ASIDES, is_unambiguous)


def drawn(
    counts: dict[tuple[str, int], int], level: Level, sizes: tuple[int, int], fits: Callable[[Case], bool]
) -> Iterator[dict[str, Any]]:
    """As many rows of each kind."""
    rng, missing = Random(SEED), dict(counts)
    while any(missing.values()):
        case = draw_case(rng, level, rng.randint(*sizes), unseen=True)
        question = case.questions[0]
        kind = question.kind, len(question.values[question.final].needs) if question.values else 0
        if missing.get(kind) and fits(case):
            missing[kind] -= 1
            yield row(case)


def main() -> None:
    notes.VOCABULARY.write_text(json.dumps(notes_model.words(), indent=0) + "\n", encoding="utf-8")
    TEXTS.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows()), encoding="utf-8")


if __name__ == "__main__":
    main()
