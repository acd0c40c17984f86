"""The memory that a run needs: compared with what is available beforehand; on out-of-memory, retry in halves.

Texts in a batch do not influence each other, so halving a batch does not change its scores; a warning reports it.
"""

import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from nbsal.model.loading.composite import transformer_of
from nbsal.model.loading.usage import PREDICTS_TOKENS
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import OutOfMemory

T = TypeVar("T")
Result = TypeVar("Result")
GB = 10**9
SMALL = GB  # bytes; a run that needs less is not worth a question to the system
# What is alive at once at least, measured: attention maps, streamed and a block; hidden states in a block's graph.
STREAMED_MAPS = 4
SUMMARY_MAPS = 4  # of one head, where a stream takes means over heads of what fused attention reads
FUSED_MAPS = 2  # where it takes the maps themselves
FORWARD_MAPS, FORWARD_STATES = 2, 8  # of a forward pass that records nothing: with attention that is not fused; a block
WHOLE_MAPS, WHOLE_MAPS_OF_RELEVANCE = 2, 3
STATES = 12
STREAMED_STATES = 5  # kept of each block: its input, and what fused attention reads and returns

# Messages of allocators that raise a plain RuntimeError: MPS, the CPU under Linux and under Windows, cuBLAS.
_OUT_OF_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")


def check_fits(subject: Subject, encoded: Encoded, maps: float, states: float = 0) -> None:
    """Raise OutOfMemory for a batch of which so many attention maps and hidden states, alive at once, do not fit."""
    _check(subject, len(encoded), encoded.longest, maps, states)


def _check(subject: Subject, texts: int, length: int, maps: float, states: float) -> None:
    needed = texts * length * subject.dtype.itemsize * (maps * subject.heads * length + states * subject.width)
    if needed <= SMALL or (free := lacking(subject.device, needed)) is None:
        return
    single = ' or dtype="model"' if subject.dtype == torch.float64 and subject.model.dtype != torch.float64 else ""
    raise OutOfMemory(
        f"{texts} x {length:,} tokens need about {needed / GB:.1f} GB, but {free / GB:.1f} GB are available. "
        'Explain a shorter text, or by windows: set tokenizer.model_max_length=512 and use long="window". '
        f'dtype="float32" in nbsal.load{single} halves what float64 needs; gradient methods need least.'
    )


def lacking(device: torch.device, needed: float) -> int | None:
    """The bytes that are available on a device, if they are fewer than needed."""
    free = available(device) if needed > SMALL else None
    return free if free is not None and needed > free else None


def check_forward(subject: Subject, texts: int, length: int, read: int | None = None) -> None:
    """Raise OutOfMemory if a forward pass over so many texts of a length, which records nothing, does not fit.

    Logits are read at all positions, or at so many of them.
    """
    maps = FORWARD_MAPS if transformer_of(subject.twin).config._attn_implementation == "eager" else 0
    vocabulary = subject.model.config.vocab_size / subject.width if subject.task in PREDICTS_TOKENS else 0
    share = 1 if read is None else min(1, texts * read / length)  # each text may be read elsewhere
    _check(subject, texts, length, maps, FORWARD_STATES + share * vocabulary)


def available(device: torch.device) -> int | None:
    """The bytes that can be allocated on a device, or None where that is unknown."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    status = Path("/proc/meminfo")
    if device.type != "cpu" or not status.is_file():
        return None
    entry = re.search(r"MemAvailable:\s+(\d+) kB", status.read_text(encoding="ascii"))
    return min([int(entry[1]) * 1024, *_left_to_group()]) if entry is not None else None


def _left_to_group() -> list[int]:
    """The bytes that a container leaves to its processes, if it limits them."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((folder / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no such file, or "max"
        return []
    return [max(0, limit - used)]


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
