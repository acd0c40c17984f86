"""The pages of the Python reference: every public class and function, with its docstring and example."""

from inspect import getdoc
from pathlib import Path

from tests.public import MODULES, PACKAGES, module, public

OPTIONS = "    options:\n      heading: {heading}\n      toc_label: {name}\n"
INHERITED = {
    "nbsal.widgets.View": ("to_frame", "to_html", "to_png", "freeze"),
    **{f"nbsal.{name}": ("to_html",) for name in ("Saliency", "LayerSaliency", "Answer", "Audit")},
}


def write(folder: Path) -> None:
    """Write a page for every module that users import from."""
    folder.mkdir(exist_ok=True)
    members, written = public(), set[str]()
    for place in (*PACKAGES, *MODULES):
        room = module(place)
        entries = []
        for name in dir(room):
            member = getattr(room, name)
            path = f"{getattr(member, '__module__', '')}.{getattr(member, '__qualname__', '')}"
            belongs = place in PACKAGES or path.startswith(f"{room.__name__}.")
            if belongs and path in members and path not in written and name[0] != "_":
                written.add(path)
                entries.append(entry(f"{place}.{name}", path))
        summary = (getdoc(room) or "").partition("\n")[0]
        text = f"# {place}\n\n{summary}\n\n" + "\n".join(entries)
        (folder / f"{place}.md").write_text(text, encoding="utf-8")
    if missing := members.keys() - written:
        raise LookupError(f"No page of the reference has {sorted(missing)}.")


def entry(name: str, path: str) -> str:
    """The lines that make mkdocstrings document an object under the name that users know."""
    inherited = "".join(f"        - {member}\n" for member in INHERITED.get(name, ()))
    options = OPTIONS.format(heading=name, name=name.rpartition(".")[2])
    return f"::: {path}\n{options}{'      inherited_members:' + chr(10) + inherited if inherited else ''}\n"
