"""All measures by name, with the goals of those that have one."""

from tests.journeys import calls, census
from tests.journeys.calls import CALLS, Visit

GOALS = {
    "explain(text), gradxact": Visit(120, 15),
    "a text typed in Highlight, gradxact, in the worker": Visit(200, 25),
    'nbsal.answer, gae, hops="all", check': Visit(230, 28),
    "classes": 340,
    "names of several classes": 0,
    "files with facts about methods, beside their classes": 0,
    "files that build coalitions outside the engine": 0,
    "functions with more than 6 parameters": 10,
    "rooms that reach up by name": 0,
    "files of words in TypeScript": 0,
    "lines of Python": "41,000",
    "lines of TypeScript and CSS": "10,500",
    "lines of tests, without benchmarks": "30,000",
}


def visits() -> dict[str, Visit]:
    """What each call visits, by name."""
    return {name: calls.visit(name) for name in CALLS}


def counted() -> dict[str, list[str]]:
    """What is counted in the sources, by name."""
    return {
        "classes": census.classes(),
        "names of several classes": census.repeated(census.classes()),
        "files with facts about methods, beside their classes": census.method_tables(),
        "files that build coalitions outside the engine": census.coalition_tables(),
        "functions with more than 6 parameters": census.long_signatures(),
        "rooms that reach up by name": census.rooms_reaching_up(),
        "files of words in TypeScript": census.files_of_words(),
    }
