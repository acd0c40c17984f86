"""What a page may choose from: methods, layers and classes.

The list of methods is long, and is read only when somebody opens it. So the state of a view holds the name of the list
and the chosen method alone. A page requests a list when it needs one, and all views on the page share it.
"""

import hashlib
import json
from collections.abc import Collection
from math import inf
from typing import Any, ClassVar

import traitlets

from nbsal.explain.lazy import Explainer
from nbsal.explain.sentences.statement import OCCLUSION
from nbsal.methods import labels
from nbsal.methods.lazy import Decoded, LayerMethod, Method, Served, Subject, catalogue, crossing
from nbsal.support.errors import LISTED, InputError, UnknownName

NO_CHOICES: dict[str, Any] = {  # of a finished result
    "methods": "",
    "method": None,
    "layered": None,
    "hiding": None,
    "labels": [],
    "depth": 0,
    "task": "",
}

_LISTS: dict[str, list[dict[str, Any]]] = {"": []}  # by the hash of their content; views of one model have the same


class MethodTraits(traitlets.HasTraits):
    """The traits of a view whose page chooses a method and a layer."""

    immediate: ClassVar[Collection[str]] = ("cancel", "methods")

    method = traitlets.Unicode().tag(sync=True, page=True)
    layer = traitlets.Int(None, allow_none=True).tag(sync=True, page=True)
    _choices = traitlets.Dict(NO_CHOICES).tag(sync=True)

    def handle_methods(self, key: Any) -> list[dict[str, Any]]:
        """Answer a page that needs the list of methods with a name."""
        if not isinstance(key, str) or key not in _LISTS:
            raise InputError(f"There is no list of methods {key!r:.60}.", argument="key", value=key)
        return _LISTS[key]

    @traitlets.validate("method")
    def _valid_method(self, proposal: Any) -> Any:
        return check_method(proposal["value"], self._choices)

    @traitlets.validate("layer")
    def _valid_layer(self, proposal: Any) -> Any:
        return check_layer(proposal["value"], self._choices)

    @traitlets.observe("method")
    def _describe_method(self, change: Any) -> None:
        self._choices = with_method(self._choices, change["new"])


def view_choices(explainer: Explainer, methods: list[dict[str, Any]]) -> dict[str, Any]:
    """What the page may choose from, with the name of the list of methods in place of the list."""
    subject = explainer.subject
    labels = subject.labels if subject.task == "sequence" else []
    choices = with_list({"labels": labels, "depth": subject.depth, "task": subject.task}, methods)
    return with_method(choices, explainer.method.name)


def with_list(choices: dict[str, Any], methods: list[dict[str, Any]]) -> dict[str, Any]:
    """Choices of other methods: the name of their list, one that explains a layer, and one that hides words."""
    key = hashlib.sha256(json.dumps(methods).encode()).hexdigest()[:16]
    _LISTS[key] = methods
    offered = [method for method in methods if not method["unavailable"]]
    layered = (method for method in offered if method["layered"] and method["group"] == "recommended")
    hiding = (method for method in offered if method["name"] == OCCLUSION)
    named = {name: next(each, None) for name, each in (("layered", layered), ("hiding", hiding))}
    brief = {name: each and {"name": each["name"], "label": each["label"]} for name, each in named.items()}
    return choices | {"methods": key} | brief


def offered_methods(explainer: Explainer, layer_methods_only: bool = False) -> list[dict[str, Any]]:
    """The methods as the page lists them, the recommended ones first and those that cannot run last."""
    subject, current = explainer.subject, explainer.method
    offered = (catalogue.every_method() | {current.name: current}).values()
    methods = [method_choice(method, subject, layer_methods_only) for method in offered]
    order = {method.name: method.facts.recommended or inf for method in offered}
    methods.sort(key=lambda choice: (bool(choice["unavailable"]), order[choice["name"]]))
    return methods


def method_choice(method: Method, subject: Subject, layer_methods_only: bool = False) -> dict[str, Any]:
    """A method as the page lists it."""
    decodes, has_head = isinstance(method, Decoded), subject.decodes
    layered = isinstance(method, LayerMethod | Decoded)
    reason = "needs an LM head (load the model with lm=...)" if decodes and not has_head else ""
    if layer_methods_only and not layered:
        reason = "reads the whole model at once, so it has no layers"
    if isinstance(subject.model, Served) and method.name not in subject.model.methods:
        reason = "needs the model itself, which a server does not show"
    reason = crossing.obstacle(method, subject) or reason
    return {
        "name": method.name,
        "label": method.facts.label or method.name,
        "summary": labels.summary(method),
        "paper": method.paper,
        "cost": labels.cost_words(method),
        "signed": labels.is_signed(method),
        "layered": layered,
        "decodes": decodes,
        "group": labels.group(method),
        "unavailable": reason,
    }


def with_method(choices: dict[str, Any], name: str) -> dict[str, Any]:
    """Choices that describe the chosen method; the page of a finished result describes none."""
    return choices | {"method": next((method for method in _listed(choices) if method["name"] == name), None)}


def check_method(name: str, choices: dict[str, Any], argument: str = "method") -> str:
    """The name of a method, if the page offers it; the page of a finished result offers none and accepts any."""
    reasons = {method["name"]: method["unavailable"] for method in _listed(choices)}
    valid = [name for name, reason in reasons.items() if not reason]
    if reason := reasons.get(name):
        choice = f"Use {valid[0]!r}." if valid else ""
        raise UnknownName(argument, name, valid, f"{name!r} cannot be used here: it {reason}.", choice)
    if valid and name not in valid:
        choice = f"`nbsal methods` lists all {len(reasons)} names." if len(valid) > LISTED else ""
        raise UnknownName(argument, name, valid, choice=choice)
    return name


def check_layer(layer: int | None, choices: dict[str, Any], argument: str = "layer") -> int | None:
    """The layer, if the model has it."""
    if choices["depth"] and layer is not None and layer not in range(choices["depth"] + 1):
        raise UnknownName(argument, layer, range(choices["depth"] + 1))
    return layer


def _listed(choices: dict[str, Any]) -> list[dict[str, Any]]:
    return _LISTS[choices["methods"]]
