"""How the package is built: floors, circles, style, types, examples, and what `import nbsal` may load."""

import ast
import doctest
import importlib
import inspect
import operator
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace

import grimp
import pytest

import nbsal
from tests import style
from tests.cases import cases
from tests.public import public

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nbsal"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]
FLOORS = CONTRACTS[0]
LINT_IMPORTS = ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


def test_floors_and_no_circle_of_imports():
    result = run(*LINT_IMPORTS)
    assert result.returncode == 0, result.stdout
    assert len(FLOORS["layers"]) <= 12
    assert not [contract for contract in CONTRACTS if "ignore_imports" in contract]
    listed = {name.strip() for row in FLOORS["layers"] for name in row.split(":")}
    graph = grimp.build_graph("nbsal")
    modules = graph.modules - {"nbsal", "nbsal.samples"}
    assert not [name for name in modules if not any(name == one or name.startswith(f"{one}.") for one in listed)]
    list(
        TopologicalSorter(
            {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
        ).static_order()
    )


@pytest.mark.parametrize("command", [("ruff", "check"), ("ruff", "format", "--check")])
def test_format(command):
    result = run("-m", *command, ".")
    assert result.returncode == 0, result.stdout


@pytest.mark.full  # the CI script runs mypy beside the front end's checks
def test_types():
    result = run("-m", "mypy")
    assert result.returncode == 0, result.stdout


def test_names_say_what_a_value_is():
    paths = list(style.sources())
    words, lines = style.vague_names(paths)
    assert 1000 * sum(counts.total() for counts in words.values()) / lines <= style.MOST
    assert not style.colon_titles(paths)


def test_every_public_name_has_an_example_that_runs():
    """Doctests of the package run beside these tests, so the examples hold."""
    examples = {name: doctest.DocTestParser().get_examples(member.__doc__ or "") for name, member in public().items()}
    assert {"nbsal.model.loading.load.load", "nbsal.heads.statistics.study", "nbsal.passes.lrp.rules.Linear"} <= set(
        examples
    )
    assert not [name for name, lines in examples.items() if not any(example.want for example in lines)]


def test_help_begins_with_the_names_that_people_use():
    names = re.findall(r"^    (\w+) {2,}\S", nbsal.__doc__, re.MULTILINE)
    assert len(names) == len({*names} & {*nbsal.__dir__()}) == 11 and {"load", "why", "Explainer", "answer"} < {*names}


LISTED = ["load", "why", "Explainer", "answer", "compare", "flip", "audit", "Endpoint", "contrast", "corpus.explain"]


@cases("name", LISTED)
def test_every_argument_is_listed(name):
    member = operator.attrgetter(name)(nbsal)
    _, listed = inspect.getdoc(member).split("\nArgs:\n")
    names = re.findall(r"^    (\S+): [A-Z]", listed, re.MULTILINE)
    assert names == [str(p).split(":")[0] for p in inspect.signature(member).parameters.values()]


@cases("name", ["clouds", "data", "progress", "trace"])
def test_modules_list_their_own_names_only(name):
    module = getattr(nbsal, name)
    members = [getattr(module, listed) for listed in dir(module)]
    assert members and dir(module) == sorted(module.__all__)
    defined = [member for member in members if inspect.isclass(member) or inspect.isfunction(member)]
    assert defined and {member.__module__ for member in defined} == {module.__name__}


def test_public_names_are_there_and_others_are_refused():
    assert not [name for name in nbsal.__dir__() if getattr(nbsal, name) is None]
    with pytest.raises(AttributeError):
        nbsal.Explayner  # noqa: B018


def test_files_are_short_and_documented():
    for path in PACKAGE.rglob("*.py"):
        if "node_modules" in path.parts:
            continue
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
        assert source.count("\n") < 400, path
        assert all(ast.get_docstring(node) for node in (tree, *classes)), path


@cases(
    "loaded, shell, messages",
    [
        ({"ipykernel"}, object(), ["Loading torch", ""]),
        ({"ipykernel"}, None, []),  # as in Panel
        ({"ipykernel", "torch"}, object(), []),
        (set(), None, []),
    ],
)
def test_the_first_use_in_a_notebook_says_what_it_waits_for(monkeypatch, loaded, shell, messages):
    shown = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))
    monkeypatch.setattr(nbsal, "modules", dict.fromkeys(loaded))
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data["text/plain"]) or handle)
    assert nbsal.load is importlib.import_module("nbsal.model.loading.load").load
    assert [text[: len("Loading torch")] for text in shown] == messages
