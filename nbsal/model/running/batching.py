"""Batching under a memory limit: fill batches up to a limit, with texts of similar length."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TypeVar

TYPICAL_LENGTH = 128  # tokens; a longer text counts as several when a batch is filled
MAX_PADDING = 256  # padding tokens per batch; beyond this, a separate batch costs less

T = TypeVar("T")


def fill_batches(items: Iterable[T], full: Callable[[list[T], T], bool]) -> Iterator[list[T]]:
    """Group items into batches, in order; `full` says whether a batch has no room for the next item.

    >>> list(fill_batches([1, 2, 3, 4], lambda batch, item: sum(batch) + item > 5))
    [[1, 2], [3], [4]]
    """
    batch: list[T] = []
    for item in items:
        if batch and full(batch, item):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def length_batches(
    lengths: Sequence[int], size: int, pairwise: bool = False, alone: Container[int] = ()
) -> Iterator[list[int]]:
    """Group the indices of texts into batches of similar length; those in `alone` get a batch of their own.

    A long text counts as several, in proportion to its length, or to its square where the method reads pairs of
    positions (`pairwise`): a batch of long texts would fill the memory of a laptop. A batch also ends where the next
    text would add more padding than a separate batch costs.

    >>> list(length_batches([5, 900, 6], size=8))
    [[0, 2], [1]]
    """

    def is_full(batch: list[int], index: int) -> bool:
        longest, power = lengths[index], 2 if pairwise else 1
        padding = sum(longest - lengths[other] for other in batch)
        exceeds_size = (len(batch) + 1) * max(1.0, longest / TYPICAL_LENGTH) ** power > size
        return index in alone or exceeds_size or padding > MAX_PADDING

    return fill_batches(sorted(range(len(lengths)), key=lambda index: lengths[index]), is_full)
