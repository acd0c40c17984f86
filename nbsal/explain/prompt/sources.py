"""What a reply may come from: a prompt or messages, and documents, each in the user's own words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from nbsal.explain.prompt import tool_calls
from nbsal.explain.prompt.tool_calls import CALL_TAG, CALLS, FORMS, RESULT_TAG, TAGS, TOOL, ToolForm
from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError
from nbsal.support.validation import is_iterable

PLACEHOLDER = "{documents}"
PLAIN, NUMBERED = LAYOUTS = ("plain", "numbered")  # of documents that stand in a message or a prompt
CALL = "call"  # a kind of source: a call of a tool
STRUCK = "struck out"  # of a source that a prompt was written again without
BETWEEN = "\n\n"  # between documents, and between them and what follows


@dataclass(frozen=True)
class Source:
    """A prompt, a message, a call of a tool or a document.

    `message` is the source that a document stands in, or the one of the message that makes a call; `call` is the id of
    a call, or of the call that a message has the result of.

    `status` is "read", "rewritten" (the template changed its text), "not read" (the template left it out) or "struck
    out" (it has its place among the sources, but the prompt was written without it). A document with a `number` stands
    behind it in the prompt, in square brackets.
    """

    kind: str
    text: str
    role: str = ""
    title: str = ""
    message: int | None = None
    status: str = "read"
    number: int = 0
    call: str = ""

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
class Turn:
    """A message as the template gets it, but for its content, and what it holds.

    That is a message of the user's with its calls, or several results of tools.
    """

    message: Mapping[str, Any]
    sources: tuple[Source, ...]

    def pieces(self, first: int) -> tuple[Piece, ...]:
        """The content, in pieces of the sources, of which the first has that number."""
        pieces: list[Piece] = []
        for number, source in enumerate(self.sources, first):
            if source.kind == CALL and (CALLS in self.message or not source.text):
                continue  # the template writes it, or it is hidden
            is_result = source.role == TOOL != self.message["role"]
            tag = CALL_TAG if source.kind == CALL else RESULT_TAG if is_result else ""
            between = "\n" if any(piece.text for piece in pieces) else ""
            tags = Piece(f"{between}<{tag}>\n", None), Piece(f"\n</{tag}>", None)
            piece = Piece(source.text, number)
            pieces += [tags[0], piece, tags[1]] if tag else [piece]
        return tuple(pieces)

    def with_sources(self, sources: tuple[Source, ...]) -> "Turn":
        """The same message with other texts; a call without a text is hidden."""
        if CALLS not in self.message:
            return replace(self, sources=sources)
        texts = [source.text for source in sources if source.kind == CALL]
        calls = [
            call if text else tool_calls.hidden(call) for call, text in zip(self.message[CALLS], texts, strict=True)
        ]
        return Turn({**self.message, CALLS: calls}, sources)

    def marked(self, name: str, argument: str, result: str) -> "Turn":
        """The same message with marks in place of names and arguments of its calls, and of results."""
        texts = [name + argument if s.kind == CALL else result if s.role == TOOL else s.text for s in self.sources]
        sources = tuple(replace(source, text=text) for source, text in zip(self.sources, texts, strict=True))
        calls = [tool_calls.marked(call, name, argument) for call in self.message.get(CALLS, ())]
        return Turn({**self.message, CALLS: calls} if calls else self.message, sources)


@dataclass(frozen=True)
class Request:
    """What was asked: the sources, and the content of the prompt or of each message in pieces of them.

    `turns` are those of a chat, with one piece list each in `contents`; None for a prompt. `templated` and `calls` are
    the numbers of the documents that the chat template places itself, and of the calls that it writes.
    """

    sources: tuple[Source, ...]
    contents: tuple[tuple[Piece, ...], ...]
    turns: tuple[Turn, ...] | None
    templated: tuple[int, ...] = ()
    placement: str = ""  # where the documents stand, in words
    calls: tuple[int, ...] = ()

    @property
    def messages(self) -> tuple[Mapping[str, Any], ...] | None:
        """The messages of a chat as the template gets them, but for their contents; None for a prompt."""
        return None if self.turns is None else tuple(turn.message for turn in self.turns)

    @property
    def texts(self) -> list[str]:
        """The contents as the template gets them, then the documents that it places."""
        return ["".join(piece.text for piece in pieces) for pieces in self.pieces[: -len(self.calls) or None]]

    @cached_property
    def pieces(self) -> list[tuple[Piece, ...]]:
        """The pieces of the contents, then those of what the template places: one each."""
        placed = (*self.templated, *self.calls)
        return [*self.contents, *((Piece(self.sources[number].text, number),) for number in placed)]

    def marked_calls(self, name: str, argument: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """For each call that the template writes, its name, and the messages with marks in its place."""
        messages = list(self.messages or ())
        for at, message in enumerate(messages):
            for k, call in enumerate(entries := message.get(CALLS, ())):
                changed = {**message, CALLS: [*entries[:k], tool_calls.marked(call, name, argument), *entries[k + 1 :]]}
                yield tool_calls.name_of(call), [*messages[:at], changed, *messages[at + 1 :]]


def uses_tools(asked: Any) -> bool:
    """Whether what is asked holds calls of tools, or their results."""
    messages = asked if isinstance(asked, Sequence) and not isinstance(asked, str) else ()
    return any(isinstance(each, Mapping) and (each.get("role") == TOOL or bool(each.get(CALLS))) for each in messages)


def parse_documents(documents: Any, layout: str = PLAIN) -> list[Source]:
    """Documents from texts, from dicts with "text" and perhaps "title", or from a dict of texts by title.

    A dict of what is left of earlier documents also has the "number" that its document had among them.
    """
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
        own = entry.get("number")
        own = own if isinstance(own, int) else number
        title = str(entry.get("title") or "")
        parsed.append(Source("document", text, title=title, number=own if layout == NUMBERED else 0))
    return parsed


def parse_prompt(prompt: str, documents: Sequence[Source]) -> Request:
    """A prompt, with documents at its placeholder or before it."""
    if not prompt.strip():
        raise InputError("The prompt is empty. Pass a text or messages.", argument="asked", value=prompt)
    return _prompt_request(prompt, documents)


def _prompt_request(prompt: str, documents: Sequence[Source]) -> Request:
    sources = (Source("prompt", prompt), *(replace(document, message=0) for document in documents))
    pieces, placement = _with_documents((Piece(prompt, 0),), sources, range(1, len(sources)))
    return Request(sources, (pieces,), None, placement=placement)


def parse_messages(messages: Any, documents: Sequence[Source], templated: bool, form: ToolForm = FORMS[0]) -> Request:
    """Messages of a chat, with calls of tools in a form that the template knows.

    Documents go to the template where it places them, else into the last message of a user.
    """
    return chat_request(parse_turns(messages, form), documents, templated)


def parse_turns(messages: Any, form: ToolForm) -> list[Turn]:
    """Messages as the template gets them; results between tags that follow each other are one message."""
    turns, names, waiting = list[Turn](), dict[str, str](), list[str]()
    for number, original in enumerate(_checked(messages), 1):
        message = {name: value for name, value in original.items() if value is not None and name != CALLS}
        role = str(message["role"])
        calls = tool_calls.parse_calls(original, number) if role != TOOL else []
        identity = str(message.get("tool_call_id") or "") if role == TOOL else ""
        title = ""
        if role == TOOL:  # results without an id follow in the order of the calls
            title = str(message.get("name") or names.get(identity) or (waiting.pop(0) if waiting else ""))
        source = Source("message", _content(original, number, bool(calls)), role=role, title=title, call=identity)
        names |= {call.id: call.name for call in calls if call.id}
        waiting += [call.name for call in calls if not call.id]
        if role == TOOL and form.results == TAGS:
            message = {"role": "user", "content": message["content"]}
            if turns and turns[-1].sources[-1].role == TOOL and turns[-1].message["role"] == "user":
                turns[-1] = replace(turns[-1], sources=(*turns[-1].sources, source))
                continue
        elif calls and form.calls != TAGS:
            message[CALLS] = [tool_calls.written(call, form) for call in original[CALLS]]
        called = (Source(CALL, call.text, role=TOOL, title=call.name, call=call.id) for call in calls)
        turns.append(Turn(message, (source, *called)))
    return turns


def chat_request(turns: Sequence[Turn], documents: Sequence[Source], templated: bool) -> Request:
    """What is asked with these messages and documents."""
    sources, pieces, calls, starts = list[Source](), list[tuple[Piece, ...]](), list[int](), list[int]()
    for turn in turns:
        starts.append(first := len(sources))
        pieces.append(turn.pieces(first))
        sources += [replace(source, message=first) if source.kind == CALL else source for source in turn.sources]
        if CALLS in turn.message:
            calls += range(first + 1, len(sources))
    numbers = range(len(sources), len(sources) + len(documents))
    last = max((i for i, turn in enumerate(turns) if turn.sources[0].role == "user"), default=len(turns) - 1)
    in_template = templated and not any(PLACEHOLDER in piece.text for piece in pieces[last])
    if in_template and any(document.number for document in documents):
        problem = f"layout={NUMBERED!r}, but the chat template places documents itself."
        choice = f"Write {PLACEHOLDER} where they shall stand."
        raise InputError(f"{problem} {choice}", argument="layout", value=NUMBERED)
    holder = None if in_template else starts[last]
    everything = (*sources, *(replace(document, message=holder) for document in documents))
    placed, placement = tuple(numbers), "by the template"
    if not in_template:
        pieces[last], placement = _with_documents(pieces[last], everything, numbers)
        placed = ()
    return Request(everything, tuple(pieces), tuple(turns), placed, placement, tuple(calls))


def cut_spans(request: Request, hidden: Mapping[int, Sequence[Span]]) -> Request:
    """The request without some spans of its sources, by number; a document of which nothing is left is left out.

    A span takes the white space before it along, unless it ends in white space itself, and what then begins or ends the
    text has no white space there that the text had not. The placeholder stays.
    """
    left = [
        replace(source, text=_cut(source.text, hidden.get(number, ())))
        for number, source in enumerate(request.sources)
        if source.status != STRUCK
    ]
    documents = [source for source in left if source.kind == "document" and source.text.strip()]
    if request.turns is None:
        return _prompt_request(left[0].text, documents)
    rest = iter(left)
    turns = [turn.with_sources(tuple(islice(rest, len(turn.sources)))) for turn in request.turns]
    return chat_request(turns, documents, bool(request.templated))


def _cut(text: str, spans: Sequence[Span]) -> str:
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


def _with_documents(
    content: tuple[Piece, ...], sources: Sequence[Source], numbers: Sequence[int]
) -> tuple[tuple[Piece, ...], str]:
    """A content with documents at its placeholder, or before it."""
    if not numbers:
        return content, ""
    text = "".join(piece.text for piece in content)
    count = text.count(PLACEHOLDER)
    if count > 1:
        message = f"{PLACEHOLDER} stands {count} times in the prompt. Keep one of them."
        raise InputError(message, argument="asked", value=text)
    pieces: list[Piece] = []
    for number in numbers:
        document = sources[number]
        heading = f"[{document.number}] " if document.number else ""
        heading += f"{document.title}\n" if document.title else ""
        pieces += [Piece((BETWEEN if pieces else "") + heading, None), Piece(document.text, number)]
    if not count:
        return (*pieces, Piece(BETWEEN, None), *content), "before the question"
    at = next(i for i, piece in enumerate(content) if PLACEHOLDER in piece.text)
    piece, start = content[at], content[at].text.index(PLACEHOLDER)
    end = start + len(PLACEHOLDER)
    around = Piece(piece.text[:start], piece.source), Piece(piece.text[end:], piece.source, end)
    whole = (*content[:at], around[0], *pieces, around[1], *content[at + 1 :])
    return tuple(piece for piece in whole if piece.text), "at the placeholder"


def _checked(messages: Any) -> Sequence[Mapping[str, Any]]:
    rule = 'asked must be a text or a list of messages such as {"role": "user", "content": "..."}'
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes) or not messages:
        raise InputError(f"{rule}, not {messages!r:.60}.", argument="asked", value=messages)
    for message in messages:
        keys = {"content", CALLS}
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str) or keys.isdisjoint(message):
            raise InputError(f"{rule}. One of them is {message!r:.60}.", argument="asked", value=messages)
    return messages


def _content(message: Mapping[str, Any], number: int, calls: bool) -> str:
    """The text of a message, whose content may be a list of text parts, or missing where it has calls."""
    content = message.get("content")
    if content is None and calls:
        return ""
    if isinstance(content, Sequence) and not isinstance(content, str):
        texts = [part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text"]
        written = [text for text in texts if isinstance(text, str)]
        content = "".join(written) if written and len(written) == len(content) else None
    if not isinstance(content, str):
        value = message.get("content")
        problem = f"Message {number} has the content {value!r:.60}. Pass a text, or parts of type text."
        raise InputError(problem, argument="asked", value=value)
    return content


def like(content: Any, text: str) -> Any:
    """A text in the form that the content of a message has: as a text, or in parts."""
    if content is None or isinstance(content, str):
        return text
    texts = [part["text"] for part in content]
    whole = "".join(texts)
    if whole not in text:
        return [{"type": "text", "text": text}]
    start = text.index(whole)
    texts[0], texts[-1] = text[:start] + texts[0], texts[-1] + text[start + len(whole) :]
    return [{**part, "text": each} for part, each in zip(content, texts, strict=True)]
