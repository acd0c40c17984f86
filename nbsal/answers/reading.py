"""The prompt and the reply as a model reads them, with the place of every token in the user's own words."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from nbsal.answers import chat, reply_text, slow_tokens
from nbsal.answers.sources import Piece, Request, Source, like
from nbsal.answers.units import SPLITTERS, part_at
from nbsal.model.subject import Subject
from nbsal.model.text.tokenize import special_ids
from nbsal.model.text.tokens import Row, Span
from nbsal.support.errors import InputError, UnknownName

LEVELS = ("token", "word", "sentence", "paragraph", "document", "message")
TEMPLATE = "template"  # what is neither the user's nor a document's


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
    # The request, the template and the tools that it was read from; a file does not hold them.
    origin: tuple[Request, str | None, Any] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What each source is called."""
        counts: dict[str, int] = {}
        names = []
        for source in self.sources:
            counts[source.kind] = counts.get(source.kind, 0) + 1
            names.append(source.name(counts[source.kind]))
        return tuple(names)

    def units(self, level: Any) -> list[Unit]:
        """The parts of the sources at a level; together they hold every token of a source, each once."""
        if not isinstance(level, str):
            return self._requested_units(level)
        if level not in LEVELS:
            raise UnknownName("unit", level, LEVELS)
        if level == "token":
            return [self._token_unit(i) for i, owner in enumerate(self.owners) if owner >= 0]
        if level in SPLITTERS:
            return [unit for number in range(len(self.sources)) for unit in self._parts(number, level)]
        return self._whole_units(level)

    def _token_unit(self, token: int) -> Unit:
        number, place = self.owners[token], self.places[token] or (0, 0)
        start, end = self.spans[token]
        return Unit(self.names[number], self.text[start:end], number, place, (token,))

    def _parts(self, number: int, level: str) -> list[Unit]:
        """The words, sentences or paragraphs of a source that have tokens; a rewritten source is one part."""
        source = self.sources[number]
        tokens = [i for i, owner in enumerate(self.owners) if owner == number]
        splits = SPLITTERS[level](source.text) if source.status != "rewritten" else [(0, len(source.text))]
        splits = splits or [(0, len(source.text))]
        starts = [start for start, _ in splits]
        members: dict[int, list[int]] = {}
        for token in tokens:
            place = self.places[token]
            members.setdefault(part_at(starts, place[0]) if place else 0, []).append(token)
        return [
            Unit(self.names[number], source.text[slice(*splits[part])], number, splits[part], tuple(inside))
            for part, inside in sorted(members.items())
        ]

    def _whole_units(self, level: str) -> list[Unit]:
        """Each source as one part; at the level of messages, documents belong to the message that they stand in."""
        holders = [
            number if level == "document" or s.message is None else s.message for number, s in enumerate(self.sources)
        ]
        members: dict[int, list[int]] = {}
        for token, owner in enumerate(self.owners):
            if owner >= 0:
                members.setdefault(holders[owner], []).append(token)
        sources = {number: self.sources[number].text for number in members}
        return [
            Unit(self.names[number], sources[number], number, (0, len(sources[number])), tuple(members[number]))
            for number in sorted(members)
        ]

    def _requested_units(self, spans: Any) -> list[Unit]:
        """Parts of the last message, or of the prompt, at the spans of characters that were passed."""
        number = max(i for i, source in enumerate(self.sources) if source.kind != "document")
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
class Reading:
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
        return Row(
            text=(self.prompt.text, self.reply),
            ids=self.prompt.ids + self.reply_ids,
            tokens=self.prompt.tokens + self.reply_tokens,
            offsets=self.prompt.spans + self.reply_spans,
            segments=(0,) * self.start + (1,) * len(self.reply_ids),
            special=(*structure, *self.reply_special),
            types=(0,) * first + (1,) * (size - first),
            mask=(1,) * size,
        )

    def up_to(self, end: int) -> Row:
        """The row of the first tokens, without what comes later in the reply."""
        row = self.row.pick(range(end))
        last = self.reply_spans[end - self.start - 1][1] if end > self.start else 0
        return replace(row, text=(self.prompt.text, self.reply[:last]))

    def units(self, level: Any) -> list[Unit]:
        """The parts of the sources at a level."""
        return self.prompt.units(level)

    def reply_units(self, level: str) -> list[Unit]:
        """The tokens, words or sentences of the reply, or all of it; special tokens are in none of the last three."""
        if level not in REPLY_LEVELS:
            raise UnknownName("rows", level, REPLY_LEVELS)
        if level == "token":
            pairs = enumerate(zip(self.reply_tokens, self.reply_spans, strict=True))
            return [Unit("reply", token, -1, span, (i,)) for i, (token, span) in pairs]
        tokens = self.content
        if level == "reply" or not tokens:
            return [Unit("reply", self.reply, -1, (0, len(self.reply)), tuple(tokens))] if tokens else []
        splits = SPLITTERS[level](self.reply) or [(0, len(self.reply))]
        starts = [start for start, _ in splits]
        members: dict[int, list[int]] = {}
        for token in tokens:
            start, end = self.reply_spans[token]
            piece = self.reply[start:end]
            members.setdefault(part_at(starts, start + len(piece) - len(piece.lstrip())), []).append(token)
        return [
            Unit("reply", self.reply[slice(*splits[part])], -1, splits[part], tuple(inside))
            for part, inside in sorted(members.items())
        ]


REPLY_LEVELS = ("token", "word", "sentence", "reply")


def read_prompt(subject: Subject, request: Request, template: str | None, tools: Any) -> Prompt:
    """The prompt of a request: the user's text as it is, or messages in the chat template of the tokenizer."""
    if request.messages is None:
        text = request.texts[0]
        places: list[chat.Place | None] = [chat.Place((0, len(text)), 0)]
    else:
        text, places = chat.locate(renderer(subject, request, template, tools), request.texts)
    return replace(_tokenized(subject, request, text, places), origin=(request, template, tools))


def renderer(subject: Subject, request: Request, template: str | None, tools: Any) -> Any:
    """The chat template as a function of the contents and of the documents that it places."""
    assert request.messages is not None
    messages, count = request.messages, len(request.contents)
    options: dict[str, Any] = {"add_generation_prompt": True, "tokenize": False}
    options |= {name: value for name, value in (("chat_template", template), ("tools", tools)) if value is not None}

    def render(texts: Sequence[str]) -> str:
        contents = [like(message["content"], text) for message, text in zip(messages, texts[:count], strict=True)]
        filled = [{**message, "content": each} for message, each in zip(messages, contents, strict=True)]
        titles = [request.sources[number].title for number in request.templated]
        documents = [{"title": title, "text": text} for title, text in zip(titles, texts[count:], strict=True)]
        extra = {"documents": documents} if documents else {}
        try:
            text = str(subject.tokenizer.apply_chat_template(filled, **options, **extra))
        except Exception as error:  # templates raise errors of their own
            message = f"The chat template refuses these messages: {error}. Pass template=..., or asked as one text."
            raise InputError(message, argument="asked", value=messages) from error
        if any(not isinstance(content, str) and str(content) in text for content in contents):
            message = "The chat template does not know contents of several parts. Pass each content as one text."
            raise InputError(message, argument="asked", value=messages)
        return text

    return render


def _tokenized(subject: Subject, request: Request, text: str, places: Sequence[chat.Place | None]) -> Prompt:
    tokenizer = subject.tokenizer
    with_special = request.messages is None  # a template writes its special tokens itself
    if tokenizer.is_fast:
        encoding = encode(tokenizer, text, "asked", add_special_tokens=with_special, return_offsets_mapping=True)
        encoded, spans = encoding["input_ids"], encoding["offset_mapping"]
    else:
        encoded, spans = slow_tokens.encode(tokenizer, text)
    stretches = list(_stretches(request, places))
    starts = [start for start, *_ in stretches]
    owners, inside = [], []
    for start, end in spans:
        piece = text[start:end]
        first = start + len(piece) - len(piece.lstrip()) if piece.strip() else start
        owner, place = _owner(stretches, starts, first, end) if end > start else (-1, None)
        owners.append(owner)
        inside.append(place)
    ids = tuple(encoded)
    structure = special_ids(tokenizer)
    return Prompt(
        text=text,
        ids=ids,
        tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        spans=tuple((start, end) for start, end in spans),
        owners=tuple(owners),
        places=tuple(inside),
        sources=_with_status(request, places),
        special=tuple(index in structure for index in ids),
        placement=request.placement,
    )


Stretch = tuple[int, int, int, int | None]  # first and last character in the rendered text, source, first one there


def _stretches(request: Request, places: Sequence[chat.Place | None]) -> list[Stretch]:
    """Which stretch of the rendered text is from which source, in order."""
    contents: list[tuple[Piece, ...]] = list(request.contents)
    contents += [(Piece(request.sources[number].text, number),) for number in request.templated]
    stretches: list[Stretch] = []
    for pieces, place in zip(contents, places, strict=True):
        if place is None:
            continue
        (start, end), offset = place.span, place.offset
        if offset is None:
            numbers = [piece.source for piece in pieces if piece.source is not None]
            stretches.append((start, end, numbers[-1], None))
            continue
        position = start - offset
        for piece in pieces:
            first, last = max(position, start), min(position + len(piece.text), end)
            if piece.source is not None and first < last:
                stretches.append((first, last, piece.source, piece.offset + first - position))
            position += len(piece.text)
    return sorted(stretches)


def _owner(stretches: Sequence[Stretch], starts: Sequence[int], first: int, end: int) -> tuple[int, Span | None]:
    """The source of a character, and the token's characters in it."""
    if not stretches:
        return -1, None
    start, last, source, offset = stretches[part_at(starts, first)]
    if not start <= first < last:
        return -1, None
    return source, None if offset is None else (offset + first - start, offset + min(end, last) - start)


def _with_status(request: Request, places: Sequence[chat.Place | None]) -> tuple[Source, ...]:
    """The sources, with what the template did to each."""
    status = {}
    for number, place in enumerate(places):
        changed = "not read" if place is None else "rewritten" if place.offset is None else "read"
        if number >= len(request.contents):
            status[request.templated[number - len(request.contents)]] = changed
        else:
            status |= {piece.source: changed for piece in request.contents[number] if piece.source is not None}
    return tuple(replace(source, status=status.get(number, "read")) for number, source in enumerate(request.sources))


def with_reply(subject: Subject, prompt: Prompt, ids: Sequence[int]) -> Reading:
    """The prompt with a reply of those tokens."""
    tokenizer, structure = subject.tokenizer, special_ids(subject.tokenizer)
    text, spans = reply_text.spans_of(lambda part: reply_text.decode(tokenizer, part), ids)
    return Reading(
        prompt=prompt,
        reply_ids=tuple(ids),
        reply=text,
        reply_spans=tuple(spans),
        reply_tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        reply_special=tuple(index in structure for index in ids),
    )


def check_length(subject: Subject, prompt: int, reply: int, argument: str, value: Any) -> None:
    """Refuse what the model, or one side of it, cannot read whole."""
    if prompt + reply > subject.max_length:
        message = (
            f"Prompt and reply have {prompt} and {reply} tokens, but the model reads at most {subject.max_length}. "
            "Nothing is cut off: shorten them."
        )
        raise InputError(message, argument=argument, value=value)


def tokenize_reply(subject: Subject, prompt: Prompt, reply: str) -> tuple[list[int], str]:
    """The tokens of a reply that is passed as text, and how they were made.

    They are those of prompt and reply together, unless a token would cross the border between both. A decoder beside an
    encoder reads the reply by itself.
    """
    if not reply:
        raise InputError("reply is empty. Pass a text, or None to generate one.", argument="reply", value=reply)
    tokenizer = subject.tokenizer
    if prompt.source_size:
        encoding = encode(tokenizer, None, "reply", text_target=reply, add_special_tokens=False)
        return encoding["input_ids"], "by itself"
    texts = (prompt.text + reply, prompt.text, reply)
    whole, before, alone = (encode(tokenizer, text, "reply", add_special_tokens=False)["input_ids"] for text in texts)
    if whole[: len(before)] == before and len(whole) > len(before):
        return whole[len(before) :], "with the prompt"
    return alone, "by itself: with the prompt, a token would cross the border between both"


def encode(tokenizer: Any, text: str | None, argument: str, **options: Any) -> Any:
    """The tokens of a text; what the tokenizer cannot read is refused."""
    try:
        return tokenizer(text, verbose=False, **options)
    except Exception as error:  # the tokenizers library raises plain Exceptions
        text = text or options["text_target"]
        message = f"The tokenizer cannot read {text!r:.60}: {error}."
        raise InputError(message, argument=argument, value=text) from error
