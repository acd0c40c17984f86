"""Which models nbsal explains, checked before anything else is asked of a model."""

from typing import Any

from nbsal.errors import InputError, ModelError
from nbsal.model import sides
from nbsal.model.black_box import BlackBox
from nbsal.model.composite import Composite, transformer_of


def check_kind(model: Any, encoder_decoder: bool = False) -> None:
    """Refuse what is no transformers model, models of other things than text, and encoder-decoders.

    >>> import transformers
    >>> check_kind(transformers.ViTModel(transformers.ViTConfig(hidden_size=12, num_hidden_layers=1)))
    Traceback (most recent call last):
    nbsal.errors.ModelError: ViTModel reads pixel_values, not tokens. nbsal explains models of text.
    """
    from transformers import PreTrainedModel

    if isinstance(model, BlackBox):
        return
    encoder_decoder |= isinstance(model, Composite)  # which says how to read it
    model = transformer_of(model)
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        message = f"model must be a transformers model, not {model!r:.60}. Load names and folders with nbsal.load."
        raise InputError(message, argument="model", value=model)
    modalities = getattr(model, "input_modalities", "text")
    others = {modalities} - {"text"} if isinstance(modalities, str) else {*modalities} - {"text"}
    if model.main_input_name not in (
        "input_ids",
        "inputs",
    ):  # Perceiver reads "inputs"
        message = f"{name} reads {model.main_input_name}, not tokens. nbsal explains models of text."
        raise ModelError(message, part="input")
    text_config = type(model.config).__name__.endswith("TextConfig")  # Gemma3 declares the images of its larger kin
    if others and model.main_input_name == "input_ids" and not text_config:
        message = (
            f"{name} reads {' and '.join(sorted(others))} beside text. Pass its text model with a head of its own."
        )
        raise ModelError(message, part="input")
    if sides.writes_replies(model):
        sides.check_reads_tokens(model)
    elif model.config.is_encoder_decoder and not encoder_decoder:
        message = (
            f"{name} is an encoder-decoder without a head that nbsal knows. Load a model that writes replies, such as "
            "T5ForConditionalGeneration, or one that classifies."
        )
        raise ModelError(message, part="encoder")


def class_names(config: Any) -> list[str]:
    """The names of the classes of a configuration; a class without one is named by its number.

    >>> from transformers import BertConfig
    >>> class_names(BertConfig(id2label={0: "O", 2: "PER"}))
    ['O', 'LABEL_1']
    """
    names = config.id2label or {}
    labels = [str(names.get(number, f"LABEL_{number}")) for number in range(len(names))]
    if not labels:
        message = "The configuration of the model names no labels. Pass nbsal.load(..., labels=[...])."
        raise ModelError(message, part="labels")
    return labels
