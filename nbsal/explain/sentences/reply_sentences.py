"""The sentences of an answer, each made of the facts of a part of the reply (`PartFacts`)."""

from collections.abc import Sequence

import numpy as np

from nbsal.explain.sentences.decision_facts import State
from nbsal.explain.sentences.evidence import LEAST
from nbsal.explain.sentences.reply_facts import HALVED, PartFacts, SourceName
from nbsal.explain.sentences.source_ways import holds_in_most, prompt_likelihoods, way_label, ways_text
from nbsal.explain.sentences.statement import Statement
from nbsal.render.headline import CLOSE, Phrase, confidence, number_word, percent, phrases

FAINTEST = 1e-4  # probability below which no digits are shown
NARROW = 0.01  # probability below which a second digit is shown
MOST_TIMES = 20.0  # the largest fall of a log-probability that is said as a factor
STILL = "still"  # before a probability that does not change
SHORT = 24  # characters of a part that is named beside others
QUOTED = 2  # phrases of a source that are named


def headline(facts: PartFacts) -> list[Phrase]:
    """What a part of a reply depends on, in a sentence or two.

    >>> from nbsal.explain.sentences.reply_facts import SourceCandidate
    >>> document, other = (SourceName(f"Document {i}", f"Doc {i}", f"document {i}") for i in (1, 2))
    >>> candidates = (SourceCandidate(document, True, 0.2, -14.4), SourceCandidate(other, True, 0.8, -0.1))
    >>> facts = PartFacts("Oslo", "", "Gradient", (0.2, 0.8, 0.0), candidates, -0.1, -14.5)
    >>> print("".join(text for _, text in headline(facts)))
    “Oslo” depends on document 1: without it 90.5 % → under 0.01 %. ▲ The scores of Gradient say document 2.
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
        others = "".join(f"; without {c.name.text} {probability_text(facts, c.without)}" for c in facts.also)
        numbers = f"{change_text(facts, decisive.without)}{others}"
        instead = facts.rival or decisive.instead
        prefers = decisive.without < 0 if facts.rival else bool(instead)
        part = f"“{facts.part}” " if 0 < len(facts.part) <= SHORT else ""
        would = phrases("the model would write “", ("against", instead), f"” ({part}{numbers}). ")
        reason = phrases(f" {verb} on ", _named(decisive.name), ": without it ", would if prefers else f"{numbers}. ")
        checked = " ".join(filter(None, (_agreement(facts), ways_text(facts))))
        return phrases(lead, reason, checked, _through(facts))
    if facts.together:
        alone = max((c for c in facts.candidates if c.is_document == facts.has_documents), key=facts.fall)
        alone_text = f"without {alone.name.text} alone {probability_text(facts, alone.without)}"
        reason = phrases(
            " depends on ", ("for", f"the {facts.noun} together"), f": without all of them {nothing}, {alone_text}. "
        )
        return phrases(lead, reason, _agreement(facts), _through(facts))
    noun = facts.noun.removesuffix("s")
    matters = f"{noun} matters" if abs(facts.change) < LEAST else f"single {noun} matters"
    subject = lead if facts.part else [("class", "the reply")]
    return phrases(f"No {matters} for ", subject, f": without all of them {nothing}.", _through(facts))


def statement(facts: PartFacts) -> Statement:
    """The headline with how it was checked, and the values without each source that it may name."""
    effects = tuple(
        (f"without {c.name.text}", probability_text(facts, c.without), facts.probability(c.without))
        for c in facts.candidates
    )
    if facts.decisive is not None:
        name, ways = facts.decisive.name.text, facts.decisive.ways
        values = [(way_label(name, way), way.value) for way in ways]
        effects += tuple((label, probability_text(facts, value), facts.probability(value)) for label, value in values)
    lines = " ".join(filter(None, (carriers_text(facts), prompt_likelihoods(facts))))
    return Statement(headline(facts), _state(facts), lines, effects if facts.checked else ())


def _state(facts: PartFacts) -> State:
    if not facts.checked:
        return "unchecked"
    if facts.contradicted:
        return "contradicted"
    return "supported" if facts.agrees and holds_in_most(facts) else "weak"


def _agreement(facts: PartFacts) -> str:
    """Whether the scores say the same; nothing where they say something else of what they need not explain."""
    if not facts.contradicted:
        return "The scores agree." if facts.agrees else ""
    says = "name no source" if facts.proposed is None else f"say {facts.proposed.name.text}"
    return f"▲ The scores of {facts.method} {says}."


def _through(facts: PartFacts) -> list[Phrase]:
    """What of the scores came through earlier words of the reply, and whether hiding these says so too."""
    through = facts.through
    if through is None or not through.words:
        return []
    word = ("for", through.words[0].text)
    lead = phrases(
        f" {percent(through.share, 0)} of the scores come through earlier words of the reply, mostly “", word
    )
    if through.without is None:
        return phrases(lead, "” (not checked).")
    change = change_text(facts, through.without)
    if not facts.needs_word:
        return phrases(lead, f"”, which hiding it does not confirm: without it {change}.")
    needs = phrases("; “", word, f"” depends on {through.needs}") if through.needs else []
    return phrases(lead, f"”: without it {change}", needs, ".")


def carriers_text(facts: PartFacts) -> str:
    """The words through which scores came, hop by hop; blank if they were not followed, or none did.

    >>> from nbsal.explain.sentences.hop_words import HopWord, Route
    >>> through = Route(0.2, ((HopWord("Gerda", (6,), 0.15),), (HopWord("budget", (2,), 0.04),)))
    >>> print(carriers_text(PartFacts("221", "", "GAE", (), (), through=through)))
    Through earlier words, 20 % of the scores: “Gerda” 15 %; from there through “budget” 4 %.
    """
    if facts.through is None or not any(facts.through.hops):
        return ""
    hops = [joined([f"“{word.text}” {percent(word.share, 0)}" for word in words]) for words in facts.through.hops]
    words = "; from there through ".join(filter(None, hops))
    return f"Through earlier words, {percent(facts.through.share, 0)} of the scores: {words}."


def matrix_finding(parts: Sequence[PartFacts]) -> str:
    """What the phrases depend on, and whether the scores agree; of a token rather than its rival, what that does.

    >>> from nbsal.explain.sentences.reply_facts import SourceCandidate
    >>> prompt = SourceCandidate(SourceName("Prompt", "Prompt", "the prompt"), False, 0.7, -9.0)
    >>> matrix_finding([PartFacts("", "", "GAE", (0.7, 0.3), (prompt,), -0.1, -9.0)] * 2)
    'Two of two phrases depend on the prompt; the scores agree'
    """
    if len(parts) == 1 and parts[0].rival:
        pair = f"“{parts[0].part}” rather than “{parts[0].rival}”"
        return f"{pair} depends on {_most(parts[0])}{_agreements(parts)}" if parts[0].decisive else f"Scores of {pair}"
    checked = any(part.checked for part in parts)
    by_source: dict[str, list[PartFacts]] = {}
    for part in parts:
        by_source.setdefault(_most(part), []).append(part)
    by_source.pop("", None)
    if not by_source:
        noun = parts[0].noun.removesuffix("s") if parts else "source"
        return f"No {noun} matters" if checked else "No phrase has a source with a positive score"
    name, *others = sorted(by_source, key=lambda name: -len(by_source[name]))
    count = len(by_source[name])
    noun = "phrase" if len(parts) == 1 else "phrases"
    start = f"{number_word(count).capitalize()} of {number_word(len(parts))} {noun}"
    if not checked:
        return f"{start} {'has its' if count == 1 else 'have their'} highest score for {name} (not checked)"
    dependent = joined([f"{name}", *(f"{_phrases(by_source[other])} on {other}" for other in others)])
    return f"{start} {'depends' if count == 1 else 'depend'} on {dependent}{_agreements(parts)}"


def _phrases(parts: Sequence[PartFacts]) -> str:
    """Some phrases by name, if they are few, or their number."""
    names = [f"“{part.part}”" for part in parts if part.part]
    short = 0 < len(names) <= QUOTED and max(map(len, names)) <= SHORT
    return joined(names) if short else number_word(len(parts))


def _agreements(parts: Sequence[PartFacts]) -> str:
    """Whether the scores say of all phrases what they depend on, or of how many something else."""
    wrong = sum(facts.contradicted for facts in parts)
    if wrong:
        return f"; ▲ the scores say otherwise in {number_word(wrong)}" if len(parts) > 1 else "; ▲ the scores do not"
    return "; the scores agree" if all(facts.agrees for facts in parts if _most(facts)) else ""


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
    >>> print("".join(text for _, text in source_sentence(document, ["in", "Oslo"], [(-0.1, -0.1), (-0.1, -14.4)])))
    Without document 1, “Oslo” falls most: 90.5 % → under 0.01 %.
    """
    if values is None:
        return phrases(("class", name.label), ": what depends on it is not checked.")
    falls = [before - after for before, after in values]
    best = int(np.argmax(falls)) if falls else 0
    without = phrases("Without ", ("class", name.sentence))
    if not falls or falls[best] < LEAST:
        return phrases(without, " no word of the reply is less likely.")
    numbers = " → ".join(likelihood(float(np.exp(value))) for value in values[best])
    return phrases(without, ", “", ("for", parts[best]), f"” falls most: {numbers}.")


def likelihood(probability: float) -> str:
    """A probability as a percentage, of which nothing is rounded to certainty or to nothing.

    >>> print(likelihood(0.99999), likelihood(0.314), likelihood(0.0031), likelihood(1e-9), sep=", ")
    over 99.9 %, 31.4 %, 0.31 %, under 0.01 %
    """
    if probability < FAINTEST:
        return f"under {percent(FAINTEST, 2)}"
    return percent(probability, 2) if probability < NARROW else confidence(probability)


def probability_text(facts: PartFacts, value: float) -> str:
    """The probability of a part, given its log-probability; of a token rather than its rival, given its log-odds."""
    return likelihood(facts.probability(value))


def change_text(facts: PartFacts, after: float) -> str:
    """What is left of a part, in words: its probability before and after."""
    first, second = (facts.probability(value) for value in (facts.before or 0.0, after))
    if max(first, second) < FAINTEST:
        change = after - (facts.before or 0.0)
        times = f"{np.exp(min(abs(change), MOST_TIMES)):,.0f} times"
        return f"{times} {'less' if change < 0 else 'more'} likely" if abs(change) >= HALVED else "as unlikely"
    unit = " a token" if facts.per_token else " of the two" if facts.rival else ""
    if abs(first - second) < CLOSE:
        return f"{STILL} {likelihood(second)}{unit}"
    return f"{likelihood(first)} → {likelihood(second)}{unit}"


def notable_change(facts: PartFacts, after: float | None) -> str:
    """The same, or "" where too little changes to matter, or nothing was measured."""
    if after is None or facts.before is None or abs(facts.before - after) < LEAST:
        return ""
    text = change_text(facts, after)
    return "" if text.startswith(STILL) else text


def log_change(facts: PartFacts, after: float) -> str:
    """The same as log-probabilities, for who points at it.

    >>> log_change(PartFacts("Oslo", "", "GAE", (), (), -0.001), -14.38)
    'log-probability 0.00 → −14.38'
    """
    values = (f"{round(value, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}") for value in (facts.before or 0.0, after))
    return f"{'log-odds' if facts.rival else 'log-probability'} {' → '.join(values)}"


def struck_sentence(facts: PartFacts, without: str, after: float, instead: str) -> list[Phrase]:
    """What is left of a part without what is struck out, and what the model would write in its place.

    >>> facts = PartFacts("Oslo", "", "GAE", (), (), -0.001)
    >>> print("".join(text for _, text in struck_sentence(facts, "document 1", -3.0, "of")))
    Without document 1, “Oslo”: 99.9 % → 5.0 %; the model would write “of”.
    """
    part = phrases("“", ("class", facts.part), "”") if facts.part else phrases(("class", "the reply"))
    would = phrases("; the model would write “", ("against", instead), "”") if instead else []
    return phrases("Without ", ("for", without), ", ", part, f": {change_text(facts, after)}", would, ".")


def likelihood_text(logprobs: Sequence[float]) -> str:
    """How likely the model finds some tokens together; each of them, if they are many."""
    total = float(np.sum(logprobs))
    if np.isnan(total):
        return "probability not known"
    facts = PartFacts("", "", "", (), (), total, count=len(logprobs))
    return f"probability {probability_text(facts, total)}{' a token' if facts.per_token else ''}"


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
