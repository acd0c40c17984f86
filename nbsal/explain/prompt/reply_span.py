"""The tokens of a part of a reply, named by an index, a slice, (start, end) characters or a text."""

import re
from typing import Any

from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError
from nbsal.support.validation import plural, whole_number


def tokens_of(reading: PromptWithReply, span: Any, argument: str) -> list[int]:
    """The tokens of a part of the reply, which the caller passed as that argument; at least one."""
    count = len(reading.reply_ids)
    if isinstance(span, str):
        span = _place_of(reading.reply, span, argument)
    if isinstance(span, tuple):
        tokens = _tokens_between(reading, span)
    elif isinstance(span, slice):
        tokens = list(range(count))[span]
    else:
        tokens = [_index(span, count, argument)]
    if not tokens:
        message = f"{span!r} holds no token of the reply. Pass a token's index, (start, end) or a text of it."
        raise InputError(message, argument=argument, value=span)
    return tokens


def _tokens_between(reading: PromptWithReply, span: Any) -> list[int]:
    """The tokens between two characters; none if that is not what was passed."""
    try:
        start, end = span
        spans = enumerate(reading.reply_spans)
        return [i for i, (a, b) in spans if a < end and b > start and not reading.reply_special[i]]
    except (TypeError, ValueError):
        return []


def _place_of(reply: str, piece: str, argument: str) -> Span:
    starts = [match.start() for match in re.finditer(re.escape(piece), reply)] if piece else []
    spans = [(start, start + len(piece)) for start in starts]
    if len(spans) != 1:
        places = ", ".join(map(str, spans[:5]))
        where = (
            f"stands at {places} in the reply. Pass one of these" if spans else f"is not in the reply {reply!r:.200}"
        )
        raise InputError(f"{piece!r} {where}.", argument=argument, value=piece)
    return spans[0]


def _index(value: Any, count: int, argument: str) -> int:
    """The index of one of so many tokens; a negative one counts from the end."""
    try:
        index = whole_number(value, argument)
    except InputError:
        message = (
            f"{value!r:.60} names no part of the reply. Pass a token's index, a slice, (start, end) or a text of it."
        )
        raise InputError(message, argument=argument, value=value) from None
    if not -count <= index < count:
        size = f"the reply has {plural(count, 'token')}, numbered 0 to {count - 1}"
        raise InputError(f"{argument}={index} is outside the reply: {size}.", argument=argument, value=value)
    return index % count
