"""Bound: a view of one explainer: its text, method, layer, target and tau are traits, and any change is answered."""

from dataclasses import replace
from typing import Any

import traitlets

from nbsal.errors import InputError, UnknownName
from nbsal.explainer import Explainer
from nbsal.methods import catalogue
from nbsal.methods.base import LayerMethod, Method
from nbsal.methods.decoding import Decoded
from nbsal.saliency import Reading, Saliency
from nbsal.subject import Subject
from nbsal.target import Contrast
from nbsal.widgets import jobs, wire
from nbsal.widgets.base import View


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


class Bound(View):
    """A view of an explainer, or of a result that is there already."""

    inputs = ("text", "method", "layer", "target", "tau")
    gives: type[Reading] = Saliency  # the kind of plain result the view can show

    text = TextTrait("").tag(sync=True)
    method = traitlets.Unicode().tag(sync=True)
    layer = traitlets.Int(None, allow_none=True).tag(sync=True)
    target = traitlets.Any(None).tag(sync=True, to_json=_target_to_json, from_json=_target_from_json)
    tau = traitlets.Int(None, allow_none=True).tag(sync=True)
    _choices = traitlets.Dict({"methods": [], "labels": [], "depth": 0, "task": ""}).tag(sync=True)
    _tokens = traitlets.Dict().tag(sync=True)
    _scores = traitlets.Bytes().tag(sync=True)
    _result = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Explainer | Subject | Reading, text: Any = None, **settings: Any) -> None:
        if isinstance(source, Subject):
            source = Explainer(source, _default_method(source))
        subject, explainer = None, None
        if isinstance(source, Explainer):
            if text is None:
                raise InputError(f'{type(self).__name__} needs a text to begin with: text="...".')
            start = _settings(source.method)
            self._given = None
            settings = start | {"text": text, "_choices": choices(source)} | settings
            _check_method(settings["method"], settings["_choices"])
            subject, explainer = source.subject, source
        elif isinstance(source, self.gives):
            parameters = source.provenance.get("parameters", {})
            start = {"method": source.method, "layer": parameters.get("layer"), "tau": parameters.get("tau")}
            start["layer"] = start["layer"] if isinstance(start["layer"], int) else None
            self._given = source
            settings = start | {"text": source.text, "_live": False} | settings
        else:
            kinds = f"an Explainer, a Subject or a {self.gives.__name__}"
            raise InputError(f"{type(self).__name__} shows {kinds}, not {type(source).__name__}.")
        super().__init__(subject, explainer=explainer, **settings)

    @traitlets.validate("method")
    def _valid_method(self, proposal: Any) -> Any:
        if self.explainer is not None:
            _check_method(proposal["value"], self._choices)
        return proposal["value"]

    @traitlets.validate("layer")
    def _valid_layer(self, proposal: Any) -> Any:
        layer = proposal["value"]
        if self.explainer is not None and layer is not None and layer not in range(self.subject.depth + 1):
            raise UnknownName("layer", layer, range(self.subject.depth + 1))
        return layer

    def compute(self, wanted: dict[str, Any], job: jobs.Job) -> Any:
        if self._given is not None:
            return self._given
        return self.explain(adjusted(self.explainer, wanted), wanted)

    def explain(self, explainer: Explainer, wanted: dict[str, Any]) -> Any:
        """What the view shows of that explainer."""
        return explainer(wanted["text"], wanted["target"])

    def publish(self, found: Any) -> None:
        rows = found.scores if found.scores.ndim == 2 else [found.scores]
        packed, scales = wire.scores(rows)
        self._tokens, self._scores = wire.tokens(found.row), packed
        self._result = wire.decision(found, self.subject) | {"scales": scales}


def adjusted(source: Explainer, wanted: dict[str, Any]) -> Explainer:
    """The explainer with another method, layer or tau; its own method keeps all its other settings.

    >>> import nbsal
    >>> explain = Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    >>> adjusted(explain, {"method": "gradcam", "layer": 2, "tau": None}).method
    GradCAM(layer=2)
    """
    method = source.method if wanted["method"] == source.method.name else catalogue.create(wanted["method"])
    if isinstance(method, Decoded):
        method = replace(method, tau=wanted["tau"], method=replace(method.method, layer=wanted["layer"]))
    elif isinstance(method, LayerMethod):
        method = replace(method, layer=wanted["layer"])
    return Explainer(source.subject, method, long=source.long)


def choices(source: Explainer) -> dict[str, Any]:
    """What the page may choose from: methods with their families and whether they read a layer or a tau."""
    subject, own = source.subject, source.method
    made: dict[str, Method] = {name: catalogue.create(name) for name in catalogue.names()} | {own.name: own}
    decodes = subject._language_head is not None
    methods = [
        [name, method.family, isinstance(method, LayerMethod | Decoded), isinstance(method, Decoded)]
        for name, method in made.items()
        if decodes or not isinstance(method, Decoded)
    ]
    labels = subject.labels if subject.task == "sequence" else []
    return {"methods": methods, "labels": labels, "depth": subject.depth, "task": subject.task}


def _default_method(subject: Subject) -> str:
    return "decoded-gradcam" if subject._language_head is not None else "gradcam"


def _settings(method: Method) -> dict[str, Any]:
    """The traits that say the same as a resolved method."""
    layer = method.layer if isinstance(method, LayerMethod | Decoded) else None
    return {"method": method.name, "layer": layer, "tau": getattr(method, "tau", None)}


def _check_method(name: str, known: dict[str, Any]) -> None:
    valid = [entry[0] for entry in known["methods"]]
    if name not in valid:
        raise UnknownName("method", name, valid)
