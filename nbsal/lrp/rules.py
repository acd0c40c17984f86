"""Relevance rules: autograd functions that are given what the model computed and whose backward carries relevance.

Each is named after the operation it stands for and takes its inputs and its output `y`. The relevance of the output is
handed to the inputs; totals are kept for each example of a batch alone, so that no example sees another. Formulas:
Chefer et al. 2021, Song et al. 2024 (positive contributions, products by halves, sums by totals), Achtibat et al. 2024
(epsilon, Taylor softmax).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

TINY = 1e-9
ROUNDING = 1e-14


@dataclass(frozen=True)
class Rules:
    """Which reading of each rule is in force; the published quirks live here and nowhere else.

    >>> Rules(linear="epsilon") == DEFAULT
    False
    """

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
    """The output of the operation that a rule stands for, to which relevance can be handed.

    >>> x = torch.ones(2, requires_grad=True)
    >>> apply(Identity, x, torch.tensor([5.0, 7.0]))
    tensor([5., 7.], grad_fn=<IdentityBackward>)
    """
    found: Tensor = rule.apply(*args)  # type: ignore[no-untyped-call]
    return found


def share(relevance: Tensor, total: Tensor, rules: Rules) -> Tensor:
    """relevance / total, kept finite near zero and zero at zero.

    >>> share(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.0]), DEFAULT)
    tensor([0.5000, 0.0000])
    """
    if rules.signed:
        nudged = total + torch.copysign(total.new_tensor(TINY), total)
    else:
        nudged = total + TINY
        nudged.masked_fill_(nudged == 0, TINY)
    return (relevance / nudged).masked_fill_(total == 0, 0.0)


def unbroadcast(tensor: Tensor, shape: torch.Size) -> Tensor:
    """Summed back to the shape it was broadcast from.

    >>> unbroadcast(torch.ones(3, 2), torch.Size([2]))
    tensor([3., 3.])
    """
    while tensor.dim() > len(shape):
        tensor = tensor.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and tensor.shape[axis] != 1:
            tensor = tensor.sum(axis, keepdim=True)
    return tensor


class Identity(Function):
    """Relevance passes unchanged: norms, activations, dropout, scaling by a constant.

    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.autograd.grad(apply(Identity, x, 2 * x).sum(), x)[0]
    tensor([1., 1.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        return relevance, None


class Linear(Function):
    """x W^T + b. By default contributions that push the output up share its relevance; the bias takes none.

    >>> x, weight = torch.tensor([[1.0, 1.0]], requires_grad=True), torch.tensor([[3.0, -1.0]])
    >>> y = apply(Linear, x, weight, None, x @ weight.T, DEFAULT, weight.abs())
    >>> torch.autograd.grad(y.sum(), x)[0].round(decimals=4)
    tensor([[1., 0.]])
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, rules: Rules, size: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias, size, y)
        ctx.rules = rules
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        x, weight, bias, size, y = ctx.saved_tensors
        if ctx.rules.linear == "epsilon":
            found = x * (share(relevance, y, ctx.rules) @ weight)
        elif ctx.rules.linear == "twofold":
            found = _twofold(relevance, x, weight, ctx.rules)
        else:
            found = _positive(relevance, x, weight, size, y.clone() if bias is None else y - bias)
        return found, None, None, None, None, None


def _positive(relevance: Tensor, x: Tensor, weight: Tensor, size: Tensor, product: Tensor) -> Tensor:
    # p x pW + n x nW of both signs at once: (xW + |x||W|) / 2, and xW is known: three products instead of four. Halves
    # cancel. Everything is done in place, since these passes over memory cost as much as one of the products.
    absolute = x.abs()
    whole = absolute @ size.T
    total = product.add_(whole)
    nothing = total <= whole.mul_(ROUNDING)  # what rounding leaves where every contribution is negative
    part = torch.div(relevance, total.add_(2 * TINY), out=total).masked_fill_(nothing, 0.0)
    return (part @ weight).mul_(x).add_((part @ size).mul_(absolute))


def _twofold(relevance: Tensor, x: Tensor, weight: Tensor, rules: Rules) -> Tensor:
    found = torch.zeros_like(x)
    for inputs, weights in ((x.clamp(min=0), weight.clamp(min=0)), (x.clamp(max=0), weight.clamp(max=0))):
        found += inputs * (share(relevance, inputs @ weights.T, rules) @ weights)
    return found


class Product(Function):
    """a @ b: each factor takes half, or the whole beside a constant one, such as a table of positions.

    `gate` may record and change what arrives; it says what a's map is read from.

    >>> a, b = torch.tensor([[1.0, 3.0]], requires_grad=True), torch.tensor([[2.0], [1.0]], requires_grad=True)
    >>> y = apply(Product, a, b, a @ b, DEFAULT, None)
    >>> [part.sum().item() for part in torch.autograd.grad(y.sum(), (a, b))]
    [0.5, 0.5]
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, y: Tensor, rules: Rules, gate: Any) -> Tensor:
        ctx.save_for_backward(a, b, y)
        ctx.rules, ctx.gate = rules, gate
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        a, b, y = ctx.saved_tensors
        read, flows = (relevance, relevance) if ctx.gate is None else ctx.gate.passes(relevance)
        part, takers = share(flows, y, ctx.rules), sum(ctx.needs_input_grad[:2])
        ours = a * (part @ b.mT) / takers
        if ctx.gate is not None:
            ctx.gate.keep(ours if read is flows else a * (share(read, y, ctx.rules) @ b.mT) / takers)
        return ours, b * (a.mT @ part) / takers, None, None, None


class Halves(Function):
    """Elementwise a * b, as in gated units: each factor takes half.

    >>> a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    >>> torch.autograd.grad(apply(Halves, a, b, a * b).sum(), (a, b))[0]
    tensor([0.5000, 0.5000])
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = a.shape, b.shape
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        return *(unbroadcast(relevance / 2, shape) for shape in ctx.shapes), None


class Add(Function):
    """a + b: each summand takes its share; then both are scaled so that an example keeps its total.

    Examples lie on the first axis; in DeBERTa's scores these are the heads of each, and every head keeps its own.

    >>> a, b = torch.tensor([[1.0]], requires_grad=True), torch.tensor([[3.0]], requires_grad=True)
    >>> [round(part.item(), 4) for part in torch.autograd.grad(apply(Add, a, b, a + b, DEFAULT).sum(), (a, b))]
    [0.25, 0.75]
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, y: Tensor, rules: Rules) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.rules = rules
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        a, b = ctx.saved_tensors
        parts = summands(relevance, a, b, ctx.rules)
        return unbroadcast(parts[0], a.shape), unbroadcast(parts[1], b.shape), None, None


def summands(relevance: Tensor, a: Tensor, b: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """The relevance of both summands of a sum.

    >>> summands(torch.ones(1, 2), torch.tensor([[1.0, 1.0]]), torch.tensor([[3.0, 3.0]]), DEFAULT)[0]
    tensor([[0.2500, 0.2500]])
    """
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
    """GPT-2's linear layer as published: bias and product are summands, and half goes to the weights.

    The rows of all texts stand in one matrix; the totals of a sum are those of each text.

    >>> x, weight = torch.tensor([[1.0]], requires_grad=True), torch.tensor([[3.0]])
    >>> y = apply(Transposed, torch.tensor([1.0]), x, weight, 1 + x @ weight, PUBLISHED, 1)
    >>> round(torch.autograd.grad(y.sum(), x)[0].item(), 4)
    0.375
    """

    @staticmethod
    def forward(ctx: Any, bias: Tensor, x: Tensor, weight: Tensor, y: Tensor, rules: Rules, texts: int) -> Tensor:
        ctx.save_for_backward(bias, x, weight)
        ctx.rules, ctx.texts = rules, texts
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        bias, x, weight = ctx.saved_tensors
        product = x @ weight
        given, constant, made = (t.unflatten(0, (ctx.texts, -1)) for t in (relevance, bias.expand_as(product), product))
        theirs = summands(given, constant, made, ctx.rules)[1].flatten(0, 1)
        return None, x * (share(theirs, product, ctx.rules) @ weight.T) / 2, None, None, None, None


class Softmax(Function):
    """Softmax by its first-order expansion: x * (R - y * sum R).

    >>> x = torch.tensor([[1.0, 1.0]], requires_grad=True)
    >>> y = apply(Softmax, x, x.softmax(-1))
    >>> torch.autograd.grad(y[0, 0], x)[0]
    tensor([[ 0.5000, -0.5000]])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        x, y = ctx.saved_tensors
        found = x * (relevance - y * relevance.sum(-1, keepdim=True))
        return torch.where(y == 0, 0.0, found), None  # hidden positions hold the mask's huge negative number
