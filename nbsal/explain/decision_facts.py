"""The facts of a result that its sentences are made of: the words that scores propose, and what hiding them does."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, Literal

from nbsal.support.errors import InputError

MOST_FOR = 5  # candidates for the target
MOST_AGAINST = 2
MOST_NAMED = 3  # words in a sentence
ENOUGH = 0.6  # share of the positive scores that the words named by scores hold
NOTABLE_SCORE = 0.25  # share of the largest score from which a word on the other side is a candidate
SINGLED_OUT = 0.05  # share of all absolute scores above which a single word counts
NOTABLE = 0.02  # change of a probability that counts, or share of a value
HALF = 0.5  # share of the largest effect from which punctuation and short words are named
SOME = 0.25  # the same of other words, if one alone is a reason
LITTLE = 0.1  # the same of other words, if none alone is
SHORT = 3  # letters of a short word, which is often a function word
DECIDED = 0.5  # probability from which a model that gives several labels to a text gives one
SURE = 1e-9  # probabilities closer to 0 or 1 have the same log odds

PASSES = 16  # of a check
FEWEST_PASSES = 4  # the whole text, a word, the named words together, random words
MOST_PASSES = 1000
TOO_LONG = "The text is longer than the model reads at once; hiding words needs a shorter one."

State = Literal["unchecked", "supported", "weak", "contradicted"]


@dataclass(frozen=True)
class Candidate:
    """A word that scores propose; equal words count together. `words` are the numbers of all its places."""

    text: str
    score: float
    words: tuple[int, ...]
    part: int = 0

    @property
    def is_minor(self) -> bool:
        """Whether it is punctuation, or so short that it is likely to be a function word."""
        return sum(map(str.isalnum, self.text)) <= SHORT


@dataclass(frozen=True)
class Outcome:
    """What the model does without some words: its prediction ("" where nothing is decided), the value of the target."""

    prediction: str
    value: float


@dataclass(frozen=True)
class Check:
    """What hiding words does to a decision.

    `alone` is the outcome without each of the `candidates`, `together` that without those numbered in `named`, and
    `random` has the outcomes without as many random words. Values are probabilities of the target if `probable`.
    Hiding a word that matters lowers the value or, with `raises`, raises it: then it speaks against the target.
    """

    candidates: tuple[Candidate, ...]
    whole: Outcome
    alone: tuple[Outcome, ...]
    named: tuple[int, ...]
    together: Outcome
    random: tuple[Outcome, ...]
    probable: bool = True
    raises: bool = False
    drawn: int = 0  # words of each random draw

    @property
    def state(self) -> State:
        """Whether hiding the words that scores name changes much, little, or less than hiding another word."""
        if self.rival is not None:
            return "contradicted"
        return "supported" if self.counts(self.together) and self.beats_random else "weak"

    @property
    def random_value(self) -> float | None:
        """The mean value without random words, if the text has enough of them."""
        return fmean(outcome.value for outcome in self.random) if self.random else None

    @property
    def beats_random(self) -> bool:
        """Whether hiding the named words changes the value more than each draw of random words."""
        return all(self.effect(self.together) > self.effect(outcome) for outcome in self.random)

    @property
    def random_counts(self) -> bool:
        """Whether hiding random words changes the value, on average."""
        return self._mean is not None and self.counts(self._mean)

    @property
    def random_beats(self) -> bool:
        """Whether hiding random words changes the value more than hiding those named, on average."""
        return self._mean is not None and self.effect(self._mean) > self.effect(self.together)

    @property
    def _mean(self) -> Outcome | None:
        value = self.random_value
        return None if value is None else Outcome(self.whole.prediction, value)

    @property
    def main(self) -> list[int]:
        """The numbers of the candidates on the side that is expected to matter."""
        return [number for number, word in enumerate(self.candidates) if (word.score < 0) == self.raises]

    @property
    def first(self) -> list[int]:
        """The numbers of the candidates that scores alone would name."""
        return self.main[: len(proposed([self.candidates[number] for number in self.main]))]

    @cached_property
    def rival(self) -> int | None:
        """The number of a word that scores do not put first, but whose hiding changes more than theirs."""
        effects = [self.effect(outcome) for outcome in self.alone]
        if not self.first:
            return None
        best = max(range(len(effects)), key=lambda number: effects[number])
        turned = any(self.turns(self.alone[number]) for number in self.first)
        larger = max(effects[number] for number in self.first) < HALF * effects[best]
        return best if larger and not turned and best not in self.first and self.counts(self.alone[best]) else None

    def effect(self, outcome: Outcome) -> float:
        """How far hiding moves the value in the direction that is expected; of probabilities the log odds."""
        before, after = (_log_odds(value) if self.probable else value for value in (self.whole.value, outcome.value))
        return after - before if self.raises else before - after

    def turns(self, outcome: Outcome) -> bool:
        """Whether the decision is another one without the words."""
        return bool(outcome.prediction) and outcome.prediction != self.whole.prediction

    def moves(self, outcome: Outcome) -> bool:
        """Whether a change is large enough to be mentioned."""
        scale = 1.0 if self.probable else abs(self.whole.value)
        return self.turns(outcome) or abs(outcome.value - self.whole.value) >= NOTABLE * scale

    def counts(self, outcome: Outcome) -> bool:
        """Whether a change is a reason: large enough, and in the direction that is expected."""
        return self.effect(outcome) > 0 and self.moves(outcome)


@dataclass(frozen=True)
class HeadsOff:
    """The decision with `off` of `total` attention heads switched off; probabilities as in `DecisionFacts`."""

    off: int
    total: int
    prediction: str
    probability: float | None = None
    target_probability: float | None = None


@dataclass(frozen=True)
class DecisionFacts:
    """The facts of a result: the decision, the scores of its words (text, score, part), and what hiding words does.

    Probabilities are None where there are none. `contrary` says that something else than the prediction is explained;
    `about_target` is False for methods whose scores do not depend on the target; `parts` is 2 for a pair; `special` is
    the share of the score on special tokens; `place` says of which words a tagger decides, and `also` has the other
    labels that a text has, with their probabilities.
    """

    prediction: str
    target: str
    probability: float | None = None
    target_probability: float | None = None
    contrary: bool = False
    words: Sequence[tuple[str, float, int]] = ()
    about_target: bool = True
    parts: int = 1
    special: float = 0.0
    heads_off: HeadsOff | None = None
    check: Check | None = None
    place: str = ""
    also: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The class whose probability is measured."""
        return self.target if self.contrary else self.prediction


def budget(passes: Any) -> int:
    """The number of forward passes that a check may take; True stands for the usual number."""
    if passes is True:
        return PASSES
    if isinstance(passes, int) and FEWEST_PASSES <= passes <= MOST_PASSES:
        return passes
    message = f"check={passes!r:.60} must be True, False or a number of passes from {FEWEST_PASSES} to {MOST_PASSES:,}."
    raise InputError(message, argument="check", value=passes)


def candidates(words: Iterable[tuple[str, float, int]], raises: bool = False) -> list[Candidate]:
    """The words that scores propose, of (text, score, part): the strongest for the target, then those against it.

    With `raises` those against come first, and are more.

    >>> [word.text for word in candidates([("Warm", 2.0, 0), ("and", 0.1, 0), ("warm", 1.0, 0), ("slow", -1.0, 0)])]
    ['Warm', 'and', 'slow']
    """
    merged = _merge(words)
    most = max((abs(word.score) for word in merged), default=0.0)
    sides = [[word for word in merged if word.score > 0], [word for word in merged if word.score < 0]]
    main, other = reversed(sides) if raises and sides[1] else sides
    best, second = (sorted(side, key=lambda word: -abs(word.score)) for side in (main, other))
    return best[:MOST_FOR] + [word for word in second if abs(word.score) >= NOTABLE_SCORE * most][:MOST_AGAINST]


def proposed(side: Sequence[Candidate]) -> list[Candidate]:
    """The first of some candidates until they hold most of the score of all, at most three."""
    total, held = sum(abs(word.score) for word in side), 0.0
    first: list[Candidate] = []
    for word in side[:MOST_NAMED]:
        if held >= ENOUGH * total:
            break
        first.append(word)
        held += abs(word.score)
    return first


def choose_named(check: Check) -> tuple[int, ...]:
    """The candidates to hide together: one that turns the decision, those with the largest effects, or the first three.

    Punctuation and short words count only if they have at least half of the largest effect.
    """
    effects = {number: check.effect(check.alone[number]) for number in check.main}
    largest = max(effects.values(), default=0.0)
    least = {n: (HALF if check.candidates[n].is_minor else LITTLE) * largest for n in effects}
    major = [n for n in check.main if effects[n] > 0 and effects[n] >= least[n]]
    order = sorted(major, key=lambda number: -effects[number])
    if not order:
        return tuple(check.main[:MOST_NAMED])
    if check.turns(check.alone[order[0]]):
        return (order[0],)
    if not check.counts(check.alone[order[0]]):  # words may stand in for one another
        return tuple(major[:MOST_NAMED])
    return tuple(number for number in order if effects[number] >= SOME * largest)[:MOST_NAMED]


def _merge(words: Iterable[tuple[str, float, int]]) -> list[Candidate]:
    """Equal words of a part as one candidate, named as its strongest place writes it."""
    places: dict[tuple[str, int], list[tuple[str, float, int]]] = {}
    for number, (text, score, part) in enumerate(words):
        places.setdefault((text.casefold(), part), []).append((text, score, number))
    return [
        Candidate(
            max(same, key=lambda word: abs(word[1]))[0], sum(word[1] for word in same), tuple(w[2] for w in same), part
        )
        for (_, part), same in places.items()
    ]


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, SURE), 1 - SURE)
    return math.log(clipped / (1 - clipped))
