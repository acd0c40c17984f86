"""Check the words that scores propose by hiding them: a few forward passes for each text."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from nbsal.ablation.texts import REMOVE, TEXT
from nbsal.explain.hidden_words import HiddenWords
from nbsal.explain.sentences.decision_facts import (
    LEAST_GROUP,
    MOST_DRAWS,
    MOST_NAMED,
    Candidate,
    Check,
    candidates,
    choose_named,
    content_candidates,
    proposed,
    with_first,
    with_smallest,
)
from nbsal.methods.rng import text_rng
from nbsal.support.progress import Meter

FIRST = 3  # passes of a first check
REDRAWN = 4  # times that random words are drawn for each draw that must differ from the others


def way_of(method: Any) -> str | int:
    """How a method hides tokens; those of methods that hide none are removed."""
    way = getattr(method, "way", REMOVE)
    return REMOVE if way == TEXT else way


def check(words: HiddenWords, passes: int, meter: Meter) -> Check:
    """What hiding the words of an explanation does, in at most `passes` forward passes.

    A set of words that is named is the smallest of its subsets that does the same.
    """
    meter.step()  # of the whole text
    result = _unchecked(words)
    tried = result.candidates[: max(1, (passes - 1 - MOST_NAMED) // 2)]
    hide = partial(words.hide, meter=meter)
    result = replace(result, candidates=tried, alone=hide([word.words for word in tried]))
    if not (named := choose_named(result)):
        return result
    sets = [named, *(combinations(named, 2) if len(named) == MOST_NAMED else ())] if len(named) > 1 else []
    outcomes = hide([_places(tried, each) for each in sets]) or (result.alone[named[0]],)
    result = with_smallest(result, dict(zip(sets or [named], outcomes, strict=True)))
    hidden = _places(tried, result.named if result.rival is None else (result.rival,))
    draws = min(MOST_DRAWS, passes - 1 - len(tried) - len(sets))
    random = hide(_random_words(words, hidden, len(hidden), draws))
    return replace(result, random=random, drawn=len(hidden))


def first_check(words: HiddenWords, meter: Meter) -> Check:
    """What hiding the strongest word, the strongest set of words and as many random ones does, in three passes."""
    result = _unchecked(words)
    if not (main := [result.candidates[number] for number in result.main]):
        return replace(result, first=True)
    content = _candidates(words, content_candidates(words.scored, result.raises))
    chosen = [word for word in content if (word.score < 0) == result.raises] or main
    chosen = chosen[: max(len(proposed(chosen)), LEAST_GROUP)]
    tried = (main[0], *(word for word in chosen if word != main[0]))
    group = tuple(tried.index(word) for word in chosen)
    sets = list(dict.fromkeys([(0,), group]))
    places = _places(tried, group)
    random = _random_words(words, _places(tried, range(len(tried))), len(places), FIRST - len(sets))
    outcomes = words.hide([*(_places(tried, each) for each in sets), *random], meter)
    result = replace(result, candidates=tried, alone=outcomes[:1], random=outcomes[len(sets) :], drawn=len(places))
    return replace(with_first(result, group, outcomes[len(sets) - 1]), first=True)


def _unchecked(words: HiddenWords) -> Check:
    """A check with all candidates, none of which was hidden yet."""
    tried, whole = _candidates(words, candidates(words.scored, words.raises)), words.whole
    check = Check(tried, whole, (), (), whole, (), words.probable, words.raises, unit=words.unit)
    return replace(check, classifies=words.classifies)


def _candidates(words: HiddenWords, proposals: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The words that scores propose, without those that must stay."""
    return tuple(word for word in proposals if words.fixed.isdisjoint(word.words))


def _places(tried: Sequence[Candidate], numbers: Iterable[int]) -> list[int]:
    """The numbers of all words that are those candidates."""
    return sorted(place for number in numbers for place in tried[number].words)


def _random_words(words: HiddenWords, hidden: Sequence[int], size: int, draws: int) -> list[list[int]]:
    """Different random draws of other words than those hidden; the same whenever the text is the same."""
    others = [number for number in range(len(words.experiment.units)) if number not in hidden]
    if len(others) < size:
        return []
    rng, different = text_rng(0, words.saliency.row), dict[tuple[int, ...], None]()
    for _ in range(REDRAWN * draws):
        if len(different) < draws:
            different[tuple(sorted(rng.permutation(others)[:size].tolist()))] = None
    return [list(draw) for draw in different]
