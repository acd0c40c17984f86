"""The comparison with other tools: its page is up to date, and what is stored is what the installed tools answer."""

import ast
from pathlib import Path

import pytest

from tests.bench.features import page, registry
from tests.cases import cases

FOLDER = Path(registry.__file__).parent


@cases("tool", registry.TOOLS)
def test_every_probe_has_a_stored_answer(tool):
    source = ast.parse((FOLDER / f"probe_{registry.TOOLS[tool]}.py").read_text())
    probes = {node.name for node in source.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"}
    answers = page.load()[tool]["answers"]
    assert probes == set(answers) and probes <= {key for features in registry.FEATURES.values() for key in features}
    assert tool == "nbsal" or {answers[key]["answer"] for key in page.BETTER[tool][0]} <= {"yes", "partly"}


SLOW = {"live"}  # reads all of Unicode; tests/live writes such pages


@pytest.mark.parametrize("tool", ["nbsal", "captum"])
def test_the_answers_are_those_of_the_installed_version(tool):
    stored = {key: answer["answer"] for key, answer in page.load()[tool]["answers"].items() if key not in SLOW}
    probes = {key: probe for key, probe in registry.probes(tool).items() if key not in SLOW}
    assert {key: registry.run_probe(probe).answer for key, probe in probes.items()} == stored


def test_the_pages_are_up_to_date():
    for name, text in page.pages().items():
        stored = (page.FOLDER / name).read_text(encoding="utf-8")
        assert stored == text, "run `python -m tests.bench.features --write`"
