"""Where each content stands in a rendered chat, exactly, whatever the template does to it."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nbsal.model.tokens import Span

MARKS = range(0xE000, 0xF900)  # private use: hardly any text holds these characters, and no template knows them


@dataclass(frozen=True)
class Place:
    """Where a content stands in the rendered text; `offset` is its first character there, None if it was rewritten."""

    span: Span
    offset: int | None


def locate(render: Callable[[Sequence[str]], str], contents: Sequence[str]) -> tuple[str, list[Place | None]]:
    """The rendered text, and the place of each content in it; None for a content that is not there.

    A second rendering, with a mark before and behind each content, shows what the template itself writes. The first one
    must be just that, with the contents in between, whole or stripped of white space.

    >>> locate(lambda texts: f"<{texts[0].strip()}>", [" a joy "])
    ('<a joy>', [Place(span=(1, 6), offset=1)])
    """
    text = render(contents)
    marks = _unused_marks(text, 2 * len(contents))
    pairs = list(zip(marks[::2], marks[1::2], strict=True))
    marked = render([before + content + behind for content, (before, behind) in zip(contents, pairs, strict=True)])
    at = _positions(marked, marks)
    whole = [i for i, pair in enumerate(pairs) if all(len(at[mark]) == 1 for mark in pair)]
    whole.sort(key=lambda i: at[pairs[i][0]])
    places: list[Place | None] = [None] * len(contents)
    gaps = _gaps(marked, [(at[pairs[i][0]][0], at[pairs[i][1]][0]) for i in whole], marks)
    match = _match(text, gaps, contents, whole)
    if match is None:
        return text, places
    for i in whole:
        start, end = match.span(f"content{i}")
        rewritten = match.groupdict().get(f"other{i}") is not None
        places[i] = Place((start, end), None if rewritten else contents[i].index(text[start:end]))
    for i, (_, behind) in enumerate(pairs):
        if places[i] is None and len(at[behind]) == 1:
            places[i] = _place_of_end(text, marked[: at[behind][0]], contents[i], places[:i])
    return text, places


def _unused_marks(text: str, count: int) -> list[str]:
    used = set(text)
    return list(islice((chr(code) for code in MARKS if chr(code) not in used), count))


def _positions(marked: str, marks: Sequence[str]) -> dict[str, list[int]]:
    """Where each mark stands."""
    positions: dict[str, list[int]] = {mark: [] for mark in marks}
    for match in re.finditer(f"[{''.join(marks)}]", marked) if marks else ():
        positions[match[0]].append(match.start())
    return positions


def _gaps(marked: str, spans: Sequence[Span], marks: Sequence[str]) -> list[str]:
    """What the template itself writes before, between and behind those spans, without any marks."""
    starts, ends = [0, *(end + 1 for _, end in spans)], [*(start for start, _ in spans), len(marked)]
    unmark = str.maketrans("", "", "".join(marks))
    return [marked[start:end].translate(unmark) for start, end in zip(starts, ends, strict=True)]


def _match(text: str, gaps: Sequence[str], contents: Sequence[str], whole: Sequence[int]) -> re.Match[str] | None:
    """The rendered text as the template's own text and contents; where that fails, with contents that it rewrote."""
    for strict in (True, False):
        patterns = [f"(?P<content{i}>{'|'.join(_ways(i, contents[i], strict))})" for i in whole]
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


def _place_of_end(text: str, marked: str, content: str, before: Sequence[Place | None]) -> Place | None:
    """The place of a content whose beginning the template cut off, such as the reasoning of an earlier reply."""
    size = next((size for size in range(len(content), 0, -1) if marked.endswith(content[-size:])), 0)
    start = text.find(content[-size:], max((place.span[1] for place in before if place), default=0)) if size else -1
    return None if start < 0 else Place((start, start + size), len(content) - size)
