"""Which models nbsal explains, checked before anything else is asked of a model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbsal.model import encoder_decoder
from nbsal.model.loading.composite import Composite, transformer_of
from nbsal.model.loading.stand_in import StandIn
from nbsal.model.loading.usage import PREDICTS_TOKENS
from nbsal.support.errors import InputError, ModelError
from nbsal.support.lazy import transformers

# What a checkpoint may say that it was fine-tuned on, where that is single texts; the last three are embedded models.
SINGLE_TEXTS = frozenset({
    "cola", "sst2", "sst-2", "imdb", "rotten_tomatoes", "yelp_polarity", "ag_news", "tweet_eval", "emotion",
    "reviews", "news", "messages",
})  # fmt: skip


def reads_single_texts(model: Any) -> bool:
    """Whether a checkpoint says that it was fine-tuned on single texts. Most say nothing: nobody can tell of them."""
    return str(getattr(model.config, "finetuning_task", "")).lower() in SINGLE_TEXTS


def check_kind(model: Any, allows_encoder_decoder: bool = False) -> None:
    """Refuse what is no transformers model, models of other things than text, and encoder-decoders."""
    if isinstance(model, StandIn):
        return
    allows_encoder_decoder |= isinstance(model, Composite)  # which says how to read it
    model = transformer_of(model)
    name = type(model).__name__
    if not isinstance(model, transformers.PreTrainedModel):
        message = f"model must be a transformers model, not {model!r:.60}. Load names and folders with nbsal.load."
        raise InputError(message, argument="model", value=model)
    modalities = getattr(model, "input_modalities", "text")
    others = {modalities} - {"text"} if isinstance(modalities, str) else {*modalities} - {"text"}
    if model.main_input_name not in ("input_ids", "inputs"):  # the latter is Perceiver's
        message = f"{name} reads {model.main_input_name}, not tokens. nbsal explains models of text."
        raise ModelError(message, part="input")
    text_config = type(model.config).__name__.endswith("TextConfig")  # Gemma3 declares the images of its larger kin
    if others and model.main_input_name == "input_ids" and not text_config:
        message = (
            f"{name} reads {' and '.join(sorted(others))} beside text. Pass its text model with a head of its own."
        )
        raise ModelError(message, part="input")
    if encoder_decoder.writes_replies(model):
        encoder_decoder.check_reads_tokens(model)
    elif model.config.is_encoder_decoder and not allows_encoder_decoder:
        message = (
            f"{name} is an encoder-decoder without a head that nbsal knows. Load a model that writes replies, such as "
            "T5ForConditionalGeneration, or one that classifies."
        )
        raise ModelError(message, part="encoder")


def _labels_of(model: Any, task: str, size: int) -> list[str]:
    """The labels of a model that were not passed, as many as it has outputs; of a span its ends, and of tokens none."""
    if task == "span":
        return ["start", "end"]
    if task in PREDICTS_TOKENS:
        return []
    if isinstance(model, StandIn) or size != model.config.num_labels:
        return [f"LABEL_{number}" for number in range(size)]
    return class_names(model.config)


def class_names(config: Any) -> list[str]:
    """The names of the classes of a configuration; a class without one is named by its number."""
    names = config.id2label or {}
    labels = [str(names.get(number, f"LABEL_{number}")) for number in range(len(names))]
    if not labels:
        message = "The configuration of the model names no labels. Pass nbsal.load(..., labels=[...])."
        raise ModelError(message, part="labels")
    return labels


def check_config(model: Any) -> None:
    """Refuse a model whose configuration has no vocabulary size, width or number of layers."""
    missing = [name for name in ("vocab_size", "hidden_size", "num_hidden_layers") if not hasattr(model.config, name)]
    if missing:
        raise ModelError(
            f"The configuration of {type(model).__name__} has no {' and no '.join(missing)}. "
            "nbsal explains models that read tokens of a vocabulary and consist of a stack of blocks.",
            part=missing[0],
        )


def check_labels(labels: Sequence[str] | Mapping[int, str] | None, model: Any, task: str, size: int) -> list[str]:
    """The labels as a list, one different name for each class of the model; by default its own."""
    if labels is None:
        return _labels_of(model, task, size)
    invalid = set(labels) != set(range(size)) if isinstance(labels, Mapping) else isinstance(labels, str | bytes)
    if invalid or not isinstance(labels, Iterable):
        message = f"labels must be a list of names, or a dict with the keys 0 to {size - 1}, not {labels!r:.60}."
        raise InputError(message, argument="labels", value=labels)
    names = [labels[i] for i in range(size)] if isinstance(labels, Mapping) else list(map(str, labels))
    if len(names) != size or len(set(names)) != size:
        message = f"labels must have a different name for each of the {size} classes of the model, not {names!r:.80}."
        raise InputError(message, argument="labels", value=labels)
    return names
