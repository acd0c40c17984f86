"""Products of activations with weights, at the rate of the processor.

PyTorch multiplies float32 matrices on the processor with MKL, which reaches half of the rate that AMD processors can;
oneDNN, which PyTorch brings as well, reaches it all. Which of the two is quicker is measured once for each process.
Nothing global is set: while `Products` is active, the model's linear layers with frozen weights are computed by
`linear`, whose results differ from PyTorch's own by rounding. The environment variable NBSAL_PRODUCTS says "torch" to
turn this off, "onednn" to leave the measurement out.
"""

import os
import time
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from nbsal.model.running import restore
from nbsal.model.running.weight_copies import kept_copy
from nbsal.support.errors import UnknownName

SETTING = "NBSAL_PRODUCTS"
SETTINGS = ("auto", "torch", "onednn")
FEWEST_ROWS = 4  # of the activations: fewer are as quick without
SMALLEST = 2**15  # numbers of a weight: for smaller ones the call costs more than the product
SHORT = 64  # rows below which a transposed copy of the weights is quicker than the weights as they are
MARGIN = 0.9  # of the time of PyTorch's own product that another may take to be chosen
ROUNDS = 5  # of the measurement
_ADDMM = {torch.addmm, Tensor.addmm}


class Products(restore.Mode):
    """Computes linear layers of frozen weights by `linear` while it is active."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.active and not kwargs:
            if func is functional.linear and suits(*args):
                return linear(*args)
            if func in _ADDMM and suits(args[1], args[2].mT, args[0]):
                return linear(args[1], args[2].mT, args[0])
        return func(*args, **(kwargs or {}))


def enter(changes: restore.Changes) -> None:
    """Compute linear layers at the processor's rate until the changes are undone."""
    modes = torch.overrides._get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    if setting() != "torch" and not any(isinstance(mode, Products) and mode.active for mode in modes):
        Products().enter(changes)


def setting() -> str:
    """What the environment says: "auto" measures which products are quicker."""
    value = os.environ.get(SETTING, "auto")
    if value not in SETTINGS:
        raise UnknownName(SETTING, value, SETTINGS)
    return value


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, by the quicker of the two ways."""
    return linear(x, weight, bias) if suits(x, weight, bias) else functional.linear(x, weight, bias)


def suits(x: Any, weight: Any, bias: Any = None) -> bool:
    """Whether `linear` computes this product, and is quicker than PyTorch's own."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    for tensor in tensors:
        if type(tensor) not in (Tensor, nn.Parameter) or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            return False
    if weight.ndim != 2 or weight.numel() < SMALLEST or (bias is not None and bias.ndim != 1):
        return False
    trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors[1:])
    if trained or torch.is_autocast_enabled("cpu") or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return False
    rows = x.numel() // max(x.shape[-1], 1)
    if rows < FEWEST_ROWS or setting() != "auto":
        return rows >= FEWEST_ROWS and setting() == "onednn"
    return is_quicker(min(rows.bit_length(), SHORT.bit_length()), torch.get_num_threads())


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b for frozen float32 weights; gradients, also of batches of gradients, reach x."""
    if x.requires_grad and torch.is_grad_enabled():
        result: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return result
    return _product(x, weight, bias)


class _Linear(Function):
    """A product whose gradient is a product with the same weights, so that it has a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.weight = weight  # not saved for backward, which would refuse changes that do not matter here
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        batched = torch._C._functorch.is_functorch_wrapped_tensor(gradient)
        return (_BatchedLinear if batched else _Linear).apply(gradient, ctx.weight.mT, None), None, None  # type: ignore[no-untyped-call]


class _BatchedLinear(_Linear):
    """The same product of a batch of gradients; PyTorch spends more on each call of a function of this form."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # type: ignore[override]
        return _product(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:  # noqa: ARG004
        ctx.weight = inputs[1]

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Any:  # noqa: ARG004
        return linear(x.movedim(in_dims[0], 0), weight, bias), 0


def double_linear(exact: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b in float64, whose gradient multiplies in float32; `exact` is the float32 weight of the same numbers."""
    if not (x.requires_grad and torch.is_grad_enabled()):
        return functional.linear(x, weight, bias)
    result: Tensor = _DoubleLinear.apply(x, weight, exact, bias)  # type: ignore[no-untyped-call]
    return result


class _DoubleLinear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, exact: Tensor, bias: Tensor | None) -> Tensor:
        ctx.exact = exact.detach()
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return multiply(gradient.float(), ctx.exact.mT).to(gradient), None, None, None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One product by oneDNN, which reads weights quicker that lie transposed in memory."""
    if x.numel() < SHORT * x.shape[-1] and weight.is_contiguous():
        weight = _transposed(weight)
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")
    return result


def _transposed(weight: Tensor) -> Tensor:
    """The same weights, transposed in memory if there is room for a copy."""
    if not isinstance(weight, nn.Parameter) or weight.is_inference():
        return weight
    copy = kept_copy(weight, "transposed", weight.nbytes, lambda: weight.detach().mT.contiguous().mT)
    return weight if copy is None else copy


@cache
def is_quicker(size: int, threads: int) -> bool:
    """Whether oneDNN multiplies matrices of 2^(size-1) rows quicker; measured once a process, in some 10 ms."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # of a PyTorch without oneDNN
        return False
    # Without modes, one of which may be `Products`; and without drawing from the caller's random numbers.
    with torch.inference_mode(), torch._C.DisableTorchFunction():
        x, weight, bias = torch.ones(2 ** (size - 1), 384), torch.ones(1536, 384), torch.ones(1536)
        quick = weight.mT.contiguous().mT if len(x) < SHORT else weight
        own, other = [], []
        for _ in range(ROUNDS):
            own.append(_seconds(functional.linear, x, weight, bias))
            other.append(_seconds(_product, x, quick, bias))
    return min(other) < MARGIN * min(own)


def _seconds(function: Any, *args: Any) -> float:
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start
