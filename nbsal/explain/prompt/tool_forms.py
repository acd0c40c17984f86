"""Which form of tool calls a chat template knows, and where it writes them: told by marks in their place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbsal.explain.prompt import chat, tool_calls
from nbsal.explain.prompt.sources import CALL, Request, Turn, chat_request, parse_turns
from nbsal.explain.prompt.tool_calls import CALLS, FORMS, TOOL, ToolForm
from nbsal.support.errors import InputError

Render = Callable[..., str]


def find_form(messages: Any, renderer: Callable[[Request], Render]) -> ToolForm:
    """The first form in which the chat template writes all names, arguments and results."""
    marks = name, argument, result = chat.unused_marks(str(messages), 3)
    for form in FORMS:
        turns = parse_turns(messages, form)
        kinds = [source.kind for _, sources in turns for source in sources if source.role == TOOL]
        calls, results = kinds.count(CALL), kinds.count("message")
        request = chat_request([_marked(turn, marks) for turn in turns], (), templated=False)
        try:
            text = renderer(request)(request.texts)
        except InputError:  # the template knows no such messages
            continue
        # An object in Python's own form, which no model has read, has escapes in place of marks.
        if text.count(name) >= calls and text.count(argument) >= calls and text.count(result) >= results:
            return form
    return FORMS[-1]


def _marked(turn: Turn, marks: Sequence[str]) -> Turn:
    """A message with marks in place of the names and arguments of calls, and of results."""
    message, sources = turn
    name, argument, result = marks
    texts = [name + argument if s.kind == CALL else result if s.role == TOOL else s.text for s in sources]
    if message.get(CALLS):
        message = {**message, CALLS: [tool_calls.marked(call, name, argument) for call in message[CALLS]]}
    return message, tuple(replace(source, text=text) for source, text in zip(sources, texts, strict=True))


def locate_calls(text: str, request: Request, render: Render) -> Iterator[chat.ContentPlace]:
    """Where each call stands that the template writes in that text."""
    name, argument = marks = chat.unused_marks(text, 2)
    messages: list[Mapping[str, Any]] = list(request.messages or ())
    for at, message in enumerate(messages):
        for number, call in enumerate(calls := message.get(CALLS) or ()):
            others = [*calls[:number], tool_calls.marked(call, name, argument), *calls[number + 1 :]]
            marked = render(request.texts, [*messages[:at], {**message, CALLS: others}, *messages[at + 1 :]])
            yield _place(text, marked, tool_calls.name_of(call), marks)


def _place(text: str, marked: str, name: str, marks: Sequence[str]) -> chat.ContentPlace:
    """The place of a call in the text: from its name, or its arguments, to their end.

    `marked` is the text with marks in place of the name, which may stand beside results too, and of the arguments.
    """
    start = chat.agreement(text, marked)
    if marked[start : start + 1] not in marks:
        return chat.ContentPlace(chat.NOWHERE, None)
    behind = chat.agreement(text[:start:-1], marked.replace(marks[0], name)[::-1])
    return chat.ContentPlace((start, len(text) - behind), None)
