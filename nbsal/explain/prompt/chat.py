"""Chats in a template, a program of whoever made the model: rendered within limits, and where each content stands.

The place of a content is exact, whatever the template does to it.
"""

import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice, pairwise
from math import prod
from typing import Any

from nbsal.model.text.tokens import Span

MARKS = range(0xE000, 0xF900)  # private use: hardly any text holds these characters, and no template knows them
RENDERINGS = 3  # of each kind, where they differ: a template may write the time
NOWHERE = (0, 0)
STEPS = 1_000_000  # lines of a template that are run
SIZE = 2**22  # characters of a rendered chat, beside four times those of the messages
LARGEST = 1_000_000  # whole number in a template
REPEATED = 10_000  # times that a constant may be repeated by another one


@dataclass(frozen=True)
class ContentPlace:
    """Where a content stands in the rendered text; `offset` is its first character there, None if it was rewritten.

    A rewritten content whose characters cannot be told from those of the template stands nowhere, at (0, 0).
    """

    span: Span
    offset: int | None


def locate(render: Callable[[Sequence[str]], str], contents: Sequence[str]) -> tuple[str, list[ContentPlace | None]]:
    """The rendered text, and the place of each content in it; None for a content that is not there.

    A second rendering, with a mark before and behind each content, shows what the template itself writes. The first one
    must be just that, with the contents in between, whole or stripped of white space. A search for them is left out
    where the template writes each content once, as it is. Contents without a character get no marks, with which a
    template may do what it does to others.
    """
    if not all(contents):
        return _locate_some(render, contents)
    for _ in range(RENDERINGS):
        text = render(contents)
        marks = unused_marks(text, 2 * len(contents))
        pairs = list(zip(marks[::2], marks[1::2], strict=True))
        rendered = render([a + content + b for content, (a, b) in zip(contents, pairs, strict=True)])
        if places := _verbatim(text, rendered, contents, pairs):
            return text, places
        marked = _Marked(text, rendered, contents, pairs)
        match = marked.match()
        if match is not None:
            break
    return text, marked.places(match)


def _locate_some(
    render: Callable[[Sequence[str]], str], contents: Sequence[str]
) -> tuple[str, list[ContentPlace | None]]:
    """The rendered text, and the place of each content in it, where some have no character."""
    filled = [number for number, content in enumerate(contents) if content]

    def render_filled(texts: Sequence[str]) -> str:
        given = dict(zip(filled, texts, strict=True))
        return render([given.get(number, "") for number in range(len(contents))])

    text, located = locate(render_filled, [contents[number] for number in filled])
    places = dict(zip(filled, located, strict=True))
    return text, [places.get(number, ContentPlace(NOWHERE, 0)) for number in range(len(contents))]


def _verbatim(
    text: str, marked: str, contents: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> list[ContentPlace | None]:
    """The places of contents that the template writes once each, as they are; none if it does anything else."""
    unmark = str.maketrans("", "", "".join(map("".join, pairs)))
    starts = [marked.find(a + content + b) for content, (a, b) in zip(contents, pairs, strict=True)]
    if min(starts, default=0) < 0 or len(marked) != len(text) + 2 * len(starts) or marked.translate(unmark) != text:
        return []
    places: list[ContentPlace | None] = [None] * len(starts)
    for before, number in enumerate(sorted(range(len(starts)), key=starts.__getitem__)):
        start = starts[number] - 2 * before  # without the marks of the contents before it
        places[number] = ContentPlace((start, start + len(contents[number])), 0)
    return places


class _Marked:
    """A rendered text beside one of contents with marks around them."""

    def __init__(self, text: str, marked: str, contents: Sequence[str], pairs: Sequence[tuple[str, str]]) -> None:
        self.text, self.marked, self.contents, self.pairs = text, marked, contents, pairs
        marks = list(chain.from_iterable(pairs))
        self.at = _positions(marked, marks)
        self.spans = _spans(marked, contents, pairs, self.at)
        self.gaps = _gaps(marked, list(self.spans.values()), marks)

    def match(self) -> re.Match[str] | None:
        """The rendered text as the template's own text and contents, if it is that."""
        changed = {i for i in self.spans if any(len(self.at[mark]) != 1 for mark in self.pairs[i])}
        return _match(self.text, self.gaps, self.contents, list(self.spans), changed)

    def places(self, match: re.Match[str] | None) -> list[ContentPlace | None]:
        """Where each content stands; without a match, the template's own text depends on the contents."""
        at = self.at
        places: list[ContentPlace | None] = [
            ContentPlace(NOWHERE, None) if at[a] or at[b] else None for a, b in self.pairs
        ]
        if match is None:
            return places
        for i in self.spans:
            places[i] = self._place(i, match)
        for i, (before, behind) in enumerate(self.pairs):
            if i not in self.spans and len(at[behind]) == 1 and not at[before]:
                earlier = [places[j] for j in self.spans if j < i]
                places[i] = _place_of_end(self.text, self.marked[: at[behind][0]], self.contents[i], earlier)
        return places

    def _place(self, number: int, match: re.Match[str]) -> ContentPlace:
        """Where a content stands that was matched: all of it, its beginning, or what the template made of it."""
        content, span = self.contents[number], match.span(f"content{number}")
        piece = self.text[slice(*span)]
        rewritten = match.groupdict().get(f"other{number}") is not None
        cut = not self.at[self.pairs[number][1]] and content.startswith(piece)
        return ContentPlace(span, content.index(piece) if cut or not rewritten else None)


def _spans(
    marked: str, contents: Sequence[str], pairs: Sequence[tuple[str, str]], at: Mapping[str, Sequence[int]]
) -> dict[int, Span]:
    """From its first to its last mark in the marked text, for each content that stands apart from all others.

    A content of which the end was cut off reaches as far as its beginning is there.
    """
    spans = {}
    for i, (before, behind) in enumerate(pairs):
        if at[before] and at[behind] and at[before][0] < at[behind][-1]:
            spans[i] = at[before][0], at[behind][-1]
        elif len(at[before]) == 1 and not at[behind]:
            start = at[before][0]
            spans[i] = start, start + agreement(contents[i], marked[start + 1 :])
    ordered = sorted(spans, key=lambda i: spans[i])
    crossed = {i for pair in pairwise(ordered) for i in pair if spans[pair[0]][1] >= spans[pair[1]][0]}
    return {i: spans[i] for i in ordered if i not in crossed}


def agreement(text: str, other: str) -> int:
    """The number of characters that two texts begin with alike."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(text), len(other)))


def unused_marks(text: str, count: int) -> list[str]:
    used = set(text)
    return list(islice((chr(code) for code in MARKS if chr(code) not in used), count))


def _positions(marked: str, marks: Sequence[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {mark: [] for mark in marks}
    for match in re.finditer(f"[{''.join(marks)}]", marked) if marks else ():
        positions[match[0]].append(match.start())
    return positions


def _gaps(marked: str, spans: Sequence[Span], marks: Sequence[str]) -> list[str]:
    """What the template itself writes before, between and behind those spans, without any marks."""
    starts, ends = [0, *(end + 1 for _, end in spans)], [*(start for start, _ in spans), len(marked)]
    unmark = str.maketrans("", "", "".join(marks))
    return [marked[start:end].translate(unmark) for start, end in zip(starts, ends, strict=True)]


def _match(
    text: str, gaps: Sequence[str], contents: Sequence[str], numbers: Sequence[int], changed: Container[int]
) -> re.Match[str] | None:
    """The rendered text as the template's own text and contents; where that fails, with others that it rewrote.

    Those in `changed` it has rewritten anyway.
    """
    for strict in (True, False):
        patterns = [f"(?P<content{i}>{'|'.join(_ways(i, contents[i], strict and i not in changed))})" for i in numbers]
        own = [_gap(gap, strict) for gap in gaps]
        pattern = own[0] + "".join(content + gap for content, gap in zip(patterns, own[1:], strict=True))
        if match := re.fullmatch(pattern, text, re.DOTALL):
            return match
    return None


def _ways(number: int, content: str, strict: bool) -> Iterator[str]:
    """The forms that a content may have, as regular expressions."""
    yield from map(re.escape, dict.fromkeys((content, content.lstrip(), content.rstrip(), content.strip())))
    if not strict:
        yield f"(?P<other{number}>.*?)"


def _gap(text: str, strict: bool) -> str:
    """The template's own text as a regular expression; its white space may have been stripped with a content."""
    if strict:
        return re.escape(text)
    core = text.strip()
    before, behind = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    spaces = [f"(?:{re.escape(space)})?" for space in (before, behind)]
    return f"{spaces[0]}{re.escape(core)}{spaces[1]}" if core else f"(?:{re.escape(text)})?"


def _place_of_end(text: str, marked: str, content: str, before: Sequence[ContentPlace | None]) -> ContentPlace | None:
    """The place of a content whose beginning the template cut off, such as the reasoning of an earlier reply."""
    size = next((size for size in range(len(content), 0, -1) if marked.endswith(content[-size:])), 0)
    start = text.find(content[-size:], max((place.span[1] for place in before if place), default=0)) if size else -1
    return None if start < 0 else ContentPlace((start, start + size), len(content) - size)


class TooLarge(Exception):
    """A template that does, or writes, more than any chat needs."""


def parse_template(text: str) -> Any:
    from jinja2 import Environment

    plain = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", text)
    return Environment(extensions=["jinja2.ext.loopcontrols"]).parse(plain)


def render(tokenizer: Any, messages: Any, **options: Any) -> str:
    """A chat in the template of its tokenizer, or in the `chat_template` among the options."""
    with suppress(AttributeError, ValueError):  # the tokenizer says it better
        _check_constants(tokenizer.get_chat_template(options.get("chat_template")))
    text = str(_limited_steps(partial(tokenizer.apply_chat_template, messages, tokenize=False, **options)))
    if len(text) > SIZE + 4 * len(str((messages, options))):
        raise TooLarge(f"it writes {len(text):,} characters")
    return text


@lru_cache
def _check_constants(template: str) -> None:
    """Refuse numbers that are computed, and texts that are repeated, while a template is compiled."""
    from jinja2 import TemplateSyntaxError, nodes

    with suppress(TemplateSyntaxError):  # which the tokenizer says better
        tree = parse_template(template)
        for product in tree.find_all(nodes.Mul):
            if next(product.find_all(nodes.Name), None) is None and prod(_numbers(product)) > REPEATED:
                raise TooLarge("it repeats a text too often")
        if next(tree.find_all(nodes.Pow), None) is not None or max(_numbers(tree), default=0) > LARGEST:
            raise TooLarge("it has too large numbers")


def _numbers(tree: Any) -> list[int]:
    from jinja2 import nodes

    return [node.value for node in tree.find_all(nodes.Const) if type(node.value) is int]


def _limited_steps(run: Callable[[], Any]) -> Any:
    """Run a template, and stop it if it runs too many lines, in this thread."""
    before, left = sys.gettrace(), STEPS

    def trace(frame: Any, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename == "<template>" else None

    def count(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooLarge(f"it takes more than {STEPS:,} steps")
        return count

    # All in one frame: behind a context manager, coverage would lose the frames of the callers.
    sys.settrace(trace)
    try:
        return run()
    finally:
        sys.settrace(before)
