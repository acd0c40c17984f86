"""What lists, pages and figures say of a method: stated in its class, and read from there without importing torch."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent  # of the classes
SUFFIXES = {
    "published": "Song et al. 2024",
    "equations": "by the equations",
    "chefer": "Chefer et al. 2021",
    "allennlp": "AllenNLP",
    "thermostat": "ThermoStat",
    "flashtrace": "FlashTrace",
}


@dataclass(frozen=True)
class Facts:
    """What lists, pages and figures say of a method; a class states it as literals, in the attribute `facts`."""

    label: str = ""  # on screen; by the name if it is empty
    sentence: str = ""  # what the method shows; the first paragraph of the docstring if it is empty
    look: int | None = None  # place among the colours, dashes and markers of figures
    recommended: int = 0  # place among the methods to try first; 0: not one of them
    start: str = ""  # what for, of the methods that `nbsal methods` says to start with
    default_for: Mapping[str, int] = field(default_factory=dict)  # place among the defaults of a use
    replies: int = 0  # place among the methods to try first for replies; 0: not one of them
    explains_replies: bool = True  # False: it reads encoders, or needs what replies have not
    live: bool = False  # whether live pages run it


@cache
def stated() -> Mapping[str, Facts]:
    """The facts of nbsal's own methods by name, without those that state none.

    >>> stated()["gae"].label
    'GAE'
    """
    values: dict[str, ast.expr | None] = {}
    for name, node in _registered().items():
        values |= {name: _attribute(node, "facts"), f"decoded-{name}": _attribute(node, "decoded")}
    return {name: _facts(value) for name, value in values.items() if isinstance(value, ast.Call)}


@cache
def stated_promise(name: str) -> frozenset[str] | None:
    """The properties of the scores of nbsal's own method, as its class states them; None for other names.

    >>> "nonnegative" in stated_promise("gae"), stated_promise("elsewhere")
    (True, None)
    """
    inner = name.removeprefix("decoded-")
    if inner not in _registered() or (inner != name and name not in stated()):
        return None
    return _promise(_registered()[inner])


def label_of(name: str, provenance: Mapping[str, Any] | None = None) -> str:
    """The name of a method on screen, by the provenance of a result or the method's name; unknown names stay.

    >>> label_of("gae@chefer"), label_of("ours"), label_of("ours", {"label": "Our method"})
    ('GAE · Chefer et al. 2021', 'ours', 'Our method')
    """
    if provenance and isinstance(stored := provenance.get("label"), str):
        return stored
    base, _, variant = name.partition("@")
    own = stated().get(base, Facts()).label or base
    return f"{own} · {SUFFIXES.get(variant, variant)}" if variant else own


@cache
def _classes() -> dict[str, ast.ClassDef]:
    """The classes as syntax trees, since saved results name methods where torch is not installed."""
    paths = [*sorted(FOLDER.glob("*.py")), *sorted((FOLDER / "reference").glob("*.py"))]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


@cache
def _registered() -> dict[str, ast.ClassDef]:
    """The class of each method by the method's name."""
    calls = ((node, call) for node in _classes().values() for call in _registrations(node))
    return {ast.literal_eval(call.args[0]): node for node, call in calls}


def _registrations(node: ast.ClassDef) -> Iterator[ast.Call]:
    """The calls of `register` around a class."""
    for call in node.decorator_list:
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "register":
            yield call


def _attribute(node: ast.ClassDef, name: str) -> ast.expr | None:
    """What a class sets an attribute to."""
    assigned = (each for each in node.body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name)
    return next((each.value for each in assigned), None)


def _facts(call: ast.Call) -> Facts:
    values: dict[str, Any] = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    return Facts(*map(ast.literal_eval, call.args), **values)


def _promise(node: ast.ClassDef) -> frozenset[str]:
    """The properties that a class states, or else those of the first of its bases that states any."""
    keywords = [each for call in _registrations(node) for each in call.keywords]
    value = next((each.value for each in keywords if each.arg == "promise"), _attribute(node, "promise"))
    if value is None:
        bases = (_classes().get(ast.unparse(base)) for base in node.bases)
        return next(filter(None, (_promise(base) for base in bases if base)), frozenset())
    texts = frozenset(str(each.value) for each in ast.walk(value) if isinstance(each, ast.Constant))
    others = (ast.unparse(each.value) for each in ast.walk(value) if isinstance(each, ast.Attribute))
    return texts.union(*(_promise(_classes()[name]) for name in others))
