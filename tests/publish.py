"""Publishes notebooks: runs them on the texts that come along, and keeps what does not change from run to run.

`python -m tests.publish [name ...]` brings each .ipynb up to its .py, executes it, writes it with cleaned outputs, and
takes the gallery's pictures from the cells tagged `gallery-NAME`.
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
STYLED = re.compile(r"\bT_[0-9a-f]{5}")  # a styled frame's id, drawn anew every time
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
BAR = re.compile(r"\r|\d+%\|")
# What must not be left: places on this machine, addresses, moments.
TRACES = re.compile(
    r"/(?:home|root|tmp|usr|var|work|Users)/|[A-Z]:\\\\|site-packages|0x[0-9a-f]{6,}|\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d"
)
COLOURS = 128
LASTING = ("tags", "lines_to_next_cell")  # the latter is jupytext's, about the .py


def twin(script: Path) -> Any:
    """The notebook that a .py says."""
    made = jupytext.read(script)
    for at, cell in enumerate(made.cells):
        cell.id = f"cell-{at}"
    return made


def execute(notebook: Any) -> None:
    """Run it offline in a folder of its own, without benchmark tables and without a front end."""
    environment = {name: value for name, value in os.environ.items() if name != "NBSAL_DATA"}
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, timeout=900, store_widget_state=False, resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment | {"HF_HUB_OFFLINE": "1"})


def clean(notebook: Any) -> None:
    """Leave what a reader sees, and nothing of the run: twice is the same as once."""
    kept = {name: notebook.metadata[name] for name in ("jupytext", "kernelspec") if name in notebook.metadata}
    notebook.metadata = nbformat.from_dict(kept | {"language_info": LANGUAGE})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({name: cell.metadata[name] for name in LASTING if cell.metadata.get(name)})
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_cleaned, cell.outputs) if output is not None]


def _cleaned(output: Any) -> Any:
    """One output without what is volatile; None where nothing is left."""
    if output.output_type == "stream":
        return None if output.name == "stderr" and BAR.search(output.text) else output
    if output.output_type == "error":
        return output
    output.metadata = nbformat.from_dict({})
    if output.data.pop(WIDGET, None) is not None and "text/html" not in output.data:
        return None
    if "image/png" in output.data:
        output.data["image/png"] = _small(output.data["image/png"])
    names: dict[str, str] = {}
    for kind, text in output.data.items():
        if kind.startswith("text/"):
            text = STYLED.sub(lambda found: names.setdefault(found[0], f"T_{len(names) + 1}"), text)
            output.data[kind] = ADDRESS.sub("", text)
    return output


def _small(picture: str) -> str:
    """The picture in few colours; one that has few already stays to the byte."""
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
    """The gallery's pictures by name."""
    found = {}
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", []):
            if tag.startswith(GALLERY):
                images = [one.data["image/png"] for one in cell.outputs if "image/png" in one.get("data", {})]
                found[tag.removeprefix(GALLERY)] = b64decode(images[0])
    return found


def publish(script: Path) -> Path:
    """Run one notebook and write it down with its pictures."""
    notebook = twin(script)
    execute(notebook)
    clean(notebook)
    for name, picture in pictures(notebook).items():
        (FOLDER / "gallery" / f"{name}.png").write_bytes(picture)
    path = script.with_suffix(".ipynb")
    nbformat.write(notebook, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.publish", description=__doc__)
    parser.add_argument("names", nargs="*", help="notebooks such as 01_quickstart; none: all of them")
    options = parser.parse_args()
    for script in sorted(FOLDER.glob("*.py")):
        if not options.names or script.stem in options.names:
            path = publish(script)
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
