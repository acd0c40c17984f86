"""The page of methods, written from the catalogue, the formulas, and the table of architectures."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbsal
from nbsal.methods import catalogue
from tests.docs.repository import ROOT

FORMULAS = ROOT / ".docs" / "formulas.toml"
HEAD = ROOT / ".docs" / "methods.md"  # what comes before the methods
TABLE_ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)
FOOTNOTE = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
NEXT_LINE = r", \qquad "  # parts of a formula
FAMILIES = {
    "decoding": "Scores of a hidden layer, sent through the pretrained LM head to the tokens it reads there.",
    "gradient": "Scores of a hidden layer's features by their gradient, at the text or along a path.",
    "attention": "Attention maps, alone, with their gradients, or rolled out through the blocks.",
    "relevance": "Relevance that starts at the target and is propagated down through every operation.",
    "perturbation": "The target as some units (tokens or words) are hidden and the others stay.",
}


@dataclass(frozen=True)
class Runs:
    """The architectures on which a method runs, and those on which it does not, by the number of the reason."""

    everywhere: tuple[str, ...]
    partly: tuple[str, ...]
    refused: Mapping[str, tuple[str, ...]]


def write(page: Path) -> None:
    """Write the page."""
    page.parent.mkdir(exist_ok=True)
    page.write_text(HEAD.read_text(encoding="utf-8") + "\n" + "\n".join(sections()), encoding="utf-8")


def formulas() -> dict[str, dict[str, str]]:
    """The formula of every method, or how it differs from that of the method it varies."""
    return tomllib.loads(FORMULAS.read_text(encoding="utf-8"))


def sections() -> Iterator[str]:
    """The families, each with its methods."""
    table, entries = catalogue.table(), formulas()
    runs, reasons = architectures()
    for family, summary in FAMILIES.items():
        yield f"## {family.capitalize()}\n\n{summary}\n"
        for name, row in table[table["family"] == family].iterrows():
            if "@" not in str(name):
                yield from method(str(name), row, entries[str(name)])
                yield where(runs[str(name)], reasons)
                yield from variants(str(name), table, entries)


def method(name: str, row: Any, entry: dict[str, str]) -> Iterator[str]:
    """A method: what it computes, with its paper, cost, properties, settings and class, if users can import that."""
    instance = catalogue.every_method()[name]
    yield f"### {name} {{ #{name} }}\n\n{_summary(name)}\n"
    for line in entry["formula"].split(NEXT_LINE):
        yield f"$$\n{line}\n$$\n"
    if "where" in entry:
        yield f"{entry['where']}\n"
    settings = ", ".join(f"`{key}={value!r}`" for key, value in instance.parameters().items())
    yield "| | |\n|---|---|"
    yield f"| paper | {row['paper'] if row['paper'] != '-' else 'none'} |"
    yield f"| cost | {row['cost']} |"
    yield f"| scores | {row['promise']} |"
    yield f"| settings | {settings or 'none'} |"
    kind = type(instance)
    if getattr(nbsal, kind.__name__, None) is kind:
        yield f"| class | [`nbsal.{kind.__name__}`][{kind.__module__}.{kind.__qualname__}] |"


def where(runs: Runs, reasons: Mapping[str, str]) -> str:
    """The row of the table that says where a method runs."""
    parts = [f"some kinds of text of {', '.join(runs.partly)}"] if runs.partly else []
    for number, names in runs.refused.items():
        parts.append(f"not {', '.join(names)} <small>({reasons[number]})</small>")
    total = len(runs.everywhere) + len(runs.partly) + sum(map(len, runs.refused.values()))
    counted = f"all {total}" if len(runs.everywhere) == total else f"{len(runs.everywhere)} of {total}"
    return f"| runs on | {'; '.join([f'[{counted} architectures](matrix.md)', *parts])} |\n"


def variants(name: str, table: Any, entries: dict[str, dict[str, str]]) -> Iterator[str]:
    """The table of a method's reference variants, if there are any."""
    names = [variant for variant in table.index if variant.startswith(f"{name}@")]
    if names:
        yield "| variant | differs | program of | cost |\n|---|---|---|---|"
        for variant in names:
            row = table.loc[variant]
            paper = row["paper"].removesuffix(", as in the released code")
            name_cell = f'<span id="{variant.replace("@", "-")}">`{variant}`</span>'
            yield f"| {name_cell} | {entries[variant]['differs']} | {paper} | {row['cost']} |"
        yield ""


def architectures() -> tuple[dict[str, Runs], dict[str, str]]:
    """Where every method runs, from the table that a test keeps true, and its numbered reasons."""
    text = (ROOT / "tests" / "matrix.md").read_text(encoding="utf-8")
    cells: dict[str, dict[str, str]] = {}
    for table in text.split("| method |")[1:]:
        names = [name.strip(" |") for name in table.partition("\n")[0].split(" | ")]
        for name, values in TABLE_ROW.findall(table):
            cells.setdefault(name, {}).update(zip(names, values.split(" | "), strict=True))
    return {name: _runs(row) for name, row in cells.items()}, dict(FOOTNOTE.findall(text))


def _runs(row: Mapping[str, str]) -> Runs:
    refused: dict[str, tuple[str, ...]] = {}
    for name, value in row.items():
        if value.startswith("none"):
            number = re.sub(r"\D", "", value)
            refused[number] = (*refused.get(number, ()), name)
    everywhere = tuple(name for name, value in row.items() if value == "all")
    partly = tuple(name for name, value in row.items() if value != "all" and not value.startswith("none"))
    return Runs(everywhere, partly, refused)


def _summary(name: str) -> str:
    """The first paragraph of the docstring of a method's class; a decoded method has that of the method it decodes."""
    inner = name.removeprefix("decoded-")
    first = (type(catalogue.every_method()[inner]).__doc__ or "").partition("\n\n")[0]
    return f"Decoded: {first[0].lower()}{first[1:]}" if inner != name else " ".join(first.split())
