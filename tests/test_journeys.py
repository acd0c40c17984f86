"""Calls visit no more of the package, and the package has no more nouns, than `MOST` says."""

import ast

import pytest

from tests.cases import cases
from tests.journeys import calls, census, coalitions, measures

# These numbers may only fall: whoever reaches a lower one writes it here. `python -m tests.journeys` prints them.
MOST = {
    "explain(text), gradxact": (161, 21),
    "explain(text), occlusion": (238, 29),
    "explain(text, check=True), gradxact": (324, 36),
    "a text typed in Highlight, gradxact, in the worker": (365, 49),
    'nbsal.answer, gae, hops="all", check': (488, 68),
    "nbsal.answer and answer.sources()": (359, 56),
    "two rows of a corpus": (337, 40),
    "classes": 509,
    "names of several classes": 1,
    "files with facts about methods, beside their classes": 0,
    "files that build coalitions outside the engine": 0,
    "functions with more than 6 parameters": 30,
    "rooms that reach up by name": 0,
    "files of words in TypeScript": 0,
}
TABLE = "def build(size):\n    return np.ones((2, size), dtype=bool)\n"
HOUSE = {  # a file, what it says
    "nbsal/ablation/engine.py": f"class Engine: ...\n{TABLE}",
    "nbsal/methods/near.py": "from nbsal.ablation import engine\n\n@register('near')\nclass Near: ...",
    "nbsal/methods/far.py": f"from nbsal.methods import near\n{TABLE}\n@register('far')\nclass Far: ...",
    "nbsal/methods/reference/far.py": f"from nbsal.methods import near\n{TABLE}",
    "nbsal/explain/facts.py": "LABELS = {'near': 'Near', 'far': 'Far'}\nNEAR = 'near'\n\nclass Near: ...",
    "nbsal/model/maps.py": f"games = import_module('nbsal.evaluation')\nsupport = LazyModule('nbsal.support')\n{TABLE}",
    "nbsal/widgets/view.py": "class View:\n    def __init__(self, a, b, c, *, d, e, f, g, **rest): ...\n\n"
    "def show(a, b, c, d, e, f): ...\nLazyClass('nbsal.model.subject', 'Subject')",
}


@pytest.mark.parametrize("name", calls.CALLS)
def test_a_call_visits_no_more(name):
    visit = calls.visit(name)
    functions, files = MOST[name]
    assert 0 < visit.functions <= functions
    assert 0 < visit.files <= files


def test_of_a_view_the_worker_is_followed():
    names = {code.co_qualname for code in calls.visited(calls.TYPED)}
    assert "ExplainerView.compute" in names
    assert "View.wait" not in names, "the thread that types is another one"


def test_the_package_has_no_more():
    counts = {name: len(entries) for name, entries in measures.counted().items()}
    assert counts.keys() == MOST.keys() - calls.CALLS.keys()
    assert not {name: count for name, count in counts.items() if count > MOST[name]}
    assert counts["classes"] > 100, "the sources were read"
    assert measures.GOALS.keys() - MOST.keys() == {name for name in measures.GOALS if name.startswith("lines of ")}


def test_a_house_is_counted(monkeypatch):
    house = [census.read(file, text) for file, text in HOUSE.items()]
    monkeypatch.setattr(census, "sources", lambda: house)
    counted = measures.counted()
    del counted["classes"], counted["files of words in TypeScript"]
    assert list(counted.values()) == [
        ["Near"],
        ["nbsal/explain/facts.py"],
        ["nbsal/methods/far.py"],
        ["nbsal/widgets/view.py:__init__"],
        ["nbsal.model"],
    ]


@cases(
    "source, table",
    [
        ("np.ones((2, size), dtype=bool)", True),
        ("np.zeros([len(sets), size], bool)", True),
        ("torch.full((2, size), True, dtype=torch.bool)", True),
        ("~torch.eye(size, dtype=torch.bool)", True),
        ("rank < counts[:, None]", True),
        ("(place := rank) >= np.array(counts)[:, None]", True),
        ("generator.random((4, size)) < 0.5", True),
        ("np.stack([generator.random(size) < 0.5 for _ in sets])", True),
        ("np.array([np.ones(size, bool), *sets])", True),
        ("hiding.values([~np.logical_or.reduce(sets)])", True),
        ("np.ones(size, dtype=bool)", False),
        ("np.ones((2, size))", False),
        ("(rank < counts[:, None]).sum(1)", False),
        ("np.array(sets, bool)", False),
        ("stack(np.ones(size, dtype=bool))", False),
    ],
)
def test_a_table_of_coalitions_is_recognised(source, table):
    (function,) = ast.parse(f"def build(size):\n    counts = sizes[:, None]\n    return {source}").body
    assert coalitions.builds_table(function) == table
    named = ast.parse("def build(size):\n    counts = sizes[:, None]\n    return rank < counts").body[0]
    assert coalitions.builds_table(named)
