"""Odd values for the required parameters of every public function, and for every setting and trait of nbsal.

The callables are discovered: a new public function is fuzzed without being listed anywhere.
"""

import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from matplotlib import pyplot

import nbsal
from nbsal import corpus, evaluation, heads
from nbsal.evaluation import clouds
from nbsal.methods import catalogue
from nbsal.passes import trace
from nbsal.support.errors import NbsalError
from nbsal.testing.tiny_models import MASK
from nbsal.widgets.base import View
from tests.answers import writers

PROMPT, REPLY = "The film is a joy. The plot is a bore.", " A joy."
TEXT, TEXTS = "A warm joy.", ["A warm joy.", "A dull bore."]
MODULES = (
    *(
        "nbsal",
        "nbsal.heads",
        "nbsal.evaluation",
        "nbsal.evaluation.clouds",
        "nbsal.evaluation.data",
        "nbsal.corpus",
        "nbsal.widgets",
    ),
    "nbsal.methods.catalogue",
)
# Public names that are not called with odd values: records that the package fills, and what only the package calls.
EXCLUDED = {
    *"Trace Encoded Saliency LayerSaliency Results Cache Corpus HeadStudy Table View Answer Replies".split(),
    *"Subject.logits Subject.with_model Subject.record_source Trace.relevance_maps Trace.cached".split(),
    *"weigh Corpus.units Cache.explain Cache.logits_without HeadStudy.count View.on_select".split(),
    *"Explainer.reply Explainer.explain_encoded Explainer.explain_encoded_layers".split(),
    *"Encoded.__getitem__ Encoded.padded".split(),
}
OPERATORS = ("__or__", "__and__", "__add__")
Calls = Iterator[tuple[str, Callable[..., Any], tuple[str, ...]]]  # a name, a callable, and parameters that it accepts


class Odd:
    """A class that can be called with anything."""

    def __init__(self, *arguments: Any) -> None:
        pass


ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None, "empty": lambda: "", "x": lambda: "x", "NUL": lambda: "a\0b", "surrogate": lambda: "\ud800",
    "-1": lambda: -1, "0": lambda: 0, "1.5": lambda: 1.5, "nan": lambda: float("nan"), "inf": lambda: float("inf"),
    "True": lambda: True, "huge": lambda: 10**30, "bytes": lambda: b"x", "list": list, "list of None": lambda: [None],
    "nested": lambda: [["x"]], "dict": dict, "dict of objects": lambda: {"x": object()}, "set": lambda: {1},
    "object": object, "function": lambda: lambda *arguments: None, "class": lambda: Odd, "pair": lambda: (1, "x"),
    "generator": lambda: (value for value in (1, "x")), "table": lambda: np.zeros((2, 3)),
    "objects": lambda: np.array(["x", None], dtype=object), "scalar": lambda: np.array(1.5),
    "tensor": lambda: torch.ones(2), "frame": lambda: pandas.DataFrame([[1, 2]], columns=["text", "text"]),
}  # fmt: skip


def receivers(subject: nbsal.Subject, folder: Path) -> dict[str, Any]:
    """A valid object of each kind."""
    explain = nbsal.Explainer(subject, "gradcam", layer=1)
    saliencies = explain.map(TEXTS, progress=False)
    parse = heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
    writer = writers.load(dtype=torch.float32)
    settings = {"max_new_tokens": 2, "progress": False}
    return {
        "Subject": subject, "Explainer": explain, "Saliency": saliencies[0], "Parse": parse, "Saliencies": saliencies,
        "LayerSaliency": explain.every_layer(TEXT), "Cloud": clouds.rank(saliencies), "Cache": evaluation.Cache(),
        "Corpus": corpus.explain(explain, TEXTS, folder / "corpus", progress=False), "HeadMask": MASK,
        "Comparison": nbsal.compare(subject, ["gradcam"], TEXTS, progress=False), "Encoded": subject.encode(TEXTS),
        "HeadStudy": heads.study(subject, [parse], progress=False),
        "Results": evaluation.games(explain, TEXTS, random=1, fractions=[0.5, 1], progress=False),
        "Trace": trace.record(subject, subject.encode(TEXTS)),
        "Answer": nbsal.answer(writer, PROMPT, REPLY, progress=False),
        "Replies": corpus.explain_replies(nbsal.Explainer(writer, "gae"), [PROMPT], folder / "replies", **settings),
    }  # fmt: skip


def public(module_name: str) -> Iterator[tuple[str, Any]]:
    """The public functions and classes of a module."""
    module = import_module(module_name)
    package = hasattr(module, "__path__")
    for name in sorted({*vars(module), *dir(module)}):
        value = None if name.startswith("_") else getattr(module, name)
        home = getattr(value, "__module__", "")
        if callable(value) and (home.startswith("nbsal.") if package else home == module_name):
            yield name, value


def variants(name: str, function: Callable[..., Any]) -> Calls:
    """A callable with all its required parameters; without such, with each of the others, and with a misspelt one."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    required = tuple(p.name for p in named if p.default is p.empty)
    yield from [(name, function, required)] if required else ((name, function, (p.name,)) for p in named)
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        yield name, function, (*required, "typo")


def discover(objects: dict[str, Any]) -> Calls:
    """Every public call, except those of views."""
    for module in MODULES:
        for name, value in public(module):
            is_class = isinstance(value, type)
            skipped = is_class and (
                issubclass(value, View) or name in objects.keys() - {"HeadMask", "Explainer", "Subject"}
            )
            if not skipped and name not in EXCLUDED:
                yield from variants(f"{module}.{name}", value)
    for name, receiver in objects.items():
        for attribute in sorted(dir(type(receiver))):
            member = inspect.getattr_static(type(receiver), attribute)
            function = member.__func__ if isinstance(member, classmethod) else member
            home = getattr(function, "__module__", None) or ""
            if not inspect.isfunction(function) or not home.startswith("nbsal.") or f"{name}.{attribute}" in EXCLUDED:
                continue
            if attribute in OPERATORS:
                yield f"{name}.{attribute}", getattr(receiver, attribute), ("other",)
            elif not attribute.startswith("_") or attribute in ("__call__", "__getitem__"):
                yield from variants(f"{name}.{attribute}", getattr(receiver, attribute))
    for name in catalogue.names():
        for parameter in catalogue.create(name).parameters():
            yield f"method {name}", partial(explain_with, objects["Subject"], name), (parameter,)


def explain_with(subject: nbsal.Subject, name: str, **setting: Any) -> Any:
    """Explain a text with a setting of a method."""
    parameters = catalogue.create(name).parameters()
    options = {"samples": 2, "steps": 2, "mask": MASK} | setting
    return nbsal.Explainer(subject, name, **{key: options[key] for key in options if key in parameters})(TEXT)


def discover_views(objects: dict[str, Any]) -> Calls:
    """Constructors and traits of every view."""
    for name, kind in public("nbsal.widgets"):
        if kind is View:
            continue
        values = {"source": objects["Explainer"], "text": TEXT}
        if name in ("Browse", "Clouds"):
            values = {"source": objects["Saliencies"]}
        elif name == "Audit":
            values = {"source": objects["Explainer"], "texts": [TEXT], "least": 1}
        elif name == "Answers":
            values = {"source": writers.load(dtype=torch.float32), "asked": PROMPT, "reply": REPLY}
        traits = [trait for trait in kind.class_trait_names(sync=True) if not trait.startswith("_")]
        named = [p.name for p in inspect.signature(kind.__init__).parameters.values() if p.kind != p.VAR_KEYWORD][1:]
        for parameter in dict.fromkeys([*named, *traits]):
            yield f"widgets.{name}", partial(kind, **values), (parameter,)
        view = kind(**values).wait(120)
        for trait in traits:
            yield f"{name} trait", partial(assign, view), (trait,)


def assign(view: View, **setting: Any) -> None:
    """Assign to a trait of a view, then assign what was there before."""
    ((trait, value),) = setting.items()
    before = getattr(view, trait)
    try:
        setattr(view, trait, value)
        view.wait(120)
    finally:
        setattr(view, trait, before)
        with contextlib.suppress(NbsalError):
            view.wait(120)


def bare_errors(calls: Calls, share: int = 1, seed: int = 0) -> tuple[int, list[str]]:
    """Run every call with odd values; return the number of cases, and those that ended in an error not of nbsal.

    With `share` 20, each call gets every 20th odd value, the first one chosen by the seed and its number.
    """
    cases, bare, names = 0, [], list(ODD)
    for number, (call, function, parameters) in enumerate(calls):
        for name in names[(number + seed) % share :: share]:
            cases += 1
            try:
                with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                    warnings.simplefilter("ignore")
                    consume(function(**{parameter: ODD[name]() for parameter in parameters}))
            except NbsalError as error:
                assert str(error)
            except Exception as error:
                bare.append(f"{call}({parameters}={name}): {type(error).__name__}: {error!s:.100}")
        pyplot.close("all")
    return cases, bare


def consume(result: Any) -> None:
    """Read a lazy result, and wait for that of a view."""
    if isinstance(result, Iterator):
        list(result)
    if isinstance(result, View):
        result.wait(120)
        result.close()
