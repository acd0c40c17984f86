"""The methods that do not run on some architectures, computed on tiny random models: tests/matrix.md.

`python -m tests.matrix` runs every method on every kind of text and prints the page; `--write` updates the file.
"""

import argparse
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

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
ARCHITECTURES = [*zoo.ARCHITECTURES, *zoo.OTHERS]
OUTDATED = "tests/matrix.md is out of date: run `python -m tests.matrix --write`"
INTRODUCTION = """# Methods and architectures

Written by `python -m tests.matrix --write`, on tiny random models. All {methods} methods run on all
{architectures} architectures, except for what this page lists. Methods that only hide words, such as `occlusion`,
`shapley` and `lime`, run on all.

Tested on every kind of text (single texts and pairs with a label, spans, tokens, and the next token for decoders):
{whole}.

Tested on one kind of text, a label of a single text or, for decoders, the next token:
{further}.

## What does not run, and what to use instead

Where brackets follow an architecture, only these kinds of text do not run on it.
"""
# Why a method refuses a model, by the `part` of the ModelError it raises.
REASONS = {
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
ROW = re.compile(r"^- \*\*(.+)\*\*: (`.+`)$")
Targets = Iterator[tuple[Any, str]]  # a target as it is passed, and its label in the result


class Hole(Exception):
    """A method neither explains nor refuses."""


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


class Refusal(NamedTuple):
    """A method that does not run on an architecture, why, and for which kinds of text where it is not all of them."""

    part: str
    method: str
    architecture: str
    kinds: str = ""

    @property
    def place(self) -> str:
        """The architecture, with the kinds of text in brackets."""
        return f"{self.architecture} ({self.kinds})" if self.kinds else self.architecture


def column(architecture: str, load: Callable[[str, str], nbsal.Subject]) -> set[Refusal]:
    """What does not run on an architecture; `load` loads a model of it with a head."""
    subjects = {kind: load(architecture, KINDS[kind].head) for kind in kinds(architecture)}
    refusals = set()
    for name in catalogue.names():
        refused: dict[str, list[str]] = {}
        for kind, subject in subjects.items():
            try:
                check(subject, name, kind)
            except ModelError as error:
                refused.setdefault(reason(error), []).append(kind)
        for part, some in refused.items():
            refusals.add(Refusal(part, name, architecture, "" if len(some) == len(subjects) else "; ".join(some)))
    return refusals


def reason(error: ModelError) -> str:
    """The key of the reason of a refusal; an error without one is raised again."""
    part = {"hidden states": "layout", "word embeddings": "layout"}.get(str(error.part), error.part)
    part = "operation" if str(part).startswith("torch.") else part
    if part not in REASONS:
        raise error
    return part


def page(refusals: Set[Refusal]) -> str:
    """The page in Markdown: the reasons, and for each the methods by the architectures on which they do not run."""
    counts = {"methods": len(catalogue.names()), "architectures": len(ARCHITECTURES)}
    lists = {"whole": zoo.ARCHITECTURES, "further": zoo.OTHERS}
    lines = [INTRODUCTION.format(**counts, **{name: ", ".join(names) for name, names in lists.items()})]
    for part, text in REASONS.items():
        rows: dict[str, list[str]] = {}
        for name in catalogue.names():
            if entries := [entry for entry in refusals if (entry.part, entry.method) == (part, name)]:
                entries.sort(key=lambda entry: ARCHITECTURES.index(entry.architecture))
                rows.setdefault(", ".join(entry.place for entry in entries), []).append(f"`{name}`")
        if rows:
            lines += [f"{text}\n", *(f"- **{places}**: {', '.join(names)}" for places, names in rows.items()), ""]
    return "\n".join(lines)


def read(page: str) -> set[Refusal]:
    """What a page lists."""
    refusals, parts = set(), {text: part for part, text in REASONS.items()}
    part = ""
    for line in page.splitlines():
        part = parts.get(line, part)
        if match := ROW.match(line):
            places = [place.strip(")").partition(" (") for place in match[1].split(", ")]
            names = [name.strip("`") for name in match[2].split(", ")]
            refusals |= {Refusal(part, name, place, some) for name in names for place, _, some in places}
    return refusals


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"update {PATH.name}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = partial(zoo.load, Path(folder))
        text = page(set().union(*(column(architecture, load) for architecture in ARCHITECTURES)))
    print(text)
    if options.write:
        PATH.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
