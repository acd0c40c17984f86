"""Spans of a sentence that can be answers, and the words that ask for them."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FUNCTION_WORDS = frozenset(
    "the a an of in on at to for from by with and or but as is was were are be been being that which who whom whose "
    "this these those it its his her their he she they them him we us our you your i my me not no nor so than then "
    "there here when where while if because after before during between into over under about against through also "
    "had has have do does did will would can could may might must shall should such more most other some any all each "
    "one both few many much very only just out up down off again 's ' s t".split()
)
MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
WEEKDAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
NUMBER_WORD = "(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|hundred)"
DATE = re.compile(rf"\b(?:\d{{1,2}} {MONTH}(?: \d{{4}})?|{MONTH} \d{{1,2}}(?:, \d{{4}})?|{MONTH} \d{{4}}|{WEEKDAY})\b")
YEAR = re.compile(r"\b1[0-9]\d\d\b|\b20[0-3]\d\b")
COUNT = re.compile(rf"\$?\b\d[\d,.]*\d?(?: (?:million|billion|percent|%))?%?|\b{NUMBER_WORD}\b")
NAME = re.compile(r"\b[A-Z][\w.'-]*[\w](?:(?: of| the| de| and| &)? [A-Z][\w'-]+){0,4}")
PHRASE = re.compile(
    r"\b(?:the|a|an|of|by|with|as|for|to|called|his|their|its|in|and|were|was|from|on) "
    r"((?:[a-z][a-z-]+ ){0,3}[a-z][a-z-]{2,})"
    r"(?= ?[,.;:)]| (?:and|of|in|to|for|that|which|was|were|is|are|by|with|on|at|from|or|as)\b)"
)
BEFORE_PLACES = {"in", "at", "near", "to", "from", "around", "across"}
BEFORE_PEOPLE = {"by", "with", "and", "from", "to", "for", "of"}
OF_PEOPLE = {"said", "was", "had", "has", "who", "wrote"}


@dataclass(frozen=True)
class Match:
    """A possible answer in a sentence: its characters and its kind."""

    start: int
    end: int
    kind: str


def matches(sentence: str) -> list[Match]:
    """The possible answers of a sentence, which do not overlap.

    >>> [match.kind for match in matches("She met Ann Lee in Oslo on 3 May 1901, with two friends.")]
    ['date', 'count', 'name', 'name']
    """
    chosen: list[Match] = []
    for match in _all_matches(sentence):
        if all(match.end <= other.start or match.start >= other.end for other in chosen):
            chosen.append(match)
    return chosen


def _all_matches(sentence: str) -> Iterator[Match]:
    for kind, pattern in (("date", DATE), ("year", YEAR), ("count", COUNT)):
        for hit in pattern.finditer(sentence):
            yield Match(*hit.span(), kind)
    for hit in NAME.finditer(sentence):
        is_first_word = hit.start() == 0 and " " not in hit[0]
        if hit[0].split()[0].lower() not in FUNCTION_WORDS and not is_first_word:
            yield Match(*hit.span(), "name")
    for hit in PHRASE.finditer(sentence):
        words = hit[1].split()
        while words and words[0] in FUNCTION_WORDS:
            words = words[1:]
        if words and not any(word in FUNCTION_WORDS for word in words):
            yield Match(hit.end(1) - len(" ".join(words)), hit.end(1), "phrase")


def asking_phrase(
    kind: str, answer: str, before: Sequence[str], after: Sequence[str], random_: random.Random
) -> tuple[str, int]:
    """What asks for an answer of that kind, and how many of the words behind the answer it uses up.

    >>> asking_phrase("count", "12", ["had"], ["apples"], random.Random(0))
    ('how many apples', 1)
    """
    if kind == "date":
        return random_.choice(["when", "on what date", "when", "what day"]), 0
    if kind == "year":
        return random_.choice(["when", "in what year", "what year", "when"]), 0
    if kind == "count":
        return _asking_count(answer, after, random_)
    last = before[-1].lower() if before else ""
    if kind == "name":
        return _asking_name(last, after, random_), 0
    words = answer.split()
    if len(words) > 1 and random_.random() < 0.4:
        return random_.choice(["what", "which", "what kind of", "what type of"]) + " " + words[-1], 0
    choices = ["what", "what", "what", "which", "why", "how"] if last in ("to", "by") else ["what", "what", "which"]
    return random_.choice(choices), 0


def _asking_count(answer: str, after: Sequence[str], random_: random.Random) -> tuple[str, int]:
    if answer.startswith("$"):
        return random_.choice(["how much", "how much money"]), 0
    if "%" in answer or "percent" in answer:
        return random_.choice(["what percentage", "how much", "what percent"]), 0
    if after and after[0].isalpha() and after[0] not in FUNCTION_WORDS:
        return random_.choice(["how many", "how many", "what number of"]) + " " + after[0], 1
    return random_.choice(["how many", "how much", "what"]), 0


def _asking_name(last: str, after: Sequence[str], random_: random.Random) -> str:
    if last in BEFORE_PLACES and random_.random() < 0.6:
        return random_.choice(["where", "where", "what place", "what city", "which country"])
    acts = bool(after) and (after[0] in OF_PEOPLE or after[0].endswith("ed"))
    if acts or last in BEFORE_PEOPLE:
        return random_.choice(["who", "who", "who", "what", "which"])
    return random_.choice(["who", "what", "what", "which"])
