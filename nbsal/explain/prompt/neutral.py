"""Neutral words: what stands in the place of others to see what a model makes of a text without these."""

import string
from collections.abc import Sequence
from typing import Any

from nbsal.model.text.tokens import WORD, Span

# They say little of anything; each of the words that are replaced gets one of about its length.
NEUTRAL = "a it the one that some thing these things another something everything".split()
SHIFT = 3  # of each digit
SHIFTED = str.maketrans(string.digits, string.digits[SHIFT:] + string.digits[:SHIFT])


class NeutralWords:
    """Neutral words that a tokenizer knows, to be put in the place of others.

    >>> NeutralWords(None).replaced("Warm and funny in 1998!", [(0, 23)])
    'Some the thing it 4221!'
    """

    def __init__(self, tokenizer: Any) -> None:
        unknown = getattr(tokenizer, "unk_token_id", None)
        known = [word for word in NEUTRAL if tokenizer is None or unknown not in _ids(tokenizer, word)]
        self._words = known or NEUTRAL

    def replaced(self, text: str, spans: Sequence[Span]) -> str:
        """A text with every word in some spans replaced; punctuation and white space stay."""
        pieces, end = [], 0
        for start, stop in sorted(spans):
            pieces += [text[end:start], WORD.sub(lambda match: self.neutral(match[0]), text[start:stop])]
            end = stop
        return "".join([*pieces, text[end:]])

    def neutral(self, word: str) -> str:
        """A number in place of a number, a word of about the same length in place of a word, with its capitals."""
        if any(map(str.isdecimal, word)):
            return word.translate(SHIFTED)
        if not word[0].isalpha():
            return word
        others = [other for other in self._words if other != word.casefold()]
        chosen = min(others or self._words, key=lambda other: abs(len(other) - len(word)))
        return _with_case_of(word, chosen)


def _with_case_of(word: str, other: str) -> str:
    if len(word) > 1 and word.isupper():
        return other.upper()
    return other.capitalize() if word[0].isupper() else other


def _ids(tokenizer: Any, word: str) -> list[int]:
    return list(tokenizer(word, add_special_tokens=False)["input_ids"])
