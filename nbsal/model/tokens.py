"""Encoded: what a model reads of a text: tokens, character offsets, words, segments, and which tokens may be scored."""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import regex
from numpy.typing import NDArray

from nbsal.errors import InputError
from nbsal.validation import Text

Span = tuple[int, int]

# A word is a run of letters, digits and their marks, apostrophes inside; an ideograph; or else one visible symbol as
# people see it (an emoji with its modifiers is one).
_LETTER = r"(?!\p{Han})[\p{L}\p{N}_]\p{M}*"
_WORD = regex.compile(rf"\p{{Han}}\p{{M}}*|(?:{_LETTER})+(?:['’](?:{_LETTER})+)*|(?!\s)\X")


@dataclass(frozen=True)
class Word:
    """A word of the text as typed, and the tokens that cover it."""

    text: str
    start: int
    end: int
    segment: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One text as the model reads it; every field but `text`, `words` and `dropped` has one entry a token."""

    text: Text
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]  # into the text as typed; pairs: into the member named by `segments`
    segments: tuple[int, ...]
    special: tuple[bool, ...]  # special tokens carry scores but are never ranked
    types: tuple[int, ...]
    mask: tuple[int, ...]
    dropped: int = 0  # content tokens cut off because the text is longer than the model reads

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Row":
        """A row from its fields as JSON keeps them; ValueError or TypeError where they are none."""
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}
        fields["offsets"] = tuple((operator.index(start), operator.index(end)) for start, end in fields["offsets"])
        row = cls(**fields)
        kinds = {"ids": int, "tokens": str, "segments": int, "special": bool, "types": int, "mask": int}
        sound = len(row.parts) in (1, 2) and all(type(part) is str for part in row.parts)
        sound &= all(len(getattr(row, name)) == len(row.ids) for name in PER_TOKEN) and type(row.dropped) is int
        sound &= all(type(one) is kind for name, kind in kinds.items() for one in getattr(row, name))
        places = zip(row.segments, row.offsets, strict=True)
        sound = sound and all(0 <= start <= end <= len(row.parts[part]) for part, (start, end) in places)
        if not sound or not row.content:
            raise ValueError("tokens and text do not fit each other")
        return row

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The text or texts as typed."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @cached_property
    def content(self) -> tuple[int, ...]:
        """Positions that may be ranked: neither special nor hidden from the model."""
        return tuple(i for i, special in enumerate(self.special) if not special and self.mask[i])

    @property
    def last(self) -> int:
        """The last position that the model sees."""
        return max(i for i, seen in enumerate(self.mask) if seen)

    def pick(self, places: Sequence[int]) -> "Row":
        """The same text with those tokens alone."""
        chosen: dict[str, Any] = {name: tuple(getattr(self, name)[i] for i in places) for name in PER_TOKEN}
        return replace(self, **chosen)

    def within(self, span: Span, segment: int = 0) -> list[int]:
        """The content tokens that have a character in common with a span of that member of the text."""
        start, end = span
        offsets = ((i, *self.offsets[i]) for i in self.content if self.segments[i] == segment)
        return [i for i, first, last in offsets if first < end and last > start]

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words of the text that the model read, in reading order."""
        return tuple(word for segment in range(len(self.parts)) for word in _words(self, segment))

    def __len__(self) -> int:
        return len(self.ids)


class Encoded(Sequence[Row]):
    """One text, or several, as the model reads them.

    A lone text answers directly (`encoded.tokens`, `encoded.offsets`, ...); of several, index one first.

    >>> import nbsal
    >>> nbsal.load("demo/reviews").encode("A joy.").tokens
    ('[CLS]', 'a', 'joy', '.', '[SEP]')
    """

    def __init__(self, rows: Sequence[Row], pad_id: int) -> None:
        self.rows = tuple(rows)
        self.pad_id = pad_id

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> "Encoded": ...
    def __getitem__(self, index: int | slice) -> "Row | Encoded":
        return Encoded(self.rows[index], self.pad_id) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _ROW_NAMES:
            raise AttributeError(name)
        if len(self.rows) != 1:
            raise InputError(f"This Encoded holds {len(self.rows)} texts: index one of them first, encoded[0].{name}.")
        return getattr(self.rows[0], name)

    @property
    def longest(self) -> int:
        """The number of tokens of the longest text."""
        return max(map(len, self.rows))

    def select(self, places: Sequence[int]) -> "Encoded":
        """The texts at those places, in that order."""
        return Encoded([self.rows[place] for place in places], self.pad_id)

    def padded(self, field: str, fill: int) -> NDArray[np.int64]:
        """One field of every row, filled up on the right to the longest."""
        longest = self.longest
        return np.array([[*getattr(row, field), *[fill] * (longest - len(row))] for row in self.rows])

    @property
    def input_ids(self) -> NDArray[np.int64]:
        """Token ids, padded on the right."""
        return self.padded("ids", self.pad_id)

    @property
    def attention_mask(self) -> NDArray[np.int64]:
        """1 where the model looks, padded on the right with 0."""
        return self.padded("mask", 0)

    @property
    def token_type_ids(self) -> NDArray[np.int64]:
        """Segment ids as the model takes them, padded on the right with 0."""
        return self.padded("types", 0)


PER_TOKEN = ("ids", "tokens", "offsets", "segments", "special", "types", "mask")
_ROW_NAMES = frozenset(Row.__dataclass_fields__) | {"words", "content", "parts", "last"}


def strip_span(text: str, start: int, end: int) -> Span:
    """The span without white space at its ends (byte-level tokens carry one in front), unless it is all space."""
    piece = text[start:end]
    if not piece.strip():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _words(row: Row, segment: int) -> Iterator[Word]:
    """Words of one member of the text, each with the tokens that begin in it or in the space before it."""
    text = row.parts[segment]
    spans = [match.span() for match in _WORD.finditer(text)]
    owned: dict[int, list[int]] = {}
    at = 0
    for i in row.content:
        if row.segments[i] == segment and spans:
            while at < len(spans) - 1 and spans[at][1] <= row.offsets[i][0]:
                at += 1
            owned.setdefault(at, []).append(i)
    for index, members in owned.items():
        start, end = spans[index]
        yield Word(text[start:end], start, end, segment, tuple(members))
