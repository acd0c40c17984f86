"""Which methods cannot explain a model: refused by name before any work is done."""

from collections.abc import Collection
from typing import Any

import torch

from nbsal.model import encoder_decoder
from nbsal.model.loading.black_box import FAMILIES, BlackBox
from nbsal.model.loading.composite import Composite, transformer_of
from nbsal.model.loading.copies import can_dequantise, quantization
from nbsal.model.running.layers import forward_mode, run_model
from nbsal.model.served.served_model import Served
from nbsal.model.subject import Subject
from nbsal.support.errors import ModelError

DIFFERENTIATE = ("gradient", "decoding")  # families whose methods all read gradients
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")  # names of their number in configurations


def check_method(subject: Subject, name: str, family: str, needs: Collection[str]) -> None:
    """Refuse a method that cannot follow the model of a subject; `needs` are the parts of a trace that it reads."""
    model = subject.model
    if isinstance(model, Served):
        if name not in model.methods:
            raise model.refusal(name)
        return
    if isinstance(model, BlackBox):
        if family not in FAMILIES:
            message = (
                f"{name} reads a model's layers, which a function from texts to probabilities does not show. Use a "
                "perturbation method, such as occlusion, lime, kernel-shap or contextcite."
            )
            raise ModelError(message, part="model")
        return
    if family == "relevance":
        _check_relevance(subject, name)
    if family in DIFFERENTIATE or any(need.endswith("_grad") for need in needs):
        _check_gradients(subject, name)
    # Relevance that is a gradient reads no attention, but may have no rule for what a model without heads computes.
    is_gradient = "hidden_grad" in needs and isinstance(model, Composite)
    reads_attention = family in ("attention", "relevance")
    if reads_attention and not subject.heads and not is_gradient:
        raise no_heads(subject, name)
    if isinstance(model, Composite) and model.second_reader and (reads_attention or "@" in name):
        message = (
            f"{subject.name} reads the text a second time in its {model.second_reader}, which {name} cannot follow. "
            "Use a gradient method or occlusion without a suffix."
        )
        raise ModelError(message, part=model.second_reader)


def no_heads(subject: Subject, reader: str = "this view") -> ModelError:
    """The error for a model without attention heads that can be read."""
    if isinstance(subject.model, Served):
        return subject.model.refusal("Attention")
    message = f"{subject.name} has no attention, which {reader} reads. Use a gradient method or occlusion."
    return ModelError(message, part="attention")


def _check_relevance(subject: Subject, name: str) -> None:
    """Refuse models that have no float64 copy, or whose positions choose among experts."""
    check_plain_weights(subject, name)
    model = subject.model
    if len({parameter.device for parameter in model.parameters()}) > 1:
        message = f"{subject.name} is spread over several devices: load it onto one for {name}, without device_map."
        raise ModelError(message, part="device")
    config = transformer_of(model).config
    if any(isinstance(count := getattr(config, experts, None), int) and count > 1 for experts in EXPERTS):
        message = (
            f"{subject.name} has experts, of which each position chooses some, and {name} has no rule for that choice. "
            "Use a gradient method, attention or occlusion."
        )
        raise ModelError(message, part="experts")


def _check_gradients(subject: Subject, name: str) -> None:
    """Refuse a quantised model that passes no gradients on, such as one that also quantises what its layers read."""
    if not (method := quantization(subject.model)) or subject.task == encoder_decoder.REPLY:
        return
    if not passes_gradients(subject):
        message = (
            f"{name} reads gradients, and {subject.name} is quantised ({method}) so that none pass its layers. Use a "
            "perturbation method such as occlusion, lime or shapley, or rollout, or load the model unquantised."
        )
        raise ModelError(message, part="gradients")


def passes_gradients(subject: Subject) -> bool:
    """Whether gradients pass from the outputs of a model to its embeddings, tried on three tokens.

    Raise ModelError if the subject changes gradients, and the model has an operation that this does not know.
    """
    encoded = subject.encode_ids([subject.model.config.vocab_size - 1, 0, 1])

    def run() -> bool:
        with forward_mode(gradients=True):
            logits, layers = run_model(subject, subject.inputs(encoded))
            if not logits.requires_grad:
                return False
            gradients = torch.autograd.grad(logits.square().sum(), layers.parts(0), allow_unused=True)
        return any(gradient is not None for gradient in gradients)

    return subject.exclusively(run)


def check_plain_weights(subject: Subject, name: str) -> None:
    """Refuse models with quantised weights, of which no copy has plain ones."""
    if (method := quantization(subject.model)) and not can_dequantise(subject.model):
        message = (
            f"{subject.name} is quantised ({method}) and cannot be copied with plain weights. Load it unquantised for "
            f"{name}, or use a perturbation method such as occlusion."
        )
        raise ModelError(message, part="quantization")


def check_quantization(model: Any) -> None:
    """Refuse 4-bit weights of bitsandbytes on the CPU, which it repacks in place in the first forward pass."""
    settings = getattr(transformer_of(model).config, "quantization_config", None)
    if getattr(settings, "load_in_4bit", False) and model.device.type == "cpu":
        message = "4-bit weights on the CPU change in the first forward pass. Load the model unquantised, or on a GPU."
        raise ModelError(message, part="quantization")
