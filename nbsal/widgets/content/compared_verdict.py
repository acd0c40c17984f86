"""Which of two explanations hiding words supports, as Compare says it: one clause for each, the better one first."""

from collections.abc import Sequence

from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.decision_facts import HALF, Check
from nbsal.explain.sentences.outcomes import Outcome
from nbsal.explain.sentences.statement import NOT_CHECKED, Statement, named_words
from nbsal.render.headline import Phrase, change_words, phrases
from nbsal.render.scores import value_text

BADGES = ("A", "B")
SUPPORTED = {(True, True): "both", (True, False): "A", (False, True): "B", (False, False): "neither"}


def verdict(both: Sequence[Saliency], same: bool) -> list[Phrase]:
    """Which of both hiding supports, and by how much; nothing before both were checked.

    If they explain the `same`, a model's decision for one target, the effects of both are compared as well.
    """
    checks = [saliency.check for saliency in both]
    first, second = checks
    if first is None or second is None:
        return []
    supported = (first.state == "supported", second.state == "supported")
    effects = [check.effect(_without(check)[1]) for check in (first, second)]
    better, other = (0, 1) if (supported[0], effects[0]) >= (supported[1], effects[1]) else (1, 0)
    name = SUPPORTED[supported]
    if same and _hides_alike(first, second):
        return phrases(f"Hiding supports {name}: ", _clause(both[0], "", name_of(both[0])), ". ")
    if same and all(supported) and effects[other] < HALF * effects[better]:
        name = f"both, {BADGES[better]} more"
    clauses = [_clause(both[i], BADGES[i], "it" if same and i == other else name_of(both[i])) for i in (better, other)]
    return phrases(f"Hiding supports {name}: ", clauses[0], "; ", clauses[1], ". ")


def name_of(saliency: Saliency) -> str:
    """What is measured: the class, or the contrast."""
    return saliency.facts().name.replace(" - ", " \N{MINUS SIGN} ")


def compared(both: Sequence[Saliency], sentence: list[Phrase]) -> Statement:
    """The statement of a pair: the sentence, how its verdict was reached, and the values measured for A and for B."""
    if not all(saliency.check for saliency in both):
        return Statement(sentence, badge=NOT_CHECKED)
    statements = [(badge, saliency.statement()) for badge, saliency in zip(BADGES, both, strict=True)]
    return Statement(
        sentence,
        "supported" if any(each.state == "supported" for _, each in statements) else "weak",
        "those of A and of B",
        tuple(
            (f"{badge}: {label}", value, share) for badge, each in statements for label, value, share in each.effects
        ),
        badge=statements[0][1].badge,
    )


def decisive(saliency: Saliency) -> set[int]:
    """The numbers of the words without which the decision is another one."""
    if (check := saliency.check) is None:
        return set()
    alone = zip(check.candidates, check.alone, strict=False)
    return {number for word, outcome in alone if check.turns(outcome) for number in word.words}


def _without(check: Check) -> tuple[tuple[int, ...], Outcome]:
    """The candidates that scores name, and the outcome without them."""
    if check.rival is not None:
        first = check.leading[0]
        return (first,), check.alone[first]
    return check.named, check.together


def _hides_alike(first: Check, second: Check) -> bool:
    """Whether the same words were hidden for both, with the same outcome."""
    words = [[check.candidates[number].words for number in _without(check)[0]] for check in (first, second)]
    return sorted(words[0]) == sorted(words[1]) and first.state == second.state


def _clause(saliency: Saliency, badge: str, name: str) -> list[Phrase]:
    """ "without A's happy, joy falls 62.0 → 8.0 %" """
    check = saliency.check
    assert check is not None
    named, outcome = _without(check)
    if not named:
        return phrases(f"{badge or 'neither'} has no word for {name}")
    before, after = _values(check, outcome)
    moves = f"stays at {after}"
    if check.moves(outcome):
        moves = f"{'falls' if outcome.value < check.whole.value else 'rises'} {before} → {after}"
    if check.largest_random and check.rival is None and check.counts(outcome) and check.as_much:
        moves += f" (random words: {_values(check, check.largest_random)[1]})"
    words = named_words([check.candidates[number] for number in named], saliency.facts())
    return phrases(f"without {badge}’s " if badge else "without ", words, f", {name} {moves}")


def _values(check: Check, outcome: Outcome) -> tuple[str, str]:
    """The value of the whole text and that of an outcome."""
    if not check.probable:
        return value_text(check.whole.value), value_text(outcome.value)
    before, after = change_words(check.whole.value, outcome.value)
    return before, after
