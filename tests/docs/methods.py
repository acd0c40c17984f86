"""The pages of methods, written from the catalogue, the formulas, and the list of what does not run."""

import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import nbsal
from nbsal.methods import catalogue
from tests import matrix
from tests.docs.repository import ROOT

FORMULAS = ROOT / ".docs" / "formulas.toml"
HEAD = ROOT / ".docs" / "methods.md"  # what comes before the methods
NEXT_LINE = r", \qquad "  # parts of a formula
FAMILIES = {
    "relevance": "Relevance that starts at the target and is propagated down through every operation.",
    "gradient": "Scores of a hidden layer's features by their gradient, at the text or along a path.",
    "perturbation": "The target as some units (tokens or words) are hidden and the others stay.",
    "attention": "Attention maps, alone, with their gradients, or rolled out through the blocks.",
    "decoding": "Scores of a hidden layer, sent through the pretrained LM head to the tokens it reads there.",
}


def write(folder: Path) -> None:
    """Write the page of all methods, and one for each family."""
    folder.mkdir(parents=True)
    before, after = HEAD.read_text(encoding="utf-8").split("<!-- the methods -->\n")
    (folder / "index.md").write_text(f"{before}{overview()}{after}", encoding="utf-8")
    notation = after.partition("## Notation\n")[2]
    fold = f'<details markdown="1"><summary>Notation</summary>\n{notation}\n</details>\n'
    for family, summary in FAMILIES.items():
        text = "\n".join([f"# {title(family)}\n\n{summary}\n\n{fold}", *entries(family)])
        (folder / f"{family}.md").write_text(text, encoding="utf-8")


def title(family: str) -> str:
    """The name of a family's page."""
    return f"{family.capitalize()} methods"


def overview() -> str:
    """Every method but the variants in a line, by family."""
    lines = list[str]()
    for family, summary in FAMILIES.items():
        lines += [f"## [{title(family)}]({family}.md)\n", f"{summary}\n", "| method | scores | cost |", "|---|---|---|"]
        for name, row in plain(family):
            sentence = _summary(name).partition(". ")[0].rstrip(".")
            lines.append(f"| [`{name}`]({family}.md#{name}) | {sentence} | {row['cost']} |")
        lines.append("")
    return "\n".join(lines)


def plain(family: str) -> list[tuple[str, Any]]:
    """The methods of a family that are no variants of others."""
    table = catalogue.table()
    return [(str(name), row) for name, row in table[table["family"] == family].iterrows() if "@" not in str(name)]


def formulas() -> dict[str, dict[str, str]]:
    """The formula of every method, or how it differs from that of the method it varies."""
    return tomllib.loads(FORMULAS.read_text(encoding="utf-8"))


def entries(family: str) -> Iterator[str]:
    """The methods of a family, each with its variants."""
    table, texts = catalogue.table(), formulas()
    refusals = matrix.read(matrix.PATH.read_text(encoding="utf-8"))
    for name, row in plain(family):
        yield from method(name, row, texts[name])
        yield where([entry for entry in refusals if entry.method == name])
        yield from variants(name, table, texts)


def method(name: str, row: Any, entry: dict[str, str]) -> Iterator[str]:
    """A method: what it computes, with its paper, cost, properties, settings and class, if users can import that."""
    instance = catalogue.every_method()[name]
    yield f"## {name} {{ #{name} }}\n\n{_summary(name)}\n"
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


def where(refusals: Collection[matrix.Refusal]) -> str:
    """The row of the table that says on which architectures a method runs: by exceptions, if these are fewer."""
    places = {entry.architecture: entry.place for entry in refusals}
    refused = {entry.architecture for entry in refusals if not entry.kinds}
    runs = [name for name in matrix.ARCHITECTURES if name not in refused]
    names = [places[name] for name in matrix.ARCHITECTURES if name in places]
    text = f"; not {', '.join(names)}" if names else ""
    text = f": {', '.join(runs)}" if len(refused) > len(runs) else text
    counted = f"[{len(runs)} of {len(matrix.ARCHITECTURES)} architectures](../matrix.md)"
    return f"| runs on | {counted}{text} |\n"


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


def _summary(name: str) -> str:
    """The first paragraph of the docstring of a method's class; a decoded method has that of the method it decodes."""
    inner = name.removeprefix("decoded-")
    first = (type(catalogue.every_method()[inner]).__doc__ or "").partition("\n\n")[0]
    return f"Decoded: {first[0].lower()}{first[1:]}" if inner != name else " ".join(first.split())
