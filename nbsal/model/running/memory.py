"""An estimate of the memory that a run needs, compared with what is available before anything is computed."""

import re
from pathlib import Path

import torch

from nbsal.model.loading.composite import transformer_of
from nbsal.model.loading.usage import PREDICTS_TOKENS
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import OutOfMemory

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


def check_fits(subject: Subject, encoded: Encoded, maps: float, states: float = 0) -> None:
    """Raise OutOfMemory for a batch of which so many attention maps and hidden states, alive at once, do not fit."""
    _check(subject, len(encoded), encoded.longest, maps, states)


def _check(subject: Subject, texts: int, length: int, maps: float, states: float) -> None:
    needed = texts * length * subject.dtype.itemsize * (maps * subject.heads * length + states * subject.width)
    if needed <= SMALL:
        return
    free = available(subject.device)
    if free is None or needed <= free:
        return
    single = ' or dtype="model"' if subject.dtype == torch.float64 and subject.model.dtype != torch.float64 else ""
    raise OutOfMemory(
        f"{texts} x {length:,} tokens need about {needed / GB:.1f} GB, but {free / GB:.1f} GB are available. "
        'Explain a shorter text, or by windows: set tokenizer.model_max_length=512 and use long="window". '
        f'dtype="float32" in nbsal.load{single} halves what float64 needs; gradient methods need least.'
    )


def check_forward(subject: Subject, texts: int, length: int) -> None:
    """Raise OutOfMemory if a forward pass over so many texts of a length, which records nothing, does not fit."""
    maps = FORWARD_MAPS if transformer_of(subject.twin).config._attn_implementation == "eager" else 0
    vocabulary = subject.model.config.vocab_size / subject.width if subject.task in PREDICTS_TOKENS else 0
    _check(subject, texts, length, maps, FORWARD_STATES + vocabulary)


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
