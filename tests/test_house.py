"""The house: floors, style, types, and what `import nbsal` may load."""

import ast
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import nbsal

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nbsal"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


def test_floors():
    found = run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])")
    assert found.returncode == 0, found.stdout


README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_shows_the_floors_that_are_held():
    shown = re.search(r"^```text\ncli .*?^```$", README, re.DOTALL | re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    held = project["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = [re.split(r"  +", line)[0] for line in shown[0].splitlines()[1:-1]]
    assert floors == [layer.replace("nbsal.", "").replace(" : ", " | ") for layer in held]


def test_the_readme_shows_lines_that_are_there():
    """What is said to have come with a method, a view, an architecture stands in those files, in that order."""
    shown = re.findall(r"^\+\+\+ (.*)\n((?:\+(?!\+\+).*\n)+)", README, re.MULTILINE)
    assert len(shown) == 7
    for path, lines in shown:
        there = iter((ROOT / path).read_text(encoding="utf-8").splitlines())
        assert not [line for line in lines.splitlines() if line[1:] not in there], path


def test_floors_catch_an_import_from_above(tmp_path):
    """A mutant of the package in which a low floor imports from a high one must be refused."""
    import shutil

    shutil.copytree(PACKAGE, tmp_path / "nbsal", ignore=shutil.ignore_patterns("weights", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "nbsal" / "encoding.py").open("a") as file:
        file.write("\nfrom nbsal.saliency import Saliency\n")
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])",
    ]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert found.returncode != 0 and "nbsal.model.tokens -> nbsal.saliency" in found.stdout


@pytest.mark.parametrize("command", [("ruff", "check"), ("ruff", "format", "--check")])
def test_style(command):
    found = run("-m", *command, ".")
    assert found.returncode == 0, found.stdout


def test_types():
    found = run("-m", "mypy")
    assert found.returncode == 0, found.stdout


def test_import_is_light():
    heavy = ("torch", "transformers", "numpy", "pandas", "matplotlib")
    code = f"import sys, nbsal; print([m for m in {heavy} if m in sys.modules])"
    assert run("-c", code).stdout.strip() == "[]"


def test_explaining_loads_no_widgets():
    code = (
        "import sys, nbsal; s = nbsal.Explainer(nbsal.load('demo/reviews'), 'decoded-gradcam')('A joy.'); s.to_html(); "
        "print([m for m in ('ipywidgets', 'anywidget', 'matplotlib', 'captum') if m in sys.modules])"
    )
    assert run("-c", code).stdout.strip() == "[]"


@pytest.mark.parametrize("name", nbsal.__dir__())
def test_public_names_are_there(name):
    assert getattr(nbsal, name) is not None


DOORS = ("nbsal", "nbsal.heads", "nbsal.evaluation", "nbsal.corpus", "nbsal.widgets")  # they name what lies within
ROOMS = (
    *("nbsal.data", "nbsal.clouds", "nbsal.samples", "nbsal.lrp.rules", "nbsal.lrp.mode", "nbsal.methods.catalogue"),
    *(f"nbsal.figures.{name}" for name in "decoding_saliency relevance mask_lrp flow checkpoints pages tables".split()),
)


def public() -> dict[str, Any]:
    """Every class and function that a reader of the documentation meets, by its full name."""
    found = {}
    for place in (*DOORS, *ROOMS):
        home = importlib.import_module(place)
        for name in {*dir(home), *getattr(home, "_NAMES", ())}:
            one = getattr(home, name)
            known = inspect.isclass(one) or inspect.isfunction(one)
            if (
                name[0] != "_"
                and known
                and (one.__module__ == place or (place in DOORS and "nbsal." in one.__module__))
            ):
                found[f"{one.__module__}.{one.__qualname__}"] = one
    return found


def test_every_public_name_has_an_example_that_runs():
    """Doctests of the package are run beside these tests, so an example that stands there holds."""
    examples = {name: doctest.DocTestParser().get_examples(one.__doc__ or "") for name, one in public().items()}
    assert {"nbsal.model.subject.load", "nbsal.heads.statistics.study", "nbsal.lrp.rules.Linear"} <= set(examples)
    assert not [name for name, found in examples.items() if not any(example.want for example in found)]


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="Explayner"):
        getattr(nbsal, "Explayner")  # noqa: B009


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_documented_and_say_one_thing(path):
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert ast.get_docstring(tree), "a file says what it is"
    assert source.count("\n") < 400
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert path.stem not in functions, "no function bears its module's name"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and node.name != "main":
            assert ast.get_docstring(node), node.name
