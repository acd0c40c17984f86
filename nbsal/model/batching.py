"""Room: batches that are packed as full as they may be; work on one that does not fit into memory goes on by halves.

That a batch was halved is no part of a result: texts do not see each other, so their scores are those of the whole
batch. It is told in a warning.
"""

import traceback
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from nbsal.errors import OutOfMemory

TYPICAL_LENGTH = 128  # tokens; a longer text counts as several when a batch is filled
MAX_PADDING = 256  # padding tokens a batch; beyond that, another batch costs less

T = TypeVar("T")
Found = TypeVar("Found")

# What allocators say that raise plain RuntimeErrors: Apple's, the CPU's under Linux and under Windows, cuBLAS's.
_SAID = ("out of memory", "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


def fill_batches(items: Iterable[T], full: Callable[[list[T], T], bool]) -> Iterator[list[T]]:
    """Items in batches, in order; `full` says whether a batch has no room for the next one.

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
    """Places of texts in batches of similar length; those in `alone` are batches of their own.

    A long text counts as several, by its length or, where pairs of positions are read (`pairwise`), by its square: a
    batch of long texts would fill the memory of a laptop. A batch also ends where the next text would add more padding
    than another batch costs.

    >>> list(length_batches([5, 900, 6], size=8))
    [[0, 2], [1]]
    """

    def is_full(batch: list[int], place: int) -> bool:
        longest, power = lengths[place], 2 if pairwise else 1
        padding = sum(longest - lengths[other] for other in batch)
        crowded = (len(batch) + 1) * max(1.0, longest / TYPICAL_LENGTH) ** power > size
        return place in alone or crowded or padding > MAX_PADDING

    return fill_batches(sorted(range(len(lengths)), key=lambda place: lengths[place]), is_full)


def run_in_halves(items: Sequence[T], run: Callable[[Sequence[T]], Found]) -> list[Found]:
    """What `run` finds of all items, or else of as large parts of them as there is memory for, in order.

    >>> run_in_halves([1, 2, 3], sum)
    [6]
    """
    try:
        with memory_errors():
            return [run(items)]
    except OutOfMemory:
        if len(items) < 2:
            raise
    _tell()
    half = len(items) // 2
    return [found for part in (items[:half], items[half:]) for found in run_in_halves(part, run)]


def run_halving(most: int, run: Callable[[int], Found]) -> Found:
    """What `run` finds when it takes so many at a time, or else as many as there is memory for.

    >>> run_halving(4, lambda count: [[1, 2, 3, 4][at : at + count] for at in range(0, 4, count)])
    [[1, 2, 3, 4]]
    """
    try:
        with memory_errors():
            return run(most)
    except OutOfMemory:
        if most < 2:
            raise
    _tell()
    return run_halving(most // 2, run)


@contextmanager
def memory_errors() -> Iterator[None]:
    """A sentence in place of what an allocator says; what the failed work held is let go."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # else its tensors live as long as somebody keeps the error
        if isinstance(error, OutOfMemory):
            raise
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OutOfMemory(
            f"There is not enough memory for one text at a time ({said:.200}). Explain a "
            "shorter text, choose a method that keeps less (see `nbsal methods`), or load the model where there is "
            'more memory: nbsal.load(..., device="cpu").'
        ) from error


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is an allocator's."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said.lower() in str(error).lower() for said in _SAID)


def _tell() -> None:
    warnings.warn(
        "A batch did not fit into memory: it is halved, and the work goes on. A smaller batch_size saves the attempts.",
        stacklevel=3,
    )
