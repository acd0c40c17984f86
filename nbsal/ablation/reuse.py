"""Reuse of what a causal model computes before the first hidden token of a text.

There nothing has changed, and causal attention looks at nothing that follows, so the text is read once and each variant
of it from its first change on. What shares little with its text is read as a whole: subsets drawn at random change near
the start.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from torch import nn

from nbsal.model.loading.composite import Composite
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.running import batching
from nbsal.model.subject import Subject
from nbsal.support.errors import NbsalError

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


V = TypeVar("V", bound=Variant)
Result = TypeVar("Result")


def can_reuse(subject: Subject) -> bool:
    """Whether the architecture allows it; a test of two variants of a text decides."""
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


def worth_sharing(variants: Sequence[V]) -> list[V]:
    """Those of a text's variants that share so much with it that it pays, beginning with those that share least."""
    chosen = [variant for variant in variants if variant.start >= LEAST_SHARED * variant.size]
    chosen.sort(key=lambda variant: variant.start)
    saved = sum(variant.start for variant in chosen) - COST * max((variant.size for variant in chosen), default=0)
    return chosen if saved >= max(LEAST_SAVED, LEAST_SHARED * sum(variant.size for variant in variants)) else []


def batches(variants: Sequence[V], tokens: int, largest: float) -> Iterator[list[V]]:
    """Group variants, sorted by start, into batches that are read from the start of their first one."""

    def is_full(batch: list[V], variant: V) -> bool:
        start, count = batch[0].start, len(batch) + 1
        longest = max(variant.size, *(other.size for other in batch))
        repeated = sum(other.start - start for other in batch) + variant.start - start
        too_large = count * (longest - start) > tokens or count * longest > PADDED * tokens
        return too_large or repeated > MAX_REPEATED or len(batch) >= largest

    return batching.fill_batches(variants, is_full)


def probes(variants: Sequence[V]) -> tuple[V, V]:
    """The variants, of some that are worth sharing, that are read both ways for a test."""
    return variants[len(variants) // 2], variants[-1]


def attempt(run: Callable[[], Result]) -> Result | None:
    """The result of a function, or None if the model does not know such a cache."""
    try:
        return run()
    except NbsalError:
        raise
    except (AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
