"""The table of which method runs on which architecture, computed on tiny random models: tests/matrix.md.

`python -m tests.matrix` runs every method on every kind of text and prints the table; `--write` updates the file.
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np

import nbsal
from nbsal.methods import alti, catalogue, ifr
from nbsal.methods.base import Method
from nbsal.model.text.tokens import Row
from nbsal.support.errors import ModelError
from nbsal.support.validation import Text
from nbsal.testing.tiny_models import MASK
from tests import zoo

PATH = Path(__file__).with_name("matrix.md")
OUTDATED = "tests/matrix.md is out of date: run `python -m tests.matrix --write`"
INTRODUCTION = f"""# Methods and architectures

Written by `python -m tests.matrix --write`, on tiny random models. "all" stands for every kind of text that an
architecture has a model for: single texts and pairs with a label, spans, tokens, and the next token for decoders
({", ".join(zoo.DECODERS)}).
"""
FURTHER = """
## Further architectures

On one kind of text each: a single text with a label for encoders and encoder-decoders, the next token for decoders.
"""
# Why a method refuses a model, by the `part` of the ModelError it raises.
FOOTNOTES = {
    "attention mask": "The published relevance rules treat the attention mask as a summand of the attention scores, "
    "but this model adds no mask to them. Use the method's plain name, such as `lrp`.",
    "first position": "The method reads the attention of the first position, which sees only itself in a causal model. "
    "Use the method's plain name.",
    "post-norm blocks": f"The method reads the blocks of these post-norm encoders only: {', '.join(alti.PARTS)}.",
    "attention blocks": f"The method reads the blocks of these models only: {', '.join(ifr.PATHS)}.",
    "attention": "The model has no attention. Use a gradient method or occlusion.",
    "attention maps": "The model computes its attention in a form that gives no map of positions by positions. Use a "
    "gradient method or occlusion.",
    "layout": "The model's hidden states are not laid out by text and position. Use a method that reads others of its "
    "parts, or none, such as occlusion.",
    "decoder": "The model reads the text in its encoder and again in its decoder. Gradients and occlusion follow both, "
    "attention, relevance and the programs of others only one.",
    "lm_head": "No LM head reads the layers of this model, so there is nothing to decode them with. Use the method "
    "that is decoded.",
    "experts": "Each position chooses some of the experts, and there is no relevance rule for this choice. Use a "
    "gradient method, attention or occlusion.",
    "dtype": "The model has parts that cannot run in float64, in which relevance is computed. Use a gradient method, "
    "attention or occlusion.",
    "operation": "The model calls an operation that has no relevance rule, which the error names. Use a method of "
    "another family.",
    "padding token": "The program masks tokens with padding, which the model cannot tell from text. Use the method's "
    "plain name.",
    "positions": "The model neither adds positions to its tokens nor rotates queries and keys by them. Use `attn-lrp`.",
}
FEW = {"samples": 5, "steps": 3}
ALL, NONE = "all", "none"
Targets = Iterator[tuple[Any, str]]  # a target as it is passed, and its label in the result


class Hole(Exception):
    """A cell in which a method neither explains nor refuses."""


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
    """The kinds of text that an architecture has heads for; one of them for further architectures."""
    if architecture in zoo.OTHERS:
        return ["next-token" if architecture in zoo.OTHER_DECODERS else "sequence"]
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
    conserved = 1.0 if name == "lrp" and kind != "span" else None  # what the scores sum to
    explain = nbsal.Explainer(subject, method(name))
    for target, label in KINDS[kind].targets(subject, row):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a method warns where there is no evidence at all
            saliency = explain(text, target=target)
        if saliency.target != label or saliency.scores.shape != (len(row),):
            raise Hole(f"{name} explained {saliency.target!r} by {saliency.scores}, not {label!r} of {len(row)} tokens")
        if conserved is not None and abs(saliency.scores.sum() - conserved) > 1e-6:
            raise Hole(f"The scores of {name} sum to {saliency.scores.sum()}, not to {conserved}")
        if np.isfinite(saliency.scores).all() and abs(saliency.scores).max() > 1e-12:
            return
    raise Hole(f"{name} finds nothing for any target of {text!r} on {subject!r}")


def column(architecture: str, load: Callable[[str, str], nbsal.Subject]) -> dict[str, str]:
    """The cells of an architecture, by method; `load` loads a model of it with a head."""
    subjects = {kind: load(architecture, KINDS[kind].head) for kind in kinds(architecture)}
    cells = {}
    for name in catalogue.names():
        explained, notes = [], []
        for kind, subject in subjects.items():
            try:
                check(subject, name, kind)
                explained.append(kind)
            except ModelError as error:
                notes.append(f" <sup>{1 + list(FOOTNOTES).index(reason(error))}</sup>")
        text = ALL if len(explained) == len(subjects) else ", ".join(explained) or NONE
        cells[name] = text + "".join(dict.fromkeys(notes))
    return cells


def reason(error: ModelError) -> str:
    """The footnote of a refusal; an error without one is raised again."""
    part = {"hidden states": "layout", "word embeddings": "layout"}.get(str(error.part), error.part)
    part = "operation" if str(part).startswith("torch.") else part
    if part not in FOOTNOTES:
        raise error
    return part


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """The matrix as a Markdown page: two tables, with one row per method and one column per architecture."""
    notes = [f"{number}. {text}" for number, text in enumerate(FOOTNOTES.values(), 1)]
    first, further = ({name: columns[name] for name in names} for names in (zoo.ARCHITECTURES, zoo.OTHERS))
    return "\n".join([INTRODUCTION, *_write_table(first), FURTHER, *_write_table(further), "", *notes, ""])


def _write_table(columns: Mapping[str, Mapping[str, str]]) -> list[str]:
    lines = [["method", *columns], ["---"] * (len(columns) + 1)]
    lines += [[f"`{name}`", *(cells[name] for cells in columns.values())] for name in catalogue.names()]
    return [f"| {' | '.join(line)} |" for line in lines]


def read(page: str) -> dict[str, dict[str, str]]:
    """The columns of a page."""
    columns: dict[str, dict[str, str]] = {}
    for part in [part for part in page.split("\n\n") if part.startswith("|")]:
        (_, *architectures), _, *rows = (line.strip("| ").split(" | ") for line in part.splitlines())
        for i, architecture in enumerate(architectures):
            columns[architecture] = {name.strip("`"): cells[i] for name, *cells in rows}
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"update {PATH.name}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = partial(zoo.load, Path(folder))
        page = table({architecture: column(architecture, load) for architecture in zoo.ARCHITECTURES | zoo.OTHERS})
    print(page)
    if options.write:
        PATH.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
