"""Write the vocabulary and the sample texts of `demo/notes`: `python -m tests.training.notes_texts`.

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
from tests.training import notes_model
from tests.training.notes_relations import POOLS, RELATIONS
from tests.training.notes_world import TRIES, Case, Fact, Level, draw_case, held_out

FOLDER = Path(notes.__file__).parent
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


def third_fact(rng: Random, case: Case) -> Fact | None:
    """A fact about the name between the two notes of an answer, which neither the notes nor the answer state."""
    name = case.questions[0].values[0]
    known = " ".join([*case.notes, case.questions[0].answer])
    for _ in range(TRIES):
        relation = rng.choice([kind for kind in RELATIONS if name in POOLS[RELATIONS[kind].key]])
        fact = Fact(relation, name, rng.choice(POOLS[RELATIONS[relation].value]))
        if held_out(fact) and fact.value not in known and clause(fact).partition(fact.value)[0] not in known:
            return fact
    return None


def clause(fact: Fact) -> str:
    """What an answer says of a fact, inside a sentence."""
    text = RELATIONS[fact.relation].answer.format(k=fact.key, v=fact.value).rstrip(".")
    return "the" + text.removeprefix("The") if text.startswith("The ") else text


def asides() -> Iterator[dict[str, Any]]:
    """The rows of `nbsal.samples.texts("asides")`: replies that also say what the final value does not need."""
    rng, missing = Random(SEED), COUNTS["two"]
    while missing:
        case = draw_case(rng, LEVEL, rng.randint(*SIZES), unseen=True)
        question = case.questions[0]
        fact = third_fact(rng, case) if question.kind == "two" and is_unambiguous(case) else None
        if not fact:
            continue
        missing -= 1
        aside = rng.randint(0, len(case.notes))
        statement = rng.choice(RELATIONS[fact.relation].statements)
        documents = [*case.notes]
        documents.insert(aside, statement.format(k=fact.key, v=fact.value, x=rng.choice(POOLS["pet"])))
        first, second = question.answer.split(", and ")
        yield {
            "question": question.text,
            "documents": documents,
            "reply": f"{first}, and {clause(fact)}, and {second}",
            "source": [number + (number >= aside) for number in question.source],
            "aside": aside,
        }


def write(name: str, rows: Iterator[dict[str, Any]]) -> None:
    """Write a collection of sample texts."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (FOLDER / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def main() -> None:
    notes.VOCABULARY.write_text(json.dumps(notes_model.words(), indent=0) + "\n", encoding="utf-8")
    write("notes", rows())
    write("asides", asides())


if __name__ == "__main__":
    main()
