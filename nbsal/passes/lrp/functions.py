"""Which functions of PyTorch do what: those that relevance rules and modified gradients tell apart."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import resolve_name

from nbsal.support.errors import ModelError

T = Tensor
LINEAR = {functional.linear}
ADDMM = {torch.addmm, T.addmm}
ADD = {T.add, torch.add, T.__add__, T.__radd__, T.add_, T.__iadd__}
MATMUL = {torch.matmul, T.matmul, T.__matmul__, torch.bmm, T.bmm}
MULTIPLY = {T.mul, torch.mul, T.__mul__, T.__rmul__, T.div, torch.div, T.__truediv__, T.true_divide}
BADDBMM = {torch.baddbmm, T.baddbmm}
SOFTMAX = {functional.softmax, torch.softmax, T.softmax}
SUM = {T.sum, torch.sum, T.mean, torch.mean}
UNCHANGED = {functional.dropout, torch.dropout, T.neg, torch.neg, T.__neg__}  # linear; dropout is off
# Norms that are written in Python are found by `is_single_operation`.
IDENTITY = {
    functional.layer_norm, torch.layer_norm, functional.rms_norm, functional.gelu, functional.relu, functional.silu,
    torch.tanh, T.tanh, torch.relu, functional.normalize, torch.pow, T.pow, T.__pow__, torch.square, T.square,
    *UNCHANGED,
}  # fmt: skip
# Functions that move or copy values, or only read properties of a tensor.
MOVES = frozenset(
    "view reshape transpose permute contiguous __getitem__ split squeeze unsqueeze flatten cat chunk expand to type "
    "float double clone swapaxes t unbind stack narrow index_select gather masked_fill where __get__ size dim numel "
    "is_floating_point data_ptr requires_grad_ expand_as max amax __len__".split()
)
SHAPES = frozenset({"expand_as"})  # functions that read nothing but the shape of their second argument


def is_norm(module: nn.Module) -> bool:
    """True for norms written in Python."""
    kind = type(module)
    return kind.__name__.endswith(("RMSNorm", "LayerNorm")) and not isinstance(module, nn.LayerNorm)


def is_single_operation(module: nn.Module) -> bool:
    """True for activations and norms written in Python; relevance passes through them unchanged."""
    kind = type(module)
    is_activation = kind.__module__ == "transformers.activations" or kind.__name__.endswith("Gelu")
    return is_activation or is_norm(module)


def no_rule(func: Any) -> ModelError:
    """The error for a function whose relevance nothing tells."""
    name = resolve_name(func) or str(func)
    message = f"There is no relevance rule for {name}, which this model calls. Use a method of another family."
    return ModelError(message, part=name)
