"""Batching under a memory limit: fill batches up to a limit; on out-of-memory, retry in halves.

Texts in a batch do not influence each other, so halving a batch does not change its scores; a warning reports it.
"""

import traceback
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from nbsal.support.errors import OutOfMemory

TYPICAL_LENGTH = 128  # tokens; a longer text counts as several when a batch is filled
MAX_PADDING = 256  # padding tokens per batch; beyond this, a separate batch costs less

T = TypeVar("T")
Result = TypeVar("Result")

# Messages of allocators that raise a plain RuntimeError: MPS, the CPU under Linux and under Windows, cuBLAS.
_OUT_OF_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


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


def run_in_halves(items: Sequence[T], run: Callable[[Sequence[T]], Result]) -> list[Result]:
    """Call `run` with all items; on out-of-memory, call it with each half. Returns the results in order.

    >>> run_in_halves([1, 2, 3], sum)
    [6]
    """
    results, waiting = [], [items]
    while waiting:
        part = waiting.pop()
        try:
            with memory_errors():
                results.append(run(part))
        except OutOfMemory:
            if len(part) < 2:
                raise
            _warn_halving()
            waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
    return results


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise OutOfMemory in place of an allocator's error, and release the tensors of the failed call."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # otherwise its tensors live as long as the error
        if isinstance(error, OutOfMemory):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OutOfMemory(
            f"There is not enough memory, even for one text at a time ({reason:.200}). Explain a shorter text, choose "
            "a method that needs less memory (see `nbsal methods`), or load the model on a device with more memory, "
            'for example nbsal.load(..., device="cpu").'
        ) from error


def is_out_of_memory(error: Exception) -> bool:
    """True if an allocator raised the error."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(part.lower() in text for part in _OUT_OF_MEMORY_MESSAGES)


def _warn_halving() -> None:
    warnings.warn(
        "A batch did not fit into memory; retrying in halves. Pass a smaller batch_size to avoid the retries.",
        stacklevel=3,
    )
