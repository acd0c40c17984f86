"""The house: floors, style, types, and what `import nbsal` may load."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nbsal

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nbsal"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


def test_floors():
    found = run("-c", "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])")
    assert found.returncode == 0, found.stdout


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
    assert found.returncode != 0 and "nbsal.encoding -> nbsal.saliency" in found.stdout


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


def test_nothing_is_unpickled_or_evaluated():
    for path in SOURCES:
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        assert not calls & {"eval", "exec", "torch.load", "pickle.load", "pickle.loads"}, path
