"""Run the notebooks and save them with reproducible outputs: `python -m tests.publish [name ...]`.

Each .ipynb is rebuilt from its .py, executed on the embedded models and texts, and written with outputs that are the
same in every run. Pictures in cells tagged `gallery-NAME` are saved in the gallery.
"""

import argparse
import os
import re
import tempfile
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parents[1] / "notebooks"
GALLERY = "gallery-"
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
COLOURS = 128
CELL_KEYS = ("tags", "lines_to_next_cell")  # jupytext needs the latter for the .py


def read_script(script: Path) -> Any:
    """Read a .py as a notebook without outputs."""
    notebook = jupytext.read(script)
    for index, cell in enumerate(notebook.cells):
        cell.id = f"cell-{index}"
    return notebook


def execute(notebook: Any) -> None:
    """Run a notebook offline in an empty folder, without benchmark tables and without a front end."""
    environment = {name: value for name, value in os.environ.items() if name != "NBSAL_DATA"}
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=900, store_widget_state=False, resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment | {"HF_HUB_OFFLINE": "1"})


def clean(notebook: Any) -> None:
    """Remove everything that depends on the run; cleaning a clean notebook changes nothing."""
    metadata = {name: notebook.metadata[name] for name in ("jupytext", "kernelspec") if name in notebook.metadata}
    notebook.metadata = nbformat.from_dict(metadata | {"language_info": LANGUAGE})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({name: cell.metadata[name] for name in CELL_KEYS if cell.metadata.get(name)})
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_clean_output, cell.outputs) if output is not None]


def _clean_output(output: Any) -> Any:
    """One output without what depends on the run, or None if nothing is left."""
    if output.output_type == "stream":
        return None if output.name == "stderr" and PROGRESS_BAR.search(output.text) else output
    if output.output_type == "error":
        return output
    output.metadata = nbformat.from_dict({})
    if output.data.pop(WIDGET, None) is not None and "text/html" not in output.data:
        return None
    if output.data == {"text/plain": ""}:  # the place of a message that is gone
        return None
    if "image/png" in output.data:
        output.data["image/png"] = _compress(output.data["image/png"])
    names: dict[str, str] = {}
    for kind, text in output.data.items():
        if kind.startswith("text/"):
            text = STYLED.sub(lambda match: names.setdefault(match[0], f"T_{len(names) + 1}"), text)
            output.data[kind] = DATE.sub("Snapshot", ADDRESS.sub("", text))
    return output


def _compress(picture: str) -> str:
    """Reduce a PNG to few colours; one that has a palette already stays unchanged."""
    data = b64decode(picture)
    with Image.open(BytesIO(data)) as image:
        if image.mode == "P":
            return picture
        file = BytesIO()
        flat = Image.new("RGB", image.size, "white")
        flat.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
        flat.quantize(COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return b64encode(file.getvalue()).decode()


def pictures(notebook: Any) -> dict[str, bytes]:
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
    execute(notebook)
    clean(notebook)
    for name, picture in pictures(notebook).items():
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
