"""The prompt and the reply as a model reads them, with the place of every token in the user's own words."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbsal.explain.prompt.sources import CALL, STRUCK, Request, Source
from nbsal.explain.prompt.tool_calls import TOOL
from nbsal.model.text.tokens import WORD, Row, Span
from nbsal.support.errors import InputError, UnknownName

LEVELS = ("token", "word", "sentence", "paragraph", "document", "message")
REPLY_LEVELS = ("token", "word", "sentence", "reply")
TEMPLATE = "template"  # what is neither the user's nor a document's
_END = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+[」』”]*|\n)\s*")
_ABBREVIATION = re.compile(r"(?:^|\W)(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|cf|Fig|Eq|No|e\.g|i\.e|approx|Inc|Ltd)\.\s*$")


@dataclass(frozen=True)
class Unit:
    """A part of a source: its characters in the user's own text, and its tokens."""

    name: str
    text: str
    source: int
    span: Span
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model reads it. For each token, `owners` has the number of its source, or -1 for the template.

    `places` are its characters in the source, None where the template rewrote them; `spans` those in `text`.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    owners: tuple[int, ...]
    places: tuple[Span | None, ...]
    sources: tuple[Source, ...]
    special: tuple[bool, ...]
    placement: str = ""
    source_size: int = 0  # tokens that an encoder reads; those behind them begin the decoder's input
    # The request, the template, its tools and its settings, which it was read from; a file does not hold them.
    origin: tuple[Request, str | None, Any, Mapping[str, Any]] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        counts: dict[str, int] = {}
        names = []
        for source in self.sources:
            counts[source.kind] = counts.get(source.kind, 0) + 1
            names.append(source.name(counts[source.kind]))
        return tuple(names)

    @cached_property
    def readable(self) -> tuple[str, tuple[Span, ...]]:
        """The text without the special tokens of the template, which people do not read, and each token's place in it.

        Those that the user wrote stay.
        """
        template = [special and owner < 0 for special, owner in zip(self.special, self.owners, strict=True)]
        return without_tokens(self.text, self.spans, template)

    @property
    def has_documents(self) -> bool:
        return any(source.kind == "document" for source in self.sources)

    @property
    def default_unit(self) -> str:
        """The level of units where none is named: documents, messages if there are results of tools, else sentences."""
        if self.has_documents:
            return "document"
        return "message" if any(source.role == TOOL for source in self.sources) else "sentence"

    def within(self, sources: Sequence[Source]) -> "Prompt":
        """The same prompt, whose sources have their places among those that were struck out."""
        places = [number for number, source in enumerate(sources) if source.status != STRUCK]
        merged = list(sources)
        for number, source in zip(places, self.sources, strict=True):
            merged[number] = replace(source, message=None if source.message is None else places[source.message])
        request, *rest = self.origin or (None,)
        origin = None if request is None else (replace(request, sources=tuple(merged)), *rest)
        owners = tuple(owner if owner < 0 else places[owner] for owner in self.owners)
        return replace(self, owners=owners, sources=tuple(merged), origin=origin)

    def tokens_at(self, source: int, span: Span) -> tuple[int, ...]:
        """The tokens that hold any of some characters of a source."""
        located = zip(self.owners, self.places, strict=True)
        return tuple(
            token
            for token, (owner, place) in enumerate(located)
            if owner == source and place is not None and place[0] < span[1] and span[0] < place[1]
        )

    def units(self, level: Any) -> list[Unit]:
        """The parts of the sources at a level; together they hold every token of a source, each once."""
        level = self.default_unit if level is None else level
        if not isinstance(level, str):
            return self._requested_units(level)
        if level not in LEVELS:
            raise UnknownName("unit", level, LEVELS)
        if level == "token":
            return [self._token_unit(i) for i, owner in enumerate(self.owners) if owner >= 0]
        starts: dict[int, dict[int, int]] = {}  # the first character of each token, by the source that holds it
        for token, owner in enumerate(self.owners):
            if owner >= 0:
                # At the level of messages, documents belong to the message that they stand in.
                source = self.sources[owner]
                message = source.message if level == "message" and source.kind == "document" else None
                held = starts.setdefault(owner if message is None else message, {})
                held[token] = (self.places[token] or (0, 0))[0]
        units = []
        for number, source in enumerate(self.sources):
            whole = level not in SPLITTERS or source.status == "rewritten" or (source.kind == CALL and level != "word")
            splits = [] if whole else SPLITTERS[level](source.text)
            units += _split_units(self.names[number], source.text, number, splits, starts.get(number, {}))
        return units

    def _token_unit(self, token: int) -> Unit:
        number, place = self.owners[token], self.places[token] or (0, 0)
        start, end = self.spans[token]
        return Unit(self.names[number], self.text[start:end], number, place, (token,))

    def _requested_units(self, spans: Any) -> list[Unit]:
        """Parts of the last message, or of the prompt, at the spans of characters that were passed."""
        number = max(i for i, source in enumerate(self.sources) if source.kind not in (CALL, "document"))
        size = len(self.sources[number].text)
        try:
            parts = sorted((int(start), int(end)) for start, end in spans)
        except (TypeError, ValueError):
            message = f"unit={spans!r:.60} must be one of {', '.join(LEVELS)}, or a list of (start, end) characters."
            raise InputError(message, argument="unit", value=spans) from None
        inside = all(0 <= start < end <= size for start, end in parts)
        if not parts or not inside or any(first[1] > second[0] for first, second in pairwise(parts)):
            message = f"unit={spans!r:.60} must be spans of 0 to {size} characters that do not overlap."
            raise InputError(message, argument="unit", value=spans)
        located = [(i, place) for i, place in enumerate(self.places) if self.owners[i] == number and place]
        units = [
            Unit(
                self.names[number],
                self.sources[number].text[a:b],
                number,
                (a, b),
                tuple(i for i, p in located if a <= p[0] < b),
            )
            for a, b in parts
        ]
        return [unit for unit in units if unit.tokens]


@dataclass(frozen=True)
class PromptWithReply:
    """A prompt with a reply: what the model reads, and which token of it came from where."""

    prompt: Prompt
    reply_ids: tuple[int, ...]
    reply: str
    reply_spans: tuple[Span, ...]
    reply_tokens: tuple[str, ...]
    reply_special: tuple[bool, ...]

    @property
    def start(self) -> int:
        """The position of the reply's first token."""
        return len(self.prompt.ids)

    @property
    def content(self) -> list[int]:
        """The tokens of the reply that are not special."""
        return [i for i, special in enumerate(self.reply_special) if not special]

    def position(self, token: int) -> int:
        """Where the model predicts a token of the reply: its place in the logits, which an encoder does not have."""
        return self.start + token - 1 - self.prompt.source_size

    @cached_property
    def row(self) -> Row:
        """Both as one row; tokens of the template are special, so that they are never ranked."""
        size = len(self.prompt.ids) + len(self.reply_ids)
        first = self.prompt.source_size or size
        structure = [
            special or owner < 0 for special, owner in zip(self.prompt.special, self.prompt.owners, strict=True)
        ]
        text, spans = self.prompt.readable
        return Row(
            text=(text, self.reply),
            ids=self.prompt.ids + self.reply_ids,
            tokens=self.prompt.tokens + self.reply_tokens,
            offsets=spans + self.reply_spans,
            segments=(0,) * self.start + (1,) * len(self.reply_ids),
            special=(*structure, *self.reply_special),
            types=(0,) * first + (1,) * (size - first),
            mask=(1,) * size,
        )

    def up_to(self, end: int) -> Row:
        """The row of the first tokens, without what comes later in the reply."""
        row = self.row.pick(range(end))
        last = self.reply_spans[end - self.start - 1][1] if end > self.start else 0
        return replace(row, text=(row.parts[0], self.reply[:last]))

    def units(self, level: Any) -> list[Unit]:
        return self.prompt.units(level)

    def reply_units(self, level: str) -> list[Unit]:
        """The tokens, words or sentences of the reply, or all of it; special tokens are in none of the last three."""
        if level not in REPLY_LEVELS:
            raise UnknownName("rows", level, REPLY_LEVELS)
        if level == "token":
            pairs = enumerate(zip(self.reply_tokens, self.reply_spans, strict=True))
            return [Unit("reply", token, -1, span, (i,)) for i, (token, span) in pairs]
        starts = {}
        for token in self.content:
            start, end = self.reply_spans[token]
            piece = self.reply[start:end]
            starts[token] = start + len(piece) - len(piece.lstrip())
        splits = SPLITTERS[level](self.reply) if level in SPLITTERS else []
        return _split_units("reply", self.reply, -1, splits, starts)


@dataclass(frozen=True)
class TokenStatistics:
    """What the model itself says of each token of a reply, without the settings of `generate`."""

    logprob: NDArray[np.float64]
    rank: NDArray[np.int64]  # 1 for the likeliest token
    entropy: NDArray[np.float64]  # nats
    rivals: tuple[tuple[tuple[str, float], ...], ...]  # other tokens with their probabilities
    drawn: NDArray[np.float64] | None = None  # the probability after the settings of `generate`


def without_tokens(text: str, spans: Sequence[Span], left_out: Sequence[bool]) -> tuple[str, tuple[Span, ...]]:
    """A text without the characters of some tokens, and the place of every token in what is left.

    >>> without_tokens("<s>Hi", [(0, 3), (3, 5)], [True, False])
    ('Hi', ((0, 0), (0, 2)))
    """
    stays = np.ones(len(text), dtype=int)
    for (start, end), out in zip(spans, left_out, strict=True):
        stays[start:end] &= not out
    places = [0, *stays.cumsum().tolist()]  # how many characters stay before each
    return "".join(compress(text, stays)), tuple((places[start], places[end]) for start, end in spans)


def _split_units(name: str, text: str, source: int, splits: Sequence[Span], starts: Mapping[int, int]) -> list[Unit]:
    """The parts of a text (all of it, without splits) that have tokens; `starts` has each token's first character."""
    splits = splits or [(0, len(text))]
    members: dict[int, list[int]] = {}
    for token, start in starts.items():
        members.setdefault(part_at(splits, start), []).append(token)
    return [Unit(name, text[slice(*splits[i])], source, splits[i], tuple(members[i])) for i in sorted(members)]


def words(text: str) -> list[Span]:
    return [match.span() for match in WORD.finditer(text)]


def sentences(text: str) -> list[Span]:
    """The sentences of a text, with the white space behind them; abbreviations and decimals do not end one.

    >>> [text[slice(*span)] for text in ["Dr. Ann pays 2.50. Why?"] for span in sentences(text)]
    ['Dr. Ann pays 2.50. ', 'Why?']
    """
    return list(_split(text, _sentence_ends(text)))


def paragraphs(text: str) -> list[Span]:
    """The paragraphs of a text: its parts between empty lines, or its lines where there is no empty one.

    >>> paragraphs("One.\\n\\nTwo.")
    [(0, 6), (6, 10)]
    """
    pattern = r"\n\s*\n\s*" if re.search(r"\n\s*\n", text.strip()) else r"\n\s*"
    return list(_split(text, (match.end() for match in re.finditer(pattern, text))))


SPLITTERS: dict[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences, "paragraph": paragraphs}


def part_at(parts: Sequence[tuple[Any, ...]], position: int) -> int:
    """Which of some parts, that begin with their first character, holds a position; what is before all, the first."""
    return max(0, bisect_right(parts, position, key=itemgetter(0)) - 1)


def _sentence_ends(text: str) -> Iterator[int]:
    for match in _END.finditer(text):
        stops = "\n" in match[0] or not match[0].startswith(".") or match[0].startswith("..")
        if stops or not _ABBREVIATION.search(text[max(0, match.start() - 10) : match.end()].rstrip("\n")):
            yield match.end()


def _split(text: str, ends: Iterator[int]) -> Iterator[Span]:
    """The parts of a text between those ends that hold something to see."""
    start = 0
    for end in (*ends, len(text)):
        if text[start:end].strip():
            yield start, end
            start = end
