"""Bound: a view of one explainer: its text, method, layer, target and tau are traits, and any change is answered."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import traitlets

from nbsal.errors import InputError, UnknownName
from nbsal.explainer import Explainer, explain_batch
from nbsal.methods import catalogue
from nbsal.methods.base import LayerMethod, Method
from nbsal.methods.decoding import Decoded
from nbsal.model.subject import Subject
from nbsal.model.targets import Contrast
from nbsal.saliency import Explanation, Saliency
from nbsal.widgets import jobs, wire
from nbsal.widgets.base import View

STEPS = 1000  # a single text's work is told of in so many


class TextTrait(traitlets.TraitType[Any, Any]):
    """A text, or a pair of texts."""

    info_text = "a text, or a pair (text, text)"

    def validate(self, obj: Any, value: Any) -> Any:
        if isinstance(value, str):
            return value
        if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, str) for part in value):
            return tuple(value)
        raise InputError(f"text is a str or a pair (str, str), not {value!r:.80}.")


def _target_to_json(value: Any, _: Any = None) -> Any:
    if isinstance(value, Contrast):
        return {"contrast": [value.first, value.second]}
    return list(value) if isinstance(value, tuple) else value


def _target_from_json(value: Any, _: Any = None) -> Any:
    if isinstance(value, dict):
        return Contrast(*value["contrast"])
    return tuple(value) if isinstance(value, list) else value


NOTHING: dict[str, Any] = {"methods": [], "labels": [], "depth": 0, "task": ""}  # to choose from: a plain result
TARGET = {"to_json": _target_to_json, "from_json": _target_from_json}  # how a target crosses to the page


class ExplainerView(View):
    """A view of an explainer, or of a result that is there already."""

    inputs: ClassVar[tuple[str, ...]] = ("text", "method", "layer", "target", "tau")
    gives: ClassVar[type[Explanation]] = Saliency  # the kind of plain result the view can show
    layered: ClassVar[bool] = False  # whether it only shows methods that read a layer

    text = TextTrait("").tag(sync=True)
    method = traitlets.Unicode().tag(sync=True)
    layer = traitlets.Int(None, allow_none=True).tag(sync=True)
    target = traitlets.Any(None).tag(sync=True, **TARGET)
    tau = traitlets.Int(None, allow_none=True).tag(sync=True)
    _choices = traitlets.Dict(NOTHING).tag(sync=True)
    _tokens = traitlets.Dict().tag(sync=True)
    _scores = traitlets.Bytes().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Explainer | Subject | Explanation, text: Any = None, **settings: Any) -> None:
        self._given = source if isinstance(source, self.gives) else None
        if self._given is not None:
            super().__init__(**changed_settings(self._given) | {"_live": False} | settings)
            return
        explainer = as_explainer(source, self)
        if text is None:
            raise InputError(f'{type(self).__name__} needs a text to begin with: text="...".')
        start = method_settings(explainer.method) | {"text": text, "_choices": view_choices(explainer, self.layered)}
        super().__init__(explainer.subject, explainer=explainer, **start | settings)

    @traitlets.validate("method")
    def _valid_method(self, proposal: Any) -> Any:
        return check_method(proposal["value"], self._choices)

    @traitlets.validate("layer")
    def _valid_layer(self, proposal: Any) -> Any:
        return check_layer(proposal["value"], self._choices)

    @traitlets.observe("text")
    def _forget(self, change: Any) -> None:
        if self.result is not None:  # places in the text before mean nothing in this one
            self.selection, self.hover = [], None

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        if self._given is not None:
            return self._given
        return self.explain(with_settings(self.explainer, wanted), wanted, job)

    def explain(self, explainer: Explainer, wanted: dict[str, Any], job: jobs.Job) -> Any:
        """What the view shows of that explainer."""
        return self.explain_each([explainer], wanted, job)[0]

    def explain_each(self, explainers: Sequence[Explainer], wanted: dict[str, Any], job: jobs.Job) -> list[Saliency]:
        """What explainers of one subject see in one text, from one run of it; those that take long can be stopped."""
        text, target = wanted["text"], wanted["target"]
        encoded = explainers[0].subject.encode(text)
        if encoded[0].dropped and any(explainer.long == "window" for explainer in explainers):
            return [explainer(text, target) for explainer in explainers]
        meter = self.meter(job, STEPS).part(STEPS, len(explainers))
        named = {str(i): explainer for i, explainer in enumerate(explainers)}
        return [found[0] for found in explain_batch(named, encoded, [target], meter).values()]

    def publish(self, found: Any) -> None:
        rows = found.scores if found.scores.ndim == 2 else [found.scores]
        packed, scales = wire.scores(rows)
        self._tokens, self._scores = wire.tokens(found.row), packed
        self._result = wire.decision(found, self.subject) | {"scales": scales}


class HighlightView(ExplainerView):
    """A view that shades scores.

    `level` sums tokens to words; `signed` False colours what speaks for the target alone; `clip` is the share of the
    largest score that has full colour, and `gamma` below 1 brings out small scores. Numbers are never changed by them.
    """

    level = traitlets.Enum(("token", "word"), "token").tag(sync=True)
    signed = traitlets.Bool(True).tag(sync=True)
    gamma = traitlets.Float(1.0, min=0.2, max=3.0).tag(sync=True)
    clip = traitlets.Float(1.0, min=0.05, max=1.0).tag(sync=True)


def as_explainer(source: Any, view: ExplainerView) -> Explainer:
    """The explainer a view is bound to; a subject is explained by decoding, where it has an LM head."""
    if isinstance(source, Subject):
        return Explainer(source, _default_method(source))
    if not isinstance(source, Explainer):
        kinds = f"an Explainer, a Subject or a {view.gives.__name__}"
        raise InputError(f"{type(view).__name__} shows {kinds}, not {type(source).__name__}.")
    return source


def with_settings(source: Explainer, wanted: dict[str, Any]) -> Explainer:
    """The explainer with another method, layer or tau; its own method keeps all its other settings.

    >>> import nbsal
    >>> explain = Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> with_settings(explain, {"method": "gradcam", "layer": 2, "tau": None}).method
    GradCAM(layer=2)
    """
    method = source.method if wanted["method"] == source.method.name else catalogue.create(wanted["method"])
    if isinstance(method, Decoded):
        method = replace(method, tau=wanted["tau"], method=replace(method.method, layer=wanted.get("layer")))
    elif isinstance(method, LayerMethod):
        method = replace(method, layer=wanted.get("layer"))
    return Explainer(source.subject, method, long=source.long)


def view_choices(source: Explainer, layered: bool = False) -> dict[str, Any]:
    """What the page may choose from: methods with their families and whether they read a layer or a tau."""
    subject, own = source.subject, source.method
    made: dict[str, Method] = {name: catalogue.create(name) for name in catalogue.names()} | {own.name: own}
    decodes = subject._lm_head is not None
    methods = [
        [name, method.family, isinstance(method, LayerMethod | Decoded), isinstance(method, Decoded)]
        for name, method in made.items()
        if (decodes or not isinstance(method, Decoded)) and (not layered or isinstance(method, LayerMethod | Decoded))
    ]
    labels = subject.labels if subject.task == "sequence" else []
    return {"methods": methods, "labels": labels, "depth": subject.depth, "task": subject.task}


def method_settings(method: Method) -> dict[str, Any]:
    """The traits that say the same as a resolved method."""
    layer = method.layer if isinstance(method, LayerMethod | Decoded) else None
    return {"method": method.name, "layer": layer, "tau": getattr(method, "tau", None)}


def check_method(name: str, known: dict[str, Any]) -> str:
    """The method's name, if the page offers it; a plain result's page offers none."""
    valid = [entry[0] for entry in known["methods"]]
    if valid and name not in valid:
        raise UnknownName("method", name, valid)
    return name


def check_layer(layer: int | None, known: dict[str, Any]) -> int | None:
    """The layer, if the model has it."""
    if known["depth"] and layer is not None and layer not in range(known["depth"] + 1):
        raise UnknownName("layer", layer, range(known["depth"] + 1))
    return layer


def _default_method(subject: Subject) -> str:
    return "decoded-gradcam" if subject._lm_head is not None else "gradcam"


def changed_settings(found: Explanation) -> dict[str, Any]:
    """The traits that say what a plain result was made with."""
    parameters = found.provenance.get("parameters", {})
    layer = parameters.get("layer")
    return {
        "text": found.text,
        "method": found.method,
        "layer": layer if isinstance(layer, int) else None,
        "tau": parameters.get("tau"),
    }
