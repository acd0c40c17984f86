"""What a reply may come from: a prompt or messages, and documents, each in the user's own words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError
from nbsal.support.validation import is_iterable

PLACEHOLDER = "{documents}"
TOOL = "tool"  # the role of messages that hold the results of tools
STRUCK = "struck out"  # of a source that a prompt was written again without
Write = Callable[[str, Sequence[Span]], str]  # a text written again without some spans
BETWEEN = "\n\n"  # between documents, and between them and what follows


@dataclass(frozen=True)
class Source:
    """A prompt, a message or a document; `message` is the message that a document stands in, by number.

    `status` is "read", "rewritten" (the template changed its text), "not read" (the template left it out) or "struck
    out" (it has its place among the sources, but the prompt was written without it).
    """

    kind: str
    text: str
    role: str = ""
    title: str = ""
    message: int | None = None
    status: str = "read"

    def name(self, number: int) -> str:
        """What people call it; `number` counts the sources of its kind from 1."""
        title = f", {self.title}" if self.title else ""
        return f"{self.role} {self.kind} {number}{title}".lstrip() if self.kind != "prompt" else "prompt"


@dataclass(frozen=True)
class Piece:
    """A stretch of a content: of which source (None: neither the user's nor a document's) and from which character."""

    text: str
    source: int | None
    offset: int = 0


@dataclass(frozen=True)
class Request:
    """What was asked: the sources, and the content of the prompt or of each message in pieces of them.

    `messages` are those of the user, with one piece list each in `contents`; None for a prompt. `templated` are the
    numbers of the documents that the chat template places itself.
    """

    sources: tuple[Source, ...]
    contents: tuple[tuple[Piece, ...], ...]
    messages: tuple[Mapping[str, Any], ...] | None
    templated: tuple[int, ...] = field(default=())
    placement: str = ""  # where the documents stand, in words

    @property
    def texts(self) -> list[str]:
        """The contents as the template gets them, then the documents that it places."""
        return ["".join(piece.text for piece in pieces) for pieces in self.pieces]

    @cached_property
    def pieces(self) -> list[tuple[Piece, ...]]:
        """The pieces of the contents, then those of the documents that the template places: one each."""
        return [*self.contents, *((Piece(self.sources[number].text, number),) for number in self.templated)]


def has_tool_results(asked: Any) -> bool:
    """Whether what is asked holds messages with the results of tools."""
    messages = asked if isinstance(asked, Sequence) and not isinstance(asked, str) else ()
    return any(isinstance(message, Mapping) and message.get("role") == TOOL for message in messages)


def parse_documents(documents: Any) -> list[Source]:
    """Documents from texts, from dicts with "text" and perhaps "title", or from a dict of texts by title."""
    if documents is None:
        return []
    if isinstance(documents, Mapping):
        documents = [{"title": title, "text": text} for title, text in documents.items()]
    if isinstance(documents, str | bytes) or not is_iterable(documents):
        message = f"documents must be a list of texts, not {documents!r:.60}."
        raise InputError(message, argument="documents", value=documents)
    parsed = []
    for number, document in enumerate(documents, 1):
        entry = {"text": document} if isinstance(document, str) else document
        text = entry.get("text") if isinstance(entry, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            message = f"Document {number} has no text. Pass texts, or dicts with text and title."
            raise InputError(message, argument="documents", value=document)
        parsed.append(Source("document", text, title=str(entry.get("title") or "")))
    return parsed


def parse_prompt(prompt: str, documents: Sequence[Source]) -> Request:
    """A prompt, with documents at its placeholder or before it."""
    if not prompt.strip():
        raise InputError("The prompt is empty. Pass a text or messages.", argument="asked", value=prompt)
    return _prompt_request(prompt, documents)


def _prompt_request(prompt: str, documents: Sequence[Source]) -> Request:
    sources = (Source("prompt", prompt), *(replace(document, message=0) for document in documents))
    pieces, placement = _with_documents(prompt, 0, sources, range(1, len(sources)))
    return Request(sources, (pieces,), None, placement=placement)


def parse_messages(messages: Any, documents: Sequence[Source], templated: bool) -> Request:
    """Messages of a chat; documents go to the template where it places them, else into the last message of a user."""
    contents = [_content(message, number) for number, message in enumerate(_checked(messages), 1)]
    return _chat_request(messages, contents, documents, templated)


def _chat_request(
    messages: Sequence[Mapping[str, Any]], contents: Sequence[str], documents: Sequence[Source], templated: bool
) -> Request:
    sources = [
        Source("message", text, role=str(message["role"])) for message, text in zip(messages, contents, strict=True)
    ]
    pieces: list[tuple[Piece, ...]] = [(Piece(text, number),) for number, text in enumerate(contents)]
    numbers = range(len(sources), len(sources) + len(documents))
    last = max((i for i, source in enumerate(sources) if source.role == "user"), default=len(sources) - 1)
    in_template = templated and PLACEHOLDER not in contents[last]
    everything = (*sources, *(document if in_template else replace(document, message=last) for document in documents))
    if in_template:
        return Request(everything, tuple(pieces), tuple(messages), tuple(numbers), "by the template")
    pieces[last], placement = _with_documents(contents[last], last, everything, numbers)
    return Request(everything, tuple(pieces), tuple(messages), placement=placement)


def cut(text: str, spans: Sequence[Span]) -> str:
    """A text without some spans; the placeholder stays.

    A span takes the white space before it along, unless it ends in white space itself, and what then begins or ends the
    text has no white space there that the text had not.

    >>> cut("A warm and funny film.", [(0, 1), (6, 10)])
    'warm funny film.'
    """
    stays = [True] * len(text)
    for start, end in spans:
        before = text[:start]
        first = start if text[start:end] != text[start:end].rstrip() else len(before.rstrip())
        stays[first:end] = [False] * (end - first)
    if PLACEHOLDER in text:
        at = text.index(PLACEHOLDER)
        stays[at : at + len(PLACEHOLDER)] = [True] * len(PLACEHOLDER)
    shorter = "".join(character for character, kept in zip(text, stays, strict=True) if kept)
    shorter = shorter if text[:1].isspace() else shorter.lstrip()
    return shorter if text[-1:].isspace() else shorter.rstrip()


def rewrite(request: Request, hidden: Mapping[int, Sequence[Span]], write: Write = cut) -> Request:
    """The request without some spans of its sources, by number; a document of which nothing is left is left out."""
    numbered = [(number, source) for number, source in enumerate(request.sources) if source.status != STRUCK]
    pairs = [(source, write(source.text, hidden.get(number, ()))) for number, source in numbered]
    documents = [Source("document", text, title=s.title) for s, text in pairs if s.kind == "document" and text.strip()]
    if request.messages is None:
        return _prompt_request(pairs[0][1], documents)
    contents = [text for _, text in pairs[: len(request.messages)]]
    return _chat_request(request.messages, contents, documents, bool(request.templated))


def _with_documents(
    text: str, source: int, sources: Sequence[Source], numbers: Sequence[int]
) -> tuple[tuple[Piece, ...], str]:
    """A content with documents at its placeholder, or before it."""
    if not numbers:
        return (Piece(text, source),), ""
    count = text.count(PLACEHOLDER)
    if count > 1:
        message = f"{PLACEHOLDER} stands {count} times in the prompt. Keep one of them."
        raise InputError(message, argument="asked", value=text)
    pieces: list[Piece] = []
    for number in numbers:
        title = f"{sources[number].title}\n" if sources[number].title else ""
        pieces += [Piece((BETWEEN if pieces else "") + title, None), Piece(sources[number].text, number)]
    if not count:
        return (*pieces, Piece(BETWEEN, None), Piece(text, source)), "before the question"
    start = text.index(PLACEHOLDER)
    end = start + len(PLACEHOLDER)
    around = Piece(text[:start], source), Piece(text[end:], source, end)
    return tuple(piece for piece in (around[0], *pieces, around[1]) if piece.text), "at the placeholder"


def _checked(messages: Any) -> Sequence[Mapping[str, Any]]:
    rule = 'asked must be a text or a list of messages such as {"role": "user", "content": "..."}'
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes) or not messages:
        raise InputError(f"{rule}, not {messages!r:.60}.", argument="asked", value=messages)
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str) or "content" not in message:
            raise InputError(f"{rule}. One of them is {message!r:.60}.", argument="asked", value=messages)
    return messages


def _content(message: Mapping[str, Any], number: int) -> str:
    """The text of a message, whose content may be a list of text parts."""
    content = message["content"]
    if isinstance(content, Sequence) and not isinstance(content, str):
        texts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
        written = [text for text in texts if isinstance(text, str)]
        content = "".join(written) if written and len(written) == len(content) else None
    if not isinstance(content, str):
        problem = f"Message {number} has the content {message['content']!r:.60}. Pass a text, or parts of type text."
        raise InputError(problem, argument="asked", value=message["content"])
    return content


def like(content: Any, text: str) -> Any:
    """A text in the form that the content of a message has: as a text, or in parts."""
    if isinstance(content, str):
        return text
    texts = [part["text"] for part in content]
    whole = "".join(texts)
    if whole not in text:
        return [{"type": "text", "text": text}]
    start = text.index(whole)
    texts[0], texts[-1] = text[:start] + texts[0], texts[-1] + text[start + len(whole) :]
    return [{**part, "text": each} for part, each in zip(content, texts, strict=True)]
