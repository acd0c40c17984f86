"""The first sentence about a result, and the line below it that says how it was checked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nbsal.explain.sentences.decision_facts import (
    SINGLED_OUT,
    Candidate,
    Check,
    DecisionFacts,
    HeadsOff,
    State,
    candidates,
    content_candidates,
    proposed,
)
from nbsal.explain.sentences.outcomes import ONLY, HidingWay, Outcome
from nbsal.render.headline import (
    Phrase,
    change_words,
    confidence,
    in_row,
    name_in_sentence,
    number_word,
    phrases,
    plain,
)
from nbsal.support.validation import plural

LEANING = 0.6  # probability below which a decision is doubtful
MOST_ALSO = 3  # other labels of a text that are named
MOST = 0.5  # share of all absolute scores on special tokens above which the sentence is about the words alone
NOT_CHECKED = "not checked"
OCCLUSION = "occlusion"
CONTRAST = " - "  # between the two targets of one
Advice = Literal["", "rescue", "search"]
CALLS = {  # that follow the advice, where there is nothing to press
    "": "",
    "rescue": "explain.rescue(text) tries other methods",
    "search": "nbsal.flip(explain, text) searches further",
}


@dataclass(frozen=True)
class Statement:
    """What is said about a result: the sentence, how sure it is, the line below it, and the measured values.

    `effects` are (what was hidden, the value as text, the probability or None). `advice` is what may tell more: another
    method ("rescue"), or a search for words that turn the decision. `badge` says in a few words how far the sentence
    was checked. `alone` has the tokens of each word that was hidden alone, with the value then.
    """

    sentence: list[Phrase]
    state: State = "unchecked"
    evidence_line: str = ""
    effects: tuple[tuple[str, str, float | None], ...] = ()
    advice: Advice = ""
    badge: str = ""
    alone: tuple[tuple[tuple[int, ...], Phrase], ...] = ()

    @property
    def notes(self) -> list[str]:
        """The lines below the sentence where there are no bars."""
        effects = " · ".join(f"{label}: {value}" for label, value, _ in self.effects)
        badge = self.badge if self.effects else ""
        line = ": ".join(part for part in (badge, self.evidence_line) if part)
        return [note for note in (line, effects, CALLS[self.advice]) if note]

    def text(self) -> str:
        return plain(self.sentence)

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def statement(facts: DecisionFacts) -> Statement:
    """The sentence about a result, and how it was checked.

    >>> warm = statement(DecisionFacts("positive", "positive", 0.998, words=[("warm", 2.0, 0), ("slow", -1.0, 0)]))
    >>> plain(warm.sentence)
    'positive, 99.8\u202f%. Ranked first: warm; against it: slow (not checked).'
    """
    check, lead = facts.check, _lead(facts)
    if not facts.words:
        return Statement(lead)
    if not any(score for _, score, _ in facts.words):
        state: State = "unchecked" if check is None else check.state
        badge = _Checked(facts, check).badge() if check is not None and check.tried else NOT_CHECKED
        return Statement(phrases(lead, " ", _every_zero(facts)), state, advice=_rescue(facts), badge=badge)
    if check is None or facts.heads_off is not None:
        return Statement(phrases(lead, " ", _scores(facts)), badge=NOT_CHECKED)
    checked = _Checked(facts, check)
    sentence = phrases(lead, " ", checked.sentence(), checked.in_ways() if check.ways else "")
    effects = tuple(checked.effects())
    return Statement(sentence, check.state, checked.line(), effects, checked.advice(), checked.badge())


def _lead(facts: DecisionFacts) -> list[Phrase]:
    """The decision: "positive, 99.8 %." or "Why not negative (0.2 %)?"."""
    if facts.contrary:
        target = facts.target.replace(CONTRAST, " \u2212 ")
        why = "Why not " if target == facts.target else "Why "
        return phrases(why, ("class", target), _target_share(facts) or _difference(facts), "?")
    return phrases(verdict(facts), ".")


def verdict(facts: DecisionFacts) -> list[Phrase]:
    """What was decided and how sure the model is: "leaning positive, 55.0 %"."""
    probability = facts.probability
    if facts.heads_off is not None:
        return _verdict_without(facts, facts.heads_off)
    if probability is None:
        return phrases(("class", facts.prediction), _explained_value(facts))
    leaning = "leaning " if probability < LEANING else ""
    return phrases(leaning, ("class", facts.prediction), f"{facts.place}, {confidence(probability)}", _also(facts))


def _also(facts: DecisionFacts) -> list[Phrase]:
    """The other labels of the text."""
    if not facts.also:
        return []
    best = sorted(facts.also, key=lambda pair: -pair[1])
    names = [phrases(("class", label), f" ({confidence(value)})") for label, value in best[:MOST_ALSO]]
    more = len(best) - len(names)
    return phrases("; also ", in_row([*names, *([phrases(f"{more} more")] if more else [])]))


def _explained_value(facts: DecisionFacts) -> str:
    target, prediction = facts.target, facts.prediction
    named = target != prediction and (f"{target} " in prediction or CONTRAST in target)
    return f", explained: {target}{_difference(facts)}" if named else ""


def _difference(facts: DecisionFacts) -> str:
    """What the values of a contrast are, with that of the whole text, in brackets."""
    check = facts.check
    if check is None or check.probable or CONTRAST not in facts.target:
        return ""
    return f" (difference of logits: {check.text(check.whole.value)})"


def _verdict_without(facts: DecisionFacts, heads_off: HeadsOff) -> list[Phrase]:
    heads = f" with {heads_off.off} of {heads_off.total} heads off"
    turned = heads_off.prediction != facts.prediction
    before, after = ("class", facts.prediction), ("class", heads_off.prediction)
    if facts.probability is None or heads_off.probability is None:
        return (
            phrases(("struck", facts.prediction), " → ", after, heads) if turned else phrases(before, ", also", heads)
        )
    first, second = change_words(facts.probability, heads_off.probability)
    return phrases(
        before, ", ", ("struck", first), f" → {second}{heads}", [("text", ": now "), after] if turned else ""
    )


def _target_share(facts: DecisionFacts) -> list[Phrase]:
    """The probability of the explained class, in brackets."""
    probability, heads_off = facts.target_probability, facts.heads_off
    if facts.check is not None and facts.check.probable:
        probability = facts.check.whole.value
    if probability is None:
        return []
    if heads_off is None or heads_off.target_probability is None:
        return phrases(f" ({confidence(probability)})")
    before, after = change_words(probability, heads_off.target_probability)
    return phrases(" (", ("struck", before), f" → {after} with {heads_off.off} of {heads_off.total} heads off)")


def _rescue(facts: DecisionFacts) -> Advice:
    """The advice to try another method, which those that hide words need not."""
    return "" if facts.method == OCCLUSION else "rescue"


def _every_zero(facts: DecisionFacts) -> str:
    """Why every word may score 0, and what to do."""
    if facts.unscored:
        return "No word has a score: on this text the method divides 0 by 0. Try occlusion."
    if facts.special:
        return "Every word scores 0: all of the score is on special tokens. Try another layer, or occlusion."
    if facts.method == OCCLUSION:
        return "Every word scores 0: without any one of them nothing changes. Try nbsal.flip, which hides several."
    return "Every word scores 0: the output is saturated or does not depend on the words. Try occlusion."


def _scores(facts: DecisionFacts) -> list[Phrase]:
    """The words that scores rank first, which nothing has checked; function words only if there are no others."""
    words, total = candidates(facts.words), sum(abs(score) for _, score, _ in facts.words)
    if max(abs(word.score) for word in words) <= SINGLED_OUT * total:
        return phrases("No single word stands out.")
    content = content_candidates(facts.words)
    best, against = _side(content, 1), _side(content, -1)
    best = proposed(best or _side(words, 1))
    against = against if best or against else _side(words, -1)
    opening = "Ranked first" if facts.about_target else "Attended to most"
    among = " among the words" if facts.special > MOST else ""
    return phrases(
        *((f"{opening}{among}: ", named_words(best, facts)) if best else ("No word speaks for it",)),
        *(("; against it: ", named_words(against, facts)) if against else ()),
        f"; {NOT_CHECKED}." if facts.parts else f" ({NOT_CHECKED}).",
    )


def _side(words: Sequence[Candidate], sign: int) -> list[Candidate]:
    """The words for the target (1) or against it (-1)."""
    return [word for word in words if sign * word.score > 0]


@dataclass(frozen=True)
class _Checked:
    """What is said of a decision whose words were hidden."""

    facts: DecisionFacts
    check: Check

    def sentence(self) -> list[Phrase]:
        check = self.check
        if not check.named:
            return phrases("No word speaks for it.", self._other_side())
        if check.rival is not None:
            would = self._would(check.alone[check.rival])
            return phrases(
                "▲ Without ", self._names([check.rival]), would, "; the scores name ", self._names(check.leading), "."
            )
        named, would = self._names(check.named), self._would(check.together)
        if check.state == "supported":
            random = "" if check.turns(check.together) else self._random()
            return phrases("Without ", named, would, random, ".", self._other_side())
        if check.moves(check.together):
            as_much = f", but {self._draws_that(check.as_much, 'does', 'do')} as much ({self._largest_random()})"
            random = as_much if check.counts(check.together) and check.as_much else self._random()
            return phrases("Without ", named, would, random, ".")
        changing = sum(check.counts(outcome) for outcome in check.random)
        more = (
            f"; {self._draws_that(changing, 'changes', 'change')} more ({self._largest_random()})" if changing else ""
        )
        if check.probable and check.tried > 1:
            sets = f"None of the {check.tried} sets of {check.unit}s that the scores propose turns it: without "
            return phrases(sets, named, would, more, ".", self._searched())
        them, value = "them" if len(check.named) > 1 else "it", self.check.text(check.together.value)
        return phrases("The scores name ", named, f", but without {them} nothing changes ({value})", more, ".")

    def badge(self) -> str:
        """How far the sentence was checked."""
        check = self.check
        sets = check.tried + len(check.random)
        return f"{plural(sets, 'set')} hidden" if check.first else f"checked by hiding {check.unit}s"

    def line(self) -> str:
        """What was hidden, and what that did."""
        check = self.check
        if not check.named:
            return ""
        before, without = check.text(check.whole.value).removesuffix("\u202f%"), check.text(check.stated.value)
        random = f"; {self._draws()}: {self._bound()}" if check.random else ""
        return f"{before} → {without}{random}"

    def effects(self) -> list[tuple[str, str, float | None]]:
        """The value without each candidate, without those named together, and without random words."""
        check = self.check
        pairs = [(self._names([number]), outcome.value) for number, outcome in enumerate(check.alone)]
        if len(check.named) > 1 or (check.named and check.named[0] >= len(check.alone)):
            pairs.append((self._names(check.named), check.together.value))
        if check.largest_random is not None:
            several = len(check.random) > 1
            of = f" (largest change in {number_word(len(check.random))} draws)" if several else ""
            pairs.append((phrases(f"{self._count()}{of}"), check.largest_random.value))
        values = [(f"without {plain(names)}", value) for names, value in pairs]
        values += [(self._in_way(way), way.outcome.value) for way in check.ways]
        return [(label, self.check.text(value), value if check.probable else None) for label, value in values]

    def advice(self) -> Advice:
        """Another method where hiding does not support this one; a search where no set that was tried did anything."""
        check = self.check
        if check.misses:
            return _rescue(self.facts)
        silent = check.classifies and check.state == "weak" and not check.moves(check.together)
        return "search" if silent and check.tried > 1 and not (check.first or check.search) else ""

    def _would(self, outcome: Outcome) -> list[Phrase]:
        """ "it would be negative (positive 12 %)" or "it would still be positive, at 61 %" """
        name, value = self.facts.name, self.check.text(outcome.value)
        if not outcome.prediction:
            return phrases(f" it would be {value}")
        if self.check.turns(outcome):
            share = value if outcome.prediction == name else f"{name} {value}"
            return phrases(" it would be ", ("class", outcome.prediction), f" ({share})")
        if self.facts.contrary:
            return phrases(f", {name} would have {value}")
        return phrases(" it would still be ", ("class", outcome.prediction), f", at {value}")

    def in_ways(self) -> list[Phrase]:
        """In how many ways of hiding the words count."""
        check = self.check
        ways = f" counts in {check.holding} of {len(check.ways)} ways."
        return phrases(" Hiding ", self._names(check.reported), ways)

    def _in_way(self, way: HidingWay) -> str:
        """What is hidden in a way, or left."""
        names = plain(self._names(self.check.reported))
        return f"only {names}" if way.name == ONLY else f"{names} {way.name}"

    def _random(self) -> str:
        return f" (random {self.check.unit}s: {self._bound()})" if self.check.random else ""

    def _largest_random(self) -> str:
        """The value without those random words that change it most."""
        outcome = self.check.largest_random
        return "" if outcome is None else self.check.text(outcome.value)

    def _bound(self) -> str:
        """What the values of all random draws keep to."""
        bound = "at most " if self.check.raises else "at least "
        return (bound if len(self.check.random) > 1 else "") + self._largest_random()

    def _draws_that(self, count: int, does: str, do: str) -> str:
        """ "one of nine random words does", of sets of several "two of nine random sets do" """
        draws, unit = len(self.check.random), self.check.unit if self.check.drawn == 1 else "set"
        if draws == 1:
            return f"a random {unit} {does}"
        return f"{number_word(count)} of {number_word(draws)} random {unit}s {does if count == 1 else do}"

    def _searched(self) -> str | list[Phrase]:
        search = self.check.search
        if search is None:
            return ""
        if not search.words:
            return f" A search through {search.sets:,} sets finds none."
        words = in_row([phrases(("for", name_in_sentence(word))) for word in search.words])
        would = phrases(" it would be ", ("class", search.outcome.prediction), f" ({confidence(search.outcome.value)})")
        fewer = "; no fewer words do" if search.exact and len(search.words) > 1 else ""
        return phrases(" A search finds one: without ", words, would, fewer, ".")

    def _other_side(self) -> list[Phrase]:
        """A word on the other side, if hiding it moves the value the other way."""
        check = self.check
        for number in set(range(len(check.alone))) - set(check.main):
            if check.effect(check.alone[number]) < 0 and check.moves(check.alone[number]):
                side = "for" if check.raises else "against"
                without = check.text(check.alone[number].value)
                return phrases(" ", self._names([number]), f" speaks {side} it: {without} without.")
        return []

    def _names(self, numbers: Sequence[int]) -> list[Phrase]:
        return named_words([self.check.candidates[number] for number in numbers], self.facts)

    def _count(self) -> str:
        """ "three random words" """
        return f"{number_word(self.check.drawn)} random {self.check.unit}{'' if self.check.drawn == 1 else 's'}"

    def _draws(self) -> str:
        """ "three random words, nine draws" """
        draws = len(self.check.random)
        return self._count() + (f", {number_word(draws)} draws" if draws > 1 else "")


def named_words(words: Sequence[Candidate], facts: DecisionFacts) -> list[Phrase]:
    """Words in a row, each with how often it is there and its part of a pair."""

    def name(word: Candidate) -> list[Phrase]:
        kind = "against" if word.score < 0 else "for"
        return phrases((kind, name_in_sentence(word.text)), count_and_part(word, facts.parts))

    return in_row([name(word) for word in words])


def count_and_part(word: Candidate, parts: Sequence[str]) -> str:
    """How often a word is there, if several times, and the part of a pair that it is in."""
    often = f" × {len(word.words)}" if len(word.words) > 1 else ""
    return often + (f" ({parts[word.part]})" if parts and parts[word.part] else "")
