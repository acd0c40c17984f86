"""Whether a cited document is used: by the words of a statement, with and without each document.

Effects are compared with those of the other documents and of no document at all, since any text of a similar form makes
the words of a statement likelier.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nbsal.explain.citations.subsets import Documents, DocumentSubsets
from nbsal.explain.sentences.evidence import NEAR
from nbsal.explain.sentences.function_words import is_function_word
from nbsal.model.text.tokens import WORD, Span
from nbsal.support.arrays import Floats

Verdict = Literal["supported", "decoration", "elsewhere", "not from the documents", "unclear"]
SUPPORTED: Verdict = "supported"
DECORATION: Verdict = "decoration"  # the documents say so, but the statement would stand without them
ELSEWHERE: Verdict = "elsewhere"
INVENTED: Verdict = "not from the documents"
UNCLEAR: Verdict = "unclear"
FROM_DOCUMENTS = "from the documents"  # of a field, which is that, the same as INVENTED, or unclear
VERDICTS = (SUPPORTED, DECORATION, ELSEWHERE, INVENTED, UNCLEAR)
LEAST = float(np.log(2))  # log-odds by which a document must make a word likelier than others do
LEAST_IN_QUESTION = 3.0  # the same for a word that the question has: a document of any form makes it likelier
LIKELY = float(np.log(0.25))  # log-probability from which a word is no surprise
CERTAIN = float(np.log(0.95))  # log-probability from which a word cannot become likelier
FEW = 3  # documents of which all may be a source
STEM = 4  # letters that forms of one word begin with


@dataclass(frozen=True)
class StatementWord:
    """A content word of a statement: its tokens, whether the question has it, and which documents write it."""

    text: str
    tokens: tuple[int, ...]
    in_question: bool
    written: frozenset[int]

    @property
    def least(self) -> float:
        """The smallest effect on it that counts, in log-odds."""
        return LEAST_IN_QUESTION if self.in_question else LEAST


def content_words(
    text: str, span: Span, spans: Sequence[Span], question: str, documents: Sequence[str]
) -> list[StatementWord]:
    """The content words of a part of a reply, whose tokens have those spans; all of its words if it has no other."""
    of_question, written = words_in(question), [words_in(document) for document in documents]
    matches = list(WORD.finditer(text, *span))
    content = [match for match in matches if not is_function_word(match[0])]
    return [
        StatementWord(
            match[0],
            tuple(token for token, (start, end) in enumerate(spans) if start < match.end() and match.start() < end),
            stands_in(match[0], of_question),
            frozenset(number for number, some in enumerate(written, 1) if stands_in(match[0], some)),
        )
        for match in content or matches
    ]


def words_in(text: str) -> dict[str, set[str]]:
    """The words of a text in small letters, by what they begin with."""
    words: dict[str, set[str]] = {}
    for word in map(str.casefold, WORD.findall(text)):
        words.setdefault(word[:STEM], set()).add(word)
    return words


def stands_in(word: str, words: Mapping[str, Collection[str]]) -> bool:
    """Whether the words of a text have a word, or another form of it: "lives" and "lived".

    >>> words = words_in("They visit Oslo in 1986; a list.")
    >>> stands_in("visits", words), stands_in("1987", words), stands_in("Lisbon", words)
    (True, False, False)
    """
    word = word.casefold()
    others = words.get(word[:STEM], ())
    return word in others or (not word[:1].isdigit() and any(_same_stem(word, other) for other in others))


def _same_stem(first: str, second: str) -> bool:
    short, long = sorted((first, second), key=len)
    size = max(STEM, len(short) - 1)
    return len(long) - size <= STEM and len(short) >= STEM and first[:size] == second[:size]


@dataclass(frozen=True)
class Support:
    """What is measured of a statement and the documents that it cites; numbers of documents are from 1.

    `says_so`: they write its words, or make them likelier than other documents do. `drop` is the fall of its
    log-probability without them, `only` its rise with them alone, in nats. `instead` is the other document that it is
    from. `needed` are the documents that give its words, of which any one may do.
    """

    verdict: Verdict
    says_so: bool
    drop: float
    only: float
    instead: int | None
    needed: Documents


@dataclass(frozen=True, eq=False)
class _Word:
    """A word with what each document does to it, beyond what others do."""

    word: StatementWord
    likely: float  # its log-probability with all documents
    effects: Floats  # nats, by document

    @property
    def givers(self) -> Documents:
        """The documents that make it likelier: those that write it, or else, if the word is then likely, others.

        What all documents do, they do by their form.
        """
        least = max(self.word.least, NEAR * float(self.effects.max(initial=0)))
        numbers = tuple(int(number) + 1 for number in np.flatnonzero(self.effects >= least))
        if writers := tuple(number for number in numbers if number in self.word.written):
            return writers
        return numbers if self.likely >= LIKELY and len(numbers) < max(FEW, len(self.effects)) else ()

    def effect(self, documents: Collection[int]) -> float:
        """The largest effect of those documents that give it; 0 if none of them does."""
        return max((float(self.effects[number - 1]) for number in self.givers if number in documents), default=0.0)

    @property
    def unfounded(self) -> bool:
        """Whether no document writes it, and the model finds it unlikely with all of them."""
        return not self.word.written and not self.word.in_question and self.likely < LIKELY


def candidates(words: Sequence[StatementWord], subsets: DocumentSubsets) -> Documents:
    """The documents that give a statement's words; where there are several, they must be hidden together as well."""
    return _givers(_decisive([_measured(word, subsets) for word in words]))


def judge_support(
    words: Sequence[StatementWord], tokens: Sequence[int], cites: Iterable[int], subsets: DocumentSubsets
) -> Support:
    """What the documents do to a statement of those words and tokens."""
    cited = tuple(sorted({*cites} & {*subsets.documents}))
    measured = [_measured(word, subsets) for word in words]
    decisive = _decisive(measured)
    needed = _givers(decisive)
    from_cited, from_all = (sum(word.effect(some) for word in decisive) for some in (cited, needed))
    surprise = -sum(word.likely for word in measured if word.unfounded)
    falls = any(_fall_of(word.word, subsets, needed) >= word.word.least for word in decisive)
    compared = measured if falls else decisive or measured  # a document on something else may have the decisive words
    written = bool(cited) and all(word.word.written & {*cited} for word in compared)
    says_so = surprise <= from_all and (written or from_cited > NEAR * from_all)
    verdict: Verdict = UNCLEAR
    if surprise > from_all:
        verdict = INVENTED
    elif not falls:
        verdict = DECORATION if says_so else INVENTED
    elif says_so and from_cited:
        verdict = SUPPORTED
    elif not says_so and not from_cited:
        verdict = ELSEWHERE
    instead = max(needed, key=lambda number: sum(word.effect((number,)) for word in decisive), default=None)
    drop, only = (_total(values, tokens) for values in (subsets.drop(cited), subsets.rise(cited)))
    return Support(verdict, says_so, drop, only, instead if verdict == ELSEWHERE else None, needed)


def _measured(word: StatementWord, subsets: DocumentSubsets) -> _Word:
    """A word with the larger of what hiding each document, and keeping it alone, does to it."""
    singles = [(number,) for number in subsets.documents]
    drops = np.array([_fall_of(word, subsets, each) for each in singles])
    rises = np.array([_odds(subsets.only(each), word) - _odds(subsets.only(()), word) for each in singles])
    return _Word(word, _total(subsets.without(()), word.tokens), np.maximum(_beyond(drops), _beyond(rises)))


def _fall_of(word: StatementWord, subsets: DocumentSubsets, documents: Documents) -> float:
    """By how much the log-odds of a word fall without some documents."""
    return _odds(subsets.without(()), word) - _odds(subsets.without(documents), word)


def _odds(values: Floats, word: StatementWord) -> float:
    """The log-odds of a word, by which a likely one differs as much as an unlikely one; certain ones are all alike."""
    logprob = min(_total(values, word.tokens), CERTAIN)
    return logprob - float(np.log(-np.expm1(logprob)))


def _beyond(values: Floats) -> Floats:
    """Values beyond what is usual: the median of the lower half of them, and of 0, which is no document."""
    lower = np.sort(np.append(values, 0.0))[: max(1, (len(values) + 1) // 2)]
    beyond: Floats = values - np.median(lower)
    return beyond


def _decisive(words: Sequence[_Word]) -> list[_Word]:
    """The words that documents give: copied ones before others, and those that gain most and nearly as much."""
    raised = [word for word in words if word.givers and not word.word.in_question]
    raised = raised or [word for word in words if word.givers]
    copied = [word for word in raised if word.word.written & {*word.givers}] or raised
    sizes = [word.effect(word.givers) for word in copied]
    return [word for word, size in zip(copied, sizes, strict=True) if size >= NEAR * max(sizes)]


def _givers(words: Iterable[_Word]) -> Documents:
    return tuple(sorted({number for word in words for number in word.givers}))


def _total(values: Floats, tokens: Sequence[int]) -> float:
    return float(values[list(tokens)].sum())


def givers_of(words: Sequence[StatementWord], subsets: DocumentSubsets) -> dict[int, float]:
    """The documents that a value of those words is from, with the effect of each; none of an unfounded value.

    A value is unfounded if no document writes a number of it, or so many of its words that it is a surprise.
    """
    measured = [_measured(word, subsets) for word in words]
    unfounded = [word for word in measured if word.unfounded]
    surprise = -sum(word.likely for word in unfounded)
    if surprise > -LIKELY * len(words) or any(map(str.isdigit, "".join(word.word.text for word in unfounded))):
        return {}
    giving = [word for word in measured if word.givers]
    return {number: sum(float(word.effects[number - 1]) for word in giving) for number in _givers(giving)}


def falls_without(words: Iterable[StatementWord], before: Floats, after: Floats) -> bool:
    """Whether one of those words falls by more than what may be chance, from some log-probabilities to others."""
    return any(_odds(before, word) - _odds(after, word) >= word.least for word in words)
