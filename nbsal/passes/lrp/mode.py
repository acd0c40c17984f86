"""Run a stock model forwards while recording a second graph, through which relevance propagates back.

Inside `RelevanceMode` every tensor computed from the embedding output has a proxy: a tensor with the same values on a
graph of its own, whose backward pass is relevance propagation. Each function that takes such a tensor either has a rule
that computes the proxy of its output, or only moves values and is applied to the proxies as well, or raises an error
that names the function. Coverage is therefore checked on every run. The model's own values and gradients are unchanged,
so one forward pass serves both. The mode applies to one thread; the backward pass runs outside it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from nbsal.model.running.double import EXACT, double_linear
from nbsal.model.running.hooks import hooks
from nbsal.model.running.modes import Mode
from nbsal.model.running.version import tensors_version
from nbsal.passes.lrp import functions, rules
from nbsal.passes.lrp.rules import Rules, apply

# (block, relevance that arrives at its product of attention and values)
# -> (relevance that its attention map is computed from, relevance that propagates further)
AttentionFilter = Callable[[int, Tensor], tuple[Tensor, Tensor]]


def unfiltered(block: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """The attention filter that changes nothing.

    >>> unfiltered(0, torch.ones(1))
    (tensor([1.]), tensor([1.]))
    """
    return relevance, relevance


@dataclass
class RelevanceMaps:
    """The relevance of one batch, at every layer and in every attention map.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> trace = nbsal.trace.record(subject, subject.encode("A joy."), needs={"relevance"})
    >>> sorted(trace.relevance_maps().attention)
    [0, 1, 2, 3, 4, 5]
    """

    hidden: dict[int, Tensor] = field(default_factory=dict)  # layer -> [batch, position, width]
    attention: dict[int, Tensor] = field(default_factory=dict)  # block -> [batch, head, query, key]


PROXY = "_nbsal_proxy"
ATTENTION_MARK = "_nbsal_attention"  # on attention probabilities until they meet the values: (block, [batch, head])


class RelevanceMode(Mode):
    """Attaches proxies to the model's tensors; `attention_maps` fills during the backward pass.

    >>> x = torch.ones(1)
    >>> attach_proxy(x, torch.ones(1, requires_grad=True))
    >>> with RelevanceMode(rules.DEFAULT, {}):
    ...     y = 3 * x
    >>> y, proxy_of(y).grad_fn.name()
    (tensor([3.]), 'IdentityBackward')
    """

    def __init__(self, chosen: Rules, absolute_weights: dict[Any, Tensor], mixed: bool = False) -> None:
        super().__init__()
        self.rules, self.absolute_weights = chosen, absolute_weights
        self.mixed = mixed  # whether weights that were converted to float64 multiply as they were before
        self.attention_filter: AttentionFilter = unfiltered
        self.attention_maps: dict[int, Tensor] = {}
        self.softmaxes = 0  # attention softmaxes so far
        self.batch_size = 1
        self.inside: list[nn.Module] = []  # the modules that run now and are treated as one operation
        self.stores_maps = True
        self.fused: Callable[..., Tensor] | None = None  # what stands for a call of fused attention

    def start(self, hidden: Tensor) -> None:
        """Attach the first proxy, to the hidden states that relevance propagates back to."""
        attach_proxy(hidden, hidden.detach().requires_grad_())
        self.batch_size = hidden.shape[0]

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        named = any(proxy_of(value) is not None for value in _flatten(kwargs.values()))
        proxied = named or any(proxy_of(value) is not None for value in _flatten(args))
        if not proxied or self.inside:
            return func(*args, **kwargs)
        if func is scaled_dot_product_attention and self.fused is not None:
            return self.fused(*args, **kwargs)
        if func in functions.BADDBMM:
            return self._baddbmm(*args, **kwargs)
        if named:  # the rules read positional arguments
            raise functions.no_rule(func)
        if func in functions.SOFTMAX and args[0].dtype == torch.float64:
            kwargs.pop("dtype", None)  # some models request float32 here
        if func in functions.ADD:  # an in-place sum would overwrite values that the rule of its summand has saved
            func, args = torch.add, args[:2]
        exact = getattr(args[1], EXACT, None) if self.mixed and func in functions.LINEAR and not kwargs else None
        y = func(*args, **kwargs) if exact is None else double_linear(exact, *args)
        if getattr(func, "__name__", "") in functions.SHAPES and proxy_of(args[0]) is None:
            return y
        proxies = [_to_proxy(value) for value in args]
        values = _detach(y)
        if func in functions.LINEAR:
            attach_proxy(y, self._linear(values, *proxies, **kwargs))
        elif func in functions.ADDMM:
            attach_proxy(y, self._addmm(values, *proxies))
        elif func in functions.MATMUL:
            attach_proxy(y, self._matmul(getattr(args[0], ATTENTION_MARK, None), values, *proxies))
        elif func in functions.ADD:
            attach_proxy(y, self._add(y, *args))
        elif func in functions.MULTIPLY:
            both = all(proxy_of(value) is not None for value in args[:2])
            attach_proxy(y, apply(rules.Multiply, *proxies, values) if both else _pass_through(y, *args[:2]))
        elif func in functions.SUM:
            attach_proxy(y, apply(rules.Sum, proxies[0], values, _axes(args, kwargs), self.rules))
        elif func in functions.SOFTMAX:
            attach_proxy(y, apply(rules.Identity, proxies[0], values))
            if y.ndim == 4:
                setattr(y, ATTENTION_MARK, (self.softmaxes, y.shape[:2]))
                self.softmaxes += 1
        elif func in functions.IDENTITY:
            attach_proxy(y, _pass_through(y, *args[:2]))
            _copy_attention_mark(y, args[0])
        elif getattr(func, "__name__", "") in functions.MOVES:
            _attach_proxies(y, func(*proxies, **kwargs))
            _copy_attention_mark(y, args[0])
        else:
            raise functions.no_rule(func)
        return y

    def _baddbmm(self, table: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
        """A table plus the product of two batches of matrices (Bloom's attention scores), as operations with rules."""
        product = self.call(torch.bmm, (batch1, batch2), {})
        summands = [self.call(torch.mul, pair, {}) for pair in ((table, beta), (product, alpha))]
        return self.call(torch.add, tuple(summands), {})

    def _linear(self, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return apply(rules.Linear, x, weight, bias, y, self.rules, self._factors(weight))

    def _addmm(self, y: Tensor, bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        if not self.rules.transposed:
            return apply(rules.AddMM, bias, x, weight, y, self.rules, self.batch_size)
        own, absolute = self._factors(weight)
        return apply(rules.Linear, x, weight.T, bias, y, self.rules, (own.T, absolute.T))

    def _factors(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """W and |W|, which the positive rule multiplies with."""
        own = getattr(weight, EXACT, weight) if self.mixed else weight
        return own.detach(), self._absolute(own)

    def _absolute(self, weight: Tensor) -> Tensor:
        """|W|, computed once for each weight of the model, or part of one, but anew for a temporary tensor.

        The address of a temporary one may be reused in the next call, and its absolute value would be used once.
        """
        if not isinstance(weight if weight._base is None else weight._base, nn.Parameter):
            return weight.detach().abs()
        key = (weight.data_ptr(), weight.shape)
        if key not in self.absolute_weights:
            self.absolute_weights[key] = weight.detach().abs()
        return self.absolute_weights[key]

    def _matmul(self, mark: tuple[int, torch.Size] | None, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
        if mark is None:
            return apply(rules.MatMul, a, b, y, self.rules, None)
        (block, batch_and_heads), shape = mark, y.shape
        if a.ndim == 3:  # DeBERTa joins texts and heads in one axis; maps and head masks need them apart
            a, b, y = (tensor.reshape(*batch_and_heads, *tensor.shape[1:]) for tensor in (a, b, y))
        return apply(rules.MatMul, a, b, y, self.rules, AttentionHook(self, block)).reshape(shape)

    def _add(self, y: Tensor, a: Any, b: Any) -> Tensor:
        both = proxy_of(a) is not None and proxy_of(b) is not None
        if both or (self.rules.mask and isinstance(b, Tensor) and b.ndim == 4):  # b is an attention mask
            return apply(rules.Add, _to_proxy(a), _to_proxy(b), _detach(y), self.rules)
        return _pass_through(y, a, b)


@dataclass
class AttentionHook:
    """Applies the attention filter at the product of attention and values of one block, and stores its map.

    >>> AttentionHook(RelevanceMode(rules.DEFAULT, {}), block=0).filter(torch.ones(1))
    (tensor([1.]), tensor([1.]))
    """

    mode: RelevanceMode
    block: int

    def filter(self, relevance: Tensor) -> tuple[Tensor, Tensor]:
        return self.mode.attention_filter(self.block, relevance)

    def store(self, attention_map: Tensor) -> None:
        if self.mode.stores_maps:
            self.mode.attention_maps[self.block] = attention_map


def proxy_of(value: Any) -> Tensor | None:
    """The proxy of a tensor, through which relevance propagates back, or None.

    >>> x = torch.ones(1)
    >>> attach_proxy(x, torch.zeros(1))
    >>> proxy_of(x), proxy_of(torch.ones(1))
    (tensor([0.]), None)
    """
    return getattr(value, PROXY, None) if isinstance(value, Tensor) else None


def attach_proxy(y: Tensor, proxy: Tensor) -> None:
    """Attach a proxy to a tensor.

    >>> x = torch.ones(1)
    >>> attach_proxy(x, 2 * x)
    >>> proxy_of(x)
    tensor([2.])
    """
    setattr(y, PROXY, proxy)


def _attach_proxies(result: Any, proxies: Any) -> None:
    """Attach proxies to the tensors of a result that is one or a sequence of them; constants have none."""
    for value, proxy in zip(_flatten([result]), _flatten([proxies]), strict=True):
        if isinstance(proxy, Tensor) and proxy.requires_grad:
            attach_proxy(value, proxy)


def _detach(y: Any) -> Any:
    """The values without graph or proxy: a proxy that referred to its own tensor would never be freed."""
    return y.detach() if isinstance(y, Tensor) else y


def _to_proxy(value: Any) -> Any:
    """An argument with its tensors replaced by their proxies, where they have one."""
    if isinstance(value, list | tuple):
        return type(value)(_to_proxy(part) for part in value)
    proxy = proxy_of(value)
    return value if proxy is None else proxy


def _pass_through(y: Tensor, *inputs: Any) -> Tensor:
    """The proxy of a tensor whose relevance passes unchanged to the only input that has a proxy."""
    proxy = next(proxy for proxy in map(proxy_of, inputs) if proxy is not None)
    return proxy if y is inputs[0] else apply(rules.Identity, proxy, _detach(y))


def _copy_attention_mark(y: Any, x: Any) -> None:
    """Follow attention probabilities through dropout, changes of type, and the joining of texts and heads."""
    if isinstance(y, Tensor) and hasattr(x, ATTENTION_MARK) and y.shape[-2:] == x.shape[-2:] and y.numel() == x.numel():
        setattr(y, ATTENTION_MARK, getattr(x, ATTENTION_MARK))


# For each model: the version of its weights, and their absolute values.
_ABSOLUTE_WEIGHTS: WeakKeyDictionary[nn.Module, tuple[Any, dict[Any, Tensor]]] = WeakKeyDictionary()


def _absolute_weights(model: nn.Module) -> dict[Any, Tensor]:
    """The cache of absolute weights, emptied when weights have changed."""
    version = tensors_version(model.parameters())
    if model not in _ABSOLUTE_WEIGHTS or _ABSOLUTE_WEIGHTS[model][0] != version:
        _ABSOLUTE_WEIGHTS[model] = version, {}
    return _ABSOLUTE_WEIGHTS[model][1]


def _axes(args: Any, kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The axes of a sum: all of them, if it names none."""
    axes = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if axes is None:
        return tuple(range(args[0].ndim))
    return (axes,) if isinstance(axes, int) else tuple(axes)


def _flatten(args: Any) -> Iterator[Any]:
    for value in args:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


@contextmanager
def relevance_mode(
    model: nn.Module, first_blocks: Sequence[nn.Module], chosen: Rules, mixed: bool = False
) -> Iterator[RelevanceMode]:
    """Run a model under relevance rules with its parameters frozen, from its first block on, or that of either side.

    >>> layer = nn.Linear(2, 1)
    >>> with relevance_mode(layer, [layer], rules.DEFAULT):
    ...     y = layer(torch.ones(1, 2))
    >>> proxy_of(y).grad_fn.name()
    'LinearBackward'
    """
    with rules_mode(model, chosen, _absolute_weights(model), mixed) as mode:

        def attach(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            hidden = args[0] if args else kwargs["hidden_states"]
            if proxy_of(hidden) is None:
                mode.start(hidden)

        with hooks(first_blocks, attach):
            yield mode


@contextmanager
def rules_mode(
    model: nn.Module, chosen: Rules, absolute_weights: dict[Any, Tensor], mixed: bool = False
) -> Iterator[RelevanceMode]:
    """Run a model, or a part of it, under relevance rules from a proxy on that the caller starts.

    >>> layer, x = nn.Linear(2, 1), torch.ones(1, 2)
    >>> with rules_mode(layer, rules.DEFAULT, {}) as mode:
    ...     mode.start(x)
    ...     y = layer(x)
    >>> proxy_of(y).grad_fn.name()
    'LinearBackward'
    """
    mode = RelevanceMode(chosen, absolute_weights, mixed)
    operations = [module for module in model.modules() if functions.is_single_operation(module)]

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        mode.inside.append(module)

    def leave(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        mode.inside.pop()
        if proxy_of(args[0]) is not None:
            attach_proxy(output, _pass_through(output, args[0]))

    with hooks(operations, enter, leave), mode:
        yield mode
