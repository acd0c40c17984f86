"""Rules of layer-wise relevance propagation, as autograd functions whose backward pass propagates relevance.

Each is named after the operation it applies to, and takes the inputs of this operation and its output `y`. Backwards,
the relevance of the output is distributed to the inputs. Totals are kept separately for each text of a batch, so that
texts do not influence each other. Formulas: Chefer et al. 2021a, Song et al. 2024 (positive contributions, halves for
products, totals for sums). What hands relevance on in proportion to what was summed needs no rule: it is a gradient
(see `nbsal.passes.changed_gradients`).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

EPSILON = 1e-9
ROUNDING_ERROR = 1e-14  # relative
MIXED_ERROR = 1e-6  # of float32 products beside float64 ones


@dataclass(frozen=True)
class Rules:
    """Which variant of each rule applies. Deviations of the published programs are defined only here.

    `linear`: "positive" distributes relevance over positive contributions; "per-sign" does the same for products of
    two positive and of two negative factors, each with its own denominator.
    `add`: "totals" rescales the shares of both summands to keep the total of a text; "plain" leaves them as they are.
    `epsilon_follows_sign`: the epsilon added to a denominator has the denominator's sign. The published programs always
    add a positive one, so small negative denominators may become zero.
    `mask`: the attention mask counts as a summand of the attention scores.
    `transposed`: linear layers with transposed weights (GPT-2) follow the linear rule; the published program treats
    them as a sum of bias and product.
    `spread`: a target at an end of a span spreads its relevance over all positions of the last layer.

    >>> Rules(linear="per-sign") == DEFAULT
    False
    """

    linear: str = "positive"
    add: str = "totals"
    epsilon_follows_sign: bool = True
    mask: bool = False
    transposed: bool = True
    spread: bool = False


DEFAULT = Rules()
PUBLISHED = Rules(epsilon_follows_sign=False, mask=True, transposed=False, spread=True)
CHEFER_RULES = Rules(linear="per-sign", add="plain", epsilon_follows_sign=False, mask=True)


def apply(rule: type[Function], *args: Any) -> Tensor:
    """The output of the rule's operation; its backward pass propagates relevance by the rule.

    >>> x = torch.ones(2, requires_grad=True)
    >>> apply(Identity, x, torch.tensor([5.0, 7.0]))
    tensor([5., 7.], grad_fn=<IdentityBackward>)
    """
    output: Tensor = rule.apply(*args)  # type: ignore[no-untyped-call]
    return output


@torch.no_grad()
def divide(relevance: Tensor, total: Tensor, rules: Rules) -> Tensor:
    """relevance / total, stabilised near zero, and zero where the total is zero.

    >>> divide(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 0.0]), DEFAULT)
    tensor([0.5000, 0.0000])
    """
    if rules.epsilon_follows_sign:
        denominator = torch.copysign(total.new_tensor(EPSILON), total).add_(total)
    else:
        denominator = total + EPSILON
        denominator.masked_fill_(denominator == 0, EPSILON)
    # Maps of attention are large, so the result takes the place of the denominator.
    same = relevance.shape == denominator.shape
    result = torch.div(relevance, denominator, out=denominator) if same else relevance / denominator
    return result.masked_fill_(total == 0, 0.0)


def unbroadcast(tensor: Tensor, shape: torch.Size) -> Tensor:
    """Sum a tensor back to the shape it was broadcast from.

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
    """Pass relevance unchanged: norms, activations, dropout, scaling by a constant.

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
    """x W^T + b. By default relevance is distributed over positive contributions, and the bias gets none.

    `factors` are W and |W|, perhaps in a lower precision than the rest.

    >>> x, weight = torch.tensor([[1.0, 1.0]], requires_grad=True), torch.tensor([[3.0, -1.0]])
    >>> y = apply(Linear, x, weight, None, x @ weight.T, DEFAULT, (weight, weight.abs()))
    >>> torch.autograd.grad(y.sum(), x)[0].round(decimals=4)
    tensor([[1., 0.]])
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        y: Tensor,
        rules: Rules,
        factors: tuple[Tensor, Tensor],
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias, y)
        ctx.rules, ctx.factors = rules, factors
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        x, weight, bias, y = ctx.saved_tensors
        if ctx.rules.linear == "per-sign":
            result = _per_sign(relevance, x, weight, ctx.rules)
        else:
            result = _positive(relevance, x, ctx.factors, y.clone() if bias is None else y - bias)
        return result, None, None, None, None, None


def _positive(relevance: Tensor, x: Tensor, factors: tuple[Tensor, Tensor], product: Tensor) -> Tensor:
    """Distribute relevance over positive contributions; `product` is x W^T, and is overwritten."""
    # The sum of positive contributions, x+ W+ plus x- W-, is (xW + |x||W|) / 2, and xW is known: three matrix products
    # instead of four. The factor 1/2 cancels. Everything is done in place, since each pass over memory costs as much as
    # one of the products.
    weight, absolute_weight = factors
    absolute_x, precision = x.abs(), weight.dtype
    absolute_product = functional.linear(absolute_x.to(precision), absolute_weight).to(x.dtype)
    total = product.add_(absolute_product)
    error = ROUNDING_ERROR if precision == x.dtype else MIXED_ERROR
    no_positive = total <= absolute_product.mul_(error)  # only rounding error is left
    part = torch.div(relevance, total.add_(2 * EPSILON), out=total).masked_fill_(no_positive, 0.0).to(precision)
    result = functional.linear(part, weight.mT).to(x.dtype).mul_(x)
    return result.add_(functional.linear(part, absolute_weight.mT).to(x.dtype).mul_(absolute_x))


def _per_sign(relevance: Tensor, x: Tensor, weight: Tensor, rules: Rules) -> Tensor:
    """Distribute relevance over x+ W+ and over x- W-, each with its own denominator."""
    result = torch.zeros_like(x)
    for inputs, weights in ((x.clamp(min=0), weight.clamp(min=0)), (x.clamp(max=0), weight.clamp(max=0))):
        result += inputs * (divide(relevance, inputs @ weights.T, rules) @ weights)
    return result


class MatMul(Function):
    """a @ b: each factor gets half of the relevance, or all of it if the other is constant (a table of positions).

    `hook`, an `AttentionHook` or None, may change the relevance that arrives, and stores the map of `a`.

    >>> a, b = torch.tensor([[1.0, 3.0]], requires_grad=True), torch.tensor([[2.0], [1.0]], requires_grad=True)
    >>> y = apply(MatMul, a, b, a @ b, DEFAULT, None)
    >>> [part.sum().item() for part in torch.autograd.grad(y.sum(), (a, b))]
    [0.5, 0.5]
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, y: Tensor, rules: Rules, hook: Any) -> Tensor:
        ctx.save_for_backward(a, b, y)
        ctx.rules, ctx.hook = rules, hook
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        a, b, y = ctx.saved_tensors
        for_map, propagated = (relevance, relevance) if ctx.hook is None else ctx.hook.filter(relevance)
        part, receivers = divide(propagated, y, ctx.rules), sum(ctx.needs_input_grad[:2])
        relevance_a = (part @ b.mT).mul_(a).div_(receivers)
        if ctx.hook is not None:
            same = for_map is propagated
            ctx.hook.store(relevance_a if same else (divide(for_map, y, ctx.rules) @ b.mT).mul_(a).div_(receivers))
        return relevance_a, b * (a.mT @ part) / receivers, None, None, None


class Multiply(Function):
    """Elementwise a * b, as in gated units: each factor gets half of the relevance.

    >>> a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    >>> torch.autograd.grad(apply(Multiply, a, b, a * b).sum(), (a, b))[0]
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
    """a + b: each summand gets its share; then both are rescaled so that each text keeps its total.

    Texts are on the first axis. In DeBERTa's attention scores this axis holds the heads of every text, and each head
    keeps its total.

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


class Sum(Function):
    """A sum or mean over some axes, as heads pool positions: each summand gets its share.

    >>> x = torch.tensor([[1.0, 3.0]], requires_grad=True)
    >>> torch.autograd.grad(apply(Sum, x, x.mean(1), (1,), DEFAULT).sum(), x)[0].round(decimals=4)
    tensor([[0.2500, 0.7500]])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, axes: tuple[int, ...], rules: Rules) -> Tensor:
        ctx.save_for_backward(x)
        ctx.axes, ctx.rules = axes, rules
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        total = x.sum(ctx.axes, keepdim=True)
        return x * divide(relevance.reshape(total.shape), total, ctx.rules), None, None, None


def summands(relevance: Tensor, a: Tensor, b: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """The relevance of both summands of a + b.

    >>> summands(torch.ones(1, 2), torch.tensor([[1.0, 1.0]]), torch.tensor([[3.0, 3.0]]), DEFAULT)[0]
    tensor([[0.2500, 0.2500]])
    """
    part = divide(relevance, a + b, rules)
    relevance_a, relevance_b = a * part, b * part
    if rules.add == "plain":
        return relevance_a, relevance_b
    axes = tuple(range(1, relevance.dim()))
    sum_a, sum_b, total = (tensor.sum(axes, keepdim=True) for tensor in (relevance_a, relevance_b, relevance))
    weight = sum_a.abs() + sum_b.abs()
    relevance_a = relevance_a * divide(divide(sum_a.abs(), weight, rules) * total, sum_a, rules)
    relevance_b = relevance_b * divide(divide(sum_b.abs(), weight, rules) * total, sum_b, rules)
    return relevance_a, relevance_b


class AddMM(Function):
    """GPT-2's linear layer as published: bias and product are summands, and half of the relevance goes to the weights.

    `x` holds the positions of all texts in one matrix; totals are those of each of the `batch_size` texts.

    >>> x, weight = torch.tensor([[1.0]], requires_grad=True), torch.tensor([[3.0]])
    >>> y = apply(AddMM, torch.tensor([1.0]), x, weight, 1 + x @ weight, PUBLISHED, 1)
    >>> round(torch.autograd.grad(y.sum(), x)[0].item(), 4)
    0.375
    """

    @staticmethod
    def forward(ctx: Any, bias: Tensor, x: Tensor, weight: Tensor, y: Tensor, rules: Rules, batch_size: int) -> Tensor:
        ctx.save_for_backward(bias, x, weight)
        ctx.rules, ctx.batch_size = rules, batch_size
        return y.detach()

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> Any:
        bias, x, weight = ctx.saved_tensors
        product = x @ weight
        tensors = (relevance, bias.expand_as(product), product)
        total, summand_bias, summand_product = (tensor.unflatten(0, (ctx.batch_size, -1)) for tensor in tensors)
        relevance_product = summands(total, summand_bias, summand_product, ctx.rules)[1].flatten(0, 1)
        return None, x * (divide(relevance_product, product, ctx.rules) @ weight.T) / 2, None, None, None, None
