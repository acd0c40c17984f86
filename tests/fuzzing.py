"""Odd values for every parameter of every public function, method, setting and trait of nbsal.

The callables are discovered: a new public function is fuzzed without being listed anywhere, and the test fails until
each of its required parameters has a valid value here.
"""

import contextlib
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from matplotlib import pyplot

import nbsal
from nbsal import clouds, corpus, evaluation, heads, trace, widgets
from nbsal.errors import NbsalError
from nbsal.figures import flow, pages, relevance
from nbsal.methods import catalogue
from nbsal.widgets.base import View
from tests.answers import writers

PROMPT, REPLY = "The film is a joy. The plot is a bore.", " A joy."
TEXT, TEXTS = "A warm joy.", ["A warm joy.", "A dull bore."]
MODULES = (
    "nbsal", "nbsal.heads", "nbsal.evaluation", "nbsal.clouds", "nbsal.data", "nbsal.corpus", "nbsal.widgets",
    "nbsal.methods.catalogue", "nbsal.figures.decoding_saliency", "nbsal.figures.relevance", "nbsal.figures.mask_lrp",
    "nbsal.figures.flow", "nbsal.figures.pages", "nbsal.figures.checkpoints", "nbsal.figures.tables",
)  # fmt: skip
# Public names that are not called with odd values, and why.
EXCLUDED = {
    "Trace": "a record that nbsal.trace.record fills",
    "Encoded": "a record that Subject.encode fills",
    "Saliency": "a record that explainers fill", "LayerSaliency": "a record that explainers fill",
    "Results": "a record that evaluations fill", "Flow": "a record that through_block fills",
    "Maps": "a record that relevance.maps fills", "Page": "a record that supplement fills",
    "Cache": "a record that evaluations fill", "Corpus": "a record that nbsal.corpus.open fills",
    "HeadStudy": "a record that nbsal.heads.study fills", "Table": "a record of nbsal.data",
    "Checkpoint": "a record of the papers", "Dataset": "a record of the papers",
    "View": "a base class; its methods and traits are called through every view",
    "Encoded.__getitem__": "indexed like a tuple", "Encoded.padded": "called by the fields",
    "Subject.logits": "takes what Subject.inputs returns", "Subject.with_model": "called by the package",
    "Subject.record_source": "called by nbsal.load", "Trace.relevance_maps": "called by methods",
    "Trace.cached": "takes the function that it calls", "View.on_select": "a list of callbacks",
    "weigh": "called by rank and by corpora", "Corpus.units": "called by clouds",
    "Corpus.containing": "called by views, which pass text in lower case",
    "Cache.explain": "called by evaluations", "Cache.masked_logits": "called by evaluations",
    "HeadStudy.count": "called by nbsal.heads.study", "Answer": "a record that nbsal.answer fills",
    "Replies": "a record that nbsal.corpus.open_replies fills", "Explainer.reply": "called by nbsal.answer",
    "Explainer.encoded": "called by answers", "Explainer.encoded_layers": "called by answers and by every_layer",
}  # fmt: skip
METHODS_OF_VIEWS = ("to_html", "freeze", "handle_save", "texts_with", "wait", "explain", "as_explainer")
OPERATORS = ("__or__", "__and__", "__add__")


class Odd:
    """A class that can be called with anything."""

    def __init__(self, *arguments: Any) -> None:
        pass


ODD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "empty": lambda: "",
    "x": lambda: "x",
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "-1": lambda: -1,
    "0": lambda: 0,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "True": lambda: True,
    "huge": lambda: 10**30,
    "bytes": lambda: b"x",
    "list": list,
    "list of None": lambda: [None],
    "nested": lambda: [["x"]],
    "dict": dict,
    "dict of objects": lambda: {"x": object()},
    "set": lambda: {1},
    "object": object,
    "function": lambda: lambda *arguments: None,
    "class": lambda: Odd,
    "pair": lambda: (1, "x"),
    "generator": lambda: (value for value in (1, "x")),
    "table": lambda: np.zeros((2, 3)),
    "objects": lambda: np.array(["x", None], dtype=object),
    "scalar": lambda: np.array(1.5),
    "tensor": lambda: torch.ones(2),
    "frame": lambda: pandas.DataFrame([[1, 2]], columns=["text", "text"]),
}


class Objects:
    """A valid object of each kind, on a tiny model; the calls run in `folder`."""

    def __init__(self, subject: nbsal.Subject, folder: Path) -> None:
        self.subject = subject
        self.folder = folder
        self.explain = nbsal.Explainer(subject, "gradcam", layer=1)
        self.saliencies = self.explain.map(TEXTS, progress=False)
        self.parse = heads.Parse.from_lists(["good", "food"], [1, -1], ["amod", "root"])
        self.corpus = corpus.explain(self.explain, TEXTS, folder / "corpus", progress=False)
        self.results = evaluation.games(self.explain, TEXTS, random=1, fractions=[0.5, 1], progress=False)
        self.study = heads.study(subject, [self.parse], progress=False)
        self.mask = heads.HeadMask.from_array(np.eye(subject.depth, subject.heads))
        self.cloud = clouds.rank(self.saliencies)
        self.trace = trace.record(subject, subject.encode(TEXTS))
        self.writer = writers.load(dtype=torch.float32)
        self.answer = nbsal.answer(self.writer, PROMPT, REPLY, progress=False)
        self.writes = nbsal.Explainer(self.writer, "gae")
        self.replies = corpus.explain_replies(
            self.writes, [PROMPT], folder / "replies", max_new_tokens=2, progress=False
        )
        self.receivers: dict[str, Any] = {
            "Subject": subject, "Explainer": self.explain, "Saliency": self.saliencies[0], "Parse": self.parse,
            "LayerSaliency": self.explain.every_layer(TEXT), "Saliencies": self.saliencies, "Corpus": self.corpus,
            "Comparison": nbsal.compare(subject, ["gradcam"], TEXTS, progress=False), "HeadStudy": self.study,
            "Results": self.results, "HeadMask": self.mask, "Cloud": self.cloud, "Encoded": subject.encode(TEXTS),
            "Trace": self.trace, "Page": pages.Page("title", "body"),
            "Cache": evaluation.Cache(), "Answer": self.answer, "Replies": self.replies,
        }  # fmt: skip


# A valid value for each required parameter, by its name, or by "function.parameter" where a name has several meanings.
GOOD: dict[str, Callable[[Objects], Any]] = {
    "text": lambda o: TEXT,
    "table.columns": lambda o: ["text"],
    "texts": lambda o: list(TEXTS),
    "input_ids": lambda o: [2, 9, 11, 3],
    "subject": lambda o: o.subject,
    "answer.subject": lambda o: o.writer,
    "asked": lambda o: PROMPT,
    "Explainer.rows": lambda o: [PROMPT],
    "explain_replies.explainers": lambda o: o.writes,
    "explain_replies.source": lambda o: [PROMPT],
    "explain_replies.out": lambda o: o.folder / "replies",
    "open_replies.location": lambda o: o.replies.location,
    "Answer.at": lambda o: 0,
    "Answer.token": lambda o: 9,
    "Answer.span": lambda o: 0,
    "explainer": lambda o: o.explain,
    "explainers": lambda o: o.explain,
    "rank_agreement.explainers": lambda o: {"a": o.explain, "b": o.explain},
    "methods": lambda o: ["gradcam"],
    "method": lambda o: "gradcam",
    "Decoded.method": lambda o: nbsal.GradCAM(),
    "model": lambda o: o.subject.model,
    "name": lambda o: "gradcam",
    "data.load.name": lambda o: "samples/reviews",
    "data.labels.name": lambda o: "sst2",
    "frame": lambda o: pandas.DataFrame({"text": TEXTS}),
    "first": lambda o: "LABEL_0",
    "second": lambda o: "LABEL_1",
    "kendall.first": lambda o: [1, 2, 3],
    "kendall.second": lambda o: [3, 1, 2],
    "answers": lambda o: [(0, 6), (0, 6)],
    "evaluation.answers.answers": lambda o: {"gae": [o.answer]},
    "rationales": lambda o: [[(0, 6)], [(0, 6)]],
    "saliencies": lambda o: list(o.saliencies),
    "figures.saliencies": lambda o: {"gradcam": o.saliencies[0]},
    "saliency": lambda o: o.saliencies[0],
    "ours": lambda o: o.saliencies[0],
    "others": lambda o: {"gradcam": o.saliencies[0]},
    "unit": lambda o: "token",
    "normalise": lambda o: True,
    "token": lambda o: "joy",
    "parses": lambda o: [o.parse],
    "source": lambda o: list(TEXTS),
    "from_conllu.source": lambda o: "1\tgood\t_\t_\t_\t_\t0\troot\t_\t_\n",
    "out": lambda o: o.folder / "corpus",
    "location": lambda o: o.corpus.location,
    "path": lambda o: o.folder / "file",
    "layer": lambda o: 1,
    "block": lambda o: 1,
    "label": lambda o: o.cloud.labels[0],
    "array": lambda o: o.mask.selected,
    "HeadMask.positional": lambda o: o.mask.selected,
    "rate": lambda o: 0.5,
    "seed": lambda o: 0,
    "doc": lambda o: [],
    "count": lambda o: 1,
    "kind": lambda o: "csv",
    "word": lambda o: "joy",
    "shape": lambda o: (2, 4),
    "content": lambda o: {},
    "span": lambda o: (0, 6),
    "words": lambda o: ["good", "food"],
    "heads": lambda o: [1, -1],
    "relations": lambda o: ["amod", "root"],
    "measure": lambda o: "hiding",
    "paired.first": lambda o: "gradcam",
    "paired.second": lambda o: "random",
    "i": lambda o: 0,
    "index": lambda o: 0,
    "as_explainer.source": lambda o: o.explain,
    "places": lambda o: [0],
    "field": lambda o: "ids",
    "fill": lambda o: 0,
    "record": lambda o: o.trace,
    "row": lambda o: o.trace.encoded[0],
    "encoded": lambda o: o.subject.encode(list(TEXTS)),
    "inputs": lambda o: o.subject.inputs(o.subject.encode(TEXT)),
    "needs": lambda o: ["hidden"],
    "promise": lambda o: ["signed"],
    "weights": lambda o: {"a": {"joy": 1.0}, "b": {"joy": 2.0}},
    "results": lambda o: o.results,
    "panels": lambda o: {"table": o.results},
    "overlap_counts.panels": lambda o: {"table": {"gradcam": o.cloud}},
    "clouds": lambda o: {"gradcam": o.cloud},
    "study": lambda o: o.study,
    "masks": lambda o: {"tiny": o.mask},
    "maps": lambda o: relevance.maps(o.subject, TEXT),
    "flow": lambda o: flow.through_block(o.subject, TEXT, 1, o.mask),
    "explanations": lambda o: {"gradcam": o.saliencies},
    "png": lambda o: b"",
    "alternative": lambda o: "a figure",
    "number": lambda o: "1",
    "note": lambda o: "",
    "body": lambda o: "",
    "title": lambda o: "title",
    "numbers": lambda o: pandas.DataFrame({"a": [1.0]}),
    "caption": lambda o: "",
}
QUIET = {"progress": False}


@dataclass(frozen=True)
class Call:
    """A public callable with a valid value for each of its required parameters, and the parameters to be fuzzed."""

    name: str
    run: Callable[..., Any]
    good: dict[str, Callable[[], Any]]
    parameters: tuple[str, ...]

    def __call__(self, parameter: str, value: Any) -> None:
        consume(self.run(**{name: make() for name, make in self.good.items()} | {parameter: value}))


def consume(result: Any) -> None:
    """Read a lazy result, and wait for that of a view."""
    if isinstance(result, Iterator):
        list(result)
    if isinstance(result, View):
        result.wait(20)
        result.close()


def call_of(name: str, function: Callable[..., Any], objects: Objects) -> Call:
    """A callable with valid values for its parameters."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    good = {p.name: good_value(name, p.name, objects) for p in named if p.default is p.empty}
    good |= {p.name: lambda value=QUIET[p.name]: value for p in named if p.name in QUIET}
    typo = ("typo",) if any(p.kind == p.VAR_KEYWORD for p in parameters) else ()
    return Call(name, function, good, (*(p.name for p in named), *typo))


def good_value(call: str, parameter: str, objects: Objects) -> Callable[[], Any]:
    """A valid value for a required parameter."""
    parts = call.split(".")
    keys = [".".join([*parts[at:to], parameter]) for at in range(len(parts)) for to in range(len(parts), at, -1)]
    key = next((key for key in [*keys, parameter] if key in GOOD), None)
    assert key, f"tests/fuzzing.py has no valid value for {call}({parameter}=...): add it to GOOD"
    return lambda: GOOD[key](objects)


def public(module_name: str) -> Iterator[tuple[str, Any]]:
    """The public functions and classes of a module."""
    module = import_module(module_name)
    package = hasattr(module, "__path__")
    for name in sorted({*vars(module), *getattr(module, "_NAMES", ())}):
        value = None if name.startswith("_") else getattr(module, name)
        home = getattr(value, "__module__", "")
        if callable(value) and (home.startswith("nbsal.") if package else home == module_name):
            yield name, value


def discover(objects: Objects) -> Iterator[Call]:
    """Every public call, except those of views."""
    receivers = dict(objects.receivers)
    for module in MODULES:
        for name, value in public(module):
            full = f"{module.removeprefix('nbsal').lstrip('.')}.{name}".lstrip(".")
            if (isinstance(value, type) and issubclass(value, View)) or name in EXCLUDED:
                continue
            if not (isinstance(value, type) and name in receivers and name not in ("HeadMask", "Explainer", "Subject")):
                yield call_of(full, value, objects)
    for name, receiver in receivers.items():
        yield from methods_of(name, receiver, objects)
    for name in catalogue.names():
        method = catalogue.create(name)
        yield Call(f"method {name}", with_setting(objects, name), {}, tuple(method.parameters()))


def methods_of(name: str, receiver: Any, objects: Objects) -> Iterator[Call]:
    """Every public method of an object, `__call__` and `__getitem__` too."""
    for attribute in sorted(dir(type(receiver))):
        member = inspect.getattr_static(type(receiver), attribute)
        function = member.__func__ if isinstance(member, classmethod) else member
        home = getattr(function, "__module__", None) or ""
        if not inspect.isfunction(function) or not home.startswith("nbsal.") or f"{name}.{attribute}" in EXCLUDED:
            continue
        if attribute in OPERATORS:
            yield Call(f"{name}.{attribute}", getattr(receiver, attribute), {}, ("other",))
        elif not attribute.startswith("_") or attribute in ("__call__", "__getitem__"):
            yield call_of(f"{name}.{attribute}", getattr(receiver, attribute), objects)


def with_setting(objects: Objects, name: str) -> Callable[..., Any]:
    """A function that explains a text with a setting of a method."""
    small = {"samples": 2, "steps": 2}

    def explain(**setting: Any) -> Any:
        method = catalogue.create(name)
        options = {key: value for key, value in small.items() if key in method.parameters()} | setting
        if "mask" in method.parameters() and "mask" not in options:
            options["mask"] = objects.mask
        return nbsal.Explainer(objects.subject, name, **options)(TEXT)

    return explain


VIEWS: dict[str, Callable[[Objects], View]] = {
    "Answers": lambda o: widgets.Answers(o.writer, PROMPT, REPLY),
    "Browse": lambda o: widgets.Browse(o.saliencies),
    "Clouds": lambda o: widgets.Clouds(o.saliencies),
    "Compare": lambda o: widgets.Compare(o.explain, text=TEXT),
    "Games": lambda o: widgets.Games(o.explain, text=TEXT),
    "Heads": lambda o: widgets.Heads(o.explain, text=TEXT),
    "Highlight": lambda o: widgets.Highlight(o.explain, text=TEXT),
    "Layers": lambda o: widgets.Layers(o.explain, text=TEXT),
    "Workbench": lambda o: widgets.Workbench(o.explain, text=TEXT),
}


def discover_views(objects: Objects) -> Iterator[Call]:
    """Constructors, traits and methods of every view."""
    for name, kind in public("nbsal.widgets"):
        if kind is View:
            continue
        source = objects.saliencies if name in ("Browse", "Clouds") else objects.explain
        texts = {} if name in ("Browse", "Clouds") else {"text": lambda: TEXT}
        if name == "Answers":
            source, texts = objects.writer, {"asked": lambda: PROMPT, "reply": lambda: REPLY}
        traits = [trait for trait in kind.class_trait_names(sync=True) if not trait.startswith("_")]
        named = [p.name for p in inspect.signature(kind.__init__).parameters.values() if p.kind != p.VAR_KEYWORD][1:]
        good = {"source": lambda source=source: source, **texts}
        yield Call(f"widgets.{name}", kind, good, tuple(dict.fromkeys([*named, *traits])))
        view = VIEWS[name](objects).wait(20)

        def assign(view: View = view, **setting: Any) -> None:
            ((trait, value),) = setting.items()
            before = getattr(view, trait)
            try:
                setattr(view, trait, value)
                view.wait(20)
            finally:
                setattr(view, trait, before)
                with contextlib.suppress(NbsalError):
                    view.wait(20)

        yield Call(f"{name} trait", assign, {}, tuple(traits))
        for method in METHODS_OF_VIEWS:
            if hasattr(kind, method) and "job" not in inspect.signature(getattr(kind, method)).parameters:
                yield call_of(f"{name}.{method}", getattr(view, method), objects)


def bare_errors(calls: Iterator[Call], share: int = 1, seed: int = 0) -> tuple[int, list[str]]:
    """Run every call with odd values; return the number of cases, and those that ended in an error not of nbsal.

    With `share` 20, each parameter gets every 20th odd value, beginning at another one than the parameter before it;
    the seed says at which one the first begins.
    """
    cases, bare, names = 0, [], list(ODD)
    pairs = ((call, parameter) for call in calls for parameter in call.parameters)
    for number, (call, parameter) in enumerate(pairs):
        for name in names[(number + seed) % share :: share]:
            cases += 1
            try:
                with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                    warnings.simplefilter("ignore")
                    call(parameter, ODD[name]())
            except NbsalError as error:
                assert str(error)
            except Exception as error:
                bare.append(f"{call.name}({parameter}={name}): {type(error).__name__}: {error!s:.100}")
        pyplot.close("all")
    return cases, bare
