"""The calls of a model's blocks in one forward pass, kept by their inputs, so that each block can run again alone."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from nbsal.model.running import architecture
from nbsal.model.running.hooks import check_chain, first_tensor, hooks

Replaced = tuple[int, Tensor]  # a layer, and the states that are read in place of its own


@dataclass(frozen=True)
class BlockCall:
    """One call of a block; ALBERT calls the same module repeatedly."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[Tensor] = field(default_factory=list)  # what it returned, while the graph from `hidden` to it is kept

    @property
    def hidden(self) -> Tensor:
        return first_tensor(self.args) if self.args else self.kwargs["hidden_states"]

    def arguments(self, hidden: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the call with other hidden states."""
        if self.args:
            return (hidden, *self.args[1:]), self.kwargs
        return (), self.kwargs | {"hidden_states": hidden}

    def run(self, hidden: Tensor) -> Tensor:
        """The block's output for other hidden states."""
        args, kwargs = self.arguments(hidden)
        return first_tensor(self.module(*args, **kwargs))


def drop_graphs(calls: Iterable[BlockCall]) -> None:
    """Free the graphs that calls keep."""
    for call in calls:
        call.outputs.clear()


@contextmanager
def record_calls(
    model: Any,
    depth: int,
    replace_last: Callable[[Tensor], Tensor],
    keep_graphs: bool = False,
    replaced: Replaced | None = None,
) -> Iterator[list[BlockCall]]:
    """Record the call of every block; the head reads what the function makes of the last block's output.

    With `keep_graphs`, each block has a graph of its own, from its input to its output. `replaced` is a layer with
    other states in its place.
    """
    calls: list[BlockCall] = []
    output: Tensor | None = None
    layer, states = (-1, None) if replaced is None else replaced

    def before_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = BlockCall(module, args, kwargs)
        if output is not None:
            check_chain(model, output, call.hidden)
        if states is not None and len(calls) == layer:
            args, kwargs = call.arguments(states)
            call = BlockCall(module, args, kwargs)
        if keep_graphs:
            args, kwargs = call.arguments(call.hidden.detach().requires_grad_())
        calls.append(BlockCall(module, args, kwargs))
        return args, kwargs

    def after_block(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], block_output: Any) -> Any:
        nonlocal output
        output = first_tensor(block_output)
        if keep_graphs:
            calls[-1].outputs.append(output)
        if len(calls) != depth:
            return None
        last = replace_last(output if states is None or layer < depth else states)
        return last if isinstance(block_output, Tensor) else (last, *block_output[1:])

    # First of all hooks: when the block runs again, the others see what they saw before.
    with hooks(architecture.blocks(model), before_block, after_block, first=True):
        yield calls
