"""Where a text writes a value: exactly, in other case or white space, or as a number or date in another notation."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property

from nbsal.explain.citations.verdicts import stands_in, words_in
from nbsal.explain.prompt.reading import part_at, sentences
from nbsal.model.text.tokens import Span

EXACT, LOOSE, OTHER_NOTATION = range(3)
Place = tuple[int, Span]  # how exactly a value is written there, and its characters
Reading = Decimal | date
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_PART = re.compile(r"(\s*)(\w+|[^\w\s])")
_RUN = re.compile(r"(?<![\w.])\d{1,3}(?:[\u00a0\u202f'’]\d{3})+(?:[.,]\d+)?(?!\w)|(?<![\w.])\d+(?:[.,]\d+)*(?!\w)")
_SHAPES = (  # of numbers, with what parts their thousands and what is before their decimals
    (re.compile(r"\d+(?:\.\d+)?"), "", "."),
    (re.compile(r"\d+,\d+"), "", ","),
    (re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?"), ",", "."),
    (re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?"), ".", ","),
    (re.compile(r"\d{1,3}(?:[\u00a0\u202f'’]\d{3})+(?:[.,]\d+)?"), "\u00a0\u202f'’", ".,"),
)
_AMOUNT = re.compile(r"(?:[A-Z]{3}\s?|[€$£¥]\s?)?([\d.,\u00a0\u202f'’]+)(?:\s?[A-Z]{3}|\s?[€$£¥])?")
_DATE = re.compile(
    r"(?<![\w.])(?:(?P<iso>\d{4}-\d{1,2}-\d{1,2})|(?P<numbers>\d{1,2}([./-])\d{1,2}\3\d{4})"
    r"|(?P<first>\d{1,2})(?:st|nd|rd|th|\.)?\s(?:of\s)?(?P<month>[A-Z][a-z]{2,8})\.?,?\s(?P<year>\d{4})"
    r"|(?P<name>[A-Z][a-z]{2,8})\.?\s(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s(?P<behind>\d{4}))(?!\w)"
)
_NAMES = re.compile(r"[^\W\d_]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])")  # in keys such as invoice_number, invoiceNumber


@dataclass(frozen=True)
class WrittenText:
    """A text in which values are looked up."""

    text: str

    def places(self, value: str) -> list[Place]:
        """Where it writes a value, in order; places do not overlap.

        >>> text = WrittenText("Total: EUR 1,200.50, due on 5 March 2026")
        >>> [text.text[slice(*span)] for value in ("1200.5", "2026-03-05") for _, span in text.places(value)]
        ['1,200.50', '5 March 2026']
        """
        readings = set(readings_of(value))
        places = [] if _is_number(value) else list(self._letters(value))
        for span, others in self._readings:
            exact = self.text[slice(*span)] == value
            if readings & others and not any(start < span[1] and span[0] < end for _, (start, end) in places):
                places.append((EXACT if exact else OTHER_NOTATION, span))
        return sorted(places, key=lambda place: place[1])

    def _letters(self, value: str) -> Iterator[Place]:
        pattern = _spaced(value)
        for match in re.finditer(pattern, self.text, re.IGNORECASE) if pattern else ():
            yield EXACT if match[0] == value else LOOSE, match.span()

    @cached_property
    def _readings(self) -> list[tuple[Span, set[Reading]]]:
        """The numbers and dates."""
        dates = [(match.span(), set[Reading](_dates(match))) for match in _DATE.finditer(self.text)]
        return dates + [(span, set[Reading](_numbers(self.text[slice(*span)]))) for span in _number_spans(self.text)]

    @cached_property
    def parts(self) -> list[Span]:
        """The sentences and lines."""
        return sentences(self.text)

    def fit(self, path: str, span: Span) -> tuple[float, ...]:
        """How well what stands around a place fits the keys of a path; more is better."""
        *parents, key = [_names(part) for part in re.split(r"\.|\[\d+\]", path) if part] or [[]]
        at = part_at(self.parts, span[0])
        start, end = self.parts[at]
        around = words_in(f"{self.text[start : span[0]]} {self.text[span[1] : end]}")
        before = words_in(self.text[slice(*self.parts[at - 1])] if at else "")
        nearest = max((self._before(name, start, span[0]) for name in key), default=-1)
        return (
            sum(stands_in(name, around) for name in key),
            sum(stands_in(name, around) for names in parents for name in names),
            sum(stands_in(name, before) for name in key),
            nearest,
        )

    def _before(self, name: str, start: int, end: int) -> int:
        """Where a word stands last before a place, in its sentence."""
        return self.text.casefold().rfind(name.casefold(), start, end)


def readings_of(value: str) -> list[Reading]:
    """The numbers or dates that a value may stand for: "1.200" is 1.2 or 1200."""
    if match := _DATE.fullmatch(value):
        return list(_dates(match))
    match = _AMOUNT.fullmatch(value.strip().lstrip("-+−"))
    return list(_numbers(match[1])) if match else []


def _is_number(value: str) -> bool:
    return any(shape.fullmatch(value) for shape, *_ in _SHAPES)


def _spaced(value: str) -> str:
    """A pattern of a value in any white space, as a whole word."""
    pattern, last = "", ""
    for space, part in _PART.findall(value):
        both = part[0].isalnum() and last[-1:].isalnum()
        gap = "" if not last else r"\s+" if space and both else r"\s*"
        pattern, last = pattern + gap + re.escape(part), part
    if not pattern:
        return ""
    before = r"(?<!\w)" if value.strip()[0].isalnum() else ""
    return before + pattern + (r"(?!\w)" if last[-1].isalnum() else "")


def _number_spans(text: str) -> Iterator[Span]:
    """The numbers of a text; what is no number as a whole, such as "2,5.00", is read as numbers between commas."""
    for match in _RUN.finditer(text):
        if _is_number(match[0]):
            yield match.span()
        else:
            yield from (each.span() for each in re.compile(r"[^,]+").finditer(text, *match.span()))


def _numbers(text: str) -> Iterator[Decimal]:
    for shape, thousands, point in _SHAPES:
        if shape.fullmatch(text):
            plain = "".join(character for character in text if character not in thousands)
            yield Decimal("".join("." if character in point else character for character in plain))


def _dates(match: re.Match[str]) -> Iterator[date]:
    """The days that a date may mean: "5/3/2026" is in March or in May."""
    numbers = [int(number) for number in re.findall(r"\d+", match[0])]
    if match["iso"]:
        triples = [tuple(numbers)]
    elif match["numbers"]:
        day, month, year = numbers
        triples = [(year, month, day), (year, day, month)]
    else:
        name = (match["month"] or match["name"])[:3].casefold()
        triples = [(numbers[1], MONTHS.index(name) + 1, numbers[0])] if name in MONTHS else []
    for triple in triples:
        with suppress(ValueError):  # no day of the calendar
            yield date(*triple)


def _names(key: str) -> list[str]:
    """The words of a key."""
    return [match.casefold() for match in _NAMES.findall(key)]
