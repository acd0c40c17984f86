"""A function from texts to probabilities, such as a remote service, as a model whose words can be hidden.

It has no layers: its only block passes the words on. Words are numbered as texts are encoded, and a text without some
of its words is put together from the others.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbsal.model.loading.function_answers import labels_of, read_answer
from nbsal.model.loading.stand_in import PassOn, StandIn
from nbsal.model.text.tokens import WORD, Encoded, Row
from nbsal.support.errors import InputError, NbsalError
from nbsal.support.validation import Text, check_texts
from nbsal.support.warning import warn_once

Predict = Callable[[list[Any]], Any]
STRUCTURE = ("[PAD]", "[START]", "[PAIR]")  # stand for no text
PAD, START, PAIR = range(len(STRUCTURE))
FAMILIES = ("perturbation",)
PROBE = "A text."
TINY = 1e-12  # the smallest probability that is told from zero
ZERO = (
    f"The function returned a probability of 0, which is read as {TINY}: scores are differences of logarithms, and say "
    "which words change the decision rather than by how much. Return probabilities instead of decisions."
)


class Vocabulary:
    """The words of all texts so far, each with the space before it."""

    __slots__ = ("_numbers", "_pieces")  # no attributes to look into: growing does not change what the function returns

    def __init__(self) -> None:
        self._pieces = list(STRUCTURE)
        self._numbers = {piece: number for number, piece in enumerate(STRUCTURE)}

    def number(self, piece: str) -> int:
        """The number of a word, which may be new."""
        if piece not in self._numbers:
            self._numbers[piece] = len(self._pieces)
            self._pieces.append(piece)
        return self._numbers[piece]

    def __len__(self) -> int:
        return len(self._pieces)

    def piece(self, number: int) -> str:
        """The word with that number; the special tokens are no text."""
        return self._pieces[number] if number >= len(STRUCTURE) else ""


class _FunctionBody(PassOn): ...  # the identity of a model names it


class BlackBox(StandIn):
    """A function of texts that returns one row of probabilities for each.

    It splits texts into words. The logits are the logarithms of probabilities that sum to 1, or the log-odds of those
    of several labels.
    """

    pad_id = PAD

    def __init__(self, function: Predict, labels: Any = None, name: str = "") -> None:
        super().__init__(name or getattr(function, "__qualname__", type(function).__name__), _FunctionBody())
        self.function = function
        self.vocabulary = Vocabulary()
        values = self._probe(labels)
        self.outputs = values.shape[1]
        if self.outputs > 1 and np.allclose(values.sum(1), 1, atol=1e-3):
            self.activation = "softmax"
        else:
            self.activation = "none" if self.outputs == 1 else "sigmoid"
        self.config.num_labels = self.outputs

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Any:
        """The logits of the texts that are left."""
        self.base_model(input_ids[..., None].to(self.dtype), attention_mask)
        rows = zip(input_ids.tolist(), attention_mask.tolist(), strict=True)
        values = self._ask([self._text([i for i, m in zip(*row, strict=True) if m]) for row in rows])
        if self.activation != "none" and min(values.min(), 1 - values.max()) < TINY:
            warn_once(self, "zero", ZERO)
        logs = np.log(np.clip(values, TINY, None)) if self.activation != "none" else values
        if self.activation == "sigmoid":
            logs = logs - np.log(np.clip(1 - values, TINY, None))
        return SimpleNamespace(logits=torch.from_numpy(logs))

    def _text(self, ids: Sequence[int]) -> Text:
        parts = [""]
        for number in ids:
            if number == PAIR:
                parts.append("")
            parts[-1] += self.vocabulary.piece(number)
        first, *rest = (part.strip() for part in parts)
        return (first, rest[0]) if rest else first

    def _ask(self, texts: list[Any]) -> NDArray[np.float64]:
        return read_answer(self.function(texts), len(texts), self.labels)

    def _probe(self, labels: Any) -> NDArray[np.float64]:
        """What the function returns for a first text, and which labels it returns, if any."""
        try:
            answer = self.function([PROBE])
        except NbsalError:
            raise
        except Exception as error:
            message = (
                f"model raised {type(error).__name__} for the list [{PROBE!r}]: {error!s:.200} Pass a function that "
                "takes a list of texts and returns a row of probabilities for each."
            )
            raise InputError(message, argument="model", value=self.function) from error
        self.labels = labels_of(answer, labels)
        return read_answer(answer, 1, self.labels)

    def encode(self, text: Any, first: int = 0) -> Encoded:
        """Encode one text or a list of texts; `first` is the number of the first text in error messages."""
        return Encoded([self._row(text) for text in check_texts(text, first)], PAD)

    def encode_whole(self, text: Text) -> tuple[Row, int, int]:
        """A text as one row, with one token before it that stands for no word."""
        return self._row(text), 1, 0

    def encode_ids(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Encoded:
        """Refused: a function reads texts."""
        raise InputError("A function reads texts, not token ids. Pass a text.", argument="input_ids", value=input_ids)

    def _row(self, text: Text) -> Row:
        entries = []
        for segment, part in enumerate((text,) if isinstance(text, str) else text):
            structure = PAIR if segment else START
            entries.append((structure, STRUCTURE[structure], (0, 0), segment))
            end = 0
            for match in WORD.finditer(part):
                number = self.vocabulary.number(part[end : match.end()])
                entries.append((number, match.group(), match.span(), segment))
                end = match.end()
        ids, tokens, offsets, segments = zip(*entries, strict=True)
        special = tuple(number < len(STRUCTURE) for number in ids)
        return Row(text, ids, tokens, offsets, segments, special, types=(0,) * len(ids), mask=(1,) * len(ids))
