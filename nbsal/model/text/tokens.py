"""Encoded texts: tokens with character offsets, words, segments, and which tokens may be ranked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import regex
from numpy.typing import NDArray

from nbsal.support.errors import InputError
from nbsal.support.validation import Text, checked

Span = tuple[int, int]

# A word is a run of letters, digits, combining marks and inner apostrophes; or an ideograph; or a single visible symbol
# (a grapheme cluster, such as an emoji with its modifiers).
_LETTER = r"(?!\p{Han})[\p{L}\p{N}_]\p{M}*"
WORD = regex.compile(rf"\p{{Han}}\p{{M}}*|(?:{_LETTER})+(?:['’](?:{_LETTER})+)*|(?!\s)\X")


@dataclass(frozen=True)
class Word:
    """A word of the original text, or a named part of it, and the indices of the tokens that cover it."""

    text: str
    start: int
    end: int
    segment: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One encoded text; every field has one entry per token, except `text`, `words`, `dropped` and `units`."""

    text: Text
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]  # into the original text; in pairs, into the text given by `segments`
    segments: tuple[int, ...]
    special: tuple[bool, ...]  # special tokens have scores but are never ranked
    types: tuple[int, ...]
    mask: tuple[int, ...]
    dropped: int = 0  # content tokens that were truncated
    units: tuple[Word, ...] = ()  # parts that have one score for all their tokens, such as documents

    def check_fields(self) -> None:
        """Raise ValueError or TypeError if the fields do not fit each other."""
        valid = len(self.parts) in (1, 2) and all(len(getattr(self, name)) == len(self.ids) for name in PER_TOKEN)
        spans = zip(self.segments, self.offsets, strict=True)
        valid = valid and all(part >= 0 and 0 <= start <= end <= len(self.parts[part]) for part, (start, end) in spans)
        if not valid or not self.content:
            raise ValueError("tokens and text do not match")

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The original text, or both texts of a pair."""
        return (self.text,) if isinstance(self.text, str) else self.text

    @cached_property
    def content(self) -> tuple[int, ...]:
        """Positions that may be ranked: neither special nor masked."""
        return tuple(i for i, special in enumerate(self.special) if not special and self.mask[i])

    @property
    def last(self) -> int:
        """The last position that the model attends to."""
        return max(i for i, attended in enumerate(self.mask) if attended)

    def pick(self, places: Sequence[int]) -> "Row":
        """The same text with only the tokens at those indices."""
        fields: dict[str, Any] = {name: tuple(getattr(self, name)[i] for i in places) for name in PER_TOKEN}
        return replace(self, **fields)

    def tokens_in(self, span: Span, segment: int = 0) -> list[int]:
        """The content tokens that overlap a span of characters; in pairs, of the text number `segment`."""
        start, end = span
        offsets = ((i, *self.offsets[i]) for i in self.content if self.segments[i] == segment)
        return [i for i, first, last in offsets if first < end and last > start]

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """The words of the text that have tokens, in reading order; in place of those of `units`, these."""
        words = tuple(word for segment in range(len(self.parts)) for word in _words(self, segment))
        if not self.units:
            return words
        covered = {token for unit in self.units for token in unit.tokens}
        rest = [word for word in words if covered.isdisjoint(word.tokens)]
        return tuple(sorted([*self.units, *rest], key=lambda word: (word.segment, word.start)))

    def __len__(self) -> int:
        return len(self.ids)


class Encoded(Sequence[Row]):
    """A batch of encoded texts, a sequence of rows.

    With a single text, the fields of its row are also available here (`encoded.tokens`, `encoded.offsets`, ...).

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
            message = f"This batch has {len(self.rows)} texts. Index it first, for example encoded[0].{name}."
            raise InputError(message, argument="encoded", value=self)
        return getattr(self.rows[0], name)

    @property
    def longest(self) -> int:
        """The number of tokens of the longest text."""
        return max(map(len, self.rows))

    @checked
    def select(self, places: Sequence[int]) -> "Encoded":
        """The texts at those indices, in that order."""
        return Encoded([self.rows[place] for place in places], self.pad_id)

    def padded(self, field: str, fill: int) -> NDArray[np.int64]:
        """One field of every row, padded on the right to the longest row."""
        table = np.full((len(self.rows), self.longest), fill)
        for number, row in enumerate(self.rows):
            table[number, : len(row)] = getattr(row, field)
        return table

    @property
    def input_ids(self) -> NDArray[np.int64]:
        """Token ids, padded on the right."""
        return self.padded("ids", self.pad_id)

    @property
    def attention_mask(self) -> NDArray[np.int64]:
        """1 where the model attends, padded on the right with 0."""
        return self.padded("mask", 0)

    @property
    def token_type_ids(self) -> NDArray[np.int64]:
        """Token type ids, padded on the right with 0."""
        return self.padded("types", 0)


PER_TOKEN = ("ids", "tokens", "offsets", "segments", "special", "types", "mask")
_ROW_NAMES = frozenset(Row.__dataclass_fields__) | {"words", "content", "parts", "last"}


def strip_span(text: str, start: int, end: int) -> Span:
    """The span without whitespace at its ends, unless it is all whitespace.

    Byte-level tokens begin with the space before them.
    """
    piece = text[start:end]
    if len(piece.strip()) in (0, len(piece)):
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _words(row: Row, segment: int) -> Iterator[Word]:
    """The words of one text of the row, each with the tokens that begin in it or in the space before it."""
    text = row.parts[segment]
    spans = [match.span() for match in WORD.finditer(text)]
    tokens_of_word: dict[int, list[int]] = {}
    word = 0
    for i in row.content:
        if row.segments[i] == segment and spans:
            while word < len(spans) - 1 and spans[word][1] <= row.offsets[i][0]:
                word += 1
            tokens_of_word.setdefault(word, []).append(i)
    for word, tokens in tokens_of_word.items():
        start, end = spans[word]
        yield Word(text[start:end], start, end, segment, tuple(tokens))
