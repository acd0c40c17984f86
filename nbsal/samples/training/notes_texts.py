"""Write the vocabulary and the sample texts of `demo/notes`: `python -m nbsal.samples.training.notes_texts`.

The texts state facts that are never trained on. The words of an answer that are not in its question stand in the
documents that are its source and in no other, so they can have been copied from nowhere else.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from nbsal.samples import notes
from nbsal.samples.training import notes_model
from nbsal.samples.training.notes_world import Case, Level, draw_case

TEXTS = Path(notes.__file__).parent / "notes.jsonl"
COUNTS = {"one": 110, "two": 60, "none": 30}  # of questions by the number of notes that they need
SIZES = (3, 8)
LEVEL = Level(turns=1, absent=0.3, clutter=0.6, chains=0.5)
SEED = 7


def is_unambiguous(case: Case) -> bool:
    """Whether the values of the first question's answer stand in its sources only."""
    question = case.questions[0]
    others = [text for number, text in enumerate(case.notes) if number not in question.source]
    words = {word.strip() for text in others for word in re.findall(notes.TOKEN, text)}
    return not any(word in words for value in question.values for word in value.split())


def rows() -> Iterator[dict[str, Any]]:
    """The rows of `nbsal.samples.texts("notes")`."""
    rng, missing = Random(SEED), dict(COUNTS)
    while any(missing.values()):
        case = draw_case(rng, LEVEL, rng.randint(*SIZES), unseen=True)
        question = case.questions[0]
        if missing.get(question.kind) and is_unambiguous(case):
            missing[question.kind] -= 1
            yield {
                "question": question.text,
                "documents": case.notes,
                "answer": question.answer,
                "source": list(question.source),
            }


def main() -> None:
    notes.VOCABULARY.write_text(json.dumps(notes_model.words(), indent=0) + "\n", encoding="utf-8")
    TEXTS.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")


if __name__ == "__main__":
    main()
