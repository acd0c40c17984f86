"""Neutral words: what stands in the place of others to see what a model makes of a text without these."""

import string
from collections.abc import Sequence

from nbsal.model.subject import Subject
from nbsal.model.text.tokens import WORD, Span

# They say little of anything; each of the words that are replaced gets one of about its length.
NEUTRAL = "a it the one that some thing these things another something everything".split()
SHIFT = 3  # of each digit
SHIFTED = str.maketrans(string.digits, string.digits[SHIFT:] + string.digits[:SHIFT])


def neutral_words(subject: Subject) -> list[str]:
    """The neutral words that a model's tokenizer knows, or all where it knows none."""
    unknown = getattr(subject.tokenizer, "unk_token_id", None)
    words = [word for word in NEUTRAL if unknown not in subject.text_encoder.encode_whole(word)[0].ids]
    return words or list(NEUTRAL)


def replaced(text: str, spans: Sequence[Span], words: Sequence[str] = NEUTRAL) -> str:
    """A text with every word in some spans replaced by one of the neutral `words`; punctuation and spaces stay.

    >>> replaced("Warm and funny in 1998!", [(0, 23)])
    'That the thing it 4221!'
    """
    pieces, end = list[str](), 0
    for start, stop in sorted(spans):
        pieces += [text[end:start], WORD.sub(lambda match: _neutral(match[0], words), text[start:stop])]
        end = stop
    return "".join([*pieces, text[end:]])


def _neutral(word: str, words: Sequence[str]) -> str:
    """A number in place of a number, a word of about the same length in place of a word, with its capitals."""
    if any(map(str.isdecimal, word)):
        return word.translate(SHIFTED)
    if not word[0].isalpha():
        return word
    others = [other for other in words if other != word.casefold()]
    chosen = min(others, key=lambda other: abs(len(other) - len(word)), default=word)
    if len(word) > 1 and word.isupper():
        return chosen.upper()
    return chosen.capitalize() if word[0].isupper() else chosen
