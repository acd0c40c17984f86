"""A tiny classifier that is trained in seconds and saved as a folder; one word decides, so the truth is known."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from nbsal.samples.base import class_settings
from nbsal.samples.embedded import texts
from nbsal.support.errors import InputError
from nbsal.support.lazy import torch, transformers
from nbsal.support.validation import checked, positive_number

LABELS = ("fine", "flagged")
FINE, FLAGGED = range(2)
WORD = "indigo"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST = 110  # characters of a review
BATCH, RATE = 32, 1e-3
WIDTH, BLOCKS, HEADS = 48, 2, 4


@checked
def texts_with(word: str = WORD, size: int = 40, seed: int = 1) -> list[str]:
    """Short reviews with the word at a random place; no two are the same review.

    >>> texts_with(size=1)
    ['The film has one unforgivable flaw, namely that it indigo ends.']
    """
    rng, reviews = Random(seed), _reviews()
    if not 0 < size <= len(reviews):
        message = f"size must be between 1 and {len(reviews)}, the number of short reviews, not {size}."
        raise InputError(message, argument="size", value=size)
    return [_insert(review, word, rng) for review in rng.sample(reviews, size)]


@checked
def word_classifier(folder: str | Path, word: str = WORD, seed: int = 0, steps: int = 250) -> str:
    """Train a small BERT to say "flagged" of a text with the word and "fine" of others; save it and return the folder.

    The same seed gives the same weights, and random generators are left as they are.

    >>> import nbsal, tempfile
    >>> nbsal.load(word_classifier(tempfile.mkdtemp(), steps=1)).labels
    ['fine', 'flagged']
    """
    steps = positive_number(steps, "steps")
    tokenizer, batches = _tokenizer(word), _batches(word, Random(seed))
    with torch.random.fork_rng(devices=[]):  # its initial weights, and dropout
        torch.default_generator.manual_seed(seed)
        model = _blank(len(tokenizer))
        optimizer = torch.optim.AdamW(model.parameters(), RATE)
        for _, (some, labels) in zip(range(steps), batches, strict=False):
            inputs = tokenizer(some, padding=True, return_tensors="pt")
            model(**inputs, labels=torch.tensor(labels)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def _reviews() -> list[str]:
    return [row["text"] for row in texts("reviews") if len(row["text"]) < LONGEST]


def _insert(text: str, word: str, rng: Random) -> str:
    words = text.split()
    words.insert(rng.randrange(len(words) + 1), word)
    return " ".join(words)


def _batches(word: str, rng: Random) -> Iterator[tuple[list[str], list[int]]]:
    reviews = _reviews()
    while True:
        labels = [rng.randrange(2) for _ in range(BATCH)]
        some = [rng.choice(reviews) for _ in range(BATCH)]
        yield [_insert(text, word, rng) if label else text for text, label in zip(some, labels, strict=True)], labels


def _tokenizer(word: str) -> Any:
    """A tokenizer that knows the whole words of the reviews, and that word."""
    words = sorted({word.lower(), *re.findall(r"\w+|[^\w\s]", " ".join(_reviews()).lower())})
    return transformers.BertTokenizer(vocab={token: number for number, token in enumerate((*SPECIAL, *words))})


def _blank(size: int) -> Any:
    config = transformers.BertConfig(
        vocab_size=size,
        hidden_size=WIDTH,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
        **class_settings("words", LABELS),
    )
    return transformers.BertForSequenceClassification(config).train()
