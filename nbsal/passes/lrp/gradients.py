"""Gradients in place of relevance, modified as in GIM (Edin et al. 2025).

Proxies then hold what the model itself computes, and their backward pass is that of autograd but for three changes:
the softmax of attention has the gradient of one with a raised temperature, each factor of a product of two computed
tensors (queries and keys, attention and values, gate and unit) gets half of its gradient, and the scale of a norm is a
constant. Activations keep their gradients. Another function of several computed tensors, or one
that writes in place, raises an error that names it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nbsal.passes.lrp import functions, rules

PRODUCTS = functions.MATMUL | functions.MULTIPLY
IN_PLACE = re.compile(r"[^_]_$|^__(setitem|imul|isub|itruediv)__$")  # they may overwrite a tensor without a proxy
# What the scale of a norm that is written in Python begins or ends with.
SCALES = {torch.pow, Tensor.pow, Tensor.__pow__, torch.square, Tensor.square, torch.rsqrt, torch.sqrt, Tensor.sqrt}


def apply(
    func: Any, y: Any, args: Sequence[Any], kwargs: Mapping[str, Any], temperature: float, inside: Sequence[Any]
) -> Any:
    """The result of a function of proxies; `y` is that of the model, `inside` are norms and activations that run now.

    >>> a, b = torch.tensor([2.0], requires_grad=True), torch.tensor([5.0], requires_grad=True)
    >>> torch.autograd.grad(apply(torch.mul, None, (a, b), {}, 2.0, ()), (a, b))
    (tensor([2.5000]), tensor([1.]))
    """
    if func in NORMS:
        return NORMS[func](*args, **kwargs)
    if func in functions.SOFTMAX and args[0].ndim == 4:
        return rules.apply(rules.TemperedSoftmax, args[0], y, temperature)
    result = func(*args, **kwargs)
    if inside:
        return result.detach() if func in SCALES and functions.is_norm(inside[-1]) else result
    computed = [each for each in args if isinstance(each, Tensor) and each.requires_grad]
    if func in PRODUCTS and len(computed) == 2:
        return (result + result.detach()) / 2
    name = getattr(func, "__name__", "")
    if (len(computed) > 1 or IN_PLACE.search(name)) and func not in functions.ADD and name not in functions.MOVES:
        raise functions.no_rule(func)
    return result


def layer_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Tensor:
    """The layer norm whose scale is a constant.

    >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
    >>> torch.autograd.grad(layer_norm(x, [2], torch.tensor([4.0, 1.0])).sum(), x)[0].round(decimals=3)
    tensor([ 1.5000, -1.5000])
    """
    axes = tuple(range(-len(shape), 0))
    result = rms_norm(x - x.mean(axes, keepdim=True), shape, weight, eps)
    return result if bias is None else result + bias


def rms_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """The norm by the root mean square, which is a constant."""
    axes, eps = tuple(range(-len(shape), 0)), torch.finfo(x.dtype).eps if eps is None else eps
    result = x * torch.rsqrt(x.detach().square().mean(axes, keepdim=True) + eps)
    return result if weight is None else result * weight


NORMS: dict[Any, Callable[..., Tensor]] = {
    functional.layer_norm: layer_norm,
    torch.layer_norm: layer_norm,
    functional.rms_norm: rms_norm,
}
