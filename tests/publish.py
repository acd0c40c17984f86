"""Run the notebooks and save them with reproducible outputs: `python -m tests.publish [name ...]`.

Each .ipynb is rebuilt from its .py, executed on the embedded models and texts, and written with outputs that are the
same in every run. The notebooks of the papers are executed on the benchmark tables in NBSAL_DATA, if it is set.
Highlighted texts and views become pictures, since many pages that show notebooks remove colours from HTML. Pictures in
cells tagged `gallery-NAME` are saved in the gallery.
"""

import argparse
import os
import re
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from playwright.sync_api import sync_playwright

from tests import pictures
from tests.browser import bench

FOLDER = Path(__file__).parents[1] / "notebooks"
GALLERY = "gallery-"
ON_TABLES = ("05_decoding_paper", "06_mask_lrp_paper")  # published from real benchmark tables
LANGUAGE = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python", "pygments_lexer": "ipython3"}
WIDGET = "application/vnd.jupyter.widget-view+json"
STYLED = re.compile(r"\bT_[0-9a-f]{5}")  # the id of a styled frame, which is random
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
DATE = re.compile(r"Snapshot of \d+ \w+ \d{4}")
PROGRESS_BAR = re.compile(r"\r|\d+%\|")
# Must not remain in outputs: paths, memory addresses and times.
TRACES = re.compile(
    r"/(?:home|root|tmp|usr|var|work|Users)/|[A-Z]:\\\\|site-packages|0x[0-9a-f]{6,}|\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d"
)
COLOURED = re.compile(r"background(?:-color)?:rgba\(")  # in the HTML of highlighted texts and of views
PAGE_WIDTH = 760  # CSS pixels
PICTURE_KEYS = ("alt", "height", "width")
CELL_KEYS = ("tags", "lines_to_next_cell")  # jupytext needs the latter for the .py


def read_script(script: Path) -> Any:
    """Read a .py as a notebook without outputs."""
    notebook = jupytext.read(script)
    for index, cell in enumerate(notebook.cells):
        cell.id = f"cell-{index}"
    return notebook


def environment(name: str) -> dict[str, str]:
    """The environment that a notebook runs in: offline, and without benchmark tables unless it is about a paper."""
    hidden = () if name in ON_TABLES else ("NBSAL_DATA", "NBSAL_RESULTS")
    return {key: value for key, value in os.environ.items() if key not in hidden} | {"HF_HUB_OFFLINE": "1"}


def execute(notebook: Any, name: str) -> None:
    """Run a notebook in an empty folder, without a front end."""
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=3 * 3600 if name in ON_TABLES else 900,  # seconds a cell
            store_widget_state=False,
            resources={"metadata": {"path": folder}},
            extra_arguments=["--InlineBackend.figure_formats=retina"],
        )
        client.execute(env=environment(name))


def draw_coloured(notebook: Any) -> None:
    """Replace coloured HTML by pictures of it at twice the size, with what it says as their alternative text."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=bench.executable(), headless=True, args=bench.FLAGS)
        page = browser.new_page(viewport={"width": PAGE_WIDTH, "height": 600}, device_scale_factor=2)
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                if COLOURED.search(output.get("data", {}).get("text/html", "")):
                    _draw(page, output)
        browser.close()


def _draw(page: Any, output: Any) -> None:
    html = DATE.sub("Snapshot", output.data.pop("text/html"))
    body = "margin:0;font-family:system-ui,sans-serif"  # as in JupyterLab, and not the browser's default
    page.set_content(f"<body style='{body}'><main style='display:flow-root;padding:2px'>{html}</main>")
    label = page.locator("[aria-label]").first
    alt = label.get_attribute("aria-label") if label.count() else "highlighted texts"
    main = page.locator("main")
    box = main.bounding_box()
    output.data["image/png"] = b64encode(main.screenshot()).decode()
    size = {"width": round(box["width"]), "height": round(box["height"])}
    output.metadata = nbformat.from_dict({"image/png": {"alt": alt, **size}})


def clean(notebook: Any) -> None:
    """Remove everything that depends on the run; cleaning a clean notebook changes nothing."""
    metadata = {name: notebook.metadata[name] for name in ("jupytext", "kernelspec") if name in notebook.metadata}
    notebook.metadata = nbformat.from_dict(metadata | {"language_info": LANGUAGE})
    for number, cell in enumerate(notebook.cells):
        cell.metadata = nbformat.from_dict({name: cell.metadata[name] for name in CELL_KEYS if cell.metadata.get(name)})
        if cell.cell_type == "code":
            cleaned = [_clean_output(output, f"T_{number}_{i}") for i, output in enumerate(cell.outputs)]
            cell.outputs = [output for output in cleaned if output is not None]


def _clean_output(output: Any, table: str) -> Any:
    """One output without what depends on the run, or None if nothing is left; styled frames get that id."""
    if output.output_type == "stream":
        return None if output.name == "stderr" and PROGRESS_BAR.search(output.text) else output
    if output.output_type == "error":
        return output
    picture = output.metadata.get("image/png", {})
    known = {key: picture[key] for key in PICTURE_KEYS if key in picture}
    output.metadata = nbformat.from_dict({"image/png": known} if known else {})
    if output.data.pop(WIDGET, None) is not None and "text/html" not in output.data:
        return None
    if output.data == {"text/plain": ""}:  # the place of a message that is gone
        return None
    if "image/png" in output.data:
        output.data["image/png"] = pictures.compress(output.data["image/png"])
    for kind, text in output.data.items():
        if kind.startswith("text/"):
            text = STYLED.sub(table, text)
            output.data[kind] = DATE.sub("Snapshot", ADDRESS.sub("", text))
    return output


def gallery(notebook: Any) -> dict[str, bytes]:
    """The pictures for the gallery by name."""
    images = {}
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", []):
            if tag.startswith(GALLERY):
                outputs = [output.data for output in cell.outputs if "image/png" in output.get("data", {})]
                images[tag.removeprefix(GALLERY)] = b64decode(outputs[0]["image/png"])
    return images


def publish(script: Path) -> Path:
    """Run one notebook and save it with its pictures."""
    notebook = read_script(script)
    execute(notebook, script.stem)
    draw_coloured(notebook)
    clean(notebook)
    pictures.fit(notebook)
    for name, picture in gallery(notebook).items():
        (FOLDER / "gallery" / f"{name}.png").write_bytes(picture)
    path = script.with_suffix(".ipynb")
    nbformat.write(notebook, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.publish", description=__doc__)
    parser.add_argument("names", nargs="*", help="notebooks such as 01_quickstart (default: all)")
    options = parser.parse_args()
    for script in sorted(FOLDER.glob("*.py")):
        if not options.names or script.stem in options.names:
            path = publish(script)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
