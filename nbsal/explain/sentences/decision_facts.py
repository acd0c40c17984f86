"""The facts of a result that its sentences are made of: the words that scores propose, and what hiding them does."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

from nbsal.explain.sentences.function_words import is_function_word
from nbsal.explain.sentences.outcomes import MOST_WAYS, ONLY, WAYS, Effect, HidingWay, Outcome, effects_frame
from nbsal.render.headline import confidence
from nbsal.render.scores import value_text
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.support.validation import plural

MOST_FOR = 5  # candidates for the target
MOST_AGAINST = 2
MOST_NAMED = 3  # words in a sentence
LEAST_GROUP = 2  # words of the set that a first check hides, where there are so many
ENOUGH = 0.6  # share of the positive scores that the words named by scores hold
NOTABLE_SCORE = 0.25  # share of the largest score from which a word on the other side is a candidate
SINGLED_OUT = 0.05  # share of all absolute scores above which a single word counts
NOTABLE = 0.02  # change of a probability that counts, or share of a value
MATTERS = 0.005  # the same by which a word adds to what hiding the others of its set does
SATURATED = 1e-4  # share of the largest effect of hiding below which scores say nothing
HALF = 0.5  # share of the largest effect from which punctuation and short words are named
SOME = 0.25  # the same of other words, if one alone is a reason
LITTLE = 0.1  # the same of other words, if none alone is
SHORT = 3  # letters of a short word, which is often a function word
DECIDED = 0.5  # probability from which a model that gives several labels to a text gives one
SURE = 1e-9  # probabilities closer to 0 or 1 have the same log odds

PASSES = 20  # of a check
FEWEST_PASSES = 4  # the whole text, a word, the named words together, random words
MOST_DRAWS = 9  # of random words
MOST_PASSES = 1000
TOO_LONG = "The text is longer than the model reads at once; hiding words needs a shorter one."

HiddenUnit = Literal["word", "part"]  # parts of a prompt, such as documents
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
        """Whether it is punctuation or a function word, or so short that it is likely to be one."""
        return sum(map(str.isalnum, self.text)) <= SHORT or is_function_word(self.text)


@dataclass(frozen=True)
class Search:
    """What a search through further sets of words came to: `words` turn the decision to `outcome`, or are none.

    `sets` were hidden; `exact` says that no smaller set turns it.
    """

    words: tuple[str, ...]
    outcome: Outcome
    sets: int
    exact: bool = False


@dataclass(frozen=True)
class Check:
    """What hiding words does to a decision.

    `alone` is the outcome without each of the `candidates`, `together` that without those numbered in `named`, and
    `random` has the outcomes without as many random words. Values are probabilities of the target if `probable`.
    Hiding a word that matters lowers the value or, with `raises`, raises it: then it speaks against the target.

    The `first` check of a text hides the strongest candidate alone, some together, and random words.
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
    others: int = 0  # further sets of candidates that were hidden
    classifies: bool = False  # whether one class is decided for the whole text
    first: bool = False
    search: Search | None = None
    unit: HiddenUnit = "word"
    ways: tuple[HidingWay, ...] = ()  # of hiding what the sentence names, where it was hidden in several

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each set that was hidden, the whole text first: what is hidden, why, and what comes out.

        `kind` says whether candidates were hidden "alone" or "together", or others at "random", or in which of several
        ways; `change` is that of the value from the whole text, and `outcome` is the prediction.
        """
        rows: list[Effect] = [((), "nothing", self.whole)]
        rows += [((word.text,), "alone", outcome) for word, outcome in zip(self.candidates, self.alone, strict=False)]
        if len(self.named) > 1:
            rows.append((tuple(self.candidates[number].text for number in self.named), "together", self.together))
        rows += [((plural(self.drawn, self.unit),), "random", outcome) for outcome in self.random]
        texts = [self.candidates[number].text for number in self.reported]
        rows += [(way.hidden(texts), way.name, way.outcome) for way in self.ways]
        return effects_frame(rows)

    @property
    def state(self) -> State:
        """Whether hiding the words that scores name changes much, little, or less than hiding another word."""
        if self.rival is not None:
            return "contradicted"
        held = not self.ways or self.holding >= MOST_WAYS * len(self.ways)
        return "supported" if held and self.counts(self.together) and not self.as_much else "weak"

    @property
    def holding(self) -> int:
        """In how many ways of hiding the words that the sentence names count, and no random words do as much."""
        return sum(map(self.holds, self.ways))

    @property
    def tried(self) -> int:
        """The number of different sets of candidates that were hidden."""
        return len(self.alone) + (len(self.named) > 1) + self.others

    @property
    def largest_random(self) -> Outcome | None:
        """The outcome of the random draw that changes the value most, if the text has enough other words."""
        return max(self.random, key=self.effect, default=None)

    @property
    def as_much(self) -> int:
        """The number of random draws that change the value as much as the named words, or more."""
        return sum(self.effect(outcome) >= self.effect(self.together) for outcome in self.random)

    @property
    def misses(self) -> bool:
        """Whether another method is called for: hiding contradicts the scores, or does far more than they say."""
        largest = max((abs(word.score) for word in self.candidates), default=0.0)
        most = max((self.effect(outcome) for outcome in (*self.alone, self.together)), default=0.0)
        return self.state == "contradicted" or largest < SATURATED * most

    @property
    def main(self) -> list[int]:
        """The numbers of the candidates on the side that is expected to matter."""
        return [number for number, word in enumerate(self.candidates) if (word.score < 0) == self.raises]

    @property
    def leading(self) -> list[int]:
        """The numbers of the candidates that scores alone would name."""
        return self.main[: len(proposed([self.candidates[number] for number in self.main]))]

    @cached_property
    def rival(self) -> int | None:
        """The number of a word that scores do not put first, but whose hiding changes more than theirs."""
        effects = [self.effect(outcome) for outcome in self.alone]
        leading = [number for number in self.leading if number < len(effects)]
        turning = [number for number, outcome in enumerate(self.alone) if self.turns(outcome)]
        if not leading or {*turning} & {*leading}:
            return None
        alone_turns = bool(turning) and not self.turns(self.together)
        best = max(turning if alone_turns else range(len(effects)), key=lambda number: effects[number])
        larger = max(effects[number] for number in leading) < HALF * effects[best] and self.counts(self.alone[best])
        beats = all(effects[best] > self.effect(outcome) for outcome in self.random)
        return best if best not in leading and (alone_turns or (larger and beats)) else None

    @property
    def reported(self) -> tuple[int, ...]:
        """The numbers of the candidates that the sentence tells of: the rival, or the named ones."""
        return self.named if self.rival is None else (self.rival,)

    @property
    def stated(self) -> Outcome:
        """The outcome that the sentence tells: without the rival, or without the named words."""
        return self.together if self.rival is None else self.alone[self.rival]

    def effect(self, outcome: Outcome) -> float:
        """How far hiding moves the value in the direction that is expected; of probabilities the log odds."""
        before, after = (_log_odds(value) if self.probable else value for value in (self.whole.value, outcome.value))
        return after - before if self.raises else before - after

    def text(self, value: float) -> str:
        """A value as sentences have it."""
        return confidence(value) if self.probable else value_text(value)

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

    def adds(self, more: Outcome, fewer: Outcome) -> bool:
        """Whether hiding more words does more than hiding fewer of them."""
        gain = more.value - fewer.value if self.raises else fewer.value - more.value
        scale = 1.0 if self.probable else abs(self.whole.value)
        return gain >= MATTERS * scale or (self.turns(more) and not self.turns(fewer))

    def holds(self, way: HidingWay) -> bool:
        """Whether the words count in one way; alone they must leave the decision as it is, more so than random ones."""
        effect, others = self.effect(way.outcome), [self.effect(outcome) for outcome in way.random]
        if way.name == ONLY:
            return not self.turns(way.outcome) and all(other > effect for other in others)
        return self.counts(way.outcome) and all(other < effect for other in others)


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
    `about_target` is False for methods whose scores do not depend on the target; `parts` are the names of the parts of
    a text that has several, "" for one that needs no name; `special` is the share of the score on special tokens;
    `place` says of which words a tagger decides, and `also` has the other labels that a text has, with their
    probabilities; `method` is the name of what gave the scores; `unscored` says that it gave no number for any word.
    """

    prediction: str
    target: str
    probability: float | None = None
    target_probability: float | None = None
    contrary: bool = False
    words: Sequence[tuple[str, float, int]] = ()
    about_target: bool = True
    parts: Sequence[str] = ()
    special: float = 0.0
    heads_off: HeadsOff | None = None
    check: Check | None = None
    place: str = ""
    also: tuple[tuple[str, float], ...] = ()
    method: str = ""
    unscored: bool = False

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
    number = f"a number of passes from {FEWEST_PASSES} to {MOST_PASSES:,}"
    message = f"check={passes!r:.60} must be True, False or {number}; of the decision about a text, also {WAYS!r}."
    raise InputError(message, argument="check", value=passes)


def candidates(words: Iterable[tuple[str, float, int]], raises: bool = False) -> list[Candidate]:
    """The words that scores propose, of (text, score, part): the strongest for the target, then those against it.

    With `raises` those against come first, and are more.

    >>> [word.text for word in candidates([("Warm", 2.0, 0), ("and", 0.1, 0), ("warm", 1.0, 0), ("slow", -1.0, 0)])]
    ['Warm', 'and', 'slow']
    """
    merged = merge_words(words)
    most = max((abs(word.score) for word in merged), default=0.0)
    sides = [[word for word in merged if word.score > 0], [word for word in merged if word.score < 0]]
    main, other = reversed(sides) if raises and sides[1] else sides
    best, second = (sorted(side, key=lambda word: -abs(word.score)) for side in (main, other))
    return best[:MOST_FOR] + [word for word in second if abs(word.score) >= NOTABLE_SCORE * most][:MOST_AGAINST]


def content_candidates(words: Iterable[tuple[str, float, int]], raises: bool = False) -> list[Candidate]:
    """The candidates among the words that are neither punctuation nor function words.

    >>> [word.text for word in content_candidates([("the", 2.0, 0), ("warm", 1.0, 0), (".", 0.5, 0)])]
    ['warm']
    """
    return candidates([(text, 0.0 if is_function_word(text) else score, part) for text, score, part in words], raises)


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
    if turning := [number for number in effects if check.turns(check.alone[number])]:
        return (max(turning, key=lambda number: effects[number]),)
    largest = max(effects.values(), default=0.0)
    least = {n: (HALF if check.candidates[n].is_minor else LITTLE) * largest for n in effects}
    major = [n for n in check.main if effects[n] > 0 and effects[n] >= least[n]]
    order = sorted(major, key=lambda number: -effects[number])
    if not order:
        return tuple(check.main[:MOST_NAMED])
    if not check.counts(check.alone[order[0]]):  # words may stand in for one another
        return tuple(major[:MOST_NAMED])
    return tuple(number for number in order if effects[number] >= SOME * largest)[:MOST_NAMED]


def with_smallest(check: Check, hidden: Mapping[tuple[int, ...], Outcome]) -> Check:
    """The check that names the smallest set that does the same as the first of some that were hidden.

    `hidden` has the outcomes of that set and, where it has three candidates, of each two of them.
    """
    outcomes = dict(hidden) | {(number,): check.alone[number] for number in check.main}
    named = next(iter(hidden))
    subsets = [each for each in outcomes if {*each} <= {*named}]
    if turning := [each for each in subsets if check.turns(outcomes[each])]:
        named = min(turning, key=lambda each: (len(each), -check.effect(outcomes[each])))
    else:
        while len(named) > 1:
            fewer = max(combinations(named, len(named) - 1), key=lambda each: check.effect(outcomes[each]))
            if check.adds(outcomes[named], outcomes[fewer]):
                break
            named = fewer
        order = sorted(check.main, key=lambda number: -check.effect(check.alone[number]))
        if check.effect(check.alone[order[0]]) > check.effect(outcomes[named]):  # words may make up for one another
            named = (order[0],)
        if len(named) == 1 and not check.counts(outcomes[named]):  # it stands for all that do nothing
            content = [number for number in order if not is_function_word(check.candidates[number].text)]
            named = ((content or order)[0],)
    several = [each for each in hidden if len(each) > 1 and each != named]
    return replace(check, named=named, together=outcomes[named], others=len(several))


def with_first(check: Check, group: tuple[int, ...], together: Outcome) -> Check:
    """The first check, which names the strongest candidate if hiding the `group` does no more, else the group."""
    strongest, several = check.alone[0], len(group) > 1 or group != (0,)
    alone_does = not check.adds(together, strongest) and (0 in group or check.counts(strongest))
    if check.turns(strongest) or alone_does:
        return replace(check, named=(0,), together=strongest, others=int(several))
    return replace(check, named=group, together=together, others=int(len(group) == 1))


def merge_words(words: Iterable[tuple[str, float, int]]) -> list[Candidate]:
    """Equal words of a part as one candidate, named as its strongest place writes it."""
    places: dict[tuple[str, int], list[tuple[str, float, int]]] = {}
    for number, (text, score, part) in enumerate(words):
        places.setdefault((text.casefold(), part), []).append((text, score, number))
    merged: list[Candidate] = []
    for (_, part), same in places.items():
        texts, scores, numbers = zip(*same, strict=True)
        sizes = list(map(abs, scores))
        merged.append(Candidate(texts[sizes.index(max(sizes))], sum(scores), numbers, part))
    return merged


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, SURE), 1 - SURE)
    return math.log(clipped / (1 - clipped))
