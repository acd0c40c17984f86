"""Copies of models with their adapters merged."""

from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model import adapters, architecture


def merged(model: Any) -> Any:
    """A copy without adapters, merged in the precision of the weights, as peft would save it."""

    def clone(tensor: Tensor) -> Tensor:
        copied = tensor.detach().clone()
        return nn.Parameter(copied, requires_grad=False) if isinstance(tensor, nn.Parameter) else copied

    with torch.inference_mode(False):
        result = architecture.copy_model(model, clone)
        adapters.merge(result)
    return result
