"""The headline of an explanation: the decision in one sentence, with the words that decided it.

`frontend/src/headline.ts` makes the same sentence in the page.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

ENOUGH = 0.6  # share of the weight that the listed words hold
MOST_FOR = 3
MOST_AGAINST = 2
NOTABLE = 0.25  # share of the largest score from which a word against the target is named
DECISIVE = 0.05  # share of all weight above which a single word counts
CERTAIN = 0.9995
LEANING = 0.6
STOP_WORDS = frozenset(json.loads((files("nbsal.render") / "stop_words.json").read_text("utf-8")))

Phrase = tuple[str, str]  # the kind "text", "class", "for" or "against", and the words


@dataclass(frozen=True)
class Weighed:
    """A word with its score, and its part of the text."""

    text: str
    score: float
    part: int = 0


@dataclass(frozen=True)
class Outcome:
    """What is said about a decision; probabilities are None where there are none.

    `about_target` is False for methods whose scores do not depend on the target; `parts` is 2 for a pair.
    """

    prediction: str
    target: str
    probability: float | None = None
    target_probability: float | None = None
    about_target: bool = True
    parts: int = 1


def headline(outcome: Outcome, words: Sequence[Weighed]) -> list[Phrase]:
    """The sentence in pieces; the words for and against the target are marked like the text.

    >>> pieces = headline(Outcome("positive", "positive", 0.998), [Weighed("warm", 2.0), Weighed("slow", -1.0)])
    >>> "".join(text for _, text in pieces)
    'positive, 99.8\u202f% — mostly because of warm, despite slow.'
    """
    contrary = outcome.about_target and outcome.target != outcome.prediction
    lead = _question(outcome) if contrary else _verdict(outcome)
    reasons = _pleas(outcome, words) if contrary else _causes(outcome, words)
    return [*lead, *([("text", " — "), *reasons] if reasons else []), ("text", ".")]


def plain(phrases: Sequence[Phrase]) -> str:
    """The sentence as plain text."""
    return "".join(text for _, text in phrases)


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage, with a narrow space that does not break.

    >>> percent(0.5, 0)
    '50\u202f%'
    """
    return f"{100 * share:.{digits}f}\u202f%".replace("-", "\u2212")


def _verdict(outcome: Outcome) -> list[Phrase]:
    probability = outcome.probability
    if probability is None:
        return [("class", outcome.prediction)]
    lead = [("text", "leaning ")] if probability < LEANING else []
    return [*lead, ("class", outcome.prediction), ("text", f", {_confidence(probability)}")]


def _question(outcome: Outcome) -> list[Phrase]:
    share = "" if outcome.target_probability is None else f" ({_confidence(outcome.target_probability)})"
    why = "Why " if " \u2212 " in outcome.target else "Why not "
    return [("text", why), ("class", outcome.target), ("text", f"?{share}")]


def _confidence(probability: float) -> str:
    return f"over {percent(0.999)}" if probability > CERTAIN else percent(probability)


def _causes(outcome: Outcome, words: Sequence[Weighed]) -> list[Phrase]:
    if not words:
        return []
    total = sum(abs(word.score) for word in words)
    if not total:
        return [("text", "no word has any weight")]
    most = max(abs(word.score) for word in words)
    if most <= DECISIVE * total:
        return [("text", "no single word decides it")]
    best, against = _strongest(words), _opposing(words, most)
    if not outcome.about_target:
        return [*_list(best, "for", outcome), ("text", f" {'are' if len(best) > 1 else 'is'} attended to most")]
    despite = [("text", "despite "), *_list(against, "against", outcome)] if against else []
    if not best:
        return despite
    because = [("text", "mostly because of "), *_list(best, "for", outcome)]
    return [*because, ("text", ", "), *despite] if despite else because


def _pleas(outcome: Outcome, words: Sequence[Weighed]) -> list[Phrase]:
    most = max((abs(word.score) for word in words), default=0.0)
    if not most:
        return [("text", "no word has any weight")] if words else []
    best, against = _strongest(words), _opposing(words, most)
    pleas = [("text", "nothing speaks for it")]
    if best:
        pleas = [*_list(best, "for", outcome), ("text", " speak for it" if len(best) > 1 else " speaks for it")]
    return [*pleas, ("text", "; "), *_list(against, "against", outcome), ("text", " against")] if against else pleas


def _strongest(words: Sequence[Weighed]) -> list[Weighed]:
    """The strongest words for the target until they hold most of the weight for it, at most three."""
    positive = [word for word in words if word.score > 0]
    total, held = sum(word.score for word in positive), 0.0
    chosen: list[Weighed] = []
    for word in sorted(_meaningful(positive), key=lambda word: -word.score):
        if len(chosen) == MOST_FOR or held >= ENOUGH * total:
            break
        held += word.score
        if all(word.text != other.text for other in chosen):
            chosen.append(word)
    return chosen


def _opposing(words: Sequence[Weighed], most: float) -> list[Weighed]:
    """Up to two words that speak notably against the target."""
    negative = sorted(_meaningful([word for word in words if word.score < 0]), key=lambda word: word.score)
    return [word for word in negative if -word.score >= NOTABLE * most][:MOST_AGAINST]


def _meaningful(words: Sequence[Weighed]) -> Sequence[Weighed]:
    """Words that are neither punctuation nor stop words, unless there are no others."""

    named = [word for word in words if any(map(str.isalnum, word.text)) and word.text.lower() not in STOP_WORDS]
    return named or words


def _list(words: Sequence[Weighed], kind: str, outcome: Outcome) -> list[Phrase]:
    phrases: list[Phrase] = []
    for i, word in enumerate(words):
        if i:
            phrases.append(("text", " and " if i == len(words) - 1 else ", "))
        phrases.append((kind, word.text))
        if outcome.parts > 1:
            phrases.append(("text", f" ({'second' if word.part else 'first'} text)"))
    return phrases
