"""A package with a method and a view, installed by pip beside nbsal, is offered wherever nbsal's own are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "data" / "example_package"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run_python(tmp_path_factory):
    """run_python(*arguments) -> the output of Python in a process that sees the installed package."""
    folder = tmp_path_factory.mktemp("site")
    install = ["install", "--no-deps", "--no-build-isolation", "--no-index", "--no-compile", "-q"]
    command = [sys.executable, "-m", "pip", *install, "--target", folder, EXAMPLE]
    subprocess.run(command, check=True, capture_output=True)
    path = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])

    def run(*arguments):
        environment = os.environ | {"PYTHONPATH": path}
        result = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def test_the_command_line_lists_the_method_with_its_package(run_python):
    lines = run_python("-m", "nbsal.cli", "methods", "--full").splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("gradient-norm"))
    assert "from: nbsal-example 1.0" in [line.strip() for line in lines[start : start + 6]]
    assert [line.strip() for line in lines if "from: " in line] == ["from: nbsal-example 1.0"]


VIEW = """
import sys, nbsal
print([name for name in ("importlib.metadata", "nbsal.support.entry_points", "nbsal_example") if name in sys.modules])
from nbsal.testing import tiny_models
explain = nbsal.Explainer(tiny_models.load("bert"), "gradcam", layer=1)
assert "Strongest" in dir(nbsal.widgets)
view = nbsal.widgets.Strongest(explain, text="A warm joy.").wait()
print("gradient-norm" in [choice["name"] for choice in view.handle_methods(view._choices["methods"])])
view.method = "gradient-norm"
view.wait()
print(view.status, view.result.method, view.result.provenance["package"], len(view._words))
"""


@pytest.mark.full
def test_the_view_is_found_when_it_is_needed_and_its_picker_offers_the_method(run_python):
    expected = ["[]", "True", "ready gradient-norm nbsal-example 1.0 3"]  # importing nbsal looks for no package
    assert run_python("-c", VIEW).splitlines() == expected


MATRIX = """
import tempfile, pathlib
from functools import partial
from nbsal.methods.base import REGISTER
from tests import matrix, zoo
for name in [name for name in REGISTER if name != "gradcam"]:
    del REGISTER[name]  # the others take minutes
checked = set()
matrix.check = lambda subject, name, kind: checked.add(name)
assert matrix.column("llama", partial(zoo.load, pathlib.Path(tempfile.mkdtemp()))) == set()
print("gradient-norm" in checked)
"""


@pytest.mark.full
def test_the_page_of_methods_and_architectures_tries_it(run_python):
    assert run_python("-c", MATRIX).strip() == "True"


@pytest.mark.full
def test_the_checks_pass_on_it(run_python):
    table = run_python("-m", "nbsal.testing", "gradient-norm", "--only", "batch")
    assert table.splitlines()[-1].startswith("gradient-norm: 4 passed, 0 failed")
