"""Relevance rules: autograd functions whose forward is the model's own and whose backward carries relevance.

Each is named after the operation it stands for. The relevance of an operation's output is handed to its inputs; totals
are kept for each example of a batch alone, so that no example sees another. Formulas: Chefer et al. 2021, Song et al.
2024 (positive contributions, products by halves, sums by totals), Achtibat et al. 2024 (epsilon, Taylor softmax).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

TINY = 1e-9


@dataclass(frozen=True)
class Rules:
    """Which reading of each rule is in force; the published quirks live here and nowhere else."""

    linear: str = "positive"  # "twofold": each sign its own denominator; "epsilon": all contributions, bias included
    add: str = "totals"  # "plain": each summand its share, totals as they fall
    softmax: str = "identity"  # "taylor": first-order expansion
    signed: bool = True  # the stabiliser follows the sign of what it stabilises; the published one has a pole
    mask: bool = False  # adding an attention mask is a sum like any other
    transposed: bool = True  # linear layers stored transposed (GPT-2) obey the linear rule; published: sum, then halves
    spread: bool = False  # a span's end spreads its relevance over all positions of the last layer


DEFAULT = Rules()
PUBLISHED = Rules(signed=False, mask=True, transposed=False, spread=True)
TWOFOLD = Rules(linear="twofold", add="plain", signed=False, mask=True)
ATTN = Rules(linear="epsilon", add="plain", softmax="taylor")


def apply(rule: type[Function], *args: Any) -> Tensor:
    """The operation that a rule stands for."""
    found: Tensor = rule.apply(*args)  # type: ignore[no-untyped-call]
    return found


def share(relevance: Tensor, total: Tensor, rules: Rules) -> Tensor:
    """relevance / total, kept finite near zero and zero at zero."""
    if rules.signed:
        nudged = total + torch.where(total < 0, -TINY, TINY)
    else:
        nudged = total + TINY
        nudged = torch.where(nudged == 0, TINY, nudged)
    return torch.where(total == 0, 0.0, relevance / nudged)


def unbroadcast(tensor: Tensor, shape: torch.Size) -> Tensor:
    """Summed back to the shape it was broadcast from."""
    while tensor.dim() > len(shape):
        tensor = tensor.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and tensor.shape[axis] != 1:
            tensor = tensor.sum(axis, keepdim=True)
    return tensor


class Identity(Function):
    """Relevance passes unchanged: norms, activations, dropout, scaling by a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return y.detach().clone() if y is x else y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        return relevance, None


class Linear(Function):
    """x W^T + b. By default contributions that push the output up share its relevance; the bias takes none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, rules: Rules, size: Tensor | None) -> Tensor:
        y = torch.nn.functional.linear(x, weight, bias)
        ctx.save_for_backward(x, weight, size, y)
        ctx.rules = rules
        return y

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        x, weight, size, y = ctx.saved_tensors
        return _LINEAR[ctx.rules.linear](relevance, x, weight, size, y, ctx.rules), None, None, None, None


def _positive(relevance: Tensor, x: Tensor, weight: Tensor, size: Tensor, y: Tensor, rules: Rules) -> Tensor:
    # p x pW + n x nW of both signs at once: (xW + |x||W|) / 2, three products instead of four.
    whole = x.abs() @ size.T
    total = (x @ weight.T + whole) / 2
    # What rounding leaves where every contribution is negative is nothing.
    total = torch.where(total < 1e-14 * whole, 0.0, total) if rules.signed else total
    part = share(relevance, total, rules)
    return (x * (part @ weight) + x.abs() * (part @ size)) / 2


def _twofold(relevance: Tensor, x: Tensor, weight: Tensor, size: Tensor, y: Tensor, rules: Rules) -> Tensor:
    found = torch.zeros_like(x)
    for inputs, weights in ((x.clamp(min=0), weight.clamp(min=0)), (x.clamp(max=0), weight.clamp(max=0))):
        found += inputs * (share(relevance, inputs @ weights.T, rules) @ weights)
    return found


def _epsilon(relevance: Tensor, x: Tensor, weight: Tensor, size: Tensor, y: Tensor, rules: Rules) -> Tensor:
    return x * (share(relevance, y, rules) @ weight)


_LINEAR: dict[str, Callable[..., Tensor]] = {"positive": _positive, "twofold": _twofold, "epsilon": _epsilon}


class Product(Function):
    """a @ b: each factor takes half. `gate` may record and change what arrives; it says what a's map is read from."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rules: Rules, gate: Any) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.rules, ctx.gate = rules, gate
        return torch.matmul(a, b)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        a, b = ctx.saved_tensors
        z = torch.matmul(a, b)
        if ctx.gate is not None:
            read, relevance = ctx.gate.passes(relevance)
            ctx.gate.keep(a * (share(read, z, ctx.rules) @ b.mT) / 2)
        part = share(relevance, z, ctx.rules)
        return a * (part @ b.mT) / 2, b * (a.mT @ part) / 2, None, None


class Halves(Function):
    """Elementwise a * b, as in gated units: each factor takes half."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.shapes = a.shape, b.shape
        return a * b

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        return tuple(unbroadcast(relevance / 2, shape) for shape in ctx.shapes)


class Add(Function):
    """a + b: each summand takes its share; then both are scaled so that an example keeps its total."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rules: Rules) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.rules = rules
        return a + b

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        a, b = ctx.saved_tensors
        parts = summands(relevance, a, b, ctx.rules)
        return unbroadcast(parts[0], a.shape), unbroadcast(parts[1], b.shape), None


def summands(relevance: Tensor, a: Tensor, b: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """The relevance of both summands of a sum."""
    part = share(relevance, a + b, rules)
    ours, theirs = a * part, b * part
    if rules.add == "plain":
        return ours, theirs
    axes = tuple(range(1, relevance.dim()))
    mine, other, total = (tensor.sum(axes, keepdim=True) for tensor in (ours, theirs, relevance))
    weight = mine.abs() + other.abs()
    ours = ours * share(share(mine.abs(), weight, rules) * total, mine, rules)
    theirs = theirs * share(share(other.abs(), weight, rules) * total, other, rules)
    return ours, theirs


class Transposed(Function):
    """GPT-2's linear layer as published: bias and product are summands, and half goes to the weights."""

    @staticmethod
    def forward(ctx: Any, bias: Tensor, x: Tensor, weight: Tensor, rules: Rules) -> Tensor:
        ctx.save_for_backward(bias, x, weight)
        ctx.rules = rules
        return torch.addmm(bias, x, weight)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        bias, x, weight = ctx.saved_tensors
        product = x @ weight
        # Rows of all examples stand in one matrix here: the published code only ever ran one.
        _, theirs = summands(relevance[None], bias.expand_as(product)[None], product[None], ctx.rules)
        return None, x * (share(theirs[0], product, ctx.rules) @ weight.T) / 2, None, None


class Softmax(Function):
    """Softmax by its first-order expansion: x * (R - y * sum R)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        x, y = ctx.saved_tensors
        found = x * (relevance - y * relevance.sum(-1, keepdim=True))
        return torch.where(y == 0, 0.0, found), None  # hidden positions hold the mask's huge negative number
