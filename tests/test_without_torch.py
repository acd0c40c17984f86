"""Saved results open, print, plot and show in every view where torch and its companions cannot be imported."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import nbsal
from nbsal.methods import labels
from nbsal.support.errors import MODEL_PACKAGES
from tests.saved_results import needing_a_model, opened, save_each_kind, written

ROOT = Path(__file__).parents[1]
# The Python of an environment with tests/viewer-requirements.txt; without it, the packages are blocked in this one.
READER = os.environ.get("NBSAL_READER", sys.executable)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a saved result of each kind, and with what a process without torch made of them."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("saved")
    save_each_kind(folder)
    command = [READER, "-m", "tests.saved_results", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder


def test_results_look_alike_without_torch(saved):
    expected, outcome = written(opened(saved)), json.loads((saved / "outcome.json").read_text())
    assert outcome["written"] == expected
    assert set(outcome["statuses"].values()) == {"ready"} and len(outcome["statuses"]) == 24


def test_what_needs_a_model_names_the_command(saved):
    messages = json.loads((saved / "outcome.json").read_text())["refused"]
    assert messages.keys() == needing_a_model({}).keys()
    for name, (package, message) in messages.items():
        assert package in MODEL_PACKAGES and message.endswith("Install it with: pip install nbsal"), message
        assert message.startswith(f"{name} needs {package}")


def test_properties_of_scores_are_those_of_the_catalogue():
    for name, method in nbsal.methods.catalogue.every_method().items():
        assert labels.own_promise(name) == method.promise & {"nonnegative", "not_about_target"}, name
    assert labels.own_promise("gae@elsewhere") is None and labels.own_promise("elsewhere") is None


def test_the_list_of_a_reader_is_the_guide_s_and_part_of_the_dependencies():
    lines = (ROOT / "tests" / "viewer-requirements.txt").read_text().splitlines()
    listed = {line for line in lines if line and not line.startswith("#")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert listed - {*project["dependencies"]} == {"jinja2>=3.1"}  # which torch brings
    guide = (ROOT / ".docs" / "guides" / "without-torch.md").read_text()
    command = re.search(r"pip install --no-compile (?!--no-deps)(.*)", guide)
    assert command[1].split() == [line.partition(">=")[0] for line in lines if line in listed]
