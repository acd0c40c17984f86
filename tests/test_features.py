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
    assert probes == set(page.load()[tool]["answers"])
    assert probes <= {key for features in registry.FEATURES.values() for key in features}


@pytest.mark.parametrize("tool", ["nbsal", "captum"])
def test_the_answers_are_those_of_the_installed_version(tool):
    stored = page.load()[tool]["answers"]
    assert {key: registry.run_probe(probe).answer for key, probe in registry.probes(tool).items()} == {
        key: answer["answer"] for key, answer in stored.items()
    }


def test_a_probe_that_fails_is_a_no():
    def broken(folder):
        raise RuntimeError("not for this model")

    assert registry.run_probe(broken) == registry.no("RuntimeError: not for this model")
    assert registry.run_probe(lambda folder: folder.name and "seen") == registry.Answer("yes", "seen")


@cases("tool", [tool for tool in registry.TOOLS if tool != "nbsal"])
def test_what_a_tool_does_better_was_run(tool):
    keys, _ = page.BETTER[tool]
    answers = page.load()[tool]["answers"]
    assert {answers[key]["answer"] for key in keys} <= {"yes", "partly"}


def test_the_page_is_up_to_date():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run `python -m tests.bench.features --write`"
