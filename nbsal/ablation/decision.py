"""A text with a decision: what the model makes of it with some of its tokens hidden.

For models that measure distances by index, leaving a token out differs from a token that nobody attends to; a test on
the texts at hand detects that, and the attention mask hides their tokens instead, unless the model reads no mask.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from torch import Tensor

from nbsal.ablation.texts import REMOVE, TEXT, Input
from nbsal.model.subject import Subject
from nbsal.model.target import Target
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Flags
from nbsal.support.errors import InputError, UnknownName

WAYS = (REMOVE, "mask", "pad")
SHARE, LEAST = 0.25, 16  # tokens by which a text is made longer for a test


@dataclass(frozen=True, eq=False)
class DecisionText:
    """A text, and the number of a decision about it that is read; without a target, its logits.

    `way` says how a token is hidden: "remove" (no other token sees it), "mask" or "pad" (replaced by the mask or
    padding token, which the others do see), or the id of a replacement token.
    """

    subject: Subject
    row: Row
    target: Target | None = None
    way: str | int = REMOVE

    compares = False

    @property
    def source(self) -> Hashable:
        return self.row.ids, self.row.types, self.row.mask, self.target, self.way

    @property
    def may_leave_out(self) -> bool:
        # Outputs at positions need every position to be there.
        return self.way == REMOVE and self.subject.task == "sequence"

    @property
    def pads(self) -> bool:
        # A hidden token whose own position is read may attend to padding (DeBERTa).
        return self.way != REMOVE or self.subject.task == "sequence"

    def input(self, subset: Flags, leaves_out: bool) -> Input:
        """The token that the model's head reads stays in place; if it is hidden, another one replaces it."""
        ids, mask, types = self._arrays
        ids, shows, end = np.where(subset, ids, self._filler), np.ones_like(subset), len(ids)
        if self.way == REMOVE:
            required, end = self._required_place(subset, leaves_out)
            shows = subset.copy()
            shows[required] = True
        places = np.flatnonzero(shows[:end]) if leaves_out else np.arange(end)
        ids = ids[places]
        # A head that pools looks for the last token that is not padding.
        tokens = np.flatnonzero(ids != getattr(self.subject.model.config, "pad_token_id", None))
        return Input(ids, (mask * shows)[places], types[places], places, int(tokens[-1]) if len(tokens) else 0)

    def whole(self, outputs: Tensor) -> Any:
        return None

    def numbers(self, outputs: Tensor, whole: Any) -> Tensor:
        return outputs if self.target is None else self.target.value(outputs)

    def trials(self) -> Sequence[Flags]:
        """Every other token hidden, and all but the ends."""
        alternate, ends = np.ones((2, len(self.row)), dtype=bool)
        alternate[list(self.row.content[1::2])] = False
        ends[list(self.row.content[1:-1])] = False
        return alternate, ends

    def lengthened(self, most: int) -> Self:
        """The text with some of its content repeated, as far as the model reads."""
        row, content = self.row, self.row.content
        count = min(max(int(len(row) * SHARE), LEAST), most - len(row))
        end = content[-1] + 1
        repeated = [content[number % len(content)] for number in range(count)]
        return replace(self, row=row.pick([*range(end), *repeated, *range(end, len(row))]))

    @cached_property
    def _arrays(self) -> Any:
        return tuple(np.array(values) for values in (self.row.ids, self.row.mask, self.row.types))

    @cached_property
    def _filler(self) -> int:
        return filler_id(self.subject, self.way)

    def _required_place(self, subset: Flags, leaves_out: bool) -> tuple[int, int]:
        """The place that the model's head reads, which cannot be left out, and where the input ends."""
        visible = np.flatnonzero(subset & (self._arrays[1] != 0))
        if self.subject.pooling == "last":
            last = int(visible[-1]) if len(visible) else self.row.last
            return last, last + 1
        reads_any = leaves_out and self.subject.pooling != "first"
        return int(visible[0]) if reads_any and len(visible) else 0, len(self.row)


def filler_id(subject: Subject, way: str | int) -> int:
    """The id of the token that replaces a hidden one."""
    tokenizer, size = subject.tokenizer, subject.model.config.vocab_size
    if isinstance(way, int) and not isinstance(way, bool):
        if not 0 <= way < size:
            message = f"way={way} is not a token id of this model. Ids run from 0 to {size - 1}."
            raise InputError(message, argument="way", value=way)
        return way
    if way not in WAYS:
        ways = [*WAYS, TEXT] if subject.task in ("next-token", "reply") and way != TEXT else WAYS
        raise UnknownName("way", way, [*ways, "a token id"], "", f"Choose {', '.join(map(repr, ways))} or a token id.")
    if way == "pad":
        return subject.text_encoder.pad_id
    mask = getattr(tokenizer, "mask_token_id", None)
    if way == "mask" and mask is None:
        message = f"way='mask', but {subject.name} has no mask token. Choose 'remove', 'pad' or a token id."
        raise InputError(message, argument="way", value=way)
    others = (getattr(tokenizer, f"{name}_token_id", None) for name in ("unk", "eos", "bos"))
    return next((token_id for token_id in (mask, *others) if token_id is not None), 0)
