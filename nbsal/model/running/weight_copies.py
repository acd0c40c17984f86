"""Copies of weights in another layout or precision, kept while their weights live and do not change, up to a limit."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from nbsal.model.running.version import sample

LIMIT = 2**30  # bytes of all copies

# For each weight and kind of copy: what tells whether the weight has changed, and the copy.
_COPIES: Any = WeakTensorKeyDictionary()


def kept_copy(weight: Tensor, kind: str, size: int, make: Callable[[], Tensor]) -> Tensor | None:
    """The copy of a weight that `make` returns, of that many bytes, or None if it would exceed the limit.

    >>> weight = torch.ones(2)
    >>> first, second = (kept_copy(weight, "double", 16, lambda: weight.double()) for _ in range(2))
    >>> first is second
    True
    """
    version, numbers = (weight.data_ptr(), weight._version), sample(weight)
    copies = _COPIES.setdefault(weight, {})
    stored = copies.pop(kind, None)
    if stored is None or stored[0] != version or not torch.equal(stored[1], numbers):
        if size + copied_bytes() > LIMIT:
            return None
        with torch.no_grad():
            stored = version, numbers.clone(), make()
    copies[kind] = stored
    copy: Tensor = stored[2]
    return copy


def copied_bytes() -> int:
    """The memory that copies of weights take, at most LIMIT."""
    kinds = list(_COPIES.data.values())  # another thread may add one meanwhile
    return sum(copy.nbytes for copies in kinds for _, _, copy in list(copies.values()))
