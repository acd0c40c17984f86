"""Attention, gradients and relevance of one block at a time, for texts whose maps of all blocks would fill the memory.

A forward pass keeps the inputs of the blocks, and the graph of the head alone. From the last block down, each block
then runs again with a graph of its own, through which gradients and relevance propagate from its output to its input.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nbsal.lrp import mode
from nbsal.lrp.mode import AttentionFilter, RelevanceMode
from nbsal.lrp.rules import Rules
from nbsal.model import architecture, attention_maps, batching, memory, restore, sides
from nbsal.model.attention_maps import LatestAttention
from nbsal.model.block_calls import BlockCall, record_calls
from nbsal.model.layout import check_count, check_finite, check_layout, unpad
from nbsal.model.subject import Subject
from nbsal.model.target import Decision
from nbsal.model.tokens import Encoded

# What a method reads of a block, by name: of its input "hidden", "hidden_grad" and "relevance", [batch, position,
# width]; of its attention weights "attention", "attention_grad" and "attention_relevance", [batch, head, query, key].
Block = dict[str, Tensor]

LIMIT = 2**30  # bytes that a trace of whole maps may take
MAPS = 4  # attention maps that a trace holds for each block: weights, scores, gradients, relevance


def fits_whole(subject: Subject, encoded: Encoded) -> bool:
    """Whether the attention maps of all blocks, and the weights that are converted for them, may be held at once.

    Those of an encoder-decoder are: a stream follows one stack of blocks.
    """
    if subject.task == sides.REPLY:
        return True
    numbers = MAPS * len(encoded) * subject.depth * subject.heads * encoded.longest**2
    if subject.dtype != subject.model.dtype:
        weights = sum(weight.numel() for block in subject.blocks for weight in block.parameters())
        numbers += weights * subject.depth // len(subject.blocks)
    return numbers * subject.dtype.itemsize <= LIMIT


@dataclass(frozen=True)
class Stream:
    """A forward pass of a batch: the input of every block, and the head's graph from the output of the last one."""

    subject: Subject
    encoded: Encoded
    rules: Rules | None  # None: no relevance
    calls: list[BlockCall]
    last: Tensor
    logits: Tensor

    def blocks(
        self, decisions: Sequence[Decision], parts: Collection[str], attention_filter: AttentionFilter
    ) -> Iterator[Block]:
        """The values of every block, from the last to the first; each is cleared when the next is requested."""
        run = partial(restore.exclusively, self.subject.model)
        gradient, relevance = run(lambda: self._at_last_layer(decisions, parts))
        for index in reversed(range(len(self.calls))):
            block = run(lambda: self._run_block(index, gradient, relevance, parts, attention_filter))  # noqa: B023
            yield block
            gradient, relevance = block.get("hidden_grad"), block.get("relevance")
            block.clear()  # its maps need not live while those of the next block are computed

    def _at_last_layer(
        self, decisions: Sequence[Decision], parts: Collection[str]
    ) -> tuple[Tensor | None, Tensor | None]:
        """The gradient and the relevance of the targets at the last layer, where they are needed."""
        gradient = relevance = None
        if any(part.endswith("_grad") for part in parts):
            gradient = _head_gradient(decisions, self.encoded, self.logits, self.last)
            check_finite(self.logits, gradient)
        if "relevance" in parts:
            relevance = _head_gradient(decisions, self.encoded, _proxy(self.logits), _proxy(self.last))
        return gradient, relevance

    def _run_block(
        self,
        index: int,
        gradient: Tensor | None,
        relevance: Tensor | None,
        parts: Collection[str],
        attention_filter: AttentionFilter,
    ) -> Block:
        """Run a block again; `gradient` and `relevance` are those at its output."""
        call = self.calls[index]
        hidden = call.hidden.detach().requires_grad_(gradient is not None)
        with _running(self.subject, None if relevance is None else self.rules) as (attention, relevance_mode):
            if relevance_mode is not None:
                relevance_mode.start(hidden)
                relevance_mode.softmaxes = index
                relevance_mode.attention_filter = attention_filter
                relevance_mode.stores_maps = "attention_relevance" in parts
            output = call.run(hidden)
        check_count("attention maps", attention.count, 1, self.subject)
        weights = attention.take()
        block = {"hidden": hidden.detach()} | ({"attention": weights.detach()} if "attention" in parts else {})
        if gradient is not None:
            inputs = [hidden, weights] if "attention_grad" in parts else [hidden]
            names = ("hidden_grad", "attention_grad")
            block |= dict(zip(names, _gradients(output, inputs, gradient), strict=False))
            check_finite(block["hidden_grad"])
            inputs.clear()
        del weights  # the relevance of the block would have no need of them
        if relevance_mode is not None and relevance is not None:
            (block["relevance"],) = _gradients(_proxy(output), [_proxy(hidden)], relevance)
            if "attention_relevance" in parts:
                block["attention_relevance"] = relevance_mode.attention_maps[index]
        return block


def open_stream(subject: Subject, encoded: Encoded, rules: Rules | None) -> Stream:
    """Run a batch forwards; with rules, its blocks have relevance under them."""
    memory.check_fits(subject, encoded, memory.STREAMED_MAPS, states=subject.depth)
    return restore.exclusively(subject.model, lambda: _open_stream(subject, encoded, rules))


def _open_stream(subject: Subject, encoded: Encoded, rules: Rules | None) -> Stream:
    leaves: list[Tensor] = []

    def start_graph(last: Tensor) -> Tensor:
        leaves.append(last.detach().requires_grad_())
        if relevance_mode is not None:
            relevance_mode.start(leaves[0])
        return leaves[0]

    with (
        _running(subject, rules) as (attention, relevance_mode),
        record_calls(subject.model, subject.depth, start_graph) as calls,
    ):
        logits = subject.logits(subject.inputs(encoded))
    check_count("attention maps", attention.count, subject.depth, subject)
    check_count("hidden states", len(calls), subject.depth, subject)
    weights = attention.take()
    check_layout("attention maps", [(len(weights), *weights.shape[2:])], encoded, subject)
    check_layout("hidden states", [leaves[0].shape[:2]], encoded, subject)
    return Stream(subject, encoded, rules, calls, leaves[0], logits)


@contextmanager
def _running(subject: Subject, rules: Rules | None) -> Iterator[tuple[LatestAttention, RelevanceMode | None]]:
    """Run the model, or a block of it, with eager attention, under the rules if there are any."""
    attention = LatestAttention()
    with (
        batching.memory_errors(),
        torch.inference_mode(False),
        torch.enable_grad(),
        architecture.eval_mode(subject.model),
        attention_maps.with_mode(subject.model, attention),
        nullcontext()
        if rules is None
        else mode.rules_mode(subject.model, rules, {}, subject.multiplies_in_float32) as relevance_mode,
    ):
        yield attention, relevance_mode


def _head_gradient(decisions: Sequence[Decision], encoded: Encoded, logits: Tensor, last: Tensor) -> Tensor:
    """The gradient of the targets' values at the last layer; on proxies, relevance."""
    pairs = zip(decisions, unpad(logits, encoded), strict=True)
    values = torch.stack([decision.target.value(row_logits) for decision, row_logits in pairs])
    (gradient,) = _gradients(values, [last], torch.ones_like(values), retain_graph=True)
    return gradient


def _proxy(tensor: Tensor) -> Tensor:
    """The proxy of a tensor that depends on the one that has the first proxy."""
    proxy = mode.proxy_of(tensor)
    assert proxy is not None, "every operation in between passes proxies on"
    return proxy


def _gradients(
    output: Tensor, inputs: Sequence[Tensor], arriving: Tensor, retain_graph: bool = False
) -> tuple[Tensor, ...]:
    """The gradients of the inputs, 0 for one that the output does not depend on."""
    return torch.autograd.grad(
        output, inputs, arriving, retain_graph=retain_graph, allow_unused=True, materialize_grads=True
    )
