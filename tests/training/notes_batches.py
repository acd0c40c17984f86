"""Batches of cases of the made-up world of `demo/notes` as token ids, with the weight of each token in the loss."""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from nbsal.samples.notes import END, PAD, START, TOKEN, UNKNOWN, notes
from tests.training.notes_relations import POOLS, RELATIONS
from tests.training.notes_world import Case, Level, Question, draw_case

DECISIVE, PLAIN = 4.0, 1.0  # weights of answer tokens: values and the first two, which may refuse; all others
LOST = 0.15  # of the words of a noisy question


class Encoded(NamedTuple):
    """Token ids of notes, questions and answers; the weight of each; where each answer lies."""

    ids: list[int]
    weights: list[float]
    answers: list[tuple[str, int, int]]


class Encoder:
    """Encodes cases with the words of a vocabulary."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self.vocabulary = vocabulary
        keys = {word for relation in RELATIONS.values() for word in POOLS[relation.key]}
        self.keys = {vocabulary[f" {word}"] for word in keys}

    def ids(self, text: str) -> list[int]:
        return [self.vocabulary.get(token, UNKNOWN) for token in re.findall(TOKEN, text)]

    def question(self, text: str, rng: Random, noisy: bool) -> list[int]:
        """The question and the start of its answer; a noisy one loses words, but never its key."""
        ids = self.ids(text)
        if noisy:
            ids = [token if token in self.keys or rng.random() > LOST else UNKNOWN for token in ids]
        return [*self.ids("Question:"), *ids, *self.ids("\nAnswer:")]

    def answer(self, question: Question) -> tuple[list[int], list[float]]:
        """The answer and the weights of its tokens."""
        ids = [*self.ids(f" {question.answer}"), END]
        weights = [DECISIVE if at < 2 else PLAIN for at in range(len(ids))]
        for value in question.values:
            tokens = self.ids(f" {value}")
            for at in range(len(ids)):
                if ids[at : at + len(tokens)] == tokens:
                    weights[at : at + len(tokens)] = [DECISIVE] * len(tokens)
        return ids, weights

    def case(self, case: Case, rng: Random, noise: float) -> Encoded:
        """Notes and all questions about them, one after the other."""
        ids, answers = [START, *self.ids(notes(case.notes))], []
        weights = [0.0] * len(ids)
        noisy = rng.random() < noise
        for question in case.questions:
            head = self.question(question.text, rng, noisy)
            tail, tail_weights = self.answer(question)
            answers.append((question.kind, len(ids) + len(head), len(ids) + len(head) + len(tail)))
            ids += head + tail + self.ids("\n")
            weights += [0.0] * len(head) + tail_weights + [0.0]
        return Encoded(ids, weights, answers)


def stack(sequences: Sequence[Encoded]) -> tuple[Tensor, Tensor]:
    """Ids and weights, padded to the longest sequence."""
    width = max(len(sequence.ids) for sequence in sequences)
    ids = [sequence.ids + [PAD] * (width - len(sequence.ids)) for sequence in sequences]
    weights = [sequence.weights + [0.0] * (width - len(sequence.weights)) for sequence in sequences]
    return torch.tensor(ids), torch.tensor(weights)


def draw(encoder: Encoder, rng: Random, level: Level, unseen: bool = False) -> Iterator[Encoded]:
    """Sequences of cases of about one number of facts, without end."""
    count = rng.randint(*level.notes)
    while True:
        yield encoder.case(draw_case(rng, level, count, unseen), rng, level.noise)


def batch(encoder: Encoder, rng: Random, level: Level, tokens: int) -> tuple[Tensor, Tensor]:
    """As many cases as have that many tokens together."""
    sequences: list[Encoded] = []
    longest = 0
    for sequence in draw(encoder, rng, level):
        longest = max(longest, len(sequence.ids))
        if sequences and longest * (len(sequences) + 1) > tokens:
            break
        sequences.append(sequence)
    return stack(sequences)
