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
from nbsal.samples.training.notes_answers import Value
from nbsal.samples.training.notes_world import Case, Level, draw_case

TEXTS = Path(notes.__file__).parent / "notes.jsonl"
COUNTS = {("one", 1): 110, ("two", 2): 60, ("none", 0): 30}  # by kind of question and the notes that its value needs
SIZES = (3, 8)
LEVEL = Level(turns=1, absent=0.3, clutter=0.6, chains=0.5)
FURTHER_COUNTS = {
    ("aside", 1): 15,
    ("aside", 2): 30,
    ("aside", 3): 12,
    ("restated", 1): 8,
    ("restated", 2): 14,
    ("three", 3): 8,
    ("twice", 1): 8,
}
FURTHER_SIZES = (5, 9)
FURTHER = Level(turns=1, clutter=0.2, chains=0.7, related=0.6, further=0.4, asides=0.9, twice=0.1, restate=0.25)
SEED = 7


def states(note: str, value: Value) -> bool:
    """Whether a note has a word of a value."""
    return not set(value.word.split()).isdisjoint(word.strip() for word in re.findall(notes.TOKEN, note))


def is_unambiguous(case: Case) -> bool:
    """Whether the values of the first question's answer stand in its sources only."""
    question = case.questions[0]
    others = [text for number, text in enumerate(case.notes) if number not in question.source]
    return not any(states(note, value) for note in others for value in question.values)


def separates(case: Case) -> bool:
    """Whether the last value stands in its own notes only, and the answer mentions as many notes that it does not need."""
    question = case.questions[0]
    last = question.values[question.final]
    others = [text for number, text in enumerate(case.notes) if number not in last.direct]
    mentions = len(question.source) >= 2 * len(last.needs) or question.kind == "three"
    return mentions and not any(states(note, last) for note in others) and len(set(case.notes)) == len(case.notes)


def row(case: Case) -> dict[str, Any]:
    """The notes and the first question with its answer, and the notes behind each word of the answer."""
    question = case.questions[0]
    return {
        "kind": question.kind,
        "question": question.text,
        "documents": case.notes,
        "answer": question.answer,
        "source": list(question.source),
        "truth": [value._asdict() for value in question.values],
        "final": question.final if question.values else None,
    }


def rows() -> Iterator[dict[str, Any]]:
    """The rows of `nbsal.samples.texts("notes")`."""
    yield from drawn(LEVEL, SIZES, COUNTS, is_unambiguous)
    yield from drawn(FURTHER, FURTHER_SIZES, FURTHER_COUNTS, separates)


def drawn(
    level: Level, sizes: tuple[int, int], counts: dict[tuple[str, int], int], fits: Callable[[Case], bool]
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
