"""In how many ways of hiding a part of a reply depends on what its sentence names, and how likely these prompts are."""

from nbsal.explain.sentences.evidence import LEAST, PartWay
from nbsal.explain.sentences.outcomes import MOST_WAYS, ONLY
from nbsal.explain.sentences.reply_facts import HALVED, PartFacts

MINUS = "\N{MINUS SIGN}"


def holding(facts: PartFacts) -> int:
    """In how many ways hiding what a part depends on counts, more than hiding anything else does."""
    decisive = facts.decisive
    return 0 if decisive is None else sum(_holds(facts, number) for number in range(len(decisive.ways)))


def _holds(facts: PartFacts, number: int) -> bool:
    """Whether it counts in one way: without it the part falls; with it alone, it does not fall by more than half."""
    decisive, before = facts.decisive, facts.before or 0.0
    assert decisive is not None
    falls = [before - c.ways[number].value for c in facts.candidates if c is not decisive and c not in facts.also]
    way = decisive.ways[number]
    fall = before - way.value
    if way.name == ONLY:
        return fall < HALVED and all(other > fall for other in falls)
    return fall >= LEAST and all(other < fall for other in falls)


def holds_in_most(facts: PartFacts) -> bool:
    """Whether it counts in most ways, if the sources were hidden in several."""
    decisive = facts.decisive
    return decisive is None or holding(facts) >= MOST_WAYS * len(decisive.ways)


def ways_text(facts: PartFacts) -> str:
    """In how many ways it counts; blank where sources were hidden in one."""
    decisive = facts.decisive
    if decisive is None or not decisive.ways:
        return ""
    return f"Hiding {decisive.name.text} counts in {holding(facts)} of {len(decisive.ways)} ways."


def way_label(name: str, way: PartWay) -> str:
    """What is hidden in a way, or left.

    >>> way_label("document 1", PartWay("only", -0.1)), way_label("document 1", PartWay("removed", -9.0))
    ('only document 1', 'document 1 removed')
    """
    return f"only {name}" if way.name == ONLY else f"{name} {way.name}"


def prompt_likelihoods(facts: PartFacts) -> str:
    """How likely the model finds the prompts that hiding in several ways makes; blank where that is not known."""
    decisive = facts.decisive
    if decisive is None or not decisive.ways or (whole := decisive.ways[0].whole) is None:
        return ""
    values = [(way.name, way.likelihood) for way in decisive.ways if way.likelihood is not None]
    text = ", ".join(f"{name} {value:.1f}" for name, value in [("whole", whole), *values])
    return f"Log-probability of the prompt, a token: {text.replace('-', MINUS)}."
