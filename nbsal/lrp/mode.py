"""The mode: a stock model's forward, and beside it the way that relevance takes back through it.

Inside the mode every tensor that comes of the embedding output has a shadow: the same number, but on a graph of its own
whose backward is relevance propagation. A function that touches such a tensor gives its output a shadow by its rule, or
moves the shadow with the number, or raises and names itself: coverage is checked, not hoped for. The model's own
numbers and gradients stay what they are, so one forward serves both. The mode is a property of one thread; backward
runs outside it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode, resolve_name

from nbsal.errors import ModelError
from nbsal.lrp import rules
from nbsal.lrp.rules import Rules, apply
from nbsal.model import architecture

# What a block's product of attention and values receives -> what its map is read from, and what flows on.
AttentionFilter = Callable[[int, Tensor], tuple[Tensor, Tensor]]


def unfiltered(block: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """The map is read from what flows on, and all of it does.

    >>> unfiltered(0, torch.ones(1))
    (tensor([1.]), tensor([1.]))
    """
    return relevance, relevance


@dataclass
class RelevanceMaps:
    """What relevance propagation found for one batch.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> read = nbsal.trace.record(subject, subject.encode("A joy."), needs={"relevance"})
    >>> sorted(read.relevance_under().attention)
    [0, 1, 2, 3, 4, 5]
    """

    hidden: dict[int, Tensor] = field(default_factory=dict)  # layer -> [batch, position, width]
    attention: dict[int, Tensor] = field(default_factory=dict)  # block -> [batch, head, query, key]


SHADOW = "_nbsal_shadow"
BLOCK = "_nbsal_block"  # marks attention probabilities on their way to the values: its block, and [batch, head]
T = Tensor
_LINEAR = {functional.linear}
_TRANSPOSED = {torch.addmm, T.addmm}
_ADD = {T.add, torch.add, T.__add__, T.__radd__, T.add_, T.__iadd__}
_PRODUCT = {torch.matmul, T.matmul, T.__matmul__, torch.bmm, T.bmm}
_TIMES = {T.mul, torch.mul, T.__mul__, T.__rmul__, T.div, torch.div, T.__truediv__, T.true_divide}
_SOFTMAX = {functional.softmax, torch.softmax, T.softmax}
_IDENTITY = {
    functional.layer_norm, torch.layer_norm, functional.rms_norm, functional.gelu, functional.relu, functional.silu,
    torch.tanh, T.tanh, torch.relu, functional.dropout, torch.dropout, T.neg, torch.neg, T.__neg__,
}  # fmt: skip
_MOVES = frozenset(
    "view reshape transpose permute contiguous __getitem__ split squeeze unsqueeze flatten cat chunk expand to type "
    "float double clone swapaxes t unbind stack narrow index_select gather masked_fill __get__ size dim numel "
    "is_floating_point data_ptr requires_grad_".split()
)


class RelevanceMode(TorchFunctionMode):
    """Gives the model's tensors their shadows; `found` fills with the maps while relevance flows back.

    >>> x = torch.ones(1)
    >>> cast(x, torch.ones(1, requires_grad=True))
    >>> with RelevanceMode(rules.DEFAULT, {}):
    ...     y = 3 * x
    >>> y, shadow(y).grad_fn.name()
    (tensor([3.]), 'IdentityBackward')
    """

    def __init__(self, chosen: Rules, sizes: dict[Any, Tensor]) -> None:
        super().__init__()
        self.rules, self.sizes = chosen, sizes
        self.passage: AttentionFilter = unfiltered
        self.found: dict[int, Tensor] = {}
        self.softmaxes = 0
        self.texts = 1  # of the batch
        self.resting = 0  # inside a module that counts as one operation

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if self.resting or not any(shadow(value) is not None for value in _tensors(args)):
            return func(*args, **kwargs)
        if func in _SOFTMAX and args[0].dtype == torch.float64:
            kwargs.pop("dtype", None)  # some models ask for float32 here
        if func in _ADD:  # a sum in place would change what its summand's shadow remembers
            func, args = torch.add, args[:2]
        y = func(*args, **kwargs)
        beneath = [_beneath(value) for value in args]
        bare = _bare(y)
        if func in _LINEAR:
            cast(y, self._linear(bare, *beneath, **kwargs))
        elif func in _TRANSPOSED:
            cast(y, self._transposed(bare, *beneath))
        elif func in _PRODUCT:
            cast(y, self._product(getattr(args[0], BLOCK, None), bare, *beneath))
        elif func in _ADD:
            cast(y, self._add(y, *args))
        elif func in _TIMES:
            both = all(shadow(value) is not None for value in args[:2])
            cast(y, apply(rules.Halves, *beneath, bare) if both else _passed(y, *args[:2]))
        elif func in _SOFTMAX:
            taylor = self.rules.softmax == "taylor"
            cast(y, apply(rules.Softmax if taylor else rules.Identity, beneath[0], bare))
            if y.ndim == 4:
                setattr(y, BLOCK, (self.softmaxes, y.shape[:2]))
                self.softmaxes += 1
        elif func in _IDENTITY:
            cast(y, _passed(y, args[0]))
            _mark(y, args[0])
        elif getattr(func, "__name__", "") in _MOVES:
            if any(isinstance(value, Tensor) for value in _tensors([y])):
                _cast_all(y, func(*beneath, **kwargs))
                _mark(y, args[0])
        else:
            raise ModelError(
                f"Relevance has no rule for {resolve_name(func) or func}, which this model calls: explain with a "
                "method of another family."
            )
        return y

    def _linear(self, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return apply(rules.Linear, x, weight, bias, y, self.rules, self._size(weight))

    def _transposed(self, y: Tensor, bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        if not self.rules.transposed:
            return apply(rules.Transposed, bias, x, weight, y, self.rules, self.texts)
        return apply(rules.Linear, x, weight.T, bias, y, self.rules, self._size(weight).T)

    def _size(self, weight: Tensor) -> Tensor:
        """|W|, computed once for each weight of the model, or part of one."""
        if not isinstance(weight if weight._base is None else weight._base, nn.Parameter):
            return weight.detach().abs()  # made for this call: another may lie there in the next
        key = (weight.data_ptr(), weight.shape)
        if key not in self.sizes:
            self.sizes[key] = weight.detach().abs()
        return self.sizes[key]

    def _product(self, attends: tuple[int, torch.Size] | None, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
        if attends is None:
            return apply(rules.Product, a, b, y, self.rules, None)
        (block, heads), shape = attends, y.shape
        if a.ndim == 3:  # DeBERTa lays texts and heads into one axis; maps and masks want them apart
            a, b, y = (one.reshape(*heads, *one.shape[1:]) for one in (a, b, y))
        return apply(rules.Product, a, b, y, self.rules, Gate(self, block)).reshape(shape)

    def _add(self, y: Tensor, a: Any, b: Any) -> Tensor:
        both = shadow(a) is not None and shadow(b) is not None
        if both or (self.rules.mask and _is_mask(b)):
            return apply(rules.Add, _beneath(a), _beneath(b), _bare(y), self.rules)
        return _passed(y, a, b)


@dataclass
class Gate:
    """One block's product of attention and values: where maps are read and masks act.

    >>> Gate(RelevanceMode(rules.DEFAULT, {}), block=0).passes(torch.ones(1))
    (tensor([1.]), tensor([1.]))
    """

    mode: RelevanceMode
    block: int

    def passes(self, relevance: Tensor) -> tuple[Tensor, Tensor]:
        return self.mode.passage(self.block, relevance)

    def keep(self, share: Tensor) -> None:
        self.mode.found[self.block] = share


def shadow(value: Any) -> Tensor | None:
    """The tensor through which relevance flows back beside a number, if it does.

    >>> x = torch.ones(1)
    >>> cast(x, torch.zeros(1))
    >>> shadow(x), shadow(torch.ones(1))
    (tensor([0.]), None)
    """
    return getattr(value, SHADOW, None) if isinstance(value, Tensor) else None


def cast(y: Tensor, beneath: Tensor) -> None:
    """Give a tensor its shadow.

    >>> x = torch.ones(1)
    >>> cast(x, 2 * x)
    >>> shadow(x)
    tensor([2.])
    """
    setattr(y, SHADOW, beneath)


def _bare(y: Any) -> Any:
    """The number without its graph and its shadow: a shadow that held what holds it would never be let go."""
    return y.detach() if isinstance(y, Tensor) else y


def _cast_all(y: Any, beneath: Any) -> None:
    for one, under in zip(_tensors([y]), _tensors([beneath]), strict=True):
        cast(one, under)


def _beneath(value: Any) -> Any:
    """An argument as the shadows see it."""
    if isinstance(value, list | tuple):
        return type(value)(_beneath(one) for one in value)
    under = shadow(value)
    return value if under is None else under


def _passed(y: Tensor, *inputs: Any) -> Tensor:
    """The shadow of a tensor whose relevance passes unchanged to the one input that has a shadow."""
    beneath = next(under for under in map(shadow, inputs) if under is not None)
    return beneath if y is inputs[0] else apply(rules.Identity, beneath, _bare(y))


def _mark(y: Any, x: Any) -> None:
    """Attention stays attention through dropout, changes of type, and where texts and heads come to share an axis."""
    if isinstance(y, Tensor) and hasattr(x, BLOCK) and y.shape[-2:] == x.shape[-2:] and y.numel() == x.numel():
        setattr(y, BLOCK, getattr(x, BLOCK))


# By model: the stamp of its weights, and the sizes of these.
_SIZES: WeakKeyDictionary[nn.Module, tuple[Any, dict[Any, Tensor]]] = WeakKeyDictionary()


def _sizes(model: nn.Module) -> dict[Any, Tensor]:
    """What is known of the weights as they are now."""
    now = architecture.weights_version(model)
    if model not in _SIZES or _SIZES[model][0] != now:
        _SIZES[model] = now, {}
    return _SIZES[model][1]


def _tensors(args: Any) -> Iterator[Any]:
    for value in args:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _is_mask(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim == 4


@contextmanager
def relevance_mode(model: nn.Module, first: nn.Module, chosen: Rules) -> Iterator[RelevanceMode]:
    """The mode in force from a model's `first` block on, the model's parameters frozen.

    Modules that are one operation are treated as one.

    >>> layer = nn.Linear(2, 1)
    >>> with relevance_mode(layer, layer, rules.DEFAULT):
    ...     y = layer(torch.ones(1, 2))
    >>> shadow(y).grad_fn.name()
    'LinearBackward'
    """
    mode = RelevanceMode(chosen, _sizes(model))
    thawed = [parameter for parameter in model.parameters() if parameter.requires_grad]
    handles: list[Any] = [first.register_forward_pre_hook(_begin(mode), with_kwargs=True)]
    try:
        for parameter in thawed:
            parameter.requires_grad_(False)
        for module in model.modules():
            if _is_one_operation(module):
                handles += [module.register_forward_pre_hook(_rest(mode)), module.register_forward_hook(_wake(mode))]
        with mode:
            yield mode
    finally:
        for handle in handles:
            handle.remove()
        for parameter in thawed:
            parameter.requires_grad_(True)


def _begin(mode: RelevanceMode) -> Callable[..., None]:
    """The first shadow is that of the embedding output."""

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        if shadow(hidden) is None:
            cast(hidden, hidden.detach().requires_grad_())
            mode.texts = hidden.shape[0]

    return before


def _is_one_operation(module: nn.Module) -> bool:
    """Activations and root-mean-square norms written out in Python; relevance passes them unchanged."""
    return type(module).__module__ == "transformers.activations" or type(module).__name__.endswith("RMSNorm")


def _rest(mode: RelevanceMode) -> Callable[..., None]:
    def before(module: nn.Module, args: Any) -> None:
        mode.resting += 1

    return before


def _wake(mode: RelevanceMode) -> Callable[..., None]:
    def after(module: nn.Module, args: Any, output: Tensor) -> None:
        mode.resting -= 1
        if shadow(args[0]) is not None:
            cast(output, _passed(output, args[0]))

    return after
