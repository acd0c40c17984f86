"""Calls of tools in the messages of a chat: read, and written in a form that a chat template knows."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nbsal.support.errors import InputError

TOOL = "tool"  # the role of messages that hold the results of tools
CALLS = "tool_calls"  # the key of a message that holds calls
ROLE, TAGS = "role", "tags"
OBJECTS, TEXTS = "objects", "texts"
CALL_TAG, RESULT_TAG = "tool_call", "tool_response"  # those of Hermes models


# How a chat template gets calls, and results. Calls are "objects" (the template writes them, with their arguments as
# objects), "texts" (with their arguments as JSON) or "tags" (they stand in the content of their message, between tags).
# Results have the "role" of a tool, or are messages of the user, between "tags".
ToolForm = tuple[str, str]
FORMS = tuple((calls, results) for results in (ROLE, TAGS) for calls in (OBJECTS, TEXTS, TAGS))  # best first
OF_SERVERS = TEXTS, ROLE


def parse_calls(message: Mapping[str, Any], number: int) -> list[tuple[str, str, str]]:
    """The calls of the message with that number: each with its name, the call as JSON, and its id."""
    calls = message.get(CALLS) or []
    if not isinstance(calls, Sequence) or isinstance(calls, str | bytes):
        problem = f"Message {number} has the {CALLS} {calls!r:.60}. Pass a list of calls."
        raise InputError(problem, argument="asked", value=calls)
    return [_parse_call(call, number) for call in calls]


def _parse_call(call: Any, number: int) -> tuple[str, str, str]:
    name = _function(call).get("name")
    rule = 'Pass {"id": ..., "type": "function", "function": {"name": ..., "arguments": {...}}}.'
    if not isinstance(name, str) or not name.strip():
        problem = f"Message {number} has a tool call without a name, {call!r:.80}. {rule}"
        raise InputError(problem, argument="asked", value=call)
    try:
        text = json.dumps({"name": name, "arguments": _arguments(call)}, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"Message {number} calls {name} with arguments that are no JSON: {error}. {rule}"
        raise InputError(problem, argument="asked", value=call) from error
    return name, text, str(call.get("id") or "")


def as_entry(text: str, identity: str) -> dict[str, Any]:
    """An entry of a message, for a call that is JSON."""
    return ({"id": identity} if identity else {}) | {"type": "function", "function": json.loads(text)}


def written(call: Mapping[str, Any], form: ToolForm) -> dict[str, Any]:
    """The entry of a call in the form that a template knows."""
    arguments = _arguments(call)
    if form[0] == TEXTS:
        own = _function(call).get("arguments")
        arguments = own if isinstance(own, str) else json.dumps(arguments, ensure_ascii=False)
    return _with(call, arguments=arguments)


def marked(call: Mapping[str, Any], name: str, argument: str) -> dict[str, Any]:
    """The entry of a call with marks in place of the name and the arguments."""
    as_text = isinstance(_function(call)["arguments"], str)
    return _with(call, name=name, arguments=argument if as_text else {argument: argument})


def hidden(call: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a call that is hidden: it keeps its name and its id, since its results may follow."""
    return _with(call, arguments="{}" if isinstance(_function(call)["arguments"], str) else {})


def name_of(call: Mapping[str, Any]) -> str:
    """The name of the tool of an entry."""
    return str(_function(call)["name"])


def _with(call: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {**call, "function": {**call["function"], **changes}} if "function" in call else {**call, **changes}


def _function(call: Any) -> Mapping[str, Any]:
    """The part of an entry that has the name and the arguments; nothing, if it is no entry."""
    function = call.get("function", call) if isinstance(call, Mapping) else {}
    return function if isinstance(function, Mapping) else {}


def _arguments(call: Mapping[str, Any]) -> Any:
    """The arguments of an entry, as an object where they are one; else as they are."""
    arguments = _function(call).get("arguments")
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments
