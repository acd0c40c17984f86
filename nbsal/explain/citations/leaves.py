"""The values of a reply in JSON, or in lines "key: value", with their characters: what can be read is read."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nbsal.model.text.tokens import Span

LONGEST_KEY = 40  # characters of a key before a colon in a line of text
QUOTES = {'"': '"', "'": "'", "“": "”"}
NULL = frozenset(("null", "None"))
_CLOSERS = {"{": "}", "[": "]"}
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_PLAIN_KEY = re.compile(r"[^\s.\[\]\"']+")
_BEHIND_STRING = re.compile(r"\s*(?:[,:}\]\"']|\Z)|[^\S\n]*\n")
_BARE_KEY = re.compile(r"[^,:{}\[\]\n\"]+")
_BARE_VALUE = re.compile(r"[^,{}\[\]\n\"]+")
_GROUPED = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?=\s*(?:[,}\n]|\Z))")  # a number that JSON has no notation for
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|\Z|u)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_LINE = re.compile(
    r"^[ \t]*(?:[-*+•][ \t]+|\d{1,3}[.)][ \t]+)?(?:\*\*|__)?"
    rf"[\"'`]?(?P<key>[^\s:：*\"'`{{}}\[\]][^:：\n*\"'`]{{0,{LONGEST_KEY}}})[\"'`]?"
    r"(?:\*\*|__)?[ \t]*(?::(?:\*\*|__)?[ \t]|：(?:\*\*|__)?)[ \t]*(?P<value>[^\n]*)",
    re.MULTILINE,
)
_ENDING = re.compile(r"(?:\*\*|__|[\s,])+\Z")


@dataclass(frozen=True)
class Leaf:
    """A value: its path ("items[0].price"), its text (None for null), and its characters, without quotes."""

    path: str
    value: str | None
    span: Span


@dataclass
class _Container:
    """An object or a list that is open: what closes it, the part of the path that it is at, and how many it had."""

    closer: str
    part: str = ""
    count: int = 0
    awaits_value: bool = False  # of an object: behind a colon

    @property
    def takes_value(self) -> bool:
        return self.awaits_value or self.closer == "]"

    def take(self) -> None:
        """Go to the next value."""
        if self.closer == "]":
            self.part = f"[{self.count}]"
        self.count, self.awaits_value = self.count + 1, False


def read_leaves(reply: str) -> list[Leaf]:
    """The values of a reply: of its objects and lists, in code fences if it has any; else of its lines.

    Several objects, one behind the other, are read as a list of them.

    >>> [(leaf.path, leaf.value) for leaf in read_leaves('So: {"name": "Mara", "items": [{"price": 2.50}, {"pri')]
    [('name', 'Mara'), ('items[0].price', '2.50')]
    >>> [(leaf.path, leaf.value) for leaf in read_leaves("- **Name**: Mara")]
    [('Name', 'Mara')]
    """
    fenced = [match.span(1) for match in _FENCE.finditer(reply)]
    for stretches in (fenced, [(0, len(reply))]):
        roots = [leaves for start, end in stretches for leaves in _roots(reply, start, end)]
        if len(roots) == 1:
            return roots[0]
        if roots:
            return [
                replace(leaf, path=_joined([f"[{at}]", leaf.path])) for at, some in enumerate(roots) for leaf in some
            ]
    return list(_lines(reply))


def _roots(text: str, start: int, end: int) -> Iterator[list[Leaf]]:
    """The values of each object, or list that holds one, of a stretch; a list of values only if it is all there is."""
    position = start
    while (match := re.compile(r"[{\[]").search(text, position, end)) is not None:
        leaves, has_objects, position = _read(text, match.start(), end)
        alone = not text[start : match.start()].strip() and not text[position:end].strip()
        if leaves and (has_objects or alone):
            yield leaves


def _read(text: str, position: int, end: int) -> tuple[list[Leaf], bool, int]:
    """The values of what opens at a position, whether it has objects, and where it ends."""
    stack, leaves, has_objects = list[_Container](), list[Leaf](), False
    is_open = {"}": 0, "]": 0}  # how many, by what closes them
    while position < end:
        character = text[position]
        if (closer := _CLOSERS.get(character)) is not None:
            if stack:
                stack[-1].take()
            stack.append(_Container(closer))
            is_open[closer] += 1
            has_objects |= closer == "}"
            position += 1
        elif character in is_open:
            position += 1
            while is_open[character] and (last := stack.pop().closer):
                is_open[last] -= 1
                if last == character:
                    break
            if not stack:
                break
        elif character in ",:" or character.isspace():
            if not character.isspace():
                stack[-1].awaits_value = character == ":"
            position += 1
        else:
            value, span, position = _scalar(text, position, end, stack[-1])
            if stack[-1].takes_value:
                stack[-1].take()
                leaves.append(Leaf(_joined([each.part for each in stack]), value, span))
            else:
                stack[-1].part = _key(value)
    return leaves, has_objects, position


def _scalar(text: str, position: int, end: int, container: _Container) -> tuple[str | None, Span, int]:
    """A string, a number or a word: its text, its characters, and where it ends."""
    if (quote := QUOTES.get(text[position])) is not None:
        start = position + 1
        last, position = _end_of_string(text, start, end, quote)
        return _decoded(text[start:last]), (start, last), position
    bare = _BARE_VALUE if container.takes_value else _BARE_KEY
    grouped = container.awaits_value and _GROUPED.match(text, position, end)
    match = grouped or bare.match(text, position, end)
    if not match:
        return "", (position, position), position + 1
    value = match[0].rstrip()
    return None if value in NULL else value, (position, position + len(value)), match.end()


def _end_of_string(text: str, start: int, end: int, quote: str) -> tuple[int, int]:
    """Where a string ends, and what is behind its quote.

    A quote that something other than punctuation follows is a part of the string. A string that nothing closes ends
    before the next line with a key, or with the text.
    """
    pattern = re.compile(rf"\\.|{quote}|\n[ \t]*\"[^\"\n]{{1,{LONGEST_KEY}}}\"[ \t]*:", re.DOTALL)
    for match in pattern.finditer(text, start, end):
        if match[0] == quote and _BEHIND_STRING.match(text, match.end(), end):
            return match.start(), match.end()
        if match[0][0] == "\n":
            last = start + len(text[start : match.start()].rstrip(" \t\r\n,"))
            return last, match.start()
    return end, end


def _decoded(text: str) -> str:
    """The text of a string with escapes; one that is cut off is left out."""

    def plain(match: re.Match[str]) -> str:
        code, character = match.groups()
        return chr(int(code, 16)) if code else _ESCAPED.get(character, character) if character else ""

    text = _ESCAPE.sub(plain, text) if "\\" in text else text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _key(value: str | None) -> str:
    """A key as a part of a path, quoted if it would be read as several."""
    text = "null" if value is None else value
    return text if _PLAIN_KEY.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _joined(parts: Sequence[str]) -> str:
    """Keys and indices as one path."""
    joined = "".join(part if part.startswith("[") else f".{part}" for part in parts if part)
    return joined.removeprefix(".")


def _lines(text: str) -> Iterator[Leaf]:
    """Of each line "key: value", the value, without quotes and stars around it."""
    for match in _LINE.finditer(text):
        start, value = match.start("value"), _ENDING.sub("", match["value"])
        if QUOTES.get(value[:1]) == value[1:][-1:] != "":
            start, value = start + 1, value[1:-1]
        if value.strip():
            yield Leaf(_key(match["key"].strip()), None if value in NULL else value, (start, start + len(value)))
