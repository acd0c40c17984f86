"""The claims tables of the notebooks in the guide on methods: `python -m tests.docs.claims` writes them into it."""

import re

import nbformat

from tests.docs.repository import ROOT

PATH = ROOT / ".docs" / "guides" / "which-method.md"
OUTDATED = ".docs/guides/which-method.md has other claims than the notebooks: run `python -m tests.docs.claims`"
PART = re.compile(r"(<!-- claims of (\w+) -->\n).*?(<!-- end of claims -->)", re.DOTALL)


def table(notebook: str) -> str:
    """The claims that a notebook prints, as Markdown."""
    content = nbformat.read(ROOT / "notebooks" / f"{notebook}.ipynb", 4)
    (cell,) = [cell for cell in content.cells if "claims" in cell.metadata.get("tags", [])]
    return str(cell.outputs[0].data["text/markdown"])


def page() -> str:
    """The guide with the tables as the notebooks print them now."""
    return PART.sub(lambda match: f"{match[1]}{table(match[2])}\n{match[3]}", PATH.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PATH.write_text(page(), encoding="utf-8")
