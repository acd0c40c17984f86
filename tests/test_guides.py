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


@pytest.mark.full
@pytest.mark.parametrize("name", ["hosts", "plugins"])
def test_examples_run(name, tmp_path):
    assert len(examples.blocks(examples.GUIDES / f"{name}.md")) >= 3
    run(name, tmp_path)


@pytest.mark.full
def test_recipes_run(tmp_path):
    """They write a comment of a pull request, push scores to a dataset, and log to MLflow and to Weights and Biases."""
    has_datasets, has_mlflow, has_wandb = map(importlib.util.find_spec, ("datasets", "mlflow", "wandb"))
    values = ["logged_files"] if has_wandb else []
    values += ["list(scores)", "corpus.saliency(1).scores.tolist()"] if has_datasets else []
    printed = run("recipes", tmp_path, *values)
    comment = (tmp_path / "comment.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| .*(positive|negative)", comment, re.MULTILINE)) == 2 and "![" in comment
    assert (tmp_path / "explanation.png").read_bytes().startswith(b"\x89PNG")
    if has_datasets:
        pulled, pushed = map(json.loads, printed[-2:])
        assert pulled == pytest.approx(pushed, abs=1e-3 * max(map(abs, pushed))) and any(pushed)
    if has_mlflow:
        assert {"review.html", "review.json"} <= {path.name for path in (tmp_path / "downloaded").iterdir()}
    if has_wandb:
        (run_folder,) = (tmp_path / "wandb").glob("offline-run-*")
        assert list(run_folder.glob("files/media/html/review_*.html"))
        assert any("review.json" in line and "corpus/_manifest.json" in line for line in printed)
