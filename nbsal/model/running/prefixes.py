"""Reuse of what a causal model computes before the first hidden token of a text.

There nothing has changed, and causal attention looks at nothing that follows, so the text is read once and each variant
of it from its first change on. What shares little with its text is left to the plain way: subsets drawn at random
change near the start.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from torch import nn

from nbsal.model.loading.composite import Composite
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.running import batching, memory
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded, Row
from nbsal.support.arrays import Flags
from nbsal.support.errors import NbsalError, OutOfMemory

if TYPE_CHECKING:
    from nbsal.model.running.text_cache import TextCache

LEAST_SHARED = 1 / 8  # of a variant's tokens, and of those of all variants; less is not worth more batches
LEAST_SAVED = 1024  # tokens of all variants of a text
COST = 2  # times the tokens of a text that reading it, and two variants in both ways, computes beside
MAX_REPEATED = 128  # tokens per batch that are computed again because they do not belong to what all of it shares
PADDED = 4  # times the tokens of a usual batch that keys and values may have
CACHE_ARGUMENTS = ("cache", "past_key_values")  # in the transformers of today, and before 5.24
READS_LATER = ("dynamic", "longrope")  # rotary positions that depend on the longest position of a batch


class Variant(Protocol):
    """A variant of a text: how many of its leading tokens are those of the text, and how many it has."""

    @property
    def start(self) -> int: ...
    @property
    def size(self) -> int: ...


T = TypeVar("T", bound=Variant)
Input = TypeVar("Input")  # what the model reads for a variant
R = TypeVar("R")


def can_reuse(subject: Subject) -> bool:
    """Whether the architecture allows it; `read_text` and a test of two variants of each text decide."""
    model = subject.model
    if not subject.causal or isinstance(model, Composite | StandIn):
        return False
    if subject.task == "sequence" and subject.pooling != "last":
        return False
    rotations = (getattr(module, "rope_type", None) for module in model.modules())
    if any(kind in str(rotation) for rotation in rotations for kind in READS_LATER):
        return False
    return cache_argument(model) is not None and "position_ids" in inspect.signature(model.forward).parameters


def cache_argument(model: nn.Module) -> str | None:
    """The name of the argument of a model's forward pass that takes keys and values; None if it has none."""
    parameters = inspect.signature(model.forward).parameters
    return next((name for name in CACHE_ARGUMENTS if name in parameters), None)


def shared_size(row: Row, coalition: Flags, padding: int | None) -> int:
    """How many leading tokens of a text with some of its tokens hidden are those of the text, and not its head's.

    A head that pools looks for the last token that is not padding, so that one must come after what is shared.
    """
    if not all(row.mask):
        return 0
    first_hidden = len(row) if coalition.all() else int(coalition.argmin())
    tokens = np.flatnonzero(coalition & (np.array(row.ids) != padding))
    return min(first_hidden, int(tokens[-1])) if len(tokens) else 0


def worth_sharing(variants: Sequence[T]) -> list[T]:
    """Those of a text's variants that share so much with it that it pays, beginning with those that share least."""
    chosen = [variant for variant in variants if variant.start >= LEAST_SHARED * variant.size]
    chosen.sort(key=lambda variant: variant.start)
    saved = sum(variant.start for variant in chosen) - COST * max((variant.size for variant in chosen), default=0)
    return chosen if saved >= max(LEAST_SAVED, LEAST_SHARED * sum(variant.size for variant in variants)) else []


def batches(variants: Sequence[T], tokens: int, largest: float) -> Iterator[list[T]]:
    """Group variants, sorted by start, into batches that are read from the start of their first one."""

    def is_full(batch: list[T], variant: T) -> bool:
        start, count = batch[0].start, len(batch) + 1
        longest = max(variant.size, *(other.size for other in batch))
        repeated = sum(other.start - start for other in batch) + variant.start - start
        too_large = count * (longest - start) > tokens or count * longest > PADDED * tokens
        return too_large or repeated > MAX_REPEATED or len(batch) >= largest

    return batching.fill_batches(variants, is_full)


def probes(variants: Sequence[T]) -> tuple[T, T]:
    """The variants, of some that are worth sharing, that are read both ways before all others are."""
    return variants[len(variants) // 2], variants[-1]


def run_after_text(
    subject: Subject,
    row: Row,
    whole: Input,
    variants: Sequence[T],
    run_batch: Callable[[Sequence[T], Callable[[Sequence[Input]], R]], object],
    run: "Callable[[Sequence[Input], TextCache | None, int], R]",
    is_close: Callable[[R, R], bool],
    tokens: int,
    largest: float,
) -> bool:
    """Read a text once, and variants of it from their first change on; False if two of them show a difference.

    `run` reads inputs, without those leading tokens that the cache holds. `run_batch` stores what it returns.
    """
    cache = read_text(subject, row, lambda cache: run([whole], cache, 0))

    def is_exact(variant: T) -> bool:
        exact = False

        def run_both(inputs: Sequence[Input]) -> R:
            nonlocal exact
            wholly, after = run(inputs, None, 0), attempt(lambda: run(inputs, cache, variant.start))
            exact = after is not None and is_close(wholly, after)
            return wholly

        run_batch([variant], run_both)
        return exact

    tested = probes(variants)
    if cache is None or not all(map(is_exact, tested)):
        return False
    others = [variant for variant in variants if not any(variant is each for each in tested)]
    for batch in batches(others, tokens, largest):
        start = batch[0].start
        run_batch(batch, lambda inputs: run(inputs, cache, start))  # noqa: B023
    return True


def read_text(subject: Subject, row: Row, run: "Callable[[TextCache], object]") -> "TextCache | None":
    """A cache that `run` has filled with the keys and values of a text; None if it cannot, or if there is no room."""
    from nbsal.model.running.text_cache import TextCache

    try:  # a layer's keys are about as wide as its hidden states, or narrower
        memory.check_fits(subject, Encoded([row], subject.text_encoder.pad_id), maps=0, states=2 * subject.depth)
    except OutOfMemory:
        return None
    cache = TextCache(subject.depth, cache_argument(subject.model) or CACHE_ARGUMENTS[0])
    read = attempt(lambda: run(cache)) is not None
    return cache if read and cache.holds(len(row)) else None


def attempt(run: Callable[[], R]) -> R | None:
    """The result of a function, or None if the model does not know such a cache."""
    try:
        return run()
    except NbsalError:
        raise
    except (AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
