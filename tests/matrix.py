"""The table of which method runs on which architecture, computed on tiny random models: tests/matrix.md.

`python -m tests.matrix` runs every method on every kind of text and prints the table; `--write` updates the file.
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
from nbsal.errors import ModelError
from nbsal.heads import HeadMask
from nbsal.methods import alti, catalogue
from nbsal.methods.base import Method
from nbsal.model.tokens import Row
from nbsal.validation import Text
from tests import zoo

PATH = Path(__file__).with_name("matrix.md")
OUTDATED = "tests/matrix.md is out of date: run `python -m tests.matrix --write`"
INTRODUCTION = f"""# Methods and architectures

Written by `python -m tests.matrix --write`, on tiny random models. "all" stands for every kind of text that an
architecture has a model for: single texts and pairs with a label, spans, tokens, and the next token for decoders
({", ".join(zoo.DECODERS)}).
"""
# Why a method refuses a model, by the `part` of the ModelError it raises.
FOOTNOTES = {
    "attention mask": "The published relevance rules treat the attention mask as a summand of the attention scores, "
    "but this model adds no mask to them. Use the method's plain name, such as `lrp`.",
    "first position": "The method reads the attention of the first position, which sees only itself in a causal model. "
    "Use the method's plain name.",
    "post-norm blocks": f"The method reads the blocks of these post-norm encoders only: {', '.join(alti.PARTS)}.",
}
MASK = HeadMask.from_array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]])
FEW = {"samples": 5, "steps": 3}
ALL, NONE = "all", "none"
Targets = Iterator[tuple[Any, str]]  # a target as it is passed, and its label in the result


class Hole(Exception):
    """A cell in which a method neither explains nor refuses."""


@dataclass(frozen=True)
class Cell:
    """The kinds of text that a method explains on an architecture, and why it refuses the others."""

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
        token = row.parts[1][slice(*row.offsets[place])]
        yield (place, None), f"start at {token} [{place}]"
        yield (None, place), f"end at {token} [{place}]"


def places(subject: nbsal.Subject, row: Row) -> Targets:
    """Each label at the last token of the text, where causal models have read the whole text."""
    last = row.content[-1]
    for label in subject.labels:
        yield (last, label), f"{label} at {row.tokens[last]} [{last}]"


def successors(subject: nbsal.Subject, row: Row) -> Targets:
    """Some tokens that could come next."""
    for token in range(len(zoo.SPECIAL), len(zoo.SPECIAL) + 5):
        yield token, subject.tokenizer.convert_ids_to_tokens(token)


@dataclass(frozen=True)
class Kind:
    """A kind of text, the head that decides about it, and the possible targets."""

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
    defaults = catalogue.create(name).parameters()
    settings: dict[str, Any] = {"mask": MASK} if "mask" in defaults else {}
    if name == "gradcam":  # its default layer in so small a Llama is read through norms only: scores are rounding noise
        settings["layer"] = 1
    return catalogue.create(name, **settings, **{few: FEW[few] for few in FEW if few in defaults})


def check(subject: nbsal.Subject, name: str, kind: str) -> None:
    """Explain targets until one has evidence, since some methods drop evidence against a target."""
    text, row = KINDS[kind].text, subject.encode(KINDS[kind].text)[0]
    explain = nbsal.Explainer(subject, method(name))
    for target, label in KINDS[kind].targets(subject, row):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a method warns where there is no evidence at all
            saliency = explain(text, target=target)
        if saliency.target != label or saliency.scores.shape != (len(row),):
            raise Hole(f"{name} explained {saliency.target!r} by {saliency.scores}, not {label!r} of {len(row)} tokens")
        if np.isfinite(saliency.scores).all() and abs(saliency.scores).max() > 1e-12:
            return
    raise Hole(f"{name} finds nothing for any target of {text!r} on {subject!r}")


def column(architecture: str, load: Callable[[str, str], nbsal.Subject]) -> Column:
    """The cells of an architecture; `load` loads a model of it with a head."""
    cells = {name: Cell(()) for name in catalogue.names()}
    for kind in kinds(architecture):
        subject = load(architecture, KINDS[kind].head)
        for name, cell in cells.items():
            try:
                check(subject, name, kind)
                cells[name] = Cell((*cell.kinds, kind), cell.refusals)
            except ModelError as error:
                if error.part not in FOOTNOTES:
                    raise
                cells[name] = Cell(cell.kinds, tuple(dict.fromkeys((*cell.refusals, error.part))))
    return cells


def table(columns: Mapping[str, Column]) -> str:
    """The matrix as a Markdown page, with one row per method and one column per architecture."""
    numbers = {part: number for number, part in enumerate(FOOTNOTES, 1)}
    lines = [["method", *columns], ["---"] * (len(columns) + 1)]
    for name in catalogue.names():
        cells = (_write_cell(cells[name], architecture, numbers) for architecture, cells in columns.items())
        lines.append([f"`{name}`", *cells])
    notes = [f"{number}. {FOOTNOTES[part]}" for part, number in numbers.items()]
    return "\n".join([INTRODUCTION, *(f"| {' | '.join(line)} |" for line in lines), "", *notes, ""])


def _write_cell(cell: Cell, architecture: str, numbers: Mapping[str, int]) -> str:
    text = ALL if list(cell.kinds) == kinds(architecture) else ", ".join(cell.kinds) or NONE
    return text + "".join(f" <sup>{numbers[part]}</sup>" for part in cell.refusals)


def read(page: str) -> dict[str, dict[str, Cell]]:
    """The columns of a page."""
    (_, *architectures), _, *rows = (line.strip("| ").split(" | ") for line in page.splitlines() if line[:1] == "|")
    return {
        architecture: {name.strip("`"): _read_cell(cells[i], architecture) for name, *cells in rows}
        for i, architecture in enumerate(architectures)
    }


def _read_cell(text: str, architecture: str) -> Cell:
    explained, parts = text.partition(" <")[0], list(FOOTNOTES)
    known = {ALL: kinds(architecture) if architecture in zoo.ARCHITECTURES else [], NONE: []}
    refusals = (parts[int(number) - 1] for number in re.findall(r"<sup>(\d+)</sup>", text))
    return Cell(tuple(known.get(explained, explained.split(", "))), tuple(refusals))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"update {PATH.name}")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:

        def load(architecture: str, head: str) -> nbsal.Subject:
            lm = None if head == "causal" else zoo.save(Path(folder), architecture, zoo.lm_head(architecture), seed=1)
            return nbsal.load(zoo.save(Path(folder), architecture, head), lm=lm, dtype="float64")

        page = table({architecture: column(architecture, load) for architecture in zoo.ARCHITECTURES})
    print(page)
    if options.write:
        PATH.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
