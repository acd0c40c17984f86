"""Benchmark rows that the embedded models are trained and evaluated on, and their batches."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from nbsal.support.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class Example:
    """One training text with its token ids, its segment ids and its label."""

    ids: list[int]
    types: list[int]
    label: Any = None


def folder() -> Path:
    """The folder of benchmark tables, NBSAL_DATA."""
    root = os.environ.get("NBSAL_DATA")
    if not root:
        raise InputError("NBSAL_DATA is not set. Set it to the folder of benchmark tables (sst2/train.jsonl, ...).")
    return Path(root)


def rows(name: str, split: str) -> list[dict[str, Any]]:
    """The rows of one JSON-lines file in the folder of benchmark tables."""
    with (folder() / name / f"{split}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def encode(tokenizer: Any, texts: Sequence[Any], labels: Sequence[Any], longest: int) -> list[Example]:
    """Texts, or pairs of texts, as examples of at most `longest` tokens."""
    pairs = list(zip(*texts, strict=True)) if isinstance(texts[0], tuple) else [list(texts)]
    coded = tokenizer(*map(list, pairs), truncation=True, max_length=longest)
    return [Example(*row) for row in zip(coded["input_ids"], coded["token_type_ids"], labels, strict=True)]


def shuffled(examples: Sequence[T], seed: int) -> list[T]:
    """The same items in a random order that depends only on the seed."""
    return [examples[i] for i in np.random.default_rng(seed).permutation(len(examples))]


def batches(examples: Sequence[Example], tokens: int, seed: int | None) -> Iterator[list[Example]]:
    """Batches of similar length and at most `tokens` tokens, in random order, or sorted by length without a seed."""
    random = np.random.default_rng(0 if seed is None else seed)
    lengths = np.array([len(example.ids) for example in examples])
    groups: list[list[int]] = [[]]
    for i in np.lexsort((random.random(len(lengths)), lengths)):
        if (len(groups[-1]) + 1) * lengths[i] > tokens:
            groups.append([])
        groups[-1].append(int(i))
    for group in groups if seed is None else [groups[i] for i in random.permutation(len(groups))]:
        if group:
            yield [examples[i] for i in group]


def stack(batch: Sequence[Example]) -> dict[str, Tensor]:
    """A batch as padded input tensors for a BERT model."""
    longest = max(len(example.ids) for example in batch)

    def pad(sequences: list[list[int]]) -> Tensor:
        return torch.tensor([s + [0] * (longest - len(s)) for s in sequences])

    return {
        "input_ids": pad([example.ids for example in batch]),
        "attention_mask": pad([[1] * len(example.ids) for example in batch]),
        "token_type_ids": pad([example.types for example in batch]),
    }
