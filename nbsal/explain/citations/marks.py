"""Citations in a reply: its marks, which documents each names, and the statement that it belongs to."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise, takewhile

from nbsal.explain.prompt.reading import sentences
from nbsal.explain.sentences.function_words import is_function_word
from nbsal.model.text.tokens import Span
from nbsal.support.errors import InputError

RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
LETTERS = 3  # of a word that a raised number behind it may cite for; shorter ones are units
MOST = 999  # the largest number of a document: brackets with more hold a year, or a price
_LIST = r"\d{1,4}(?:\s*[-–,;&]\s*(?:and\s+)?\d{1,4})*"
_NAMED = r"(?:docs?|documents?|sources?|refs?|references?)\.?\s*#?"
_FORMS = (
    rf"\[\s*\^?\s*(?:{_NAMED}\s*)?(?P<square>{_LIST})\s*\]",
    rf"【\s*(?P<lenticular>{_LIST})[^】]{{0,40}}】",
    rf"\(\s*{_NAMED}\s*(?P<round>{_LIST})\s*\)",
    r"<cite\b[^<>]{0,200}?(?:\bdoc(?:ument)?\s*=\s*[\"']?(?P<attribute>\d{1,4})[\"']?[^<>]{0,200}?)?/?>"
    r"(?:(?P<cite>[^<>]{0,200})</cite\s*>)?",
    r"(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹]+(?:[,˒⁻][⁰¹²³⁴⁵⁶⁷⁸⁹]+)*)",
)
_MARK = re.compile("|".join(_FORMS), re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\s*[-–⁻]\s*(\d+)|(\d+)")
_WORD = re.compile(r"[\w'’]+")
_BETWEEN = re.compile(r"[\s,;]*(?:and\s+)?")  # what may stand between marks of one citation
_EDGE = " \t\r\n,;:"
INTRODUCING = frozenset("according see source sources document documents per cf".split())


@dataclass(frozen=True)
class Citation:
    """Marks that stand together, the numbers of the documents that they name, from 1, and their statement.

    `marks` are the characters of the marks in the reply, and `span` those of the statement, without any mark.
    """

    cites: tuple[int, ...]
    marks: Span
    span: Span


def find_citations(reply: str, titles: Sequence[str], form: str | None = None) -> list[Citation]:
    """The citations of a reply, in order; `titles` are those of the documents, and `form` a pattern of other marks.

    Numbers that no document has are kept. A mark inside a word is none.

    >>> [(each.cites, "It is in Oslo [1], and leaves at nine (doc 3)."[slice(*each.span)]) for each in
    ...  find_citations("It is in Oslo [1], and leaves at nine (doc 3).", ["", "", ""])]
    [((1,), 'It is in Oslo'), ((3,), 'and leaves at nine')]
    """
    groups = list(_together(reply, list(_marks(reply, titles, form))))
    spans = _Statements(reply, [span for _, span in groups]).spans()
    return [Citation(*group, span) for group, span in zip(groups, spans, strict=True) if span is not None]


Mark = tuple[tuple[int, ...], Span]


def _marks(reply: str, titles: Sequence[str], form: str | None) -> Iterator[Mark]:
    """Every mark with the numbers that it names."""
    named = {title.casefold(): number for number, title in enumerate(titles, 1) if title.strip()}
    found = (
        _own_marks(reply, form, named) if form is not None else [*_known_marks(reply, named), *_titled(reply, named)]
    )
    end = 0
    for cites, (start, stop) in sorted(found, key=lambda mark: (mark[1][0], -mark[1][1])):
        if start >= end and cites and not _inside_word(reply, start, stop):
            yield cites, (start, stop)
            end = stop


def _known_marks(reply: str, named: dict[str, int]) -> Iterator[Mark]:
    for match in _MARK.finditer(reply):
        content = next((text for text in match.groups() if text is not None), "")
        start, end = match.span()
        while reply[start - 1 : start] == "[" and reply[end : end + 1] == "]" and start:  # [[1]]
            start, end = start - 1, end + 1
        yield _numbers(content, named), (start, end)


def _titled(reply: str, named: dict[str, int]) -> Iterator[Mark]:
    """Titles of documents in brackets."""
    for title, number in named.items():
        for match in re.finditer(rf"[(\[]\s*{re.escape(title)}\s*[)\]]", reply, re.IGNORECASE):
            yield (number,), match.span()


def _own_marks(reply: str, form: str, named: dict[str, int]) -> Iterator[Mark]:
    """Marks of a form that the caller gives, whose first group, or the whole, has numbers or a title."""
    try:
        pattern = re.compile(form)
    except re.error as error:
        message = f"form={form!r:.60} is no regular expression: {error}. Its first group must be the numbers."
        raise InputError(message, argument="form", value=form) from error
    for match in pattern.finditer(reply):
        if match.end() > match.start():
            yield _numbers(match[1] or "" if pattern.groups else match[0], named), match.span()


def _numbers(content: str, named: dict[str, int]) -> tuple[int, ...]:
    """The documents that a mark names: by title, or by numbers and ranges of them."""
    content = content.strip().translate(RAISED)
    if content.casefold() in named:
        return (named[content.casefold()],)
    numbers: list[int] = []
    for first, last, single in _RANGE.findall(content):
        start, end = (int(single), int(single)) if single else (int(first), int(last))
        if start <= end <= MOST:
            numbers += range(start, end + 1)
    return tuple(dict.fromkeys(number for number in numbers if number))


def _inside_word(reply: str, start: int, end: int) -> bool:
    """Whether a mark is a part of a word, or a raised number that of a unit or a power: "m²", "10²"."""
    before = re.split(r"\W", reply[max(0, start - LETTERS) : start])[-1]
    if reply[start].translate(RAISED) != reply[start] and before and (len(before) < LETTERS or before[-1].isdigit()):
        return True
    return bool(before) and re.match(r"\w", reply[end : end + 1]) is not None


def _together(reply: str, marks: Sequence[Mark]) -> Iterator[Mark]:
    """Marks that nothing but white space or a comma parts, as one."""
    joined: list[Mark] = []
    for cites, span in marks:
        if joined and _BETWEEN.fullmatch(reply[joined[-1][1][1] : span[0]]):
            before, (start, _) = joined.pop()
            cites, span = tuple(dict.fromkeys((*before, *cites))), (start, span[1])
        joined.append((cites, span))
    yield from joined


def _begins_before(position: int, span: Span) -> bool:
    return span[0] < position


class _Statements:
    """Which characters of a reply each mark is about."""

    def __init__(self, reply: str, marks: Sequence[Span]) -> None:
        self.reply, self.marks = reply, marks
        blank = list(reply)  # sentences are parted without what stands in marks
        for start, end in marks:
            blank[start:end] = " " * (end - start)
        self.text = "".join(blank)
        self.sentences = sentences(self.text)

    def spans(self) -> list[Span | None]:
        """The clause before each mark; if it says nothing, the sentence before, what follows, or the last statement."""
        spans, after, first = list[Span | None](), 0, 0
        for number, (start, end) in enumerate(self.marks):
            while first < len(self.sentences) and self.sentences[first][1] <= after:
                first += 1
            before = list(takewhile(partial(_begins_before, start), islice(self.sentences, first, None)))
            clauses = [self._trimmed(max(begin, after), min(last, start)) for begin, last in reversed(before)]
            limit = self.marks[number + 1][0] if number + 1 < len(self.marks) else len(self.text)
            stop = next((last for _, last in islice(self.sentences, first, None) if last > end), limit)
            clauses.append(self._trimmed(end, min(limit, stop)))
            clauses += spans[-1:] if self.reply[after:start].strip() else []
            spans.append(next(filter(self._says_something, clauses), next(filter(None, clauses), None)))
            after = end
        return spans

    def _trimmed(self, start: int, end: int) -> Span | None:
        """A stretch without white space and commas at its ends; None if nothing is left."""
        while start < end and self.text[start] in _EDGE:
            start += 1
        while start < end and self.text[end - 1] in _EDGE:
            end -= 1
        return (start, end) if any(map(str.isalnum, self.text[start:end])) else None

    def _says_something(self, span: Span | None) -> bool:
        found = [] if span is None else _WORD.findall(self.text[slice(*span)])
        return any(not is_function_word(word) and word.casefold() not in INTRODUCING for word in found)


def without_marks(reply: str, marks: Sequence[Span]) -> tuple[str, list[int]]:
    """A reply without its marks and the white space before each, and the place of every character that stays."""
    cut = [(len(reply[:start].rstrip()), end) for start, end in marks]
    stays = [place for (_, end), (start, _) in pairwise([(0, 0), *cut, (len(reply), 0)]) for place in range(end, start)]
    return "".join(reply[place] for place in stays), stays
