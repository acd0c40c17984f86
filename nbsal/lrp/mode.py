"""The mode: a stock model's forward under relevance rules, so that its backward is relevance propagation.

Inside the mode every function that touches a live tensor (one that hangs on the embedding output) is replaced by its
rule, or passes because it only moves numbers about, or raises and names itself: coverage is checked, not hoped for. The
mode is a property of one thread; backward runs outside it.
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

# What a block's product of attention and values receives -> what its map is read from, and what flows on.
Passage = Callable[[int, Tensor], tuple[Tensor, Tensor]]


def straight(block: int, relevance: Tensor) -> tuple[Tensor, Tensor]:
    """The map is read from what flows on, and all of it does."""
    return relevance, relevance


@dataclass
class Gate:
    """One block's product of attention and values: where maps are read and masks act."""

    block: int
    passage: Passage
    found: dict[int, Tensor]

    def passes(self, relevance: Tensor) -> tuple[Tensor, Tensor]:
        return self.passage(self.block, relevance)

    def keep(self, share: Tensor) -> None:
        self.found[self.block] = share


@dataclass
class Record:
    """What relevance propagation found for one batch."""

    hidden: dict[int, Tensor] = field(default_factory=dict)  # layer -> [batch, position, width]
    attention: dict[int, Tensor] = field(default_factory=dict)  # block -> [batch, head, query, key]


GATE = "_nbsal_gate"  # marks attention probabilities on their way to the values
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
    "float double clone swapaxes t unbind stack narrow index_select __get__ size dim numel "
    "is_floating_point data_ptr".split()
)


class Relevance(TorchFunctionMode):
    """Replaces what the model calls by the rules; `found` fills with the maps while relevance flows back."""

    def __init__(self, chosen: Rules, passage: Passage, sizes: dict[Any, Tensor]) -> None:
        super().__init__()
        self.rules, self.passage, self.sizes = chosen, passage, sizes
        self.found: dict[int, Tensor] = {}
        self.softmaxes = 0
        self.resting = 0  # inside a module that counts as one operation

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if self.resting or not any(live(value) for value in _tensors(args)):
            return func(*args, **kwargs)
        if func in _LINEAR:
            return self._linear(*args, **kwargs)
        if func in _TRANSPOSED:
            return self._transposed(*args)
        if func in _PRODUCT:
            gate = getattr(args[0], GATE, None)
            return apply(rules.Product, args[0], args[1], self.rules, gate)
        if func in _ADD:
            return self._add(*args[:2])
        if func in _TIMES:
            if live(args[0]) and live(args[1]):
                return apply(rules.Halves, args[0], args[1])
            return apply(rules.Identity, args[0] if live(args[0]) else args[1], func(*args, **kwargs))
        if func in _SOFTMAX:
            return self._softmax(func, args, kwargs)
        if func in _IDENTITY:
            return self._tagged(apply(rules.Identity, args[0], func(*args, **kwargs)), args[0])
        if getattr(func, "__name__", "") in _MOVES:
            return self._tagged(func(*args, **kwargs), args[0])
        raise ModelError(f"Relevance has no rule for {resolve_name(func) or func}, which this model calls.")

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return apply(rules.Linear, x, weight, bias, self.rules, self._size(weight))

    def _transposed(self, bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        if not self.rules.transposed:
            return apply(rules.Transposed, bias, x, weight, self.rules)
        return apply(rules.Linear, x, weight.T, bias, self.rules, self._size(weight).T)

    def _size(self, weight: Tensor) -> Tensor:
        """|W|, computed once for each weight of the model."""
        key = (weight.data_ptr(), weight._version)
        if key not in self.sizes:
            self.sizes[key] = weight.detach().abs()
        return self.sizes[key]

    def _add(self, a: Any, b: Any) -> Tensor:
        if (live(a) and live(b)) or (self.rules.mask and _is_mask(b)):
            return apply(rules.Add, a, b, self.rules)
        return apply(rules.Identity, a if live(a) else b, a + b)

    def _softmax(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        x = args[0]
        if x.dtype == torch.float64:
            kwargs.pop("dtype", None)  # some models ask for float32 here
        y = func(*args, **kwargs)
        y = apply(rules.Softmax if self.rules.softmax == "taylor" else rules.Identity, x, y)
        if x.ndim == 4:
            setattr(y, GATE, Gate(self.softmaxes, self.passage, self.found))
            self.softmaxes += 1
        return y

    def _tagged(self, y: Any, x: Any) -> Any:
        """Attention stays attention through dropout and changes of type."""
        if isinstance(y, Tensor) and hasattr(x, GATE) and y.shape == x.shape:
            setattr(y, GATE, getattr(x, GATE))
        return y


_SIZES: WeakKeyDictionary[nn.Module, dict[Any, Tensor]] = WeakKeyDictionary()


def live(value: Any) -> bool:
    """Whether relevance will flow through it; parameters are frozen meanwhile."""
    return isinstance(value, Tensor) and value.is_floating_point() and value.requires_grad


def _tensors(args: Any) -> Iterator[Any]:
    for value in args:
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def _is_mask(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim == 4


@contextmanager
def running(model: nn.Module, chosen: Rules, passage: Passage) -> Iterator[Relevance]:
    """The mode in force, the model's parameters frozen, and modules that are one operation treated as one."""
    mode = Relevance(chosen, passage, _SIZES.setdefault(model, {}))
    thawed = [parameter for parameter in model.parameters() if parameter.requires_grad]
    handles: list[Any] = []
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


def _is_one_operation(module: nn.Module) -> bool:
    """Activations and root-mean-square norms written out in Python; relevance passes them unchanged."""
    return type(module).__module__ == "transformers.activations" or type(module).__name__.endswith("RMSNorm")


def _rest(mode: Relevance) -> Callable[..., None]:
    def before(module: nn.Module, args: Any) -> None:
        mode.resting += 1

    return before


def _wake(mode: Relevance) -> Callable[..., Any]:
    def after(module: nn.Module, args: Any, output: Tensor) -> Any:
        found = apply(rules.Identity, args[0], output) if live(args[0]) else output
        mode.resting -= 1
        return found

    return after
