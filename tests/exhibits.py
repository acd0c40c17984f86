"""The index of the papers' exhibits: `python -m tests.exhibits --write` writes notebooks/INDEX.md.

Each figure, table, algorithm and numbered equation of both papers, the notebook cell that shows it, the function that
computes it, and what reproduces the paper's version. Cells name what they show in their tags, such as "figure-3" or
"equations-1-6".
"""

import argparse
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jupytext

from nbsal.figures import decoding_exhibits, mask_lrp_exhibits
from nbsal.figures.exhibits import Exhibit

FORMULAS = tomllib.loads(Path(__file__).with_name("equations.toml").read_text(encoding="utf-8"))
FOLDER = Path(__file__).parents[1] / "notebooks"
PATH = FOLDER / "INDEX.md"
OUTDATED = "notebooks/INDEX.md is out of date: run `python -m tests.exhibits --write`"
TAG = re.compile(r"(figure|table|equation|algorithm)s?-(\d+)(?:-(\d+))?|(examples|supplement)")
INTRODUCTION = """# Exhibits

Every figure, table, algorithm and numbered equation of two papers, and where it is. Written by
`python -m tests.exhibits --write`. Cells are counted from 1. All exhibits are computed with the embedded models; the
last column says what the paper's version needs, or what differs.
"""


@dataclass(frozen=True)
class Formula:
    """An algorithm or a numbered equation of a paper, the full name of what computes it, and what differs there."""

    number: str
    title: str
    code: str
    state: str = "as in the paper"


@dataclass(frozen=True)
class Paper:
    """A paper, its notebook, and the name under which `nbsal.figures` draws its figures and tables."""

    title: str
    notebook: str
    name: str
    exhibits: Sequence[Exhibit]

    @property
    def formulas(self) -> list[Formula]:
        """Its equations and algorithms."""
        return [Formula(**row) for row in FORMULAS[self.name]]


PAPERS = (
    Paper("Decoding Layer Saliency in Language Transformers (Hou and Castanon 2023)", "05_decoding_paper", "decoding",
          decoding_exhibits.EXHIBITS),
    Paper("Better Explain Transformers by Illuminating Important Information (Song et al. 2024)", "06_mask_lrp_paper",
          "mask-lrp", mask_lrp_exhibits.EXHIBITS),
)  # fmt: skip


def shown_cells(notebook: str) -> dict[str, int]:
    """The number of the first cell that shows each exhibit of a paper.

    >>> shown_cells("05_decoding_paper")["Equation 1"] == shown_cells("05_decoding_paper")["Algorithm 1"]
    True
    """
    cells: dict[str, int] = {}
    for number, cell in enumerate(jupytext.read(FOLDER / f"{notebook}.py").cells, 1):
        for tag in cell.metadata.get("tags", []):
            for name in _numbers(tag):
                cells.setdefault(name, number)
    return cells


def missing(paper: Paper) -> list[str]:
    """What a paper has and its notebook does not show."""
    shown = shown_cells(paper.notebook)
    return [item.number for item in (*paper.exhibits, *paper.formulas) if item.number not in shown]


def page() -> str:
    """The index as Markdown."""
    parts = [INTRODUCTION]
    for paper in PAPERS:
        shown, link = shown_cells(paper.notebook), f"[{paper.notebook}]({paper.notebook}.ipynb)"
        lines = [f"\n## {paper.title}\n", f"Notebook: {link}; not shown: {len(missing(paper))}."]
        usual = Counter(exhibit.needs for exhibit in paper.exhibits).most_common(1)[0][0]
        lines.append(
            f"`python -m nbsal.figures --paper {paper.name}` draws all figures and tables, for your models too; "
            f"the paper's own need {usual}.\n"
        )
        lines += ["| exhibit | what | cell | code | state |", "|---|---|---|---|---|"]
        for formula in paper.formulas:
            lines.append(_row(formula.number, formula.title, shown, f"`{formula.code}`", formula.state))
        for exhibit in paper.exhibits:
            state = "drawn" if exhibit.needs in ("", usual) else f"drawn; the paper's needs {exhibit.needs}"
            lines.append(_row(exhibit.number, exhibit.title, shown, f"`{_name(exhibit.make)}`", state))
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)


def _numbers(tag: str) -> Iterator[str]:
    """The exhibits that a tag names."""
    match = TAG.fullmatch(tag)
    if match and match[4]:
        yield match[4].capitalize()
    elif match:
        first = int(match[2])
        yield from (f"{match[1].capitalize()} {number}" for number in range(first, int(match[3] or first) + 1))


def _row(number: str, title: str, shown: dict[str, int], code: str, state: str) -> str:
    return f"| {number} | {title} | {shown.get(number, 'none')} | {code} | {state} |"


def _name(make: Callable[..., object]) -> str:
    function = make.func if isinstance(make, partial) else make
    return f"{function.__module__}.{function.__qualname__}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.exhibits", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page as well as print it")
    print(page())
    if parser.parse_args().write:
        PATH.write_text(page(), encoding="utf-8")
