"""Sentences in pieces, so that the words they name are marked like the text; and numbers in words."""

from collections.abc import Sequence
from itertools import groupby
from math import ceil

NUMBERS = "no one two three four five six seven eight nine ten".split()
MOST_PROGRESS = 0.99  # that is said until the result is there
CERTAIN = 0.9995
CLOSE = 0.001  # probabilities that differ by less are told apart by a second digit

ChangeRow = tuple[str, float, float, str, str]  # a name, shares before and now, and both as percentages
Phrase = tuple[str, str]  # the kind "text", "class", "for", "against" or "struck", and the words


def phrases(*parts: str | Phrase | Sequence[Phrase]) -> list[Phrase]:
    """A sentence of plain words, single phrases and lists of them.

    >>> phrases("Without ", ("for", "warm"), ".")
    [('text', 'Without '), ('for', 'warm'), ('text', '.')]
    """
    sentence: list[Phrase] = []
    for part in parts:
        if isinstance(part, str):
            sentence += [("text", part)] if part else []
        elif isinstance(part, tuple) and isinstance(part[0], str):
            sentence.append((part[0], str(part[1])))
        else:
            sentence += part  # type: ignore[arg-type]
    return sentence


def joined(sentence: Sequence[Phrase]) -> list[Phrase]:
    """The sentence in fewer pieces: those of one kind in a row are one.

    >>> joined([("text", "Without "), ("text", "it"), ("class", "positive")])
    [('text', 'Without it'), ('class', 'positive')]
    """
    return [(kind, plain(list(pieces))) for kind, pieces in groupby(sentence, key=lambda phrase: phrase[0])]


def plain(sentence: Sequence[Phrase]) -> str:
    return "".join(text for _, text in sentence)


def in_row(names: Sequence[Sequence[Phrase]]) -> list[Phrase]:
    """Names in a row.

    >>> plain(in_row([[("for", name)] for name in "abc"]))
    'a, b and c'
    """
    last = len(names) - 1
    joints = ["" if number == 0 else " and " if number == last else ", " for number in range(len(names))]
    return phrases(*(part for joint, name in zip(joints, names, strict=True) for part in (joint, name)))


def number_word(count: int) -> str:
    """A number in a sentence: in words up to ten.

    >>> number_word(2), number_word(12)
    ('two', '12')
    """
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage, with a narrow space that does not break.

    >>> percent(0.5, 0)
    '50\u202f%'
    """
    return f"{100 * share:.{digits}f}\u202f%".replace("-", "\u2212")


def change_words(before: float, after: float) -> tuple[str, str]:
    """A probability before and after some change, as percentages of which only the second has its sign.

    >>> change_words(0.998, 0.971)
    ('99.8', '97.1\u202f%')
    """
    close = abs(before - after) < CLOSE
    first, second = (percent(share, 2) if close else confidence(share) for share in (before, after))
    return first.removesuffix("\u202f%"), second


def change_row(name: str, before: float, now: float) -> ChangeRow:
    """A class before and after some change; without a change there is no first percentage.

    >>> change_row("positive", 0.998, 0.971)
    ('positive', 0.998, 0.971, '99.8', '97.1\u202f%')
    """
    words = ("", percent(now)) if before == now else change_words(before, now)
    return name, round(float(before), 4), round(float(now), 4), *words


def confidence(probability: float) -> str:
    """A probability as a percentage; what is all but certain is "over 99.9 %"."""
    return f"over {percent(0.999)}" if probability > CERTAIN else percent(probability)


def name_in_sentence(text: str) -> str:
    """A word as a sentence names it: punctuation has quotation marks.

    >>> name_in_sentence("warm"), name_in_sentence("!")
    ('warm', '“!”')
    """
    return text if any(map(str.isalnum, text)) else f"“{text}”"


def progress_words(share: float, seconds: float) -> str:
    """How much is done, and how long the rest takes.

    >>> progress_words(0.4, 11.2)
    '40\u202f% · about 12 s left'
    """
    left = f" \u00b7 about {ceil(seconds)} s left" if seconds > 1 else ""
    return f"{percent(min(share, MOST_PROGRESS), 0)}{left}"
