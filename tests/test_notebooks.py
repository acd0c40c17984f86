"""Test that each .ipynb has the cells of its .py and outputs that do not depend on the run."""

import ast
import copy
import json
import subprocess
import sys
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import pytest
from PIL import Image

from nbsal.figures import style
from nbsal.render import colours
from nbsal.render.html import ScoredSpan
from tests import gallery, pictures, publish
from tests.cases import cases

SCRIPTS = sorted(publish.FOLDER.glob("*.py"))
NOTEBOOKS = sorted(publish.FOLDER.glob("*.ipynb"))
KERNEL = {"name": "python3", "display_name": "Python 3"}
MOST_PICTURE_BYTES = 400_000
by_name = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.mark.full
@pytest.mark.parametrize(("option", "imported"), [("", False), ("--ignore-glob=notebooks/*.py", True)])
def test_collecting_tests_runs_no_notebook(tmp_path, option, imported):
    """The option in pyproject.toml prevents it: without the option, doctests import the scripts."""
    project = (publish.FOLDER.parent / "pyproject.toml").read_text(encoding="utf-8")
    assert option in project
    (tmp_path / "pyproject.toml").write_text(project.replace(option, ""), encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "one.py").write_text("raise RuntimeError('a notebook ran')", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "notebooks"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ("a notebook ran" in result.stdout) == imported, result.stdout
    assert imported or "no tests collected" in result.stdout, result.stdout


def cells(path):
    return [
        (cell.cell_type, cell.source.rstrip(), sorted(cell.metadata.get("tags", [])))
        for cell in jupytext.read(path).cells
    ]


def code_cells(notebook):
    return [cell for cell in nbformat.read(notebook, 4).cells if cell.cell_type == "code"]


@by_name
def test_notebooks_have_the_cells_of_their_scripts(notebook):
    script = notebook.with_suffix(".py")
    assert cells(script) == cells(notebook), f"run: jupytext --to ipynb --update {script.name} (the .py is the source)"


def test_every_script_has_its_notebook():
    assert NOTEBOOKS and [path.stem for path in NOTEBOOKS] == [path.stem for path in SCRIPTS]


def names(nodes):
    return {node.id for node in nodes if isinstance(node, ast.Name)}


@by_name
def test_no_cell_changes_a_view_that_an_earlier_one_shows(notebook):
    """A view's picture follows the view, so the earlier cell would show the state of the later one."""
    views, shown = set(), set()
    for cell in code_cells(notebook):
        body = ast.parse("\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))).body
        assigned = [statement for statement in body if isinstance(statement, ast.Assign)]
        targets = [target for statement in assigned for target in statement.targets]
        changed = names(target.value for target in targets if isinstance(target, ast.Attribute))
        assert not changed & shown, ast.unparse(body)
        made = [statement for statement in assigned if ast.unparse(statement.value).startswith("nbsal.widgets.")]
        views |= names(target for statement in made for target in statement.targets)
        shown |= views & names(ast.walk(body[-1])) if isinstance(body[-1], ast.Expr) else set()


@by_name
def test_every_cell_has_run_in_order_without_an_error(notebook):
    executed = code_cells(notebook)
    counts = [cell.execution_count for cell in executed]
    assert counts == list(range(1, len(executed) + 1)), "run: python -m tests.publish"
    kinds = {output.output_type for cell in executed for output in cell.outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}


@by_name
def test_outputs_are_static_and_small(notebook):
    content = nbformat.read(notebook, 4)
    nbformat.validate(content)
    cleaned = copy.deepcopy(content)
    publish.clean(cleaned)
    assert cleaned == content, f"run: python -m tests.publish {notebook.stem}"
    assert publish.TRACES.findall(text_outputs(content)) == []
    assert notebook.stat().st_size <= pictures.NOTEBOOK


def text_outputs(notebook):
    """The metadata and all outputs of a notebook as text, without pictures."""
    parts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            parts += [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]
    return json.dumps(notebook.metadata) + "\n".join(parts)


def labels(notebook):
    """What the pictures of views and of highlighted texts say, cell by cell."""
    shapes = [
        output.get("metadata", {}).get("image/png", {}) for cell in code_cells(notebook) for output in cell.outputs
    ]
    return "\n".join(shape["alt"] for shape in shapes if "alt" in shape)


@pytest.mark.full
@pytest.mark.parametrize(
    "notebook", [path for path in NOTEBOOKS if path.stem not in publish.ON_TABLES], ids=lambda path: path.stem
)
def test_pictures_of_a_notebook_say_what_the_program_says(notebook, monkeypatch, tmp_path):
    monkeypatch.delenv("NBSAL_SIZE")
    drawn = publish.read_script(notebook.with_suffix(".py"))
    publish.execute(drawn, notebook.stem)
    with ThreadPoolExecutor(1) as pool:  # other tests run Playwright in this thread
        pool.submit(publish.draw_coloured, drawn).result()
    nbformat.write(drawn, tmp_path / notebook.name)
    assert gallery.changes(labels(notebook), labels(tmp_path / notebook.name)) == [], "run: python -m tests.publish"


def test_cleaning_removes_what_depends_on_the_run():
    picture = BytesIO()
    Image.new("RGBA", (3, 3), (1, 2, 3, 255)).save(picture, "PNG")
    view = {publish.WIDGET: {"model_id": "f00"}, "text/html": "<b>seen</b>", "text/plain": "View at 0x7f00deadbeef"}
    outputs = [
        nbformat.v4.new_output("stream", name="stderr", text="\r 40%|████      | 2/5"),
        nbformat.v4.new_output("stream", name="stdout", text="kept"),
        nbformat.v4.new_output("display_data", {publish.WIDGET: {"model_id": "f00"}, "text/plain": "FloatProgress()"}),
        nbformat.v4.new_output("display_data", {"text/plain": ""}),
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
    outputs = [output.get("text") or dict(output.data) for output in cell.outputs]
    assert outputs[:3] == [
        "kept",
        {"text/html": "<b>seen</b>", "text/plain": "View"},
        {"text/html": '<table id="T_0_5"><td id="T_0_5_row0">'},
    ]
    assert len(outputs) == 4 and publish.gallery(notebook)["one"].startswith(b"\x89PNG")
    again = copy.deepcopy(notebook)
    publish.clean(again)
    assert again == notebook


def test_pictures_shrink_until_a_notebook_is_small(monkeypatch):
    """Areas keep their colours; what changes is the blur at the edges of letters, here a row of random pixels."""
    strong, pale = pictures.RAMPS[0][[-1, 2]].round().astype(np.uint8)
    pixels = np.full((300, 300, 3), pale, np.uint8)
    pixels[:100] = strong
    pixels[150, :] = np.random.default_rng(0).integers(0, 256, (300, 3))
    picture = b64encode(pictures.with_palette(Image.fromarray(pixels))).decode()
    monkeypatch.setattr(pictures, "SMALL", 1000)
    sizes = []
    for most, count, width in ((1_000_000, 128, 300), (len(picture), 64, 300), (1, 32, 169)):
        monkeypatch.setattr(pictures, "NOTEBOOK", most)
        output = nbformat.v4.new_output("display_data", {"image/png": picture})
        pictures.fit(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])]))
        image = Image.open(BytesIO(b64decode(output.data["image/png"])))
        after = np.asarray(image.convert("RGB"))
        assert image.mode == "P" and len(image.getcolors()) <= count and image.width == width
        assert (after[10] == strong).all() and (after[-10] == pale).all()
        sizes.append(len(output.data["image/png"]))
    assert sizes == sorted(sizes, reverse=True) and output.metadata["image/png"] == {"width": 150, "height": 150}


@pytest.mark.some(2)
@pytest.mark.parametrize("count", pictures.COLOURS)
def test_published_pictures_keep_the_colours_of_both_signs(count):
    """Words of every strength, for and against, among much else: each has a shade of its own sign, and never a grey."""
    strengths = [step / 40 for step in range(40, -41, -1)]
    spans = [[ScoredSpan(f"word{n} ", score) for n, score in enumerate(strengths)]]
    other = np.random.default_rng(0).integers(0, 256, (500, 3), np.uint8)  # takes places in the palette
    drawn = Image.open(BytesIO(style.png_bytes(style.texts([("scores", spans, 1.0)], "note")))).convert("RGB")
    before = np.concatenate([np.asarray(drawn), np.resize(other, (20, drawn.width, 3))]).astype(int)
    picture = pictures.with_palette(Image.fromarray(before.astype(np.uint8)), count)
    after = np.asarray(Image.open(BytesIO(picture)).convert("RGB")).astype(int)
    shown = set()
    for hue, sign in ((colours.FOR, 1), (colours.AGAINST, -1)):
        steps = {tuple(shade) for shade in pictures.shades(hue).round().astype(int).tolist()}
        for score in strengths:
            (r, g, b), opacity = colours.colour(score, 1.0)
            if score * sign > 0.1:
                fill = np.rint(255 + opacity * (np.array([r, g, b]) - 255))
                area = np.abs(before - fill).max(2) <= 1
                published = set(map(tuple, after[area].tolist()))
                assert area.any() and published <= steps - {colours.WHITE}, (score, published)
                shown |= published
    assert len(shown) == 2 * pictures.STEPS  # all shades of both signs


@cases("trace", ["/home/me/x", "/tmp/abc", r"C:\\Users\\me", "0x7f00dead", "2026-01-01 10:00"])
def test_paths_addresses_and_times_are_noticed(trace):
    assert publish.TRACES.search(f"saved in {trace}")


def test_the_gallery_has_the_pictures_of_the_notebooks():
    published = {}
    for path in NOTEBOOKS:
        published |= publish.gallery(nbformat.read(path, 4))
    assert published
    for name, picture in published.items():
        assert (publish.FOLDER / "gallery" / f"{name}.png").read_bytes() == picture, "run: python -m tests.publish"


def test_the_gallery_page_shows_every_picture_and_they_are_small():
    page = (publish.FOLDER / "gallery" / "README.md").read_text(encoding="utf-8")
    files = sorted(Path(publish.FOLDER / "gallery").glob("*.png"))
    assert files and all(file.stat().st_size < MOST_PICTURE_BYTES for file in files)
    assert [file.name for file in files if f"]({file.name})" not in page] == []
