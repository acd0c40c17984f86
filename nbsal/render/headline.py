"""The headline of an explanation: the decision in one sentence, with the words that decided it.

`frontend/src/headline.ts` makes the same sentence in the page.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

ENOUGH = 0.6  # share of the positive scores that the listed words hold
MOST_FOR = 3
MOST_AGAINST = 2
NOTABLE = 0.25  # share of the largest score from which a word against the target is named
DECISIVE = 0.05  # share of all absolute scores above which a single word counts
CERTAIN = 0.9995
LEANING = 0.6
MOST = 0.5  # share of all absolute scores on special tokens above which the sentence is about the words alone
CLOSE = 0.001  # probabilities that differ by less are told apart by a second digit

_PLACE = re.compile(r" (\[\d+:\d+\]|(at|after) .* \[\d+\])$", re.DOTALL)  # where a target is in the text

Phrase = tuple[str, str]  # the kind "text", "class", "for", "against" or "struck", and the words


@dataclass(frozen=True)
class Weighed:
    """A word with its score, and its part of the text."""

    text: str
    score: float
    part: int = 0


@dataclass(frozen=True)
class HeadsOff:
    """The decision with `off` of `total` attention heads switched off; probabilities as in `Outcome`."""

    off: int
    total: int
    prediction: str
    probability: float | None = None
    target_probability: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What is said about a decision; probabilities are None where there are none.

    `about_target` is False for methods whose scores do not depend on the target; `parts` is 2 for a pair; `special` is
    the share of the score on special tokens. With `heads_off` the sentence compares the decision with the one without
    those heads.
    """

    prediction: str
    target: str
    probability: float | None = None
    target_probability: float | None = None
    about_target: bool = True
    parts: int = 1
    special: float = 0.0
    heads_off: HeadsOff | None = None

    @property
    def contrary(self) -> bool:
        """Whether something else than the prediction is explained, at whatever place."""
        alike = self.prediction in (self.target, _PLACE.sub("", self.target))
        return self.about_target and not alike and not self.is_value

    @property
    def is_value(self) -> bool:
        """Whether the outputs are values, which have no probabilities; spans have none either, but places."""
        return self.probability is None and not _PLACE.search(self.target)


def headline(outcome: Outcome, words: Sequence[Weighed]) -> list[Phrase]:
    """The sentence in pieces; the words for and against the target are marked like the text.

    >>> pieces = headline(Outcome("positive", "positive", 0.998), [Weighed("warm", 2.0), Weighed("slow", -1.0)])
    >>> "".join(text for _, text in pieces)
    'positive, 99.8\u202f% — mostly because of warm, despite slow.'
    """
    lead = _question(outcome) if outcome.contrary else _verdict(outcome)
    turned = outcome.heads_off is not None and outcome.heads_off.prediction != outcome.prediction
    reasons = _pleas(outcome, words) if outcome.contrary or turned else _causes(outcome, words)
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


def change_words(before: float, after: float) -> tuple[str, str]:
    """A probability before and after some change, as percentages of which only the second has its sign.

    >>> change_words(0.998, 0.971)
    ('99.8', '97.1\u202f%')
    """
    close = abs(before - after) < CLOSE
    first, second = (percent(share, 2) if close else confidence(share) for share in (before, after))
    return first.removesuffix("\u202f%"), second


def _verdict(outcome: Outcome) -> list[Phrase]:
    probability = outcome.probability
    if outcome.heads_off is not None:
        return _verdict_without(outcome, outcome.heads_off)
    if probability is None:
        return [("class", outcome.prediction), *_explained_value(outcome)]
    lead = [("text", "leaning ")] if probability < LEANING else []
    return [*lead, ("class", outcome.prediction), ("text", f", {confidence(probability)}")]


def _explained_value(outcome: Outcome) -> list[Phrase]:
    """Which one of several values is explained."""
    target, prediction = outcome.target, outcome.prediction
    named = target != prediction and (f"{target} " in prediction or " - " in target)
    return [("text", f", explained: {target}")] if outcome.is_value and named else []


def _verdict_without(outcome: Outcome, heads_off: HeadsOff) -> list[Phrase]:
    """The decision before and after some heads are switched off."""
    heads = f" with {heads_off.off} of {heads_off.total} heads off"
    turned = heads_off.prediction != outcome.prediction
    if outcome.probability is None or heads_off.probability is None:
        if not turned:
            return [("class", outcome.prediction), ("text", f", also{heads}")]
        return [("struck", outcome.prediction), ("text", " → "), ("class", heads_off.prediction), ("text", heads)]
    before, after = change_words(outcome.probability, heads_off.probability)
    lead = [("class", outcome.prediction), ("text", ", "), ("struck", before), ("text", f" → {after}{heads}")]
    return [*lead, ("text", ": now "), ("class", heads_off.prediction)] if turned else lead


def _question(outcome: Outcome) -> list[Phrase]:
    target = outcome.target.replace(" - ", " \u2212 ")  # of a contrast
    why = "Why not " if target == outcome.target else "Why "
    return [("text", why), ("class", target), ("text", "?"), *_target_share(outcome)]


def _target_share(outcome: Outcome) -> list[Phrase]:
    """The probability of the explained class, in brackets."""
    probability, heads_off = outcome.target_probability, outcome.heads_off
    if probability is None:
        return []
    if heads_off is None or heads_off.target_probability is None:
        return [("text", f" ({confidence(probability)})")]
    before, after = change_words(probability, heads_off.target_probability)
    rest = f" → {after} with {heads_off.off} of {heads_off.total} heads off)"
    return [("text", " ("), ("struck", before), ("text", rest)]


def confidence(probability: float) -> str:
    """A probability as a percentage; what is all but certain is "over 99.9 %"."""
    return f"over {percent(0.999)}" if probability > CERTAIN else percent(probability)


def _causes(outcome: Outcome, words: Sequence[Weighed]) -> list[Phrase]:
    if not words:
        return []
    total = sum(abs(word.score) for word in words)
    if not total:
        return [("text", "every word scores 0")]
    most = max(abs(word.score) for word in words)
    if most <= DECISIVE * total:
        return [("text", "no single word decides it")]
    best, against = _strongest(words), _opposing(words, most)
    if not outcome.about_target:
        return [*_list(best, "for", outcome), ("text", f" {'are' if len(best) > 1 else 'is'} attended to most")]
    despite = [("text", "despite "), *_list(against, "against", outcome)] if against else []
    if not best:
        return despite
    reach = "among the words," if outcome.special > MOST else "mostly"
    because = [("text", f"{reach} because of "), *_list(best, "for", outcome)]
    return [*because, ("text", ", "), *despite] if despite else because


def _pleas(outcome: Outcome, words: Sequence[Weighed]) -> list[Phrase]:
    most = max((abs(word.score) for word in words), default=0.0)
    if not most:
        return [("text", "every word scores 0")] if words else []
    best, against = _strongest(words), _opposing(words, most)
    name = "it" if outcome.contrary else outcome.prediction
    pleas = [("text", f"nothing speaks for {name}")]
    if best:
        pleas = [*_list(best, "for", outcome), ("text", f" {'speak' if len(best) > 1 else 'speaks'} for {name}")]
    return [*pleas, ("text", "; "), *_list(against, "against", outcome), ("text", " against")] if against else pleas


def _strongest(words: Sequence[Weighed]) -> list[Weighed]:
    """The strongest words for the target until they hold most of the score for it, at most three."""
    positive = [word for word in words if word.score > 0]
    total, held = sum(word.score for word in positive), 0.0
    chosen: list[Weighed] = []
    for word in sorted(positive, key=lambda word: -word.score):
        if len(chosen) == MOST_FOR or held >= ENOUGH * total:
            break
        held += word.score
        if all(word.text != other.text for other in chosen):
            chosen.append(word)
    return chosen


def _opposing(words: Sequence[Weighed], most: float) -> list[Weighed]:
    """Up to two words that speak notably against the target."""
    negative = sorted((word for word in words if word.score < 0), key=lambda word: word.score)
    return [word for word in negative if -word.score >= NOTABLE * most][:MOST_AGAINST]


def name_in_sentence(text: str) -> str:
    """A word as a sentence names it: punctuation has quotation marks.

    >>> name_in_sentence("warm"), name_in_sentence("!")
    ('warm', '“!”')
    """
    return text if any(map(str.isalnum, text)) else f"“{text}”"


def _list(words: Sequence[Weighed], kind: str, outcome: Outcome) -> list[Phrase]:
    phrases: list[Phrase] = []
    for i, word in enumerate(words):
        if i:
            phrases.append(("text", " and " if i == len(words) - 1 else ", "))
        phrases.append((kind, name_in_sentence(word.text)))
        if outcome.parts > 1:
            phrases.append(("text", f" ({'second' if word.part else 'first'} text)"))
    return phrases
