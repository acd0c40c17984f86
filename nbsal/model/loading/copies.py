"""Copies of models with plain weights: adapters are merged, weights of 8 bits dequantised."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model.loading import adapters
from nbsal.model.loading.composite import Composite, transformer_of
from nbsal.model.running import architecture


def merged(model: Any) -> Any:
    """A copy without adapters, merged in the precision of the weights, as peft would save it."""

    def clone(tensor: Tensor) -> Tensor:
        copied = tensor.detach().clone()
        return nn.Parameter(copied, requires_grad=False) if isinstance(tensor, nn.Parameter) else copied

    with torch.inference_mode(False):
        result = architecture.copy_model(model, clone)
        adapters.merge(result)
    return result


def quantization(model: Any) -> str:
    """How the weights of a model are quantised, or nothing."""
    settings = getattr(transformer_of(model).config, "quantization_config", None)
    method = getattr(settings, "quant_method", None)
    return str(getattr(method, "value", method or ""))


def can_dequantise(model: Any) -> bool:
    """True for 8-bit weights of bitsandbytes in a model of transformers without adapters."""
    settings = getattr(transformer_of(model).config, "quantization_config", None)
    plain = not isinstance(model, Composite) and not any(adapters.adapter_layers(model))
    return plain and bool(getattr(settings, "load_in_8bit", False))


def dequantised(model: Any) -> Any:
    """A copy with the weights that the 8 bits stand for, in the precision of the model's other weights."""
    with torch.inference_mode(False):
        return copy.deepcopy(model).dequantize().eval()
