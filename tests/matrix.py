"""The matrix: which method runs where, on tiny random models of every architecture, as README shows it.

`python -m tests.matrix` asks every method about every kind of text and prints the table; `--write` puts it into README.
"""

import argparse
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import transformers

import nbsal
from nbsal.errors import NbsalError
from nbsal.heads import HeadMask
from nbsal.methods import catalogue
from nbsal.methods.base import Method
from nbsal.model.tokens import Row
from nbsal.validation import Text
from tests import zoo

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(?<=<!-- matrix -->\n).*?(?=<!-- /matrix -->)", re.DOTALL)
MASK = HeadMask.from_array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]])
FEW = {"samples": 5, "steps": 3}
ALL, NONE = "all", "none"
Targets = Iterator[tuple[Any, str]]  # what to ask for, and what the answer must call it


class Hole(Exception):
    """A cell in which a method neither explains nor refuses."""


@dataclass(frozen=True)
class Cell:
    """Which kinds of text a method explains on an architecture, and what it says where it refuses."""

    kinds: tuple[str, ...]
    refusals: tuple[str, ...] = ()


Column = Mapping[str, Cell]  # of an architecture, by method


def labels(subject: nbsal.Subject, row: Row) -> Targets:
    """Each label."""
    yield from zip(subject.labels, subject.labels, strict=True)


def spans(subject: nbsal.Subject, row: Row) -> Targets:
    """Each span of the context, then each end alone."""
    context = [place for place in row.content if row.segments[place] == 1]
    for start, end in combinations_with_replacement(context, 2):
        yield (start, end), f"{row.parts[1][row.offsets[start][0] : row.offsets[end][1]]} [{start}:{end}]"
    for place in context:
        yield (place, None), f"start at {row.tokens[place]} [{place}]"
        yield (None, place), f"end at {row.tokens[place]} [{place}]"


def places(subject: nbsal.Subject, row: Row) -> Targets:
    """Each label at the last token of the text, which causal models have read all of by then."""
    last = row.content[-1]
    for label in subject.labels:
        yield (last, label), f"{label} at {row.tokens[last]} [{last}]"


def successors(subject: nbsal.Subject, row: Row) -> Targets:
    """Some tokens that could come next."""
    for token in range(len(zoo.SPECIAL), len(zoo.SPECIAL) + 5):
        yield token, subject.tokenizer.convert_ids_to_tokens(token)


@dataclass(frozen=True)
class Kind:
    """A kind of text, the head that decides about it, and what can be asked of its decision."""

    head: str
    text: Text
    targets: Callable[[nbsal.Subject, Row], Targets]


KINDS = {
    "sequence": Kind("sequence", "A warm joy.", labels),
    "pair": Kind("sequence", ("A warm joy.", "A bore."), labels),
    "span": Kind("span", ("Who wrote?", "The river."), spans),
    "token": Kind("token", "A warm joy.", places),
    "next-token": Kind("causal", "A warm joy.", successors),
}


def kinds(architecture: str) -> list[str]:
    """The kinds of text that an architecture has heads for."""
    return [kind for kind in KINDS if kind != "next-token" or architecture in zoo.DECODERS]


def method(name: str) -> Method:
    """A method with a head mask where it takes one, and with few samples."""
    known = catalogue.create(name).parameters()
    settings = {"mask": MASK} if "mask" in known else {}
    return catalogue.create(name, **settings, **{few: FEW[few] for few in FEW if few in known})


def check(subject: nbsal.Subject, name: str, kind: str) -> None:
    """Ask for targets until one has evidence: some methods drop what speaks against it, if need be all."""
    asked, row = KINDS[kind], subject.encode(KINDS[kind].text)[0]
    explain = nbsal.Explainer(subject, method(name))
    for target, called in asked.targets(subject, row):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="attention-gradcam finds no evidence")
            found = explain(asked.text, target=target)
        if found.target != called or found.scores.shape != (len(row),):
            raise Hole(f"{name} was asked for {called!r} of {len(row)} tokens, not {found.target!r}: {found.scores}")
        if np.isfinite(found.scores).all() and abs(found.scores).max() > 1e-12:
            return
    raise Hole(f"{name} finds nothing for any target of {asked.text!r} on {subject!r}")


def refusal(error: NbsalError, subject: nbsal.Subject, name: str) -> str:
    """What an error says, of whatever model and method it says it."""
    own = {
        f"{name} ": "The method ",
        f"with {name.partition('@')[0]}.": "with its plain name.",
        f"such as {subject.name}": "such as this one",
        type(subject.model).__name__: "this model",
        f"not {subject.model.config.model_type}.": "not this one.",
    }
    said = str(error)
    for special, general in own.items():
        said = said.replace(special, general)
    return said


def column(architecture: str, load: Callable[[str, str], nbsal.Subject]) -> Column:
    """What each method makes of an architecture; `load` gives it with a head."""
    said: dict[str, dict[str, str]] = {name: {} for name in catalogue.names()}
    for kind in kinds(architecture):
        subject = load(architecture, KINDS[kind].head)
        for name, cell in said.items():
            try:
                check(subject, name, kind)
                cell[kind] = ""
            except NbsalError as error:
                cell[kind] = refusal(error, subject, name)
    return {
        name: Cell(tuple(kind for kind in cell if not cell[kind]), tuple(dict.fromkeys(filter(None, cell.values()))))
        for name, cell in said.items()
    }


def table(columns: Mapping[str, Column]) -> str:
    """The matrix as Markdown; methods and architectures that are alike stand together, the commonest row first."""
    across: dict[tuple[Cell, ...], list[str]] = {}
    for architecture, cells in columns.items():
        across.setdefault(tuple(cells.values()), []).append(architecture)
    down: dict[tuple[Cell, ...], list[str]] = {}
    for name, row in zip(catalogue.names(), zip(*across, strict=True), strict=True):
        down.setdefault(row, []).append(name)
    lines = [["method", *(", ".join(group) for group in across.values())], ["---"] * (len(across) + 1)]
    notes: dict[str, int] = {}
    for row, names in sorted(down.items(), key=lambda group: -len(group[1])):
        first = ", ".join(f"`{name}`" for name in names) if len(lines) > 2 else f"the other {len(names)}"
        lines.append([first, *(_drawn(*both, notes) for both in zip(row, across.values(), strict=True))])
    listed = [f"{number}. {note}" for note, number in notes.items()]
    return "\n".join(["", *(f"| {' | '.join(line)} |" for line in lines), "", *listed, "", ""])


def _drawn(cell: Cell, group: list[str], notes: dict[str, int]) -> str:
    explained = ALL if list(cell.kinds) == kinds(group[0]) else ", ".join(cell.kinds) or NONE
    return explained + "".join(f" <sup>{notes.setdefault(said, len(notes) + 1)}</sup>" for said in cell.refusals)


def read(block: str) -> dict[str, dict[str, Cell]]:
    """The columns that a table shows."""
    notes = dict(re.findall(r"^(\d+)\. (.+)$", block, re.MULTILINE))
    lines = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("|")]
    (_, *groups), _, *rows = lines
    listed = [re.findall(r"`(.+?)`", first) for first, *_ in rows]
    others = sorted(set(catalogue.names()).difference(*listed))
    found: dict[str, dict[str, Cell]] = {}
    for at, group in enumerate(groups, 1):
        for architecture in group.split(", "):
            cells = {
                name: _read(row[at], kinds(architecture), notes)
                for row, names in zip(rows, listed, strict=True)
                for name in names or others
            }
            found[architecture] = {name: cells[name] for name in catalogue.names()}
    return {architecture: found[architecture] for architecture in zoo.ARCHITECTURES}


def _read(drawn: str, whole: list[str], notes: dict[str, str]) -> Cell:
    explained = drawn.partition(" <")[0]
    shown = {ALL: whole, NONE: []}.get(explained, explained.split(", "))
    return Cell(tuple(shown), tuple(notes[number] for number in re.findall(r"<sup>(\d+)</sup>", drawn)))


def shown() -> str:
    """The table that stands in README."""
    found = BLOCK.search(README.read_text(encoding="utf-8"))
    assert found, "README has a place for the matrix"
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:

        def load(architecture: str, head: str) -> nbsal.Subject:
            lm = None if head == "causal" else zoo.save(Path(folder), architecture, zoo.lm_head(architecture), seed=1)
            return nbsal.load(zoo.save(Path(folder), architecture, head), lm=lm, dtype="float64")

        made = table({architecture: column(architecture, load) for architecture in zoo.ARCHITECTURES})
    print(made)
    if options.write:
        README.write_text(BLOCK.sub(lambda _: made, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
