"""Notebooks: each .ipynb says what its .py twin says, and carries outputs of which nothing changes from run to run."""

import copy
import json
import subprocess
import sys
from base64 import b64encode
from io import BytesIO
from pathlib import Path

import jupytext
import nbformat
import pytest
from PIL import Image

from tests import publish

SCRIPTS = sorted(publish.FOLDER.glob("*.py"))
NOTEBOOKS = sorted(publish.FOLDER.glob("*.ipynb"))
KERNEL = {"name": "python3", "display_name": "Python 3"}
LARGEST, LARGEST_PICTURE = 1_500_000, 300_000
by_name = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.mark.parametrize("settings, ran", [("", False), ("--ignore-glob=notebooks/*.py", True)])
def test_collecting_tests_runs_no_notebook(tmp_path, settings, ran):
    """Unless the settings lose the part that keeps their sources from being imported for doctests."""
    project = (publish.FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert settings in project
    (tmp_path / "pyproject.toml").write_text(project.replace(settings, ""), encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "one.py").write_text("raise RuntimeError('a notebook ran')", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "notebooks"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ("a notebook ran" in found.stdout) == ran, found.stdout
    assert ran or "no tests collected" in found.stdout, found.stdout


def cells(path):
    return [
        (cell.cell_type, cell.source.rstrip(), sorted(cell.metadata.get("tags", [])))
        for cell in jupytext.read(path).cells
    ]


def code(notebook):
    return [cell for cell in nbformat.read(notebook, 4).cells if cell.cell_type == "code"]


@by_name
def test_pairs_are_in_step(notebook):
    script = notebook.with_suffix(".py")
    assert cells(script) == cells(notebook), f"run: jupytext --to ipynb --update {script.name} (the .py is the source)"


def test_every_script_has_its_notebook():
    assert NOTEBOOKS and [path.stem for path in NOTEBOOKS] == [path.stem for path in SCRIPTS]


@by_name
def test_every_cell_has_run_in_order_and_none_failed(notebook):
    found = code(notebook)
    assert [cell.execution_count for cell in found] == list(range(1, len(found) + 1)), "run: python -m tests.publish"
    kinds = {output.output_type for cell in found for output in cell.outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}


@by_name
def test_outputs_are_static_and_small(notebook):
    read = nbformat.read(notebook, 4)
    nbformat.validate(read)
    cleaned = copy.deepcopy(read)
    publish.clean(cleaned)
    assert cleaned == read, f"run: python -m tests.publish {notebook.stem}"
    assert publish.TRACES.findall(said(read)) == []
    assert notebook.stat().st_size < LARGEST


def said(notebook):
    """All that a notebook says, pictures aside."""
    parts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            parts += [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]
    return json.dumps(notebook.metadata) + "\n".join(parts)


def test_what_is_volatile_is_taken_out():
    picture = BytesIO()
    Image.new("RGBA", (3, 3), (1, 2, 3, 255)).save(picture, "PNG")
    view = {publish.WIDGET: {"model_id": "f00"}, "text/html": "<b>seen</b>", "text/plain": "View at 0x7f00deadbeef"}
    outputs = [
        nbformat.v4.new_output("stream", name="stderr", text="\r 40%|████      | 2/5"),
        nbformat.v4.new_output("stream", name="stdout", text="kept"),
        nbformat.v4.new_output("display_data", {publish.WIDGET: {"model_id": "f00"}, "text/plain": "FloatProgress()"}),
        nbformat.v4.new_output("execute_result", view, metadata={"at": "now"}, execution_count=1),
        nbformat.v4.new_output("display_data", {"text/html": '<table id="T_0a1b2"><td id="T_0a1b2_row0">'}),
        nbformat.v4.new_output("display_data", {"image/png": b64encode(picture.getvalue()).decode()}),
    ]
    times = {"execution": {"iopub.execute_input": "2026-01-01T10:00"}, "tags": ["gallery-one"]}
    cell = nbformat.v4.new_code_cell("x", outputs=outputs, metadata=times, execution_count=1)
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {"state": {}}, "kernelspec": KERNEL})
    publish.clean(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert cell.metadata == {"tags": ["gallery-one"]}
    kept = [output.get("text") or dict(output.data) for output in cell.outputs]
    assert kept[:3] == [
        "kept",
        {"text/html": "<b>seen</b>", "text/plain": "View"},
        {"text/html": '<table id="T_1"><td id="T_1_row0">'},
    ]
    assert len(kept) == 4 and publish.pictures(notebook)["one"].startswith(b"\x89PNG")
    again = copy.deepcopy(notebook)
    publish.clean(again)
    assert again == notebook


@pytest.mark.parametrize("trace", ["/home/me/x", "/tmp/abc", r"C:\\Users\\me", "0x7f00dead", "2026-01-01 10:00"])
def test_traces_of_a_machine_are_seen(trace):
    assert publish.TRACES.search(f"saved in {trace}")


def test_the_gallery_is_what_the_notebooks_drew():
    drawn = {}
    for path in NOTEBOOKS:
        drawn |= publish.pictures(nbformat.read(path, 4))
    assert drawn
    for name, picture in drawn.items():
        assert (publish.FOLDER / "gallery" / f"{name}.png").read_bytes() == picture, "run: python -m tests.publish"


def test_the_readme_shows_pictures_that_are_there_and_small():
    readme = (publish.FOLDER.parent / "README.md").read_text(encoding="utf-8")
    pictures = sorted(Path(publish.FOLDER / "gallery").glob("*.png"))
    assert pictures and all(picture.stat().st_size < LARGEST_PICTURE for picture in pictures)
    assert [picture.name for picture in pictures if f"notebooks/gallery/{picture.name}" not in readme] == []
