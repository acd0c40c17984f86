"""Read prompts and replies: render chat templates, tokenize, and locate every token in the user's own words."""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from nbsal.explain.prompt import chat
from nbsal.explain.prompt.reading import Prompt, PromptWithReply, part_at
from nbsal.explain.prompt.sources import Request, Source, like
from nbsal.explain.prompt.tool_forms import locate_calls
from nbsal.model.served.word_tokenizer import SERVERS
from nbsal.model.subject import Subject
from nbsal.model.text.tokenize import special_ids
from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError

WINDOW = 6  # tokens that are decoded again before each token: what a decoder looks back at
UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # what a decoder writes for part of a character
SPACE = "▁"  # how SentencePiece writes a space


def read_prompt(
    subject: Subject, request: Request, template: str | None, tools: Any, settings: Mapping[str, Any] | None = None
) -> Prompt:
    """The prompt of a request: the user's text as it is, or messages in the chat template of the tokenizer."""
    settings = settings or {}
    if request.messages is None:
        text = request.texts[0]
        places: list[chat.ContentPlace | None] = [chat.ContentPlace((0, len(text)), 0)]
    else:
        render = renderer(subject, request, template, tools, settings)
        text, places = chat.locate(render, request.texts)
        if request.calls:
            places += locate_calls(text, request, render)
    return replace(_tokenized(subject, request, text, places), origin=(request, template, tools, settings))


def skips_template(tokenizer: Any, text: str) -> bool:
    """Whether a tokenizer has a chat template, and a prompt does not have what it writes before a reply."""
    if not getattr(tokenizer, "chat_template", None):
        return False
    mark = chr(chat.MARKS[0])
    try:
        messages = [{"role": "user", "content": mark}]
        rendered = chat.render(tokenizer, messages, add_generation_prompt=True)
    except Exception:  # templates raise errors of their own
        return True
    *_, last = rendered.rpartition(mark)[2].strip().splitlines() or [""]
    return not last or last not in text


def renderer(subject: Subject, request: Request, template: str | None, tools: Any, settings: Mapping[str, Any]) -> Any:
    """The chat template, with its settings, as a function of the contents and of the documents that it places."""
    assert request.messages is not None
    own, count = request.messages, len(request.contents)
    options: dict[str, Any] = {**settings, "add_generation_prompt": True}
    options |= {name: value for name, value in (("chat_template", template), ("tools", tools)) if value is not None}

    def render(texts: Sequence[str], messages: Sequence[Mapping[str, Any]] = own) -> str:
        pairs = zip(messages, texts[:count], strict=True)
        filled = [{**message, "content": like(message.get("content"), text)} for message, text in pairs]
        placed = zip(request.templated, texts[count:], strict=True)
        documents = [{"title": request.sources[number].title, "text": text} for number, text in placed]
        extra = {"documents": documents} if documents else {}
        try:
            text = chat.render(subject.tokenizer, filled, **options, **extra)
        except Exception as error:  # templates raise errors of their own
            message = (
                f"The chat template refuses these messages: {error!s:.200}. Pass template=..., or asked as one text."
            )
            raise InputError(message, argument="asked", value=messages) from error
        if not text.strip() and subject.tokenizer.chat_template != SERVERS:
            message = "The chat template writes nothing. Pass template=..., or asked as one text."
            raise InputError(message, argument="asked", value=messages)
        contents = map(itemgetter("content"), filled)
        if any(not isinstance(content, str) and str(content) in text for content in contents):
            message = "The chat template does not know contents of several parts. Pass each content as one text."
            raise InputError(message, argument="asked", value=messages)
        return text

    return render


def _tokenized(subject: Subject, request: Request, text: str, places: Sequence[chat.ContentPlace | None]) -> Prompt:
    tokenizer = subject.tokenizer
    with_special = request.messages is None  # a template writes its special tokens itself
    if tokenizer.is_fast:
        encoding = encode(tokenizer, text, "asked", add_special_tokens=with_special, return_offsets_mapping=True)
        encoded, spans = encoding["input_ids"], encoding["offset_mapping"]
    else:
        encoded, spans = _encode_without_offsets(tokenizer, text)
    stretches = list(_stretches(request, places))
    owners, inside = [], []
    for start, end in spans:
        piece = text[start:end]
        first = start + len(piece) - len(piece.lstrip()) if piece.strip() else start
        owner, place = _owner(stretches, first, end) if end > start else (-1, None)
        owners.append(owner)
        inside.append(place)
    ids = tuple(encoded)
    structure = special_ids(tokenizer)
    return Prompt(
        text=text,
        ids=ids,
        tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        spans=tuple(map(tuple, spans)),
        owners=tuple(owners),
        places=tuple(inside),
        sources=_with_status(request, places),
        special=tuple(index in structure for index in ids),
        placement=request.placement,
    )


Stretch = tuple[int, int, int, int | None]  # first and last character in the rendered text, source, first one there


def _stretches(request: Request, places: Sequence[chat.ContentPlace | None]) -> list[Stretch]:
    """Which stretch of the rendered text is from which source, in order."""
    stretches: list[Stretch] = []
    for pieces, place in zip(request.pieces, places, strict=True):
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


def _owner(stretches: Sequence[Stretch], first: int, end: int) -> tuple[int, Span | None]:
    """The source of a character, and the token's characters in it."""
    if not stretches:
        return -1, None
    start, last, source, offset = stretches[part_at(stretches, first)]
    if not start <= first < last:
        return -1, None
    return source, None if offset is None else (offset + first - start, offset + min(end, last) - start)


def _with_status(request: Request, places: Sequence[chat.ContentPlace | None]) -> tuple[Source, ...]:
    """The sources, with what the template did to each."""
    status: dict[int, str] = {}
    for pieces, place in zip(request.pieces, places, strict=True):
        changed = "not read" if place is None else "rewritten" if place.offset is None else "read"
        status |= {piece.source: changed for piece in pieces if piece.source is not None}
    return tuple(replace(source, status=status.get(number, "read")) for number, source in enumerate(request.sources))


def with_reply(subject: Subject, prompt: Prompt, ids: Sequence[int]) -> PromptWithReply:
    """The prompt with a reply of those tokens; special ones have a place in its text, but no characters."""
    tokenizer, structure = subject.tokenizer, special_ids(subject.tokenizer)
    special = [index in structure for index in ids]
    content = [index for index, hidden in zip(ids, special, strict=True) if not hidden]
    text, located = spans_of(partial(decode, tokenizer), content)
    rest, spans, at = iter(located), list[Span](), 0
    for hidden in special:
        spans.append((at, at) if hidden else next(rest))
        at = spans[-1][1]
    return PromptWithReply(
        prompt=prompt,
        reply_ids=tuple(ids),
        reply=text,
        reply_spans=tuple(spans),
        reply_tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        reply_special=tuple(special),
    )


def content_ids(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """The tokens of a reply that are text."""
    structure = special_ids(tokenizer)
    return [index for index in ids if index not in structure]


def check_length(subject: Subject, prompt: Prompt, reply: int, argument: str, value: Any, to_write: int = 0) -> None:
    """Refuse what the model, or one side of it, cannot read whole; `to_write` tokens of the reply are still to come."""
    size = len(prompt.ids) - prompt.source_size
    if size + reply > subject.max_length:
        both = f"Prompt and reply have {size:,} and {reply:,}" if reply else f"The prompt has {size:,}"
        message = (
            f"{both} tokens, but the model reads at most {subject.max_length:,}, and nothing is cut off. "
            f"{how_to_shorten(prompt, subject.max_length - max(reply, to_write))}"
        )
        raise InputError(message, argument=argument, value=value)


def how_to_shorten(prompt: Prompt, limit: int) -> str:
    """What to pass instead of a prompt that has more than so many tokens."""
    numbers = [number for number, source in enumerate(prompt.sources) if source.kind == "document"]
    starts = [prompt.owners.index(number) for number in numbers if number in prompt.owners]  # of each, then their end
    if not starts:
        return "Shorten it, or cut a long text into documents=[...], of which some may fit."
    starts.append(max(place for place, owner in enumerate(prompt.owners) if owner in numbers) + 1)
    others = len(prompt.ids) - prompt.source_size - (starts[-1] - starts[0])
    count = sum(start - starts[0] + others <= limit for start in starts[1:])
    first = f"Of {len(numbers)} documents the first {count} fit: pass documents=documents[:{count}]. " if count else ""
    room = max(limit - others, 0)
    return (
        f"{first}The documents have {starts[-1] - starts[0]:,} tokens, and {room:,} fit: pass fewer, or shorter ones."
    )


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


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of some tokens, special ones included, as they are."""
    settings = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    return str(tokenizer.decode(list(ids), **settings))


def spans_of(decode_ids: Callable[[Sequence[int]], str], ids: Sequence[int]) -> tuple[str, list[Span]]:
    """The text of some tokens, and the characters of each; tokens that are part of one character share it."""
    text = decode_ids(ids)
    ends = _ends_by_window(decode_ids, ids, text) or _ends_by_prefix(decode_ids, ids, text)
    starts = [0, *ends][:-1]
    return text, [
        (start, end) if end > start else _shared(start, text) for start, end in zip(starts, ends, strict=True)
    ]


def _shared(start: int, text: str) -> Span:
    return min(start, max(0, len(text) - 1)), min(start + 1, len(text))


def _ends_by_window(decode_ids: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[int] | None:
    """Where each token ends, from decoding a few tokens before it; None unless they make up the text."""
    ends: list[int] = []
    start, size = 0, 0  # the first token of the window, and the characters before its first token
    before = ""
    for number in range(len(ids)):
        window = decode_ids(ids[start : number + 1])
        complete = not window.endswith(UNFINISHED)
        end = size + len(window) if complete else size + len(before)
        if complete:
            if text[size:end] != window:
                return None
            before = window
        ends.append(end)
        if complete and number - start >= WINDOW:
            shorter = decode_ids(ids[number : number + 1])
            if window.endswith(shorter) and shorter:  # from here on, this token alone is what is looked back at
                start, size, before = number, end - len(shorter), shorter
    return ends if ends and ends[-1] == len(text) else None


def _ends_by_prefix(decode_ids: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[int]:
    """Where each token ends: as far as the text of all tokens up to it agrees with the whole text."""
    ends: list[int] = []
    for number in range(1, len(ids) + 1):
        agreed = chat.agreement(decode_ids(ids[:number]), text)
        ends.append(max(agreed, ends[-1] if ends else 0))
    if ends:
        ends[-1] = len(text)
    return ends


def _encode_without_offsets(tokenizer: Any, text: str) -> tuple[list[int], list[Span]]:
    """The tokens of a text and the characters of each, for tokenizers that do not tell, such as those of Marian.

    A special token has no characters.
    """
    pieces = tokenizer.tokenize(text)
    ids, inner = list(tokenizer(text)["input_ids"]), tokenizer.convert_tokens_to_ids(pieces)
    first = next((i for i in range(len(ids) - len(inner) + 1) if ids[i : i + len(inner)] == inner), None)
    spans = None if first is None else _place(pieces, text)
    if first is None or spans is None:
        message = (
            f"{type(tokenizer).__name__} changes {text!r:.60}, so that its tokens have no places in it. Pass a fast "
            "tokenizer, or the text as the tokenizer would have it."
        )
        raise InputError(message, argument="asked", value=text)
    end = len(text)
    return ids, [(0, 0)] * first + spans + [(end, end)] * (len(ids) - first - len(inner))


def _place(pieces: Sequence[str], text: str) -> list[Span] | None:
    """The characters of a text that each piece stands for; None if the pieces are not those of the text."""
    characters = list(_visible(text))
    spans: list[Span] = []
    number = 0  # of the next visible character
    for piece in pieces:
        surface = [c for c, _ in _visible(piece.replace(SPACE, " "))]
        covered = characters[number : number + len(surface)]
        if [c for c, _ in covered] != surface:
            return None
        before = spans[-1][1] if spans else 0
        next_place = characters[number][1] if number < len(characters) else len(text)
        # A piece that is only a space covers what stands between its neighbours.
        spans.append((covered[0][1], covered[-1][1] + 1) if covered else (before, max(before, next_place)))
        number += len(surface)
    return spans if number == len(characters) else None


def _visible(text: str) -> Iterator[tuple[str, int]]:
    """The characters that are not white space as tokenizers normalise them, each with its place."""
    for position, character in enumerate(text):
        for part in unicodedata.normalize("NFKC", character):
            if not part.isspace():
                yield part, position
