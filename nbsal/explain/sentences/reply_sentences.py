"""The sentences of an answer, each made of the facts of a part of the reply (`PartFacts`)."""

from collections.abc import Sequence

import numpy as np

from nbsal.explain.sentences.decision_facts import State
from nbsal.explain.sentences.evidence import LEAST
from nbsal.explain.sentences.reply_facts import HALVED, PartFacts, SourceCandidate, SourceName
from nbsal.explain.sentences.statement import Statement
from nbsal.render.headline import Phrase, number_word, percent, phrases

FINE = 0.095  # log-probability below which a second digit is shown


def headline(facts: PartFacts) -> list[Phrase]:
    """What a part of a reply depends on, in a sentence or two.

    >>> from nbsal.explain.sentences.reply_facts import SourceCandidate
    >>> document, other = (SourceName(f"Document {i}", f"Doc {i}", f"document {i}") for i in (1, 2))
    >>> candidates = (SourceCandidate(document, True, 0.2, -14.4), SourceCandidate(other, True, 0.8, -0.1))
    >>> facts = PartFacts("Oslo", "", "Gradient", (0.2, 0.8, 0.0), candidates, -0.1, -14.5)
    >>> "".join(text for _, text in headline(facts))
    '“Oslo” depends on document 1: without it log-probability −0.1 → −14.4. ▲ The scores of Gradient say document 2.'
    """
    lead = _lead(facts)
    if not facts.checked:
        best = facts.proposed
        highest = "none above 0" if best is None else _named(best.name)
        start = phrases(lead, ": highest score ") if facts.part else phrases("Highest score: ")
        return phrases(start, highest, " (not checked).", _through(facts))
    decisive, nothing = facts.decisive, change_text(facts, facts.nothing or 0.0)
    if decisive is not None:
        verb = "depends" if facts.fall(decisive) >= HALVED else "depends a little"
        others = "".join(f"; without {c.name.text} {log_text(c.without)}" for c in facts.also)
        numbers = f"{change_text(facts, decisive.without)}{others}"
        instead = facts.rival or decisive.instead
        prefers = decisive.without < 0 if facts.rival else bool(instead)
        would = phrases("the model would write “", ("against", instead), f"” ({numbers}). ")
        reason = phrases(f" {verb} on ", _named(decisive.name), ": without it ", would if prefers else f"{numbers}. ")
    elif facts.together:
        alone = max((c for c in facts.candidates if c.is_document == facts.has_documents), key=facts.fall)
        words = f": without all of them {nothing}, without {alone.name.text} alone {log_text(alone.without)}. "
        reason = phrases(" depends on ", ("for", f"the {facts.noun} together"), words)
    elif facts.has_documents and not facts.rival and abs(facts.change) < LEAST:
        moved = percent(abs(float(np.expm1(-facts.change))), 0)
        reason = phrases(f" comes from the model itself: without any document it changes by {moved}. ")
    else:
        reason = phrases(f" hardly depends on the {facts.noun}: without them {nothing}. ")
    return phrases(lead, reason, _agreement(facts), _through(facts))


def statement(facts: PartFacts) -> Statement:
    """The headline with how it was checked, and the values without each source that it may name."""
    effects = tuple((f"without {c.name.text}", log_text(c.without), _probability(facts, c)) for c in facts.candidates)
    return Statement(headline(facts), _state(facts), carriers_text(facts), effects if facts.checked else ())


def _state(facts: PartFacts) -> State:
    if not facts.checked:
        return "unchecked"
    if not facts.agrees:
        return "contradicted"
    return "weak" if facts.decisive is None and not facts.together else "supported"


def _probability(facts: PartFacts, candidate: SourceCandidate) -> float | None:
    """The probability without a candidate; of a token rather than another one there is none."""
    return None if facts.rival else float(np.exp(candidate.without))


def _agreement(facts: PartFacts) -> str:
    """Whether the scores say the same."""
    if facts.agrees:
        return "The scores agree."
    says = "name no source" if facts.proposed is None else f"say {facts.proposed.name.text}"
    return f"▲ The scores of {facts.method} {says}."


def _through(facts: PartFacts) -> list[Phrase]:
    """What of the scores came through earlier words of the reply."""
    through = facts.through
    words = [] if through is None else [word for hop in through.hops[:1] for word in hop[:1]]
    if through is None or not words:
        return []
    start = f" {percent(through.share, 0)} of the scores come through earlier words of the reply, mostly “"
    end = f"”; of the documents, {through.document} gains most." if through.document else "”."
    return phrases(start, ("for", words[0].text), end)


def carriers_text(facts: PartFacts) -> str:
    """The words through which scores came, hop by hop; blank if they were not followed, or none did.

    >>> from nbsal.explain.sentences.hop_words import HopWord, Route
    >>> through = Route(0.2, ((HopWord("Gerda", (6,), 0.15),), (HopWord("budget", (2,), 0.04),)), "document 1")
    >>> print(carriers_text(PartFacts("221", "", "GAE", (), (), through=through)))
    Through earlier words, 20 % of the scores: “Gerda” 15 %; from there through “budget” 4 %.
    """
    if facts.through is None or not any(facts.through.hops):
        return ""
    hops = [joined([f"“{word.text}” {percent(word.share, 0)}" for word in words]) for words in facts.through.hops]
    words = "; from there through ".join(filter(None, hops))
    return f"Through earlier words, {percent(facts.through.share, 0)} of the scores: {words}."


def heading(facts: PartFacts) -> str:
    """Which source a part needs, above the bars of all; blank where that is not checked."""
    if not facts.checked:
        return ""
    part = f"“{facts.part}”" if facts.part else "the reply"
    decisive = facts.decisive
    if decisive is not None:
        name = decisive.name.text
        if facts.rival:
            loses = f"loses to “{facts.rival}”" if decisive.without < 0 else f"is nearer to “{facts.rival}”"
            return f"Without {name}, {part} {loses}"
        far = "far" if facts.fall(decisive) >= HALVED else "a little"
        return f"Without {name}, {part} is {far} less likely"
    if facts.together:
        return f"No single {facts.noun.removesuffix('s')} is needed for {part}, but one of them is"
    return f"No source is needed for {part}"


def matrix_finding(parts: Sequence[PartFacts]) -> str:
    """What most phrases depend on, and whether the scores agree; of a token rather than its rival, what that does.

    >>> from nbsal.explain.sentences.reply_facts import SourceCandidate
    >>> prompt = SourceCandidate(SourceName("Prompt", "Prompt", "the prompt"), False, 0.7, -9.0)
    >>> matrix_finding([PartFacts("", "", "GAE", (0.7, 0.3), (prompt,), -0.1, -9.0)] * 2)
    'Two of two phrases depend on the prompt; the scores agree'
    """
    if len(parts) == 1 and parts[0].rival:
        pair = f"“{parts[0].part}” rather than “{parts[0].rival}”"
        agreement = "the scores agree" if parts[0].agrees else "▲ the scores say otherwise"
        return f"{pair} depends on {_most(parts[0])}; {agreement}" if parts[0].decisive else f"Scores of {pair}"
    checked = any(part.checked for part in parts)
    names = [_most(facts) for facts in parts]
    known = [name for name in names if name]
    noun = "phrase" if len(parts) == 1 else "phrases"
    if not known:
        return "No phrase depends on a source" if checked else "No phrase has a source with a positive score"
    name, *others = sorted(dict.fromkeys(known), key=lambda name: -known.count(name))
    count = known.count(name)
    start = f"{number_word(count).capitalize()} of {number_word(len(parts))} {noun}"
    second = f", {number_word(known.count(others[0]))} on {others[0]}" if others else ""
    if not checked:
        return f"{start} {'has its' if count == 1 else 'have their'} highest score for {name} (not checked)"
    wrong = sum(bool(own) and not facts.agrees for facts, own in zip(parts, names, strict=True))
    agreement = f"▲ the scores say otherwise in {number_word(wrong)}" if wrong else "the scores agree"
    return f"{start} {'depends' if count == 1 else 'depend'} on {name}{second}; {agreement}"


def _most(facts: PartFacts) -> str:
    """What a phrase depends on; unchecked, what its scores name."""
    if facts.checked and facts.together:
        return f"the {facts.noun} together"
    candidate = facts.decisive if facts.checked else facts.proposed
    return "" if candidate is None else candidate.name.text


def source_sentence(
    name: SourceName, parts: Sequence[str], values: Sequence[tuple[float, float]] | None
) -> list[Phrase]:
    """Which word of the reply falls most without a source; `values` are before and after, by word, if measured.

    >>> document = SourceName("Document 1", "Doc 1", "document 1")
    >>> "".join(text for _, text in source_sentence(document, ["in", "Oslo"], [(-0.1, -0.1), (-0.1, -14.4)]))
    'Without document 1, “Oslo” falls most: log-probability −0.1 → −14.4.'
    """
    if values is None:
        return phrases(("class", name.label), ": what depends on it is not checked.")
    falls = [before - after for before, after in values]
    best = int(np.argmax(falls)) if falls else 0
    without = phrases("Without ", ("class", name.sentence))
    if not falls or falls[best] < LEAST:
        return phrases(without, " no word of the reply is less likely.")
    before, after = values[best]
    numbers = f"log-probability {log_text(before)} → {log_text(after)}."
    return phrases(without, ", “", ("for", parts[best]), f"” falls most: {numbers}")


def log_text(value: float) -> str:
    """A log-probability in words.

    >>> log_text(-14.38), log_text(-0.001)
    ('−14.4', '0.00')
    """
    rounded = rounded_log(value)
    return f"{rounded:.{_digits(rounded)}f}".replace("-", "\N{MINUS SIGN}")


def change_text(facts: PartFacts, after: float) -> str:
    """What is left of a part, in words: its log-probability before and after."""
    return f"{_measure(facts)} {log_text(facts.before or 0.0)} → {log_text(after)}"


def rounded_log(value: float) -> float:
    """A log-probability as it is shown; the page shows the same digits of it."""
    return round(value, _digits(value)) + 0.0


def _digits(value: float) -> int:
    return 2 if abs(value) < FINE else 1


def _measure(facts: PartFacts) -> str:
    return "log-odds" if facts.rival else "log-probability"


def _lead(facts: PartFacts) -> list[Phrase]:
    if not facts.part:
        return [("class", "The reply")]
    rival = phrases(" rather than “", ("against", facts.rival), "”") if facts.rival else []
    return phrases("“", ("class", facts.part), "”", rival)


def _named(name: SourceName) -> list[Phrase]:
    if name.quote:
        return phrases("“", ("for", name.quote), f"” in {name.sentence}")
    return phrases(f"{name.sentence}, ", ("for", name.title)) if name.title else [("for", name.sentence)]


def joined(names: Sequence[str]) -> str:
    """Names in a row.

    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
