"""A prompt with a reply: how likely the model finds the reply's tokens with some of the prompt's hidden."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nbsal.ablation.decision import filler_id
from nbsal.ablation.texts import REMOVE, TEXT, Input, Numbers
from nbsal.model.subject import Subject
from nbsal.model.target import BEST, DIVERGENCE, divergence, log_odds, number_of
from nbsal.model.text.tokens import Row
from nbsal.support.arrays import Flags, Floats

# Numbers of each token that are stored for a subset, before the id of the likeliest one; the last only where it is
# compared with what would be said with nothing hidden.
STORED = ("logprob", "logit", DIVERGENCE)


@dataclass(frozen=True, eq=False)
class ReplyText:
    """A prompt with a reply, of which the numbers of the reply's tokens are read, [number, token].

    `way` says how a token is hidden. "remove": no other token sees it. Hidden tokens are left out, and the others keep
    their positions; where a test shows that the model measures distances in another way, and in an encoder beside a
    decoder, they stay in place and nobody attends to them. "text": `write` gives the tokens of the prompt that is
    rendered without them. "mask", "pad" or the id of a token: that token stands in their place.
    """

    subject: Subject
    row: Row
    start: int  # the position of the reply's first token
    source_size: int = 0  # tokens that an encoder reads
    way: str | int = REMOVE
    compares: bool = False
    write: Callable[[Flags], Sequence[int]] | None = None

    @property
    def source(self) -> Hashable:
        return self.row.ids, self.start, self.way, self.compares, self.write

    @property
    def may_leave_out(self) -> bool:
        return self.way == REMOVE and not self.source_size

    @property
    def pads(self) -> bool:
        return not self.source_size

    def input(self, subset: Flags, leaves_out: bool) -> Input:
        if self.way == TEXT:
            assert self.write is not None, "what writes the prompt without its parts"
            return self._visible(self.write(subset))
        if self.way != REMOVE:
            filled = np.where(subset, self._ids, self._filler)
            return self._visible(filled[: self.source_size or self.start].tolist())
        return self._removed(subset, leaves_out)

    def whole(self, outputs: Tensor) -> Any:
        """What would be said with nothing hidden, [reply token, probability]."""
        return outputs.double().softmax(-1)

    def numbers(self, outputs: Tensor, whole: Any) -> Tensor:
        outcomes = torch.tensor(self.row.ids[self.start :], device=outputs.device)
        numbers = [number_of(outputs, outcomes, number).double() for number in STORED[:2]]
        if self.compares:
            numbers.append(-divergence(outputs, whole))
        return torch.stack([*numbers, outputs.argmax(-1).double()])

    def trials(self) -> Sequence[Flags]:
        """Every other token of the sources hidden, and all."""
        tokens = [place for place in self.row.content if place < self.start]
        alternate, nothing = np.ones((2, len(self.row)), dtype=bool)
        alternate[tokens[::2]] = False
        nothing[tokens] = False
        return alternate, nothing

    def lengthened(self, most: int) -> Self:
        return self

    def hidden(self, leaves_out: bool) -> str:
        """How tokens are hidden, for the provenance."""
        if self.way == TEXT:
            return "cut out of the text, which is tokenized anew"
        if self.way != REMOVE:
            return f"replaced by the token {self.subject.tokenizer.convert_ids_to_tokens(self._filler)}"
        return "left out, positions kept" if leaves_out else "masked in place"

    @cached_property
    def _ids(self) -> Numbers:
        return np.array(self.row.ids)

    @cached_property
    def _filler(self) -> int:
        return filler_id(self.subject, self.way)

    def _visible(self, prompt: Sequence[int]) -> Input:
        """A prompt of these tokens, all of which the model sees, and what follows it."""
        ids = np.array([*prompt, *self.row.ids[self.source_size or self.start :]])
        return self._input(ids, np.ones_like(ids), None, np.arange(len(prompt), len(ids)) - 1)

    def _removed(self, stays: Flags, leaves_out: bool) -> Input:
        """Some positions visible; the first one always is, since something must be read before the reply."""
        stays = stays.copy()
        stays[0] |= not stays[: self.source_size].any() if self.source_size else True
        kept = np.flatnonzero(stays)
        places = kept if leaves_out else np.arange(len(stays))
        # Each token of the reply is read at the last visible position before it.
        before = kept[np.searchsorted(kept, np.arange(self.start, len(stays))) - 1]
        mask, numbered = stays[places].astype(int), places if leaves_out else None
        return self._input(self._ids[places], mask, numbered, np.searchsorted(places, before))

    def _input(self, ids: Numbers, mask: Numbers, places: Numbers | None, reads: Numbers) -> Input:
        types = np.zeros_like(ids)
        if self.source_size:
            decoded = len(self.row) - self.source_size  # the decoder reads these whatever is hidden
            types[-decoded:] = 1
            reads = np.arange(self.start, len(self.row)) - 1 - self.source_size
        return Input(ids, mask, types, places, int(reads[0]), reads)


def numbers_of(stored: Tensor, number: str) -> Floats:
    """A number of every token of a reply, [subset, token], of the stored ones, [subset, number, token].

    A divergence counts as negative: hiding lowers it like the other numbers.
    """
    if number == "logit-prob":
        return log_odds(stored[:, STORED.index("logprob")]).numpy()
    values: Floats = stored[:, -1 if number == BEST else STORED.index(number)].numpy()
    return values
