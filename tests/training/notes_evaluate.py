"""Evaluate `demo/notes`: `python -m tests.training.notes_evaluate [--cases N]`.

Prints how many answers are exact, word for word, on facts that are never trained on, by the number of notes and by what
is asked, and how the answers to the sample texts change when a document is deleted.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import torch

import nbsal
from nbsal import samples
from nbsal.samples.notes import NAME, prompt
from tests.training.notes_relations import ABSENT
from tests.training.notes_world import Level, draw_case

PLAIN = Level(turns=1)
WHOLE = Level(turns=1, absent=0.35, clutter=1.0, chains=0.5)
SETTINGS = {
    "2 plain notes": (2, PLAIN),
    "3 plain notes": (3, PLAIN),
    "4 plain notes": (4, PLAIN),
    "3 facts": (3, WHOLE),
    "6 facts": (6, WHOLE),
    "10 facts": (10, WHOLE),
    "6 facts, unseen questions": (6, replace(WHOLE, paraphrase=True)),
}
KINDS = {"one": "one note", "two": "two notes", "half": "second note missing", "none": "no note"}
BATCH = 125


def replies(subject: Any, prompts: Sequence[str]) -> list[str]:
    """The answers to some prompts, by greedy generation."""
    answers: list[str] = []
    for at in range(0, len(prompts), BATCH):
        inputs = subject.tokenizer(list(prompts[at : at + BATCH]), return_tensors="pt", padding=True)
        with torch.inference_mode():
            ids = subject.model.generate(**inputs)
        texts = subject.tokenizer.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        answers += [text.strip() for text in texts]
    return answers


def exact(subject: Any, level: Level, count: int, cases: int) -> tuple[dict[str, list[bool]], list[bool]]:
    """Whether each answer is exact, by kind; whether each answerable question is refused."""
    rng = Random(f"evaluation {level} {count}")
    drawn = [draw_case(rng, level, count, unseen=True) for _ in range(cases)]
    questions = [case.questions[0] for case in drawn]
    answers = replies(subject, [prompt(case.notes, case.questions[0].text) for case in drawn])
    right: dict[str, list[bool]] = {}
    for question, answer in zip(questions, answers, strict=True):
        right.setdefault(question.kind, []).append(answer == question.answer)
    pairs = zip(questions, answers, strict=True)
    return right, [answer == ABSENT for question, answer in pairs if question.kind != "none"]


def deletions(subject: Any, rows: Sequence[dict[str, Any]]) -> tuple[list[bool], list[bool]]:
    """Whether the answer changes when a source is deleted, and when another document is."""
    before = replies(subject, [prompt(row["documents"], row["question"]) for row in rows])
    pairs = zip(rows, before, strict=True)
    places = [(row, answer, number) for row, answer in pairs for number in range(len(row["documents"]))]
    documents = [row["documents"][:number] + row["documents"][number + 1 :] for row, _, number in places]
    after = replies(subject, [prompt(d, row["question"]) for d, (row, *_) in zip(documents, places, strict=True)])
    changes: dict[bool, list[bool]] = {True: [], False: []}  # by whether the document is a source
    for (row, answer, number), changed in zip(places, after, strict=True):
        changes[number in row["source"]].append(changed != answer)
    return changes[True], changes[False]


def share(values: Sequence[bool]) -> str:
    """The share of true values and their number, as text."""
    return f"{sum(values) / len(values):.3f} of {len(values)}"


def report(subject: Any, cases: int) -> Iterator[str]:
    """The lines that the program prints."""
    for title, (count, level) in SETTINGS.items():
        right, refused = exact(subject, level, count, cases)
        figures = [f"{KINDS[kind]} {share(right[kind])}" for kind in KINDS if kind in right]
        yield f"{title}: exact {', '.join(figures)}; refused though answerable {share(refused)}"
    rows = samples.texts("notes")
    answers = replies(subject, [prompt(row["documents"], row["question"]) for row in rows])
    yield f"sample texts: exact {share([answer == row['answer'] for answer, row in zip(answers, rows, strict=True)])}"
    sources, others = deletions(subject, [row for row in rows if row["source"]])
    yield f"the answer changes when a source is deleted {share(sources)}, when another document is {share(others)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="of each setting (default %(default)s)")
    arguments = parser.parse_args()
    for line in report(nbsal.load(NAME), arguments.cases):
        print(line, flush=True)


if __name__ == "__main__":
    main()
