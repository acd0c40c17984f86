"""Functions that are called before and after modules of a twin run, which record or replace its hidden layers."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.support.errors import ModelError


@contextmanager
def hooks(
    modules: Iterable[nn.Module],
    before: Callable[..., object] | None = None,
    after: Callable[..., object] | None = None,
    first: bool = False,
) -> Iterator[None]:
    """Call functions, which also get keyword arguments, before and after some modules run.

    A call that comes `first` precedes those of other hooks.
    """
    handles = []
    try:
        for module in dict.fromkeys(modules):
            if before is not None:
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True, prepend=first))
            if after is not None:
                handles.append(module.register_forward_hook(after, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(output: Any) -> Tensor:
    """The hidden states in the output of a block, which is a tensor or a tuple that starts with one."""
    return output if isinstance(output, Tensor) else output[0]


@contextmanager
def record_layers(model: Any, blocks: Iterable[nn.Module]) -> Iterator[list[Tensor]]:
    """Record the embedding output and the output of every block of a model while it runs."""
    layers: list[Tensor] = []

    def before_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        if layers:
            check_chain(model, layers[-1], hidden)
        else:
            if torch.is_grad_enabled() and not hidden.requires_grad:
                hidden.requires_grad_(True)  # with frozen weights the graph starts here
            layers.append(hidden)

    def after_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        layers.append(first_tensor(output))

    with hooks(blocks, before_block, after_block):
        yield layers


def check_chain(model: Any, output: Tensor, hidden: Tensor) -> None:
    """Refuse a model in which a block reads something else than the output of the block before it."""
    if hidden.data_ptr() != output.data_ptr():
        raise ModelError(
            f"In {type(model).__name__} the input of a block is not the output of the block before it, so its "
            "hidden layers are not defined.",
            part="blocks",
        )


@contextmanager
def replace_layer(blocks: Iterable[nn.Module], layer: int, states: Tensor, is_last: bool) -> Iterator[None]:
    """Run blocks with `states` in place of the hidden states of a layer, which may be the output of the last one."""
    calls = 0

    def before_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal calls
        calls += 1
        if calls != layer + 1:
            return None
        return ((states, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states})

    def after_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        if not is_last or calls != layer:
            return None
        return states if isinstance(output, Tensor) else (states, *output[1:])

    with hooks(blocks, before_block, after_block):
        yield
