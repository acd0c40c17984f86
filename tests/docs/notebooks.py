"""The notebooks as pages, with the outputs that are saved in them."""

import re
from base64 import b64decode
from html import escape
from pathlib import Path
from typing import Any

import nbformat

from tests.docs.repository import PAGES, ROOT, adapt

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
GALLERY = (ROOT / "notebooks" / "gallery" / "README.md").read_text(encoding="utf-8")
GALLERY_ALT = {name: alt for alt, name in re.findall(r"!\[([^\]]*)\]\(([\w-]+)\.png\)", GALLERY)}
LINK = re.compile(r"(?<!\[)`(\d\d_\w+)`")  # the name of a notebook
LONG = 15  # lines: a cell with more is folded
HIGHEST, HIGHEST_TABLE = 560, 480  # pixels of a picture on the page, and of a table, which scrolls
LIMIT = 15_000  # pixels of a page, roughly
SECTION = re.compile(r"^(?=## )", re.MULTILINE)
FOLD = re.compile(r"<details.*?</details>", re.DOTALL)
OUTPUT = re.compile(r'<div class="output">.*?</div>', re.DOTALL)
STYLED = re.compile(r"<style.*?</style>", re.DOTALL)


def write(folder: Path) -> None:
    """Write a page for every notebook, and its pictures beside it."""
    folder.mkdir(exist_ok=True)
    for source, page in PAGES.items():
        if source.endswith(".ipynb"):
            notebook = nbformat.read(ROOT / source, 4)
            text, pictures = page_of(notebook, Path(source).stem)
            for number, part in enumerate(split(text), 1):
                name = Path(page).name if number == 1 else f"{Path(page).stem}_{number}.md"
                (folder / name).write_text(adapt(part, source, page), encoding="utf-8")
            for name, picture in pictures.items():
                (folder / name).write_bytes(picture)


def page_of(notebook: Any, stem: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by the names under which the page shows them."""
    parts, pictures, heading = [], dict[str, bytes](), stem
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            *_, heading = (heading, *HEADING.findall(cell.source))
            text = LINK.sub(_link, cell.source)
            parts.append(text.replace("<details>", '<details markdown="1">'))
            continue
        code, lines = f"```python\n{cell.source}\n```", cell.source.count("\n") + 1
        parts.append(code if lines <= LONG else _folded(f"Code, {lines} lines", code))
        first, more = len(pictures), list[str]()
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = b64decode(data["image/png"])
                tags = [tag.removeprefix("gallery-") for tag in cell.metadata.get("tags", []) if "gallery-" in tag]
                caption = GALLERY_ALT.get("".join(tags[:1]), f"A figure of the section {heading!r}")
                target = parts if len(pictures) == first + 1 else more
                target.append(_picture(name, {"alt": caption} | output.metadata.get("image/png", {})))
            elif "text/markdown" in data:
                parts.append(data["text/markdown"])
            elif "text/html" in data:
                parts.append(f'<div class="output">{_table(data["text/html"])}</div>')
            else:
                text = output.get("text", data.get("text/plain", ""))
                parts.append(f"```{{.text .output}}\n{text.rstrip()}\n```")
        if more:
            parts.append(_folded(f"{len(more)} more like it", "\n\n".join(more)))
    return "\n\n".join(parts) + "\n", pictures


def split(text: str) -> list[str]:
    """A page in parts that begin with sections, so that none takes too long to scroll."""
    first, *sections = SECTION.split(text)
    title, parts, room = HEADING.findall(first)[0], [first], LIMIT - height(first)
    for section in sections:
        room -= height(section)
        if room < 0:
            parts.append(f"# {title}, part {len(parts) + 1}\n\n")
            room = LIMIT - height(section)
        parts[-1] += section
    return parts


def height(text: str) -> int:
    """The pixels that a part of a page takes, roughly: its pictures, rows of tables, and lines."""
    text = FOLD.sub("", text)
    pictures = sum(map(int, re.findall(r'height="(\d+)"', text)))
    tables = sum(min(23 * output.count("<tr"), HIGHEST_TABLE) for output in OUTPUT.findall(text))
    lines = sum(1 + len(line) // 85 for line in OUTPUT.sub("", text).splitlines())
    return pictures + tables + 20 * lines


def _folded(summary: str, text: str) -> str:
    return f'<details markdown="1"><summary>{summary}</summary>\n\n{text}\n\n</details>'


def _link(match: re.Match[str]) -> str:
    """The name of a notebook as a link to it."""
    path = f"{match[1]}.ipynb"
    return f"[{match[0]}]({path})" if f"notebooks/{path}" in PAGES else match[0]


def _picture(name: str, metadata: Any) -> str:
    """A picture that fits on a screen and leads to itself in its own size."""
    scale = min(1, HIGHEST / metadata.get("height", HIGHEST))
    size = "".join(f' {side}="{metadata[side] * scale:.0f}"' for side in ("width", "height") if side in metadata)
    picture = f'<img class="output" src="{name}" alt="{escape(metadata["alt"])}"{size}>'
    return f'<a class="output" href="{name}">{picture}</a>'


def _table(html: str) -> str:
    """A table of pandas in the style of the page, without header cells that are empty; others stay as they are."""
    if "<table" not in html:
        return html
    plain = html if 'id="T_' in html else STYLED.sub("", html).replace(' border="1" class="dataframe"', "")
    return re.sub(r"<th([^>]*)>(?:&nbsp;|\s)*</th>", r"<td\1></td>", plain)
