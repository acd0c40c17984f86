"""The phrases of a reply by sources: shares of the scores of each phrase, and what most phrases depend on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbsal.explain.prompt.reading import PromptWithReply
from nbsal.explain.sentences.reply_facts import PartFacts, ReplyFacts, part_text
from nbsal.explain.sentences.reply_sentences import matrix_finding
from nbsal.support.arrays import Floats

LONG = 40  # words from which the matrix has sentences instead of phrases
SHORT_WORD = 3  # characters
PHRASE = 6  # words at most


@dataclass(frozen=True, eq=False)
class PhraseMatrix:
    """Tokens and text of each phrase, the shares of every source and last of the reply so far, and a sentence."""

    tokens: Sequence[Sequence[int]]
    names: Sequence[str]
    shares: Floats
    finding: str

    @classmethod
    def from_facts(cls, facts: ReplyFacts) -> "PhraseMatrix":
        """The matrix of all phrases, by the facts of each."""
        rows = phrases(facts.reading)
        parts = [facts.part(tokens) for tokens in rows]
        names = [part_text(facts.reading, tokens) for tokens in rows]
        return cls(rows, names, np.array([each.shares for each in parts]), matrix_finding(parts))

    @classmethod
    def from_rival(cls, facts: PartFacts, token: int) -> "PhraseMatrix":
        """The only row of a token rather than its rival."""
        name = f"{facts.part} \N{MINUS SIGN} {facts.rival}"
        return cls([(token,)], [name], np.array([facts.shares]), matrix_finding([facts]))


def phrases(reading: PromptWithReply) -> list[tuple[int, ...]]:
    """The tokens of each phrase of a short reply, or of each sentence of a long one.

    A phrase ends behind punctuation, and before a short word that follows a longer one: "was borrowed | by Boris,".
    """
    words = reading.reply_units("word")
    if sum(unit.text[:1].isalnum() for unit in words) >= LONG:
        return [unit.tokens for unit in reading.reply_units("sentence")]
    found: list[list[int]] = []
    size, before = 0, ""
    for unit in words:
        is_word = unit.text[:1].isalnum()
        after_mark = before != "" and not before[:1].isalnum()
        if not found or (is_word and (after_mark or size >= PHRASE or len(unit.text) <= SHORT_WORD < len(before))):
            found.append([])
            size = 0
        found[-1] += unit.tokens
        size, before = size + is_word, unit.text
    return [tuple(tokens) for tokens in found]
