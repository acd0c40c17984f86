"""Quotes in a reply, and where the documents have them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbsal.model.text.tokens import Span

_QUOTE = re.compile('"([^"\n]+)"|“([^”\n]+)”|„([^“”\n]+)[“”]|«([^»\n]+)»|「([^」\n]+)」|『([^』\n]+)』')
EXACT, CASE, SPACE, BOTH, ABSENT = "exact", "other case", "other white space", "other case and white space", "not found"


@dataclass(frozen=True)
class Quote:
    """A quote: its text and characters in the reply, and where a document has it, if one does.

    `found` is "exact", "other case", "other white space", "other case and white space" or "not found".
    """

    text: str
    span: Span
    found: str
    document: int | None = None  # from 1
    place: Span | None = None


def find_quotes(reply: str, documents: Sequence[str]) -> Iterator[Quote]:
    """The quotes of a reply, each with the document that has it most exactly.

    >>> [(each.text, each.found, each.place) for each in find_quotes('It says "in oslo" now.', ["She lives in Oslo."])]
    [('in oslo', 'other case', (10, 17))]
    """
    for match in _QUOTE.finditer(reply):
        group = match.lastindex or 0
        text = match[group].strip().rstrip(",.;")  # punctuation of the sentence around it
        if any(map(str.isalnum, text)):
            start = match.start(group) + match[group].index(text)
            yield look_up(text, (start, start + len(text)), documents)


def look_up(text: str, span: Span, documents: Sequence[str]) -> Quote:
    """A quote in the document that has it most exactly, the first of several."""
    spaced = r"\s+".join(map(re.escape, text.split()))
    for found, pattern, flags in (
        (EXACT, re.escape(text), 0),
        (CASE, re.escape(text), re.IGNORECASE),
        (SPACE, spaced, 0),
        (BOTH, spaced, re.IGNORECASE),
    ):
        for number, document in enumerate(documents, 1):
            if match := re.search(pattern, document, flags):
                return Quote(text, span, found, number, match.span())
    return Quote(text, span, ABSENT)
