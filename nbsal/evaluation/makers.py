"""Methods that are evaluated on several models: each is a function from a subject to an explainer of it."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nbsal.explain.explainer import Explainer
from nbsal.methods.base import Method
from nbsal.methods.catalogue import name_methods
from nbsal.model.subject import Subject
from nbsal.support.errors import InputError

ExplainerOf = Callable[[Subject], Explainer]
Methods = str | Method | ExplainerOf | Sequence[str | Method] | Mapping[str, str | Method | ExplainerOf]


def makers_of(methods: Methods, argument: str) -> dict[str, ExplainerOf]:
    """A function from a subject to an explainer for each method; `argument` holds them."""
    if isinstance(methods, str | Method):
        methods = [methods]
    elif callable(methods):
        methods = {getattr(methods, "__name__", "method"): methods}
    return {str(name): _maker(entry, argument) for name, entry in name_methods(methods).items()}


def _maker(entry: Any, argument: str) -> ExplainerOf:
    if isinstance(entry, Explainer):
        message = "Several models are explained. Pass the explainer's method, or a function from a subject to one."
        raise InputError(message, argument=argument, value=entry)
    return partial(_make, entry, argument) if callable(entry) else lambda subject: Explainer(subject, entry)


def _make(function: Callable[[Subject], Any], argument: str, subject: Subject) -> Explainer:
    explainer = function(subject)
    if not isinstance(explainer, Explainer):
        message = f"{argument} must hold functions from a subject to an Explainer; one returned {explainer!r:.80}."
        raise InputError(message, argument=argument, value=function)
    return explainer
