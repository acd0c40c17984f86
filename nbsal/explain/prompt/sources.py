"""What a reply may come from: a prompt or messages, and documents, each in the user's own words."""

from collections.abc import Callable, Mapping, Sequence
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
Write = Callable[[str, Sequence[Span]], str]  # a text written again without some spans
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


# A message as the template gets it, but for its content, and its sources.
Turn = tuple[Mapping[str, Any], tuple[Source, ...]]


@dataclass(frozen=True)
class Request:
    """What was asked: the sources, and the content of the prompt or of each message in pieces of them.

    `messages` are those of a chat as the template gets them, with as many sources each as `sizes` says and one piece
    list each in `contents`; None for a prompt. `templated` and `calls` are the numbers of the documents that the chat
    template places itself, and of the calls that it writes.
    """

    sources: tuple[Source, ...]
    contents: tuple[tuple[Piece, ...], ...]
    messages: tuple[Mapping[str, Any], ...] | None
    templated: tuple[int, ...] = ()
    placement: str = ""  # where the documents stand, in words
    sizes: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The contents as the template gets them, then the documents that it places."""
        return ["".join(piece.text for piece in pieces) for pieces in self.pieces[: -len(self.calls) or None]]

    @cached_property
    def pieces(self) -> list[tuple[Piece, ...]]:
        """The pieces of the contents, then those of what the template places: one each."""
        placed = (*self.templated, *self.calls)
        return [*self.contents, *((Piece(self.sources[number].text, number),) for number in placed)]


def uses_tools(asked: Any) -> bool:
    """Whether what is asked holds calls of tools, or their results."""
    for message in asked if isinstance(asked, Sequence) and not isinstance(asked, str) else ():
        if isinstance(message, Mapping) and (message.get("role") == TOOL or message.get(CALLS)):
            return True
    return False


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
    turns = list[Turn]()
    for number, message in enumerate(_checked(messages), 1):
        if message["role"] == TOOL:
            _add_result(turns, message, number, form)
        elif message.get(CALLS):
            _add_calls(turns, message, number, form)
        else:
            turns.append((message, (Source("message", _content(message, number), role=message["role"]),)))
    return turns


def _add_calls(turns: list[Turn], original: Mapping[str, Any], number: int, form: ToolForm) -> None:
    """Add a message that calls tools."""
    first = sum(len(sources) for _, sources in turns)
    calls = tool_calls.parse_calls(original, number)
    called = [Source(CALL, text, role=TOOL, title=name, message=first, call=identity) for name, text, identity in calls]
    message = {name: value for name, value in original.items() if value is not None and name != CALLS}
    if form[0] != TAGS:
        message[CALLS] = [tool_calls.written(call, form) for call in original[CALLS]]
    turns.append((message, (Source("message", _content(original, number), role=str(message["role"])), *called)))


def _add_result(turns: list[Turn], original: Mapping[str, Any], number: int, form: ToolForm) -> None:
    """Add the result of a call, which has the name of its tool."""
    message = {name: value for name, value in original.items() if value is not None}
    identity = str(message.get("tool_call_id") or "")
    title = str(message.get("name") or _name_of_result(turns, identity))
    source = Source("message", _content(original, number), role=TOOL, title=title, call=identity)
    if form[1] != TAGS:
        turns.append((message, (source,)))
    elif turns and turns[-1][0]["role"] == "user" and turns[-1][1][0].role == TOOL:
        turns[-1] = turns[-1][0], (*turns[-1][1], source)
    else:
        turns.append(({"role": "user", "content": message["content"]}, (source,)))


def _name_of_result(turns: Sequence[Turn], identity: str) -> str:
    """The name of the call with that id; without ids, results follow in the order of the calls."""
    same = [source for _, sources in turns for source in sources if source.role == TOOL and source.call == identity]
    calls = [source.title for source in same if source.kind == CALL]
    results = len(same) - len(calls)
    return calls[-1] if calls and identity else calls[results] if results < len(calls) else ""


def _pieces(message: Mapping[str, Any], sources: Sequence[Source], first: int) -> tuple[Piece, ...]:
    """The content of a message, in pieces of its sources, of which the first has that number."""
    pieces: list[Piece] = []
    for number, source in enumerate(sources, first):
        piece, tag = Piece(source.text, number), ""
        if source.kind == CALL:
            if message.get(CALLS) or not source.text:
                continue  # the template writes it, or it is hidden
            tag = CALL_TAG
        elif source.role == TOOL != message["role"]:
            tag = RESULT_TAG
        if not tag:
            pieces.append(piece)
            continue
        between = "\n" if any(piece.text for piece in pieces) else ""
        pieces += [Piece(f"{between}<{tag}>\n", None), piece, Piece(f"\n</{tag}>", None)]
    return tuple(pieces)


def chat_request(turns: Sequence[Turn], documents: Sequence[Source], templated: bool) -> Request:
    """What is asked with these messages and documents."""
    sources, messages, sizes = list[Source](), list[Mapping[str, Any]](), list[int]()
    contents, calls, users = list[tuple[Piece, ...]](), list[int](), list[tuple[int, int]]()
    for last, (message, held) in enumerate(turns):
        question = len(sources)
        contents.append(_pieces(message, held, question))
        sources += held
        messages.append(message)
        sizes.append(len(held))
        if held[0].role == "user":
            users.append((last, question))
        if message.get(CALLS):
            calls += range(question + 1, len(sources))
    last, question = users[-1] if users else (last, question)
    in_template = templated and PLACEHOLDER not in sources[question].text
    if in_template and documents and documents[0].number:
        problem = f"layout={NUMBERED!r}, but the chat template places documents itself."
        choice = f"Write {PLACEHOLDER} where they shall stand."
        raise InputError(f"{problem} {choice}", argument="layout", value=NUMBERED)
    numbers, placement = tuple(range(len(sources), len(sources) + len(documents))), "by the template"
    holder = None if in_template else question
    sources += [replace(document, message=holder) for document in documents]
    if not in_template:
        contents[last], placement = _with_documents(contents[last], sources, numbers)
        numbers = ()
    return Request(
        tuple(sources), tuple(contents), tuple(messages), numbers, placement, sizes=tuple(sizes), calls=tuple(calls)
    )


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
    left = [
        replace(source, text=write(source.text, hidden.get(number, ())))
        for number, source in enumerate(request.sources)
        if source.status != STRUCK
    ]
    documents = [source for source in left if source.kind == "document" and source.text.strip()]
    if request.messages is None:
        return _prompt_request(left[0].text, documents)
    rest = iter(left)
    pairs = zip(request.messages, request.sizes, strict=True)
    turns = [_without_calls(message, tuple(islice(rest, size))) for message, size in pairs]
    return chat_request(turns, documents, bool(request.templated))


def _without_calls(message: Mapping[str, Any], sources: tuple[Source, ...]) -> Turn:
    """A message of these sources, in which the calls without a text are hidden."""
    if message.get(CALLS):
        pairs = zip(message[CALLS], sources[1:], strict=True)
        message = {**message, CALLS: [call if source.text else tool_calls.hidden(call) for call, source in pairs]}
    return message, sources


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


def _content(message: Mapping[str, Any], number: int) -> str:
    """The text of a message, whose content may be a list of text parts, or missing where it has calls."""
    content = message.get("content")
    if content is None and message.get(CALLS):
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
