"""The way of many predictions back through the last block of a causal model, at the price of about one.

After its attention, the last block works position by position, as the head does. One backward pass from the sum of all
predictions therefore has the gradient of each, at its own position: at what attention mixed, and beside it. A single
row of each map then takes it to queries, keys and values, from where every prediction goes on by itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from nbsal.model.running.fused_attention import FusedAttention, fused_call
from nbsal.model.running.hooks import hooks
from nbsal.model.running.modes import Mode

FEWEST = 4  # predictions; fewer are as quick without
EXACT = 1e-5  # of the largest gradient: what one prediction may have at other positions, which is rounding


class AttentionCalls(Mode):
    """Keeps the calls of fused attention in some blocks; None for one whose map cannot be computed."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[FusedAttention | None] = []
        self._inside = False

    @contextmanager
    def watching(self, blocks: Sequence[Any]) -> Iterator[list[FusedAttention | None]]:
        """Run a model under this mode, which keeps the calls in these of its blocks."""

        def before(module: Any, args: Any, kwargs: Any) -> None:
            self._inside = True

        def after(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            self._inside = False

        with hooks(blocks, before, after), self:
            yield self.calls

    def call(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if self._inside and func is scaled_dot_product_attention:
            self.calls.append(self._call(result, *args, **kwargs))
        return result

    def _call(self, mixed: Tensor, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> FusedAttention | None:
        mask: Tensor | None = options.pop("attn_mask", None)
        if options.pop("is_causal", False):
            mask = torch.ones(1, 1, query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -torch.inf)
        return fused_call(mixed, query, key, value, attn_mask=mask, **options)


@dataclass(frozen=True)
class Starts:
    """Where the predictions of one text go on below the attention of the last block, and what each begins with."""

    tensors: Sequence[Tensor]  # query, key, value, and the input of the block
    positions: Sequence[int]
    weights: Tensor  # the rows of the map, [head, prediction, key]
    of_scores: Tensor  # their gradient at the scores
    at_mixed: Tensor  # [head, prediction, width]
    of_query: Tensor
    beside: Tensor  # [prediction, width]

    def of(self, numbers: Sequence[int]) -> list[Tensor]:
        """What some predictions begin with, each [prediction, 1, ...]."""
        query = self.tensors[0].detach()
        results = [tensor.new_zeros(len(numbers), *tensor.shape) for tensor in self.tensors]
        for place, number in enumerate(numbers):
            position = self.positions[number]
            at_query, at_key, at_value, beside = (each[place, 0] for each in results)
            at_query[:, position] = self.of_query[:, number]
            torch.mul(self.of_scores[:, number, :, None], query[0, :, position, None], out=at_key)
            torch.mul(self.weights[:, number, :, None], self.at_mixed[:, number, None], out=at_value)
            beside[position] = self.beside[number]
        return results


def starts(
    calls: Sequence[FusedAttention | None], values: Tensor, positions: Sequence[int], below: Tensor
) -> Starts | None:
    """Where the values of one text's predictions, read at some positions, go on; None if the block does not allow it.

    `calls` are those of fused attention in the block, `below` is its input. It is measured whether one prediction has
    gradients elsewhere than at its own position, as it has if the block mixes positions by something else.
    """
    call = calls[0] if len(calls) == 1 else None
    if call is None or len(positions) < FEWEST or len(call.query) != 1 or not call.mixed.requires_grad:
        return None
    for gradient in _parted(values[0], call.mixed, below):
        elsewhere = gradient[0].transpose(0, -2).clone()
        elsewhere[positions[0]] = 0
        if not elsewhere.abs().max() <= EXACT * gradient.abs().max():
            return None
    mixed, beside = _parted(values.sum(), call.mixed, below)
    with torch.no_grad():
        at = torch.tensor(positions, device=mixed.device)
        weights, at_mixed = call.rows(at)[0], mixed[0, :, at]
        slope = at_mixed @ call.value[0].mT
        of_scores = weights * (slope - (slope * weights).sum(-1, keepdim=True)) * call.scale
        of_query = of_scores @ call.key[0]
    tensors = (call.query, call.key, call.value, below)
    return Starts(tensors, positions, weights, of_scores, at_mixed, of_query, beside[0, at])


def _parted(value: Tensor, mixed: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of a value at what attention mixed, and that at the block's input that came beside attention."""
    at_mixed, total = torch.autograd.grad(value, [mixed, below], retain_graph=True)
    (through,) = torch.autograd.grad(mixed, [below], at_mixed, retain_graph=True)
    return at_mixed, total - through
