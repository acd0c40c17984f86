"""Several predictions of one text, block by block: one forward pass, and the way of each prediction back from there.

The head of a causal model works position by position. The sum of all predictions has therefore, at the last block's
output, the gradient of each prediction at that prediction's own position; below, each is propagated by itself.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from nbsal.model.running.block_calls import Replaced
from nbsal.model.running.checks import check_finite
from nbsal.model.running.layers import keep_logits
from nbsal.model.subject import Subject
from nbsal.model.target import Decision, Target
from nbsal.model.text.tokens import Encoded
from nbsal.passes import last_block
from nbsal.passes.last_block import BlockGraph, Starts
from nbsal.passes.stream import Block, Selection, Stream, open_stream

MOST = 8  # predictions that are propagated together
ROWS = 2**10  # positions of all of them: more leave a processor's caches, and cost more than one after the other
CELLS = 2**21  # entries of the attention maps of a block, beyond which they leave a processor's caches


@dataclass(frozen=True, eq=False)
class ReplyStream(Stream):
    """A forward pass of one text, from which some predictions are propagated back through one block after the other."""

    places: Sequence[int]  # where each prediction is read
    values: Tensor
    top: Tensor | None  # the gradient of all predictions at the last layer, [position, width]
    numbers: Sequence[int] = ()  # of the predictions that are propagated now
    graphs: dict[int, BlockGraph] = field(default_factory=dict)  # of blocks, which serve all predictions
    starts: list[Starts | None] = field(default_factory=list)  # below the last block, once it was run

    def part(self, numbers: Sequence[int]) -> "ReplyStream":
        """The same pass for some of its predictions."""
        return replace(self, numbers=numbers)

    def blocks(self, decisions: Sequence[Decision], selection: Selection) -> Iterator[Block]:
        for block in super().blocks(decisions, selection):
            for name, values in block.items():
                block[name] = values.expand(len(self.numbers), *values.shape[1:])
            yield block

    def gradient(self, decisions: Sequence[Decision]) -> Tensor:
        assert self.top is not None, "the stream was opened with gradients"
        result = self.top.new_zeros(len(self.numbers), *self.top.shape)
        at = [self.places[number] for number in self.numbers]
        result[range(len(at)), at] = self.top[at]
        return result

    def graph(self, index: int) -> BlockGraph:
        """A block's graph; those of the forward pass stay, as does the last one, which all predictions start in."""
        if index in self.graphs:
            return self.graphs[index]
        stays = bool(self.calls[index].outputs) or index == len(self.calls) - 1
        graph = super().graph(index)
        if stays:
            self.graphs[index] = graph
        return graph

    def propagate(self, index: int, graph: BlockGraph, gradient: Tensor, below: bool) -> Sequence[Tensor]:
        starts = self._starts(graph) if index == len(self.calls) - 1 else None
        if starts is None:
            return super().propagate(index, graph, gradient, below)
        mixed = starts.mixed(self.numbers)
        return [mixed, *self._together(starts.tensors, [graph.hidden], starts.of(self.numbers))] if below else [mixed]

    def gradients(self, output: Tensor, inputs: Sequence[Tensor], arriving: Tensor) -> Sequence[Tensor]:
        return self._together([output], inputs, [arriving[:, None]])

    def layers(self, numbers: Collection[int], gradients: bool) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Some hidden layers and, on request, the gradients there, each [prediction, position, width]."""
        states = [*(call.hidden.detach() for call in self.calls), self.last.detach()]
        hidden = {layer: states[layer].expand(len(self.numbers), *states[layer].shape[1:]) for layer in numbers}
        if not gradients:
            return hidden, {}
        depth = len(self.calls)
        at = {depth: self.gradient(())}
        blocks = self.blocks((), Selection(("hidden", "hidden_grad")))
        for layer, block in zip(reversed(range(min(numbers), depth)), blocks, strict=False):
            if layer in numbers:  # those of all layers would fill the memory
                at[layer] = block["hidden_grad"]
        return hidden, {layer: at[layer] for layer in numbers}

    def _starts(self, graph: BlockGraph) -> Starts | None:
        if not self.starts:
            assert self.top is not None, "the stream was opened with gradients"
            self.starts.append(last_block.starts(graph, self.top, self.places))
        return self.starts[0]

    def _together(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], arriving: Sequence[Tensor]
    ) -> list[Tensor]:
        """What arrives for each prediction, [prediction, 1, ...], comes to at other tensors, [prediction, ...]."""
        size, count = self.encoded.longest, len(arriving[0])
        cells = 0 if self.readable else self.subject.heads * size
        most = max(1, min(MOST, ROWS // size, CELLS // (cells * size) if cells else MOST))
        parts = [
            propagated(outputs, inputs, [each[first : first + most] for each in arriving])
            for first in range(0, count, most)
        ]
        return [group[0] if len(parts) == 1 else torch.cat(group) for group in zip(*parts, strict=True)]


def open_replies(
    subject: Subject, encoded: Encoded, targets: Sequence[Target], gradients: bool, replaced: Replaced | None = None
) -> ReplyStream:
    """Run a text forwards, of which each target is a number of the logits at one position.

    `replaced` is a layer with other states in its place.
    """
    places = [target.terms[0][0][0] for target in targets]
    read = sorted({position for target in targets for (position, *_), _ in target.terms})
    inputs, at = keep_logits(subject, subject.inputs(encoded), read)
    stream = open_stream(subject, encoded, None, gradients, inputs, replaced)
    values = torch.stack([target.at(at).value(stream.logits[0]) for target in targets])
    check_finite(values)
    top = torch.autograd.grad(values.sum(), stream.last)[0][0] if gradients else None
    parts = vars(stream) | {"logits": stream.logits.detach()}
    return ReplyStream(**parts, places=places, values=values.detach(), top=top)


def propagated(outputs: Sequence[Tensor], inputs: Sequence[Tensor], arriving: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of some predictions at some tensors of one text, each [prediction, ...]."""
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    if len(arriving[0]) == 1:  # batched gradients cost more than a plain one
        return torch.autograd.grad(outputs, inputs, [each[0] for each in arriving], **options)
    results = torch.autograd.grad(outputs, inputs, arriving, is_grads_batched=True, **options)
    return tuple(result[:, 0] for result in results)
