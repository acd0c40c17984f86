"""The way of many predictions back through the last block of a causal model, at the price of about one.

After its attention, the last block works position by position, as the head does. One backward pass from the sum of all
predictions therefore has the gradient of each, at its own position: at what attention mixed, and beside it. A single
row of each map then takes it to queries, keys and values, from where every prediction goes on by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbsal.model.running.fused_attention import FusedAttention

FEWEST = 4  # predictions; fewer are as quick without
EXACT = 1e-5  # of the largest gradient: what one prediction may have at other positions, which is rounding


@dataclass(frozen=True, eq=False)
class BlockGraph:
    """The input, the fused attention and the output of a block, in one graph."""

    hidden: Tensor
    attention: FusedAttention
    output: Tensor


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

    def mixed(self, numbers: Sequence[int]) -> Tensor:
        """The gradients of some predictions at what attention mixed, [prediction, head, position, width]."""
        query, positions = self.tensors[0], [self.positions[number] for number in numbers]
        result = self.at_mixed.new_zeros(len(positions), *query.shape[1:3], self.at_mixed.shape[-1])
        result[range(len(positions)), :, positions] = self.at_mixed[:, list(numbers)].transpose(0, 1)
        return result

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


def starts(graph: BlockGraph, gradient: Tensor, positions: Sequence[int]) -> Starts | None:
    """Where predictions of one text, read at some positions, go on; None if the block does not allow it.

    `gradient` is that of all predictions at the block's output, [position, width]. It is measured whether one has
    gradients elsewhere than at its own position, as it has if the block mixes positions by something else.
    """
    call = graph.attention
    if len(positions) < FEWEST:
        return None
    first = torch.zeros_like(gradient)
    first[positions[0]] = gradient[positions[0]]
    for each in _parted(graph, first):
        elsewhere = each[0].transpose(0, -2).clone()
        elsewhere[positions[0]] = 0
        if not elsewhere.abs().max() <= EXACT * each.abs().max():
            return None
    mixed, beside = _parted(graph, gradient)
    with torch.no_grad():
        at = torch.tensor(positions, device=mixed.device)
        weights, at_mixed = call.rows(at)[0], mixed[0, :, at]
        slope = at_mixed @ call.value[0].mT
        of_scores = weights * (slope - (slope * weights).sum(-1, keepdim=True)) * call.scale
        of_query = of_scores @ call.key[0]
    tensors = (call.query, call.key, call.value, graph.hidden)
    return Starts(tensors, positions, weights, of_scores, at_mixed, of_query, beside[0, at])


def _parted(graph: BlockGraph, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """A gradient at what attention mixed, and that at the block's input that came beside attention."""
    mixed, hidden = graph.attention.mixed, graph.hidden
    at_mixed, total = torch.autograd.grad(graph.output, [mixed, hidden], gradient[None], retain_graph=True)
    (through,) = torch.autograd.grad(mixed, [hidden], at_mixed, retain_graph=True)
    return at_mixed, total - through
