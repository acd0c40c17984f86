"""The examples of the guides run, in order and in one namespace."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

from tests.docs import examples
from tests.docs.repository import ROOT


def run(name, folder, *values):
    """Run the blocks of a guide whose packages are installed, then print some values."""
    blocks = examples.blocks(examples.GUIDES / f"{name}.md")
    lines = [*filter(examples.can_run, blocks), *(f"print({value})" for value in values)]
    (folder / "guide.py").write_text("\n".join(lines), encoding="utf-8")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "HOME": str(folder)}
    result = subprocess.run([sys.executable, "guide.py"], cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("name", ["hosts", "plugins"])
def test_examples_run(name, tmp_path):
    assert len(examples.blocks(examples.GUIDES / f"{name}.md")) >= 3
    run(name, tmp_path)


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    """The folder in which the recipes ran, and what they printed: files of the artifact, scores pulled and pushed."""
    folder = tmp_path_factory.mktemp("recipes")
    has_datasets = importlib.util.find_spec("datasets")
    values = ["logged_files"] if importlib.util.find_spec("wandb") else []
    values += ["list(scores)", "corpus.saliency(1).scores.tolist()"] if has_datasets else []
    return folder, run("recipes", folder, *values)


def test_a_pull_request_comment_is_a_table_with_a_picture(recipes):
    comment = (recipes[0] / "comment.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| .*(positive|negative)", comment, re.MULTILINE)) == 2 and "![" in comment
    assert (recipes[0] / "explanation.png").read_bytes().startswith(b"\x89PNG")


def test_scores_survive_the_datasets_library(recipes):
    pytest.importorskip("datasets")
    pulled, pushed = (json.loads(line) for line in recipes[1][-2:])
    assert pulled == pytest.approx(pushed, abs=1e-3 * max(map(abs, pushed))) and any(pushed)


def test_an_artifact_of_mlflow_has_the_page_and_the_numbers(recipes):
    pytest.importorskip("mlflow")
    assert {"review.html", "review.json"} <= {path.name for path in (recipes[0] / "downloaded").iterdir()}


def test_a_run_of_weights_and_biases_has_the_page_and_the_corpus(recipes):
    pytest.importorskip("wandb")
    (run_folder,) = (recipes[0] / "wandb").glob("offline-run-*")
    assert list(run_folder.glob("files/media/html/review_*.html"))
    assert any("review.json" in line and "corpus/_manifest.json" in line for line in recipes[1])
