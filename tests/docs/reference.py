"""The pages of the Python reference: every public class and function, with its docstring and example."""

import re
from inspect import getdoc
from pathlib import Path
from typing import Any

from tests.public import MODULES, PACKAGES, module, public

OPTIONS = "    options:\n      heading: {heading}\n      toc_label: {name}\n"
INHERITED = {
    "nbsal.widgets.View": ("to_frame", "to_html", "to_png", "freeze"),
    **{f"nbsal.{name}": ("to_html",) for name in ("Saliency", "LayerSaliency", "Answer", "Audit")},
}
NAMED = re.compile(r"^::: (nbsal\.[\w.]+)$", re.MULTILINE)  # in a page written by hand, under the name that users know


def write(folder: Path) -> None:
    """Complete the pages written by hand, which have an order, and write one for every other module."""
    missing = public()

    def document(name: str) -> str:
        place, _, short = name.rpartition(".")
        path = full_name(getattr(module(place), short))
        missing.pop(path, None)
        return entry(name, path)

    for page in folder.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(NAMED.sub(lambda match: document(match[1]), text), encoding="utf-8")
    for place in (*PACKAGES[1:], *MODULES):
        room = module(place)
        paths = {name: full_name(getattr(room, name)) for name in dir(room)}
        belongs = {name for name, path in paths.items() if place in PACKAGES or path.startswith(f"{room.__name__}.")}
        if names := [name for name in sorted(belongs) if name[0] != "_" and paths[name] in missing]:
            summary = (getdoc(room) or "").partition("\n")[0]
            hidden = "---\nsearch:\n  exclude: true\n---\n\n" if place.startswith("nbsal.figures.") else ""
            parts = [f"{hidden}# {place}\n\n{summary}\n", *(document(f"{place}.{name}") for name in names)]
            (folder / f"{place}.md").write_text("\n".join(parts), encoding="utf-8")
    if missing:
        raise LookupError(f"No page of the reference has {sorted(missing)}.")


def full_name(member: Any) -> str:
    """The name of a member where it is defined."""
    return f"{getattr(member, '__module__', '')}.{getattr(member, '__qualname__', '')}"


def entry(name: str, path: str) -> str:
    """The lines that make mkdocstrings document an object under the name that users know."""
    inherited = "".join(f"        - {member}\n" for member in INHERITED.get(name, ()))
    options = OPTIONS.format(heading=name, name=name.rpartition(".")[2])
    return f"::: {path}\n{options}{'      inherited_members:' + chr(10) + inherited if inherited else ''}\n"
