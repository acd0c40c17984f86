"""Notebooks: each .ipynb says exactly what its .py twin says, and the wheel will carry them."""

from pathlib import Path

import jupytext
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def cells(path):
    return [
        (cell.cell_type, cell.source.rstrip(), sorted(cell.metadata.get("tags", [])))
        for cell in jupytext.read(path).cells
    ]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_pairs_are_in_step(notebook):
    script = notebook.with_suffix(".py")
    assert cells(script) == cells(notebook), f"run: jupytext --to ipynb --update {script.name} (the .py is the source)"


def test_every_script_has_its_notebook():
    assert NOTEBOOKS and {path.stem for path in NOTEBOOKS} == {path.stem for path in NOTEBOOKS[0].parent.glob("*.py")}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_volatile_is_kept(notebook):
    read = jupytext.read(notebook)
    assert "widgets" not in read.metadata
    for cell in read.cells:
        assert "execution" not in cell.metadata
        assert not any("widget-view" in key for output in cell.get("outputs", []) for key in output.get("data", {}))
