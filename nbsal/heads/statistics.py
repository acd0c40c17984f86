"""Statistics of attention heads (Song et al. 2024): heads that follow dependencies, and heads that follow positions."""

from collections.abc import Sequence
from threading import Event
from typing import Any

import numpy as np
import torch

from nbsal.heads import published
from nbsal.heads.counts import HeadStudy
from nbsal.heads.parses import Parse, links, read_parses
from nbsal.model.head_mask import HeadMask
from nbsal.model.running.memory import run_in_halves
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.passes import trace
from nbsal.support.errors import UnknownName
from nbsal.support.progress import Meter, Progress
from nbsal.support.validation import checked, is_iterable, positive_number

RELATIONS = ("nsubj", "obj", "amod", "advmod")
DIRECTIONS = ("head", "dependent", "both")


@checked
def study(
    subject: Subject,
    parses: Any,
    *,
    relations: str | Sequence[str] = RELATIONS,
    direction: str = "head",
    special: bool = False,
    variant: str | None = None,
    batch_size: int = 32,
    progress: Progress = True,
    cancel: Event | None = None,
) -> HeadStudy:
    """Count what every head of a model attends to most, over parsed sentences.

    `parses` is a CoNLL-U path or text, a list of Parse, or spaCy docs. `direction` says whose attention counts: that of
    the dependent on its "head", of the head on its "dependent", or "both". With `special`, special tokens and the
    attending position itself may have the largest attention. `variant="published"` counts as the authors' code did.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> study(nbsal.load("demo/reviews"), [parse], progress=False).cases["amod"]
    1
    """
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    if variant not in (None, "published"):
        raise UnknownName("variant", variant, (None, "published"))
    names: list[Any] = list(relations) if is_iterable(relations) else [relations]
    sentences = sorted(read_parses(parses), key=lambda parse: len(parse.text))
    result = HeadStudy.empty((subject.depth, subject.heads), names)
    size = 1 if subject.unbatchable else positive_number(batch_size, "batch_size")

    def count_batch(batch: Sequence[Parse]) -> HeadStudy:
        counts = HeadStudy.empty(result.shape, names)
        encoded = subject.encode([parse.text for parse in batch])
        if variant:
            encoded = Encoded([published.without_separators(subject, row) for row in encoded], encoded.pad_id)
        attention = trace.record(subject, encoded, needs={"attention"}).attention
        for i, (row, parse) in enumerate(zip(encoded, batch, strict=True)):
            maps = [attention[b][i, :, : len(row), : len(row)].cpu() for b in range(subject.depth)]
            stacked = np.stack([m.to(torch.promote_types(m.dtype, torch.float32)).numpy() for m in maps])
            sentence_links = published.links(subject, row, parse) if variant else links(row, parse, direction)
            counts.count(row, stacked, sentence_links, special or bool(variant))
        return counts

    with Meter(len(sentences), progress, cancel) as meter:
        for start in range(0, len(sentences), size):
            meter.check()
            batch = sentences[start : start + size]
            result = sum(run_in_halves(batch, count_batch), result)
            meter.step(len(batch))
    return result


@checked
def discover(subject: Subject, parses: Any, synt: float = 0.1, pos: float = 0.8, **options: Any) -> HeadMask:
    """Find the heads that follow syntax or position: `study(...).mask(...)` in one call.

    >>> import nbsal
    >>> parse = nbsal.heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    >>> discover(nbsal.load("demo/reviews"), [parse], progress=False).shape
    (6, 12)
    """
    return study(subject, parses, **options).mask(synt=synt, pos=pos)
