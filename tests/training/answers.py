"""Questions with answers to train `demo/answers` on: made ones first, then real ones, and how answers are scored."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nbsal.samples import base
from tests.training.corpora import Example, batches, rows, stack
from tests.training.questions import cropped, make_questions

ANSWER_TOKENS = 1536  # of a batch
REAL_EPOCHS = 3
REAL_SHARE = 0.5  # of the first rate

Batch = Sequence[Example]


def answer_split() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The 600 questions, 480 to train on and 120 to evaluate on; only one context is in both parts."""
    table = rows("squad", "validation")
    return table[:480], table[480:]


def answers(tokenizer: Any) -> tuple[list[Example], list[Example]]:
    """Questions that are held out to choose the checkpoint; `answer_schedule` has those to train on."""
    return [], questions(tokenizer, answer_split()[0][400:])


def questions(tokenizer: Any, table: Sequence[dict[str, Any]], longest: int = 384) -> list[Example]:
    """Questions with contexts, labelled with the token span of the first answer."""
    examples = []
    for row in table:
        coded = tokenizer(
            row["question"], row["context"], truncation="only_second", max_length=longest, return_offsets_mapping=True
        )
        first = row["answers"]["answer_start"][0]
        last = first + len(row["answers"]["text"][0])
        inside = [
            i
            for i, (start, end) in enumerate(coded["offset_mapping"])
            if coded["token_type_ids"][i] == 1 and start < last and end > first
        ]
        if inside:
            examples.append(Example(coded["input_ids"], coded["token_type_ids"], (inside[0], inside[-1])))
    return examples


def answer_schedule(
    tokenizer: Any, epochs: int, seed: int, count: int
) -> tuple[list[list[Example]], Callable[[int], float]]:
    """Batches of `count` made questions, then of 400 real ones with some made ones; and the rates.

    The real ones are cropped anew each epoch.
    """
    train, test = answer_split()
    real, held = train[:400], train[400:] + test
    contexts = sorted({row["context"] for row in real} - {row["context"] for row in held})
    embeddings = base.weights()["embeddings.word_embeddings.weight"]
    made = questions(tokenizer, make_questions(count, contexts, embeddings, tokenizer.get_vocab(), seed), longest=256)
    random_, schedule = random.Random(seed), list[list[Example]]()
    for epoch in range(epochs):
        schedule += batches(made, ANSWER_TOKENS, 1000 * seed + epoch)
    first = len(schedule)
    for epoch in range(REAL_EPOCHS):
        again = questions(tokenizer, [cropped(row, random_) for row in real])
        more = random_.sample(made, min(len(made), len(again) // 2))
        schedule += batches(again + more, ANSWER_TOKENS, 1000 * seed + epoch)

    def rate(step: int) -> float:
        if step < first:
            return 1 - 0.9 * step / first
        return REAL_SHARE * (1 - (step - first) / (len(schedule) - first))

    return schedule, rate


def span_loss(output: Any, batch: Batch) -> Tensor:
    """Mean cross-entropy of the two ends of the answer."""
    first, last = torch.tensor([example.label for example in batch]).T
    start = functional.cross_entropy(output.start_logits.float(), first)
    return (start + functional.cross_entropy(output.end_logits.float(), last)) / 2


@torch.no_grad()
def span_f1(model: Any, examples: Batch, longest: int = 30) -> float:
    """The mean F1 score of the tokens of predicted answers; the loss grows with certainty even as answers improve."""
    total = 0.0
    for batch in batches(examples, 4096, None):
        output = model(**stack(batch))
        for example, start, end in zip(batch, output.start_logits, output.end_logits, strict=True):
            outside = torch.tensor(example.types + [0] * (len(start) - len(example.types))) == 0
            pairs = (start - outside * 1e4)[:, None] + (end - outside * 1e4)[None]
            allowed = torch.ones_like(pairs).triu().tril(longest - 1).bool()
            first, last = divmod(int(pairs.masked_fill(~allowed, -torch.inf).argmax()), len(start))
            shared = min(last, example.label[1]) - max(first, example.label[0]) + 1
            sizes = last - first + 1 + example.label[1] - example.label[0] + 1
            total += 2 * max(0, shared) / sizes
    return total / len(examples)
