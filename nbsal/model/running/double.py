"""A copy of a model that computes more exactly and holds few such weights: its blocks are converted while they run.

Between their turns, the blocks and the tables over the vocabulary share their weights with the original; what was
converted is cached for the next run as far as the limit allows. What is left (norms, positions, the head) is
small, and is converted at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from nbsal.model import encoder_decoder
from nbsal.model.running import architecture
from nbsal.model.running.twin import copy_model

LIMIT = 2**30  # bytes of all converted weights that are cached
EXACT = "_nbsal_exact"  # on a converted weight: the float32 weight with the same numbers
Place = tuple[dict[str, Any], str, Tensor]  # the parameters or buffers of a module, a name there, the weight itself

# Converted weights by precision; a changed model has others, as its twin is a new one.
_CACHE: dict[torch.dtype, Any] = {
    torch.float64: WeakTensorKeyDictionary(),
    torch.float32: WeakTensorKeyDictionary(),
}


def double_model(model: Any) -> Any:
    """The copy in float64; if the device has none (MPS), on the CPU and with all weights."""
    return _converted_model(model, torch.float64, moved=model.device.type == "mps")


def single_model(model: Any) -> Any:
    """The copy in float32, of a model in half precision."""
    return _converted_model(model, torch.float32)


def _converted_model(model: Any, dtype: torch.dtype, moved: bool = False) -> Any:
    device = torch.device("cpu") if moved else model.device
    shared = set() if moved else {id(tensor) for part in _parts(model) for _, _, tensor in _places(part)}

    def convert(tensor: Tensor) -> Tensor:
        result = tensor.detach() if id(tensor) in shared else _converted(tensor.detach(), device, dtype)
        return nn.Parameter(result, requires_grad=False) if isinstance(tensor, nn.Parameter) else result

    result = copy_model(model, convert)
    turns = _Turns(device, dtype)
    for part in _parts(result):
        part.register_forward_pre_hook(turns.before)
        part.register_forward_hook(turns.after, always_call=True)
    return result


@contextmanager
def block_by_block(module: nn.Module) -> Iterator[None]:
    """Read the weights of a block in the precision that it computes in."""
    hooks = (getattr(hook, "__self__", None) for hook in module._forward_pre_hooks.values())
    turns = [hook for hook in hooks if isinstance(hook, _Turns)]
    try:
        for turn in turns:
            turn.before(module)
        yield
    finally:
        for turn in turns:
            turn.after(module)


class _Turns:
    """Hooks that convert a part of a model before it runs, and put its own weights back afterwards."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype
        self._places: WeakKeyDictionary[nn.Module, list[Place]] = WeakKeyDictionary()

    def before(self, part: nn.Module, args: Any = ()) -> None:
        for weights, name, tensor in self._places.setdefault(part, _places(part)):
            if type(part) is not nn.Embedding:  # of a plain table, only the rows that are read are converted
                weights[name] = _cached(tensor, self._device, self._dtype)

    def after(self, part: nn.Module, args: Any = (), output: Any = None) -> Any:
        for weights, name, tensor in self._places[part]:
            weights[name] = tensor
        if type(part) is not nn.Embedding or output is None:
            return None
        return _converted(output, self._device, self._dtype)


def _parts(model: Any) -> list[nn.Module]:
    """The blocks, and the modules that hold a table over the vocabulary."""
    both = (
        (encoder_decoder.SOURCE, encoder_decoder.REPLY)
        if encoder_decoder.writes_replies(model)
        else (encoder_decoder.SOURCE,)
    )
    blocks = dict.fromkeys(block for side in both for block in architecture.blocks(model, side))
    size = len(model.get_input_embeddings().weight)
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.Linear) and len(m.weight) == size]
    inside = {module for block in blocks for module in block.modules()}
    return [*blocks, *(table for table in tables if table not in inside)]


def _places(part: nn.Module) -> list[Place]:
    """The weights and buffers of a module, and where they are."""
    return [
        (tensors, name, tensor)
        for module in part.modules()
        for tensors in (module._parameters, module._buffers)
        for name, tensor in tensors.items()
        if tensor is not None
    ]


def _cached(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The converted weight, from earlier runs if there is room for it."""
    cache = _CACHE[dtype]
    if not isinstance(tensor, nn.Parameter) or not tensor.is_floating_point():
        return _converted(tensor, device, dtype)
    if tensor not in cache and cached_bytes() + tensor.numel() * dtype.itemsize <= LIMIT:
        cache[tensor] = tensor.to(device, dtype)
    cached = cache.get(tensor)
    return _marked(_converted(tensor, device, dtype) if cached is None else cached.detach(), tensor)


def cached_bytes() -> int:
    """The memory that converted weights take between runs, at most LIMIT."""
    # Another thread may add one meanwhile.
    return sum(cached.nbytes for cache in _CACHE.values() for cached in list(cache.data.values()))


def _converted(tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    return _marked(tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype), tensor)


def _marked(result: Tensor, tensor: Tensor) -> Tensor:
    """A converted weight that says which one it is of; a cached copy must not, or it would keep that alive."""
    device = result.device
    exact = isinstance(tensor, nn.Parameter) and tensor.dtype == torch.float32 and result.dtype == torch.float64
    if exact and tensor.device == device:
        setattr(result, EXACT, tensor)
    return result


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
        return functional.linear(gradient.float(), ctx.exact.mT).to(gradient), None, None, None
