"""A copy of a model that computes in float64 and holds few float64 weights: its blocks are converted while they run.

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

_CACHE: Any = WeakTensorKeyDictionary()  # converted weights; a changed model has others, as its twin is a new one


def double_model(model: Any) -> Any:
    """The copy; if the device has no float64 (MPS), on the CPU and with all weights."""
    moved = model.device.type == "mps"
    device = torch.device("cpu") if moved else model.device
    shared = set() if moved else {id(tensor) for part in _parts(model) for _, _, tensor in _places(part)}

    def convert(tensor: Tensor) -> Tensor:
        result = tensor.detach() if id(tensor) in shared else _converted(tensor.detach(), device)
        return nn.Parameter(result, requires_grad=False) if isinstance(tensor, nn.Parameter) else result

    result = copy_model(model, convert)
    turns = _Turns(device)
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

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._places: WeakKeyDictionary[nn.Module, list[Place]] = WeakKeyDictionary()

    def before(self, part: nn.Module, args: Any = ()) -> None:
        for weights, name, tensor in self._places.setdefault(part, _places(part)):
            if type(part) is not nn.Embedding:  # of a plain table, only the rows that are read are converted
                weights[name] = _cached(tensor, self._device)

    def after(self, part: nn.Module, args: Any = (), output: Any = None) -> Any:
        for weights, name, tensor in self._places[part]:
            weights[name] = tensor
        return _converted(output, self._device) if type(part) is nn.Embedding and output is not None else None


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


def _cached(tensor: Tensor, device: torch.device) -> Tensor:
    """The converted weight, from earlier runs if there is room for it."""
    if not isinstance(tensor, nn.Parameter) or not tensor.is_floating_point():
        return _converted(tensor, device)
    if tensor not in _CACHE and cached_bytes() + tensor.numel() * torch.float64.itemsize <= LIMIT:
        _CACHE[tensor] = tensor.to(device, torch.float64)
    cached = _CACHE.get(tensor)
    return _marked(_converted(tensor, device) if cached is None else cached.detach(), tensor)


def cached_bytes() -> int:
    """The memory that converted weights take between runs, at most LIMIT."""
    return sum(cached.nbytes for cached in list(_CACHE.data.values()))  # another thread may add one meanwhile


def _converted(tensor: Tensor, device: torch.device) -> Tensor:
    return _marked(tensor.to(device, torch.float64 if tensor.is_floating_point() else tensor.dtype), tensor)


def _marked(result: Tensor, tensor: Tensor) -> Tensor:
    """A converted weight that says which one it is of; a cached copy must not, or it would keep that alive."""
    device = result.device
    if isinstance(tensor, nn.Parameter) and tensor.dtype == torch.float32 and tensor.device == device:
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
