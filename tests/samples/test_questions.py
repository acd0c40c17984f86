"""Questions made from plain text: the answer stands where they say, and one text never asks of itself alone."""

import random

import pytest
import torch

from tests.training.answers import span_f1
from tests.training.corpora import Example
from tests.training.questions import QuestionMaker, cropped, sentences_of

TEXT = (
    "Ada Byron met Charles Babbage in London on 5 June 1833. She wrote about 200 letters to him. "
    "The engine was never built because of its price, which rose to $17,000 by 1842. "
    "Babbage showed the small model in London to many guests, who were surprised by its exact results."
)
WORDS = sorted({word.strip(".,").lower() for word in TEXT.split()})
VOCABULARY = {word: number for number, word in enumerate(WORDS)}


def maker(seed=0):
    table = torch.eye(len(WORDS))
    return QuestionMaker([sentences_of(TEXT)] * 2, table, VOCABULARY, seed)


def test_answers_stand_where_the_rows_say():
    rows = list(maker().make(60))
    assert rows
    for row in rows:
        answer, start = row["answers"]["text"][0], row["answers"]["answer_start"][0]
        assert row["context"][start:].startswith(answer) and row["question"].endswith("?")
    assert rows == list(maker().make(60)) != list(maker(1).make(60))


def test_a_cropped_question_keeps_its_answer():
    row = {"question": "How many letters did Ada Byron write to him?", "context": TEXT}
    row["answers"] = {"text": ["200"], "answer_start": [TEXT.index("200")]}
    contexts = set()
    for seed in range(20):
        part = cropped(row, random.Random(seed))
        assert part["context"][part["answers"]["answer_start"][0] :].startswith("200")
        assert part["question"].startswith("How")
        contexts.add(part["context"])
    assert len(contexts) > 1 and TEXT in contexts


def test_f1_of_spans_counts_shared_tokens_inside_the_context():
    class Model:
        def __call__(self, **inputs):
            start = torch.full(inputs["input_ids"].shape, -20.0)
            end = start.clone()
            start[:, 0] = 9  # outside the context: not allowed
            start[:, 3], end[:, 4] = -5, -5
            return type("Output", (), {"start_logits": start, "end_logits": end})

    example = Example([101, 7, 102, 8, 9, 10, 102], [0, 0, 0, 1, 1, 1, 1], (4, 5))
    assert span_f1(Model(), [example]) == pytest.approx(2 * 1 / (2 + 2))
