"""Where CONTRIBUTING says to put things: an example of each, put there in a copy of the package, works."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import nbsal
from nbsal.widgets import base

PACKAGE = Path(nbsal.__file__).parent
METHOD = """

@register(
    "steepness", family="gradient", needs={"hidden_grad"}, paper="-", cost=Cost(1, backwards=1), promise={"nonnegative"}
)
@dataclass(frozen=True)
class Steepness(LayerMethod):
    def features(self, trace: Trace) -> Tensor:
        return trace.hidden_grad[self.chosen].abs()

    def aggregate(self, features: Tensor) -> Tensor:
        return features.sum(-1)
"""
KIND = '''"""Boxes of a toy library."""

from nbsal.model.loading.wrappers.plain import open_module


def open_box(model, request):
    return open_module(model.content, request)
'''
DRAWING = """

def word_count(count: int) -> Figure:
    figure = Figure()
    figure.add_subplot().bar(["words"], [count])
    return figure
"""
FIGURE = """

def count_figure(build: Build) -> Product:
    return Product([("", drawing.word_count(3))], "three words")


EXHIBITS.append(Exhibit("Figure 99", "Words", "", count_figure, ""))
"""
VIEW = "import traitlets\n\nfrom nbsal.widgets.base import View\n\n\n" + textwrap.dedent(
    re.search(r"    class Bars.*?(?=\n`Bars)", base.__doc__, re.DOTALL)[0]
)
# For each row of the table what is appended to a file, or put in place of some text of it.
PLACES = {
    "method": [("methods/gradient.py", "", METHOD)],
    "view": [
        ("widgets/bars.py", "", VIEW),
        ("widgets/__init__.py", "from nbsal.widgets.browse", "from nbsal.widgets.bars import Bars as Bars\n"),
    ],
    "kind": [
        ("model/loading/wrappers/toy.py", "", KIND),
        (
            "model/loading/wrappers/registry.py",
            "\ndef open_model",
            '\nfrom . import toy; KINDS["toys."] = toy.open_box\n',
        ),
    ],
    "rule": [("passes/lrp/functions.py", "torch.tanh, T.tanh", "torch.cos, ")],
    "figure": [("figures/mask_lrp.py", "", DRAWING), ("figures/mask_lrp_exhibits.py", "", FIGURE)],
}
MOST = {"method": 3, "view": 4, "kind": 2, "rule": 1, "figure": 2}
SCRIPT = """
import torch, nbsal
from nbsal.figures.mask_lrp_exhibits import EXHIBITS
reviews = nbsal.load("demo/reviews")
explain = nbsal.Explainer(reviews, "steepness")
assert explain("A joy.").scores.min() >= 0
assert nbsal.widgets.Bars(explain, text="A joy.").wait().bars[1][0] == "joy"
box = type("Box", (), {"__module__": "toys.boxes", "content": reviews.model})()
assert nbsal.load(box, tokenizer=reviews.tokenizer).labels == reviews.labels
for layer in reviews.model.base_model.encoder.layer:
    del layer.intermediate.intermediate_act_fn
    layer.intermediate.intermediate_act_fn = torch.cos
assert nbsal.Explainer(reviews, "lrp")("A joy.").scores.any()
assert EXHIBITS[-1].make(None).parts
print("all five work")
"""


@pytest.fixture(scope="module")
def copy_of_package(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(
        PACKAGE, folder / "nbsal", copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__", "frontend")
    )
    return folder


def put(path: Path, before: str, content: str) -> None:
    """Put content before some text of a file, or at its end."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    path.unlink(missing_ok=True)
    assert not before or before in old
    path.write_text(old.replace(before, content + before, 1) if before else old + content, encoding="utf-8")


@pytest.mark.full
def test_an_example_of_each_works(copy_of_package):
    for name, edits in PLACES.items():
        assert len(edits) <= MOST[name]
        for path, before, content in edits:
            put(copy_of_package / "nbsal" / path, before, content)
    environment = os.environ | {"PYTHONPATH": str(copy_of_package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SCRIPT]
    result = subprocess.run(command, cwd=copy_of_package, env=environment, capture_output=True, text=True)
    assert result.stdout == "all five work\n", result.stderr
