"""What the model reads of a text with parts left out, and what a kind of such texts must say of itself."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Flags
from nbsal.support.lazy import Tensor

REMOVE = "remove"  # the way to hide a token in which no other token sees it
TEXT = "text"  # that of replies in which the prompt is written without the hidden parts, and tokenized anew
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Input:
    """What the model reads for one subset: tokens, and where its outputs are read.

    `places` are those of the tokens in the whole text, or None where the model counts them itself. `last` is the last
    token that must be read, whatever comes before it.
    """

    ids: Numbers
    mask: Numbers
    types: Numbers
    places: Numbers | None
    last: int
    reads: Numbers | None = None  # None: all outputs of the text

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def row(self) -> Row:
        """The tokens as the row of a batch."""
        ids, types, mask = (tuple(values.tolist()) for values in (self.ids, self.types, self.mask))
        return Row("", ids, (), (), (), (), types, mask)

    def shared_size(self, whole: "Input") -> int:
        """How many leading tokens are those of the whole text, and need not be read again."""
        size = min(self.last, whole.last)
        differs = (self.ids[:size] != whole.ids[:size]) | ((self.mask[:size] & whole.mask[:size]) == 0)
        if self.places is not None and whole.places is not None:  # a repeated token may stand in another's place
            differs |= self.places[:size] != whole.places[:size]
        return int(differs.argmax()) if differs.any() else size

    def after(self, start: int) -> "Input":
        """What comes after the first tokens."""
        ids, mask, types = (values[start:] for values in (self.ids, self.mask, self.types))
        places = None if self.places is None else self.places[start:]
        return Input(ids, mask, types, places, self.last - start, None if self.reads is None else self.reads - start)


class AblatedText(Protocol):
    """A text with parts that can be left out, and what is read of the model's outputs for it.

    Results are shared by texts with the same `source`. `trials` are the subsets that a test of the model reads in both
    ways, with tokens left out and with tokens that nobody attends to, if it `may_leave_out` any. `compares` says that
    its numbers need those of the whole text.
    """

    @property
    def row(self) -> Row: ...
    @property
    def source(self) -> Hashable: ...
    @property
    def compares(self) -> bool: ...
    @property
    def may_leave_out(self) -> bool: ...
    @property
    def pads(self) -> bool:
        """Whether it may be padded to the length of others in a batch."""
        ...

    def input(self, subset: Flags, leaves_out: bool) -> Input: ...
    def whole(self, outputs: Tensor) -> Any: ...
    def numbers(self, outputs: Tensor, whole: Any) -> Tensor: ...
    def trials(self) -> Sequence[Flags]: ...
    def lengthened(self, most: int) -> Self:
        """The text made longer for a test, so that one that is being typed is not tested at every letter."""
        ...
