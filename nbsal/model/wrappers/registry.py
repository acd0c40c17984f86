"""Which library an object is from, and how to open it."""

from collections.abc import Callable
from typing import Any

from torch import nn

from nbsal.model.black_box import BlackBox
from nbsal.model.usage import Usage
from nbsal.model.wrappers import embedding, peft, pipelines, plain, setfit
from nbsal.model.wrappers.opened import Opened, Request

# The module that begins the name of the object's class or of one that it extends, and what opens such an object.
KINDS: dict[str, Callable[[Any, Request], Opened]] = {
    "peft.": peft.open_peft,
    "setfit.": setfit.open_setfit,
    "sentence_transformers.cross_encoder.": embedding.open_cross_encoder,
    "sentence_transformers.sentence_transformer.": embedding.open_sentence_transformer,
    "sentence_transformers.SentenceTransformer": embedding.open_sentence_transformer,
}


def open_model(model: Any, request: Request) -> Opened | None:
    """What is inside an object that holds a model, or None if it is nothing that could."""
    modules = [f"{base.__module__}." for base in type(model).mro()]
    if any(module.startswith("transformers.pipelines.") for module in modules):
        opened = open_model(model.model, request)
        return opened and pipelines.open_pipeline(model, opened, request.labels)
    for prefix, opener in KINDS.items():
        if any(module.startswith(prefix) for module in modules):
            return opener(model, request)
    if isinstance(model, nn.Module):
        return plain.open_module(model, request)
    if callable(model) and not isinstance(model, type):
        box = BlackBox(model)
        return Opened(box, usage=Usage(activation=box.activation))
    return None
