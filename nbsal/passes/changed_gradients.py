"""Relevance as input times gradient: the stock model's own gradients, but for a few functions.

Where each rule hands a function's relevance on in proportion to its summands, relevance is a value times a gradient,
and no rule needs to divide. AttnLRP (Achtibat et al. 2024) is of that kind: linear functions, sums and softmax keep
their gradients; the scale of a norm counts as a constant, and so does the factor f(x) / x of an activation; both
factors of a product of computed tensors get half of its gradient. GIM (Edin et al. 2025) raises the temperature of
softmax, and leaves activations their gradients.

`GradientRules` make a copy of a subject whose passes run under `GradientMode`, so that everything that reads gradients
reads changed ones. A function that is neither linear nor listed raises an error that names it.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from nbsal.model.running import attention_maps
from nbsal.model.running.hooks import hooks
from nbsal.model.running.modes import Mode
from nbsal.model.subject import Subject
from nbsal.passes.lrp import functions
from nbsal.passes.lrp.rules import apply

LINEAR = functions.LINEAR | functions.ADDMM | functions.ADD | functions.SUM | functions.MATMUL | functions.MULTIPLY
UNCHANGED = functions.UNCHANGED | {Tensor.detach}
IN_PLACE = re.compile(r"[^_]_$|^__(setitem|imul|isub|itruediv)__$")  # they may overwrite what a gradient needs
# What the scale of a norm that is written in Python begins or ends with.
SCALES = {torch.pow, Tensor.pow, Tensor.__pow__, torch.square, Tensor.square, torch.rsqrt, torch.sqrt, Tensor.sqrt}
SMALL = 2.0**-20  # where the factor of an activation is that at 0, up to rounding


@dataclass(frozen=True)
class GradientRules:
    """How gradients are changed; call it with a subject for the copy that has them.

    `relevance`: input times gradient is relevance under the rules of AttnLRP, which begins with the explained number.
    `temperature`: of the softmax whose gradient attention has, as in GIM.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews").with_gradients(ATTN_LRP)
    >>> trace = nbsal.trace.record(subject, subject.encode("A joy."), keep=[6])
    >>> relevance = (trace.hidden[6] * trace.hidden_grad[6]).sum()  # before biases and softmax have their parts
    >>> bool(abs(relevance / trace.values[0] - 1) < 0.05)
    True
    """

    relevance: bool = False
    temperature: float | None = None

    def __call__(self, subject: Subject) -> Subject:
        pooling, result = subject.probed_pooling, copy.copy(subject)
        vars(result).update(gradients=self, probed_pooling=pooling)  # measured by the model's own gradients
        return result

    @property
    def reads_weights(self) -> bool:
        """Whether attention must show its weights."""
        return self.temperature is not None

    @contextmanager
    def running(self, model: Any) -> Iterator[None]:
        """Run a model, or a part of it, with changed gradients."""
        mode = GradientMode(self)
        attention = attention_maps.eager(model) if self.reads_weights else nullcontext()
        operations = [module for module in model.modules() if functions.is_single_operation(module)]
        with attention, hooks(operations, mode.enter_module, mode.leave_module), mode:
            yield


ATTN_LRP = GradientRules(relevance=True)


class GradientMode(Mode):
    """Changes the gradients of functions of tensors that have one.

    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> with GradientMode(ATTN_LRP):
    ...     y = x * torch.tanh(x)
    >>> torch.autograd.grad(y, x)[0] == torch.tanh(x)  # half of it, and half of x times tanh(x) / x
    tensor([True])
    """

    def __init__(self, gradients: GradientRules) -> None:
        super().__init__()
        self.gradients = gradients
        self._inside: list[nn.Module] = []  # the norms and activations that run now

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if not (_computed(args) or _computed(kwargs.values())):
            return func(*args, **kwargs)
        if self._inside:
            return self._inside_module(func, args, kwargs)
        return self._changed(func, args, kwargs)

    def enter_module(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._inside.append(module)

    def leave_module(self, module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor | None:
        self._inside.pop()
        if functions.is_norm(module) or not _computed(args):
            return None
        with torch._C.DisableTorchFunction():
            return self._activation(module.forward, args, {}, output)

    def _inside_module(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A function that a norm or an activation is written with."""
        if not functions.is_norm(self._inside[-1]):
            if self.gradients.relevance:  # the activation has a gradient as a whole
                args = [_detach(value) for value in args]
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        return result.detach() if func in SCALES else result

    def _changed(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The function's result, with another gradient where it needs one."""
        relevance, name = self.gradients.relevance, getattr(func, "__name__", "")
        if func is scaled_dot_product_attention and not self.gradients.reads_weights:
            # The weights get half, and queries and keys a half of that each; the values get half.
            query, key, value, *mask = args
            mixed: Tensor = func(query, key, _scale(value, 2.0), *mask, **kwargs)
            return _scale(mixed, 0.25)
        if func in functions.BADDBMM:
            return self._baddbmm(*args, **kwargs)
        if _computed(kwargs.values()):  # what follows reads positional arguments
            raise functions.no_rule(func)
        if func in NORMS:
            return NORMS[func](*args, **kwargs)
        if func in functions.SOFTMAX:
            return self._softmax(func, args, kwargs)
        if relevance and func in ACTIVATIONS and isinstance(args[0], Tensor):
            return self._activation(func, args, kwargs, func(*map(_detach, args), **kwargs))
        if func in functions.ADD:  # an in-place sum would overwrite values that a gradient needs
            func, args = torch.add, args[:2]
        computed = [each for each in args if _computed([each])]
        if func in functions.MATMUL and len(computed) == 2:
            args = [_scale(each, 0.5) if _computed([each]) else each for each in args]
        result = func(*args, **kwargs)
        if func in functions.MULTIPLY and len(computed) == 2:
            return _scale(result, 0.5)
        listed = func in LINEAR | UNCHANGED or name in functions.MOVES
        if not listed and (relevance or len(computed) > 1 or IN_PLACE.search(name)):
            raise functions.no_rule(func)
        return result

    def _baddbmm(self, table: Tensor, batch1: Tensor, batch2: Tensor, **options: Any) -> Tensor:
        return torch.baddbmm(table, _scale(batch1, 0.5), _scale(batch2, 0.5), **options)

    def _softmax(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Tensor:
        if args[0].dtype == torch.float64:
            kwargs.pop("dtype", None)  # some models request float32 here
        y: Tensor = func(*args, **kwargs)
        temperature = self.gradients.temperature
        return y if temperature is None or y.ndim != 4 else apply(TemperedSoftmax, args[0], y, temperature)

    def _activation(self, func: Any, args: Any, kwargs: Mapping[str, Any], y: Tensor) -> Tensor:
        """An activation as a product of its input with a constant."""
        if not self.gradients.relevance:
            return y
        x, y = args[0].detach(), y.detach()
        at_zero = func(x.new_full((1,), SMALL), *args[1:], **kwargs) / SMALL
        return apply(Factor, args[0], y, torch.where(x == 0, at_zero, y / x))  # y is no larger than x


class Factor(Function):
    """y, with the gradient of the product of x with a constant factor.

    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.autograd.grad(apply(Factor, x, torch.tensor([6.0]), 3.0), x)[0]
    tensor([3.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, factor: Tensor | float) -> Tensor:  # noqa: ARG004
        ctx.factor = factor
        return y.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.factor, None, None


class TemperedSoftmax(Function):
    """Softmax with the gradient that it has at the same scores divided by a temperature, not itself divided by it.

    >>> x = torch.tensor([[0.0, 2.0]], requires_grad=True)
    >>> y = apply(TemperedSoftmax, x, x.softmax(-1), 2.0)
    >>> torch.autograd.grad(y[0, 0], x)[0].round(decimals=3)
    tensor([[ 0.1970, -0.1970]])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.temperature = temperature
        return y.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        flat = (x / ctx.temperature).softmax(-1)
        return flat * (gradient - (gradient * flat).sum(-1, keepdim=True)), None, None


def _layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    """The layer norm whose scale is a constant: its mean and its bias are parts of sums like others."""
    result = _rms_norm(x - x.mean(tuple(range(-len(shape), 0)), keepdim=True), shape, weight, eps)
    return result if bias is None else result + bias


def _rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    axes, eps = tuple(range(-len(shape), 0)), torch.finfo(x.dtype).eps if eps is None else eps
    scale = torch.rsqrt(x.detach().square().mean(axes, keepdim=True) + eps)
    return x * (scale if weight is None else scale * weight)


def _normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> Tensor:
    scale: Tensor = torch.linalg.vector_norm(x.detach(), p, dim, True).clamp_min(eps)
    return x / scale


NORMS: dict[Any, Callable[..., Tensor]] = {
    functional.layer_norm: _layer_norm,
    torch.layer_norm: _layer_norm,
    functional.rms_norm: _rms_norm,
    functional.normalize: _normalize,
}
ACTIVATIONS = functions.IDENTITY - functions.UNCHANGED - NORMS.keys()


def _scale(x: Tensor, share: float) -> Tensor:
    """A tensor that gets a share of its gradient."""
    return apply(Factor, x, x, share)


def _detach(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _computed(values: Any) -> bool:
    """Whether any of some values, or of what a list among them holds, has a gradient."""
    for value in values:
        if isinstance(value, list | tuple):
            if _computed(value):
                return True
        elif isinstance(value, Tensor) and value.requires_grad:
            return True
    return False
