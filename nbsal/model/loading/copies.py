"""Copies of models with plain weights: adapters are merged, weights of 8 bits dequantised."""

import copy
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from nbsal.model.loading.adapters import adapter_layers, merge_adapters
from nbsal.model.loading.composite import Composite, transformer_of
from nbsal.model.running.twin import copy_model

QUANTISED_MODULES = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def merged(model: Any) -> Any:
    """A copy without adapters, merged in the precision of the weights, as peft would save it."""

    def clone(tensor: Tensor) -> Tensor:
        copied = tensor.detach().clone()
        return nn.Parameter(copied, requires_grad=False) if isinstance(tensor, nn.Parameter) else copied

    with torch.inference_mode(False):
        result = copy_model(model, clone)
        merge_adapters(result)
    return result


def quantization(model: Any) -> str:
    """How the weights of a model are quantised, or nothing: by its configuration, or in place by torchao or torch."""
    settings = getattr(transformer_of(model).config, "quantization_config", None)
    if method := getattr(settings, "quant_method", None):
        return str(getattr(method, "value", method))
    tensors = (type(tensor) for tensor in model.parameters() if is_traceable_wrapper_subclass(tensor))
    modules = (type(module) for module in model.modules() if type(module).__module__.startswith(QUANTISED_MODULES))
    kind = next(chain(tensors, modules), None)
    return "" if kind is None else f"{kind.__module__.partition('.')[0]}, {kind.__name__}"


def can_dequantise(model: Any) -> bool:
    """True for 8-bit weights of bitsandbytes in a model of transformers without adapters."""
    settings = getattr(transformer_of(model).config, "quantization_config", None)
    plain = not isinstance(model, Composite) and not any(adapter_layers(model))
    return plain and bool(getattr(settings, "load_in_8bit", False))


def dequantised(model: Any) -> Any:
    """A copy with the weights that the 8 bits stand for, in the precision of the model's other weights."""
    with torch.inference_mode(False):
        return copy.deepcopy(model).dequantize().eval()
