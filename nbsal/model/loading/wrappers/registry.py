"""Which library an object is from, and how to open it."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from nbsal.model.loading.usage import LoadArguments, OpenedModel
from nbsal.model.loading.wrappers import embedding, pipelines, plain, predictors, setfit
from nbsal.model.served.endpoint import Endpoint
from nbsal.model.served.served_model import Served
from nbsal.support.errors import InputError

# The module that begins the name of the object's class or of one that it extends, and what opens such an object.
KINDS: dict[str, Callable[[Any, LoadArguments], OpenedModel]] = {
    "peft.": plain.open_peft,
    "setfit.": setfit.open_setfit,
    "sentence_transformers.cross_encoder.": embedding.open_cross_encoder,
    "sentence_transformers.sentence_transformer.": embedding.open_sentence_transformer,
    "sentence_transformers.SentenceTransformer": embedding.open_sentence_transformer,
}


def open_model(model: Any, request: LoadArguments) -> OpenedModel | None:
    """What is inside an object that holds a model, or None if it is nothing that could."""
    places = [f"{base.__module__}." for base in type(model).__mro__]
    _check_similarity(model, places, request)
    if any(place.startswith("transformers.pipelines.") for place in places):
        opened = open_model(model.model, request)
        return opened and pipelines.open_pipeline(model, opened, request.labels)
    for prefix, opener in KINDS.items():
        if any(place.startswith(prefix) for place in places):
            return opener(model, request)
    if request.similar_to is not None:
        return embedding.open_body(model, request)
    if isinstance(model, Endpoint):
        served = Served(model, request.tokenizer)
        return OpenedModel(served, served.server.tokenizer)
    if isinstance(model, nn.Module):
        return plain.open_module(model, request)
    return predictors.open_predictor(model, request)


def _check_similarity(model: Any, places: Sequence[str], request: LoadArguments) -> None:
    """Refuse arguments that only models without labels read."""
    body, name = embedding.is_body(model), type(model).__name__
    if request.pooling is not None and (not body or request.similar_to is None):
        message = f"pooling={request.pooling!r}, but only a model without a head reads it, together with similar_to: "
        message += f"{name} pools as it was trained." if not body else "pass the text to compare with."
        raise InputError(message, argument="pooling", value=request.pooling)
    embeds = any(place.startswith("sentence_transformers.") for place in places)
    if request.similar_to is not None and not body and not embeds:
        message = f"similar_to is for models without labels, but {name} has a head of its own. Leave it out."
        raise InputError(message, argument="similar_to", value=request.similar_to)
