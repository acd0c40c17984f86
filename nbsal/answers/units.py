"""Parts of a text that people speak of: words, sentences, paragraphs."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from nbsal.model.text.tokens import WORD, Span

_END = re.compile(r"(?:[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+[」』”]*|\n)\s*")
_ABBREVIATION = re.compile(r"(?:^|\W)(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|cf|Fig|Eq|No|e\.g|i\.e|approx|Inc|Ltd)\.\s*$")


def words(text: str) -> list[Span]:
    """The words of a text.

    >>> words("Ann's tea.")
    [(0, 5), (6, 9), (9, 10)]
    """
    return [match.span() for match in WORD.finditer(text)]


def sentences(text: str) -> list[Span]:
    """The sentences of a text, with the white space behind them; abbreviations and decimals do not end one.

    >>> [text[slice(*span)] for text in ["Dr. Ann pays 2.50. Why?"] for span in sentences(text)]
    ['Dr. Ann pays 2.50. ', 'Why?']
    """
    return list(_split(text, _sentence_ends(text)))


def paragraphs(text: str) -> list[Span]:
    """The paragraphs of a text: its parts between empty lines, or its lines where there is no empty one.

    >>> paragraphs("One.\\n\\nTwo.")
    [(0, 6), (6, 10)]
    """
    pattern = r"\n\s*\n\s*" if re.search(r"\n\s*\n", text.strip()) else r"\n\s*"
    return list(_split(text, (match.end() for match in re.finditer(pattern, text))))


SPLITTERS: dict[str, Callable[[str], list[Span]]] = {"word": words, "sentence": sentences, "paragraph": paragraphs}


def part_at(starts: Sequence[int], position: int) -> int:
    """Which of some parts, that begin at those characters, holds a position; what stands before all is of the first."""
    return max(0, bisect_right(starts, position) - 1)


def _sentence_ends(text: str) -> Iterator[int]:
    for match in _END.finditer(text):
        stops = "\n" in match[0] or not match[0].startswith(".") or match[0].startswith("..")
        if stops or not _ABBREVIATION.search(text[max(0, match.start() - 10) : match.end()].rstrip("\n")):
            yield match.end()


def _split(text: str, ends: Iterator[int]) -> Iterator[Span]:
    """The parts of a text between those ends that hold something to see."""
    start = 0
    for end in (*ends, len(text)):
        if text[start:end].strip():
            yield start, end
            start = end
