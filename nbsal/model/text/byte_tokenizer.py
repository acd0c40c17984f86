"""A tokenizer that only encodes to ids, such as one of tiktoken, with the offsets that the bytes of its tokens have."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, count
from typing import Any

from nbsal.model.text.token_text import byte_letters
from nbsal.model.text.tokens import Span

UNLIMITED = 10**9  # tokens
_ENDS = 4  # tokens that an encoding may add before a text, and after it


class ByteTokenizer:
    """What nbsal asks of a tokenizer, of an object with `encode` and `decode_single_token_bytes`.

    Tokens of an encoding that are not the text's bytes, such as one that begins each text, are special. A character
    whose bytes are several tokens is covered by each of them. Ids of padding and of such tokens are the object's own
    attributes (`pad_token_id` and so on), where it has them, as is the maximum length (`model_max_length`).
    """

    is_fast = True  # it gives offsets
    chat_template = None
    unk_token_id = unk_token = None
    all_special_ids: tuple[int, ...] = ()
    all_special_tokens: tuple[str, ...] = ()
    model_input_names = ("input_ids", "attention_mask")
    truncation_side = "right"

    def __init__(self, encoding: Any) -> None:
        self.encoding = encoding
        names = ("pad_token_id", "bos_token_id", "eos_token_id", "mask_token_id")
        self.pad_token_id, self.bos_token_id, self.eos_token_id, self.mask_token_id = (
            getattr(encoding, name, None) for name in names
        )
        self.model_max_length = int(getattr(encoding, "model_max_length", UNLIMITED))

    def __call__(self, text: Any, pair: Any = None, max_length: int = UNLIMITED, **_: Any) -> "ByteEncoding":
        """The ids of a text, or of each of some texts."""
        if pair is not None:
            raise ValueError("it joins no pairs")
        texts = [text] if isinstance(text, str) else text
        rows = [self._row(each, max_length) for each in texts]
        return ByteEncoding(rows, self.convert_ids_to_tokens, single=isinstance(text, str))

    def _row(self, text: str, max_length: int) -> dict[str, Any]:
        ids = list(getattr(self.encoding, "encode_ordinary", self.encoding.encode)(text))
        pieces = list(map(self.encoding.decode_single_token_bytes, ids))
        before, after = self._added(pieces, text.encode())
        size = len(ids) - before - after
        spans = [(0, 0)] * before + byte_spans(text, pieces[before : before + size]) + [(len(text), len(text))] * after
        special = [1] * before + [0] * size + [1] * after
        kept = slice(min(before + size, max_length - after)), slice(before + size, None)
        rows = {"input_ids": ids, "offset_mapping": spans, "special_tokens_mask": special}
        return {name: [value for part in kept for value in values[part]] for name, values in rows.items()}

    def _added(self, pieces: Sequence[bytes], text: bytes) -> tuple[int, int]:
        """How many tokens come before the text's and after them: as few as leave the text."""
        ends = [(before, after) for before in range(_ENDS) for after in range(_ENDS)]
        for before, after in sorted(ends, key=sum):
            if b"".join(pieces[before : len(pieces) - after]) == text and before + after <= len(pieces):
                return before, after
        raise ValueError("its tokens do not have the bytes of the text")

    @cached_property
    def _names(self) -> dict[int, str]:
        """The tokens by their numbers, as byte-level tokenizers write them."""
        size = getattr(self.encoding, "n_vocab", None)
        names = {}
        for index in count() if size is None else range(size):
            if (name := self._name(index)) is not None:
                names[index] = name
            elif size is None:
                break
        return names

    def _name(self, index: int) -> str | None:
        try:
            return byte_letters(self.encoding.decode_single_token_bytes(index))
        except (LookupError, ValueError, OverflowError):  # no token has that number
            return None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: index for index, name in self._names.items()}

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """What the identity of a model says of it beside its tokens."""
        return {"encoding": getattr(self.encoding, "name", type(self.encoding).__name__)}

    def get_vocab(self) -> dict[str, int]:
        return self._numbers

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return b"".join(map(self.encoding.decode_single_token_bytes, ids)).decode(errors="replace")

    def tokenize(self, text: str) -> list[str]:
        names: list[str] = self.convert_ids_to_tokens(self(text)["input_ids"])
        return names

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """The name of a token, or of several."""
        return list(map(self._name, ids)) if isinstance(ids, list) else self._name(ids)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._numbers.get(token)

    def __len__(self) -> int:
        return max(self._names, default=-1) + 1


class ByteEncoding(Mapping[str, Any]):
    """What a tokenizer of transformers returns for some texts, or for a `single` one, whose lists are not nested."""

    def __init__(self, rows: Sequence[dict[str, Any]], names: Callable[[list[int]], list[str]], single: bool) -> None:
        self._rows, self._names, self._single = rows, names, single

    def __getitem__(self, name: str) -> Any:
        values = [row[name] for row in self._rows]
        return values[0] if self._single else values

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows[0])

    def __len__(self) -> int:
        return len(self._rows[0])

    def sequence_ids(self, number: int) -> list[int | None]:
        """The part of the text that each token is of."""
        return [None if special else 0 for special in self._rows[number]["special_tokens_mask"]]

    def tokens(self, number: int) -> list[str]:
        return self._names(self._rows[number]["input_ids"])


def byte_spans(text: str, pieces: Sequence[bytes]) -> list[Span]:
    """The characters of a text that each of its pieces has a byte of.

    >>> byte_spans("né!", [b"n", bytes([0xC3]), bytes([0xA9]) + b"!"])
    [(0, 1), (1, 2), (1, 3)]
    """
    characters = [place for place, character in enumerate(text) for _ in character.encode()]
    firsts, lasts = [*characters, len(text)], [0, *(place + 1 for place in characters)]
    ends = list(accumulate(map(len, pieces)))
    starts = map(operator.sub, ends, map(len, pieces))
    return [(firsts[start], max(firsts[start], lasts[end])) for start, end in zip(starts, ends, strict=True)]
