"""The table of which methods explain which kinds of model, computed on tiny models of other libraries: tests/kinds.md.

`python -m tests.kinds` builds a model of every kind as its library does, runs a method or more of every family, and
prints the table; `--write` updates the file. It needs the libraries of the extra `peers`.
"""

import argparse
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import nbsal
from nbsal.support.errors import NbsalError
from tests import kind_examples
from tests.kind_examples import Example

PATH = Path(__file__).with_name("kinds.md")
OUTDATED = "tests/kinds.md is out of date: run `python -m tests.kinds --write`"
INTRODUCTION = """# Methods and kinds of model

Written by `python -m tests.kinds --write`, on tiny models that their own libraries built, with these methods:
"""
EVERYTHING = "All of them run on these kinds of model: "
EXCEPT = """
## What does not run

"runs" stands for all methods of a column.
"""
FAMILIES = {
    "gradients": ("gradcam", "gradxact", "integrated", "smooth"),
    "attention": ("raw-attention", "rollout", "gae", "attcat"),
    "relevance": ("lrp", "attn-lrp", "partial-lrp", "transformer-attribution"),
    "occlusion and sampling": ("occlusion", "lime", "shapley"),
    "decoding": ("decoded-gradcam", "decoded-gradxact"),
}
FEW = {"smooth": {"samples": 3}, "lime": {"samples": 20}, "shapley": {"samples": 5}, "integrated": {"steps": 10}}
RUNS, STACKS = "runs", "stacks"
# Why the methods of a family refuse a kind, by the `part` of the error.
FOOTNOTES = {
    "lm_head": "No LM head reads the layers of the model that have the text. One may be passed to `nbsal.load` as `lm` "
    "where the model is fine-tuned from a pretrained one.",
    "decoder": "The model reads the text in its encoder and again in its decoder. Use a gradient method or occlusion.",
    "experts": "Each position chooses some of the experts, and there is no relevance rule for this choice. Use a "
    "gradient method, attention or occlusion.",
    "quantization": "Relevance is computed on a copy in float64, and weights of this library cannot be copied. Load "
    "the model unquantised.",
    "stacks": "The method reads one stack of blocks, and the model has two: an encoder, which reads the source, and a "
    "decoder, which writes the reply. The error names the methods that follow both.",
    "model": "The methods read layers, which a function does not show. Use a perturbation method such as occlusion.",
}


class Hole(Exception):
    """A cell in which a method neither explains nor refuses."""


def check(example: Example, method: str) -> None:
    """Explain one text with one method."""
    explain = nbsal.Explainer(example.subject, method, **FEW.get(method, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a method warns where there is no evidence at all
        text = example.texts[0]
        saliency = explain.reply(text, example.reply, progress=False).of(0) if example.reply else explain(text)
    if not np.isfinite(saliency.scores).all() or len(saliency.scores) != len(saliency.tokens):
        raise Hole(f"{method} explained {saliency.target!r} by {saliency.scores}")


def cell(example: Example, family: str) -> str:
    """What a family's methods do with a model: RUNS, or the number of the footnote about what all of them lack.

    Only two stacks of blocks may be the reason that a method refuses what others of its family explain.
    """
    outcomes: dict[str, str] = {}
    for method in FAMILIES[family]:
        try:
            check(example, method)
            outcomes[method] = RUNS
        except NbsalError as error:
            part = getattr(error, "part", None)
            if part not in FOOTNOTES:
                raise
            outcomes[method] = str(part)
    reasons = set(outcomes.values()) - {RUNS}
    notes = "".join(f" <sup>{1 + list(FOOTNOTES).index(part)}</sup>" for part in reasons)
    if RUNS not in outcomes.values() and len(reasons) == 1:
        return "none" + notes
    if reasons - {STACKS}:
        raise Hole(f"The methods of {family} differ: {outcomes}")
    refusing = ", ".join(f"`{name}`" for name, part in outcomes.items() if part == STACKS)
    return f"{RUNS}, except {refusing}{notes}" if refusing else RUNS


def row(name: str, folder: Path) -> dict[str, str]:
    """The cells of a kind, by family."""
    example = kind_examples.KINDS[name].build(folder)
    return {family: cell(example, family) for family in FAMILIES}


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    """The page."""
    methods = [f"- {family}: {', '.join(f'`{name}`' for name in names)}" for family, names in FAMILIES.items()]
    whole = [name for name, cells in rows.items() if set(cells.values()) == {RUNS}]
    lines = [["kind of model", *FAMILIES], ["---"] * (len(FAMILIES) + 1)]
    lines += [[name, *cells.values()] for name, cells in rows.items() if name not in whole]
    notes = [f"{number}. {text}" for number, text in enumerate(FOOTNOTES.values(), 1)]
    parts = [INTRODUCTION, *methods, "", f"{EVERYTHING}{'; '.join(whole)}.", EXCEPT]
    return "\n".join([*parts, *(f"| {' | '.join(line)} |" for line in lines), "", *notes, ""])


def read(page: str) -> dict[str, dict[str, str]]:
    """The rows of a page."""
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line[:1] == "|"]
    (whole,) = (line for line in page.splitlines() if line.startswith(EVERYTHING))
    rows = {name: dict.fromkeys(FAMILIES, RUNS) for name in whole.removeprefix(EVERYTHING).rstrip(".").split("; ")}
    return rows | {name: dict(zip(FAMILIES, cells, strict=True)) for name, *cells in lines[2:]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kinds", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"update {PATH.name}")
    options = parser.parse_args()
    rows = {}
    for name in kind_examples.KINDS:
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = row(name, Path(folder))
    print(table(rows))
    if options.write:
        PATH.write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
