"""Attention, gradients and relevance of one block at a time, for texts whose maps of all blocks would fill the memory.

A forward pass keeps the inputs of the blocks, and the graph of the head alone. From the last block down, each block
then runs again with a graph of its own, through which gradients and relevance propagate from its output to its input.
No block runs again for its map, or for means over heads, if its attention is fused and its graph small enough to keep.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nbsal.model.running import attention_maps, memory
from nbsal.model.running.attention_maps import LatestAttention
from nbsal.model.running.block_calls import BlockCall, Replaced, drop_graphs, record_calls
from nbsal.model.running.checks import check_count, check_finite, check_layout
from nbsal.model.running.fused_attention import FusedAttention, FusedRecorder, Mixer
from nbsal.model.running.layers import forward_mode, unpad
from nbsal.model.subject import Subject
from nbsal.model.target import Decision, Target
from nbsal.model.text.tokens import Encoded
from nbsal.passes.attention_flow import Cut, flow
from nbsal.passes.last_block import BlockGraph
from nbsal.passes.lrp import mode
from nbsal.passes.lrp.mode import AttentionFilter, RelevanceMode, unfiltered
from nbsal.passes.lrp.rules import DEFAULT, Rules

# What a method reads of a block, by name: of its input "hidden", "hidden_grad" and "relevance", [batch, position,
# width]; of its attention weights "attention", "attention_grad" and "attention_relevance", [batch, head, query, key];
# and of their means over heads, which take less time and memory: see SUMMARIES.
Block = dict[str, Tensor]

# Means over heads, [batch, query, key], by name: the parts that they are computed of, and how.
SUMMARIES: dict[str, tuple[tuple[str, ...], Callable[..., Tensor]]] = {
    "mean_attention": (("attention",), lambda attention: attention.mean(1)),
    "mean_gradient": (("attention_grad",), lambda grad: grad.mean(1)),
    "mean_evidence": (("attention", "attention_grad"), lambda attention, grad: (grad * attention).relu_().mean(1)),
    "mean_relevance_evidence": (
        ("attention_grad", "attention_relevance"),
        lambda grad, relevance: (grad * relevance).relu_().mean(1),
    ),
}
WITHOUT_MAPS = {"hidden", "hidden_grad", *SUMMARIES}
# What fused attention leaves enough of to compute, without relevance and with it.
FROM_FUSED = {"hidden", "hidden_grad", "attention", "mean_attention", "mean_gradient", "mean_evidence"}
FROM_FLOW = {"hidden", "hidden_grad", "relevance", "mean_relevance_evidence"}

GRAPHS = 2**30  # bytes that the graphs of all blocks may take


def recorded_parts(parts: Iterable[str]) -> set[str]:
    """The parts to record for some: those that summaries are computed of in place of the summaries.

    >>> sorted(recorded_parts(["hidden", "mean_evidence"]))
    ['attention', 'attention_grad', 'hidden']
    """
    return {source for part in parts for source in (SUMMARIES[part][0] if part in SUMMARIES else (part,))}


def summaries(block: Block, parts: Collection[str]) -> Block:
    """Those parts of a block that are means over heads.

    >>> summaries({"attention": torch.ones(1, 2, 1, 1)}, ["attention", "mean_attention"])
    {'mean_attention': tensor([[[1.]]])}
    """
    means = {}
    for name, (sources, compute) in SUMMARIES.items():
        if name in parts:
            means[name] = compute(*map(block.__getitem__, sources))
    return means


@dataclass(frozen=True)
class Selection:
    """What is read of every block: its parts by name, of "attention" at some queries only, if any are named.

    >>> rows = Selection(["attention"], queries=torch.tensor([2]))
    >>> rows.derived({"attention": torch.eye(3)[None, None]})
    {'attention': tensor([[[[0., 0., 1.]]]])}
    """

    parts: Collection[str]
    rules: Rules = DEFAULT  # of relevance
    attention_filter: AttentionFilter = unfiltered
    queries: Tensor | None = None

    def derived(self, block: Block) -> Block:
        """The parts of a block that are computed of recorded ones: means over heads, and rows of the map."""
        derived = summaries(block, self.parts)
        if self.queries is not None and "attention" in block:
            derived["attention"] = block["attention"][:, :, self.queries]
        return derived


@dataclass(frozen=True, eq=False)
class Stream:
    """A forward pass of a batch: the input of every block, and the head's graph from the output of the last one."""

    subject: Subject
    model: Any  # that ran; the subject may have another one by the time its blocks run again
    encoded: Encoded
    rules: Rules | None  # None: no relevance
    calls: list[BlockCall]
    readable: bool  # whether the maps of fused attention can be computed of what it reads
    fused: list[FusedAttention]  # of every block, or none if blocks run again for it
    mixed: list[Tensor]  # what the attention of every block mixes, or none if relevance needs its maps whole
    last: Tensor
    logits: Tensor

    def blocks(self, decisions: Sequence[Decision], selection: Selection) -> Iterator[Block]:
        """The values of every block, from the last to the first; each is cleared when the next is requested."""
        run, parts = self.subject.exclusively, selection.parts
        from_fused = self.readable and FROM_FUSED.issuperset(parts)
        from_flow = bool(self.mixed) and "relevance" in parts and FROM_FLOW.issuperset(parts)
        maps: float = memory.STREAMED_MAPS
        if from_fused or from_flow:
            takes_maps = "attention" in parts and selection.queries is None
            maps = memory.FUSED_MAPS if takes_maps else memory.SUMMARY_MAPS / self.subject.heads
        memory.check_fits(self.subject, self.encoded, maps)
        if not from_fused:
            drop_graphs(self.calls)  # blocks run again
        gradient, relevance = run(lambda: self._at_last_layer(decisions, parts))
        for index in reversed(range(len(self.calls))):
            block = run(lambda: self._run_block(index, gradient, relevance, selection))  # noqa: B023
            yield block
            gradient, relevance = block.get("hidden_grad"), block.get("relevance")
            block.clear()  # its maps need not live while those of the next block are computed

    def _at_last_layer(
        self, decisions: Sequence[Decision], parts: Collection[str]
    ) -> tuple[Tensor | None, Tensor | None]:
        """The gradient and the relevance of the targets at the last layer, where they are needed."""
        gradient = relevance = None
        if any(part.endswith("_grad") for part in recorded_parts(parts)):
            gradient = self.gradient(decisions)
            check_finite(self.logits, gradient)
        if "relevance" in parts:
            relevance = self._head_gradient(Target.relevance, decisions, _proxy(self.logits), _proxy(self.last))
        return gradient, relevance

    def gradient(self, decisions: Sequence[Decision]) -> Tensor:
        """The gradient of the targets at the last layer."""
        return self._head_gradient(Target.value, decisions, self.logits, self.last)

    def _head_gradient(
        self, number: Callable[[Target, Tensor], Tensor], decisions: Sequence[Decision], logits: Tensor, last: Tensor
    ) -> Tensor:
        """The gradient of a number of each target at the last layer; on proxies, relevance."""
        pairs = zip(decisions, unpad(logits, self.encoded), strict=True)
        values = torch.stack([number(decision.target, row_logits) for decision, row_logits in pairs])
        (gradient,) = _gradients(values, [last], torch.ones_like(values), retain_graph=True)
        return gradient

    def _run_block(self, index: int, gradient: Tensor | None, relevance: Tensor | None, selection: Selection) -> Block:
        """The values of a block; `gradient` and `relevance` are those at its output."""
        parts = selection.parts
        if self.readable and FROM_FUSED.issuperset(parts):
            return self._summarise(index, gradient, parts, selection.queries)
        if self.mixed and relevance is not None and FROM_FLOW.issuperset(parts):
            return self._run_cut(index, gradient, relevance, selection.attention_filter)
        block = self._run_again(index, gradient, relevance, selection)
        block |= selection.derived(block)
        for part in recorded_parts(parts).difference(parts, WITHOUT_MAPS):
            del block[part]
        return block

    def _summarise(self, index: int, gradient: Tensor | None, parts: Collection[str], queries: Tensor | None) -> Block:
        """Rows of the map of a block with fused attention, and means over its heads."""
        graph = None if gradient is None and self.fused else self.graph(index)
        attention, block = (
            graph.attention if graph else self.fused[index],
            {"hidden": self.calls[index].hidden.detach()},
        )
        if "attention" in parts:
            block["attention"] = attention.rows(queries)
        if "mean_attention" in parts:
            block["mean_attention"] = attention.mean()
        if gradient is None or graph is None:
            check_finite(*block.values())
            return block
        mixed, *below = self.propagate(index, graph, gradient, index > 0 or "hidden_grad" in parts)
        block |= dict(zip(["hidden_grad"], below, strict=False))
        if "mean_gradient" in parts:
            block["mean_gradient"] = attention.mean_gradient(mixed)
        if "mean_evidence" in parts:
            block["mean_evidence"] = attention.mean_evidence(mixed)
        check_finite(*block.values())
        return block

    def propagate(self, index: int, graph: BlockGraph, gradient: Tensor, below: bool) -> Sequence[Tensor]:
        """The gradient at what the attention of a block has mixed and, with `below`, at the block's input."""
        return self.gradients(graph.output, [graph.attention.mixed, graph.hidden][: 1 + below], gradient)

    def gradients(self, output: Tensor, inputs: Sequence[Tensor], arriving: Tensor) -> Sequence[Tensor]:
        """What arrives at the output of a block comes to at other tensors of its graph."""
        return _gradients(output, inputs, arriving)

    def graph(self, index: int) -> BlockGraph:
        """A block's graph, which the forward pass has left or is made anew."""
        call = self.calls[index]
        if call.outputs:
            return BlockGraph(call.hidden, self.fused[index], call.outputs.pop())
        hidden, recorder = call.hidden.detach().requires_grad_(), FusedRecorder()
        with _running(self.subject, self.model, recorder, None), self.subject.running(self.model):
            output = call.run(hidden)
        return BlockGraph(hidden, recorder.calls[0], output)

    def _run_cut(
        self, index: int, gradient: Tensor | None, relevance: Tensor, attention_filter: AttentionFilter
    ) -> Block:
        """Run a block again with its attention cut out, which gradients and relevance cross a few queries at a time."""
        call, cut = self.calls[index], Cut(self.mixed[index])
        hidden = call.hidden.detach().requires_grad_()
        with _running(self.subject, self.model, nullcontext(), self.rules) as relevance_mode:
            assert relevance_mode is not None and self.rules is not None, "relevance has rules"
            relevance_mode.fused = cut
            relevance_mode.start(hidden)
            output = call.run(hidden)
        check_count("attention maps", len(cut.calls), 1, self.subject)
        (attention,), proxy = cut.calls, _proxy(hidden)
        # What reaches the input beside attention, and at what attention has mixed.
        arriving, beside = _gradients(_proxy(output), [_proxy(attention.mixed), proxy], relevance, retain_graph=True)
        slope = beside_grad = None
        if gradient is not None:
            slope, beside_grad = _gradients(output, [attention.mixed, hidden], gradient, retain_graph=True)
        precision = torch.float32 if self.subject.multiplies_in_float32 else hidden.dtype
        flown = flow(attention, arriving, slope, partial(attention_filter, index), self.rules, precision)
        through = zip(cut.proxies, flown.relevance, strict=True)
        # One head of keys may serve several of queries, which have copies of it.
        relevance_in = [part.reshape(*each.shape[:2], -1, *each.shape[2:]).sum(2) for each, part in through]
        block = {"hidden": hidden.detach(), "relevance": beside + _from_several(cut.proxies, proxy, relevance_in)}
        if beside_grad is not None and flown.evidence is not None:
            read = [attention.query, attention.key, attention.value]
            block["hidden_grad"] = beside_grad + _from_several(read, hidden, flown.gradients)
            block["mean_relevance_evidence"] = flown.evidence
        check_finite(*block.values())
        return block

    def _run_again(self, index: int, gradient: Tensor | None, relevance: Tensor | None, selection: Selection) -> Block:
        """Run a block again, with attention that shows its weights."""
        call, parts = self.calls[index], recorded_parts(selection.parts)
        hidden = call.hidden.detach().requires_grad_(gradient is not None)
        attention = LatestAttention()
        weighing = attention_maps.with_mode(self.model, attention)
        with _running(self.subject, self.model, weighing, None if relevance is None else self.rules) as relevance_mode:
            if relevance_mode is not None:
                relevance_mode.start(hidden)
                relevance_mode.softmaxes = index
                relevance_mode.attention_filter = selection.attention_filter
                relevance_mode.stores_maps = "attention_relevance" in parts
            with self.subject.running(self.model):
                output = call.run(hidden)
        check_count("attention maps", attention.count, 1, self.subject)
        weights = attention.take()
        check_layout("attention maps", [(len(weights), *weights.shape[2:])], self.encoded, self.subject)
        block = {"hidden": hidden.detach()} | ({"attention": weights.detach()} if "attention" in parts else {})
        if gradient is not None:
            inputs = [hidden, weights] if "attention_grad" in parts else [hidden]
            names = ("hidden_grad", "attention_grad")
            block |= dict(zip(names, self.gradients(output, inputs, gradient), strict=False))
            check_finite(block["hidden_grad"])
            inputs.clear()
        del weights  # the relevance of the block would have no need of them
        if relevance_mode is not None and relevance is not None:
            (block["relevance"],) = _gradients(_proxy(output), [_proxy(hidden)], relevance)
            if "attention_relevance" in parts:
                block["attention_relevance"] = relevance_mode.attention_maps[index]
        return block


def open_stream(
    subject: Subject,
    encoded: Encoded,
    rules: Rules | None,
    gradients: bool = False,
    inputs: dict[str, Tensor] | None = None,
    replaced: Replaced | None = None,
) -> Stream:
    """Run a batch forwards; with rules, its blocks have relevance under them, and with `gradients` graphs that fit.

    `inputs` are by default those of the batch, `replaced` is a layer with other states in its place.
    """
    run = _Opening(subject, encoded, rules, gradients, subject.inputs(encoded) if inputs is None else inputs, replaced)
    return subject.exclusively(run)


@dataclass(frozen=True, eq=False)
class _Opening:
    """The forward pass of a stream."""

    subject: Subject
    encoded: Encoded
    rules: Rules | None
    gradients: bool
    inputs: dict[str, Tensor]
    replaced: Replaced | None

    def __call__(self, whole_maps: bool = False) -> Stream:
        subject, encoded, rules, leaves = self.subject, self.encoded, self.rules, list[Tensor]()

        def start_graph(last: Tensor) -> Tensor:
            leaves.append(last.detach().requires_grad_())
            if relevance_mode is not None:
                relevance_mode.start(leaves[0])
            return leaves[0]

        # PyTorch's fused attention rounds otherwise, which relevance may amplify a million times, and it is NaN in a
        # window that has nothing but padding.
        reads_weights = rules is not None or (subject.gradients is not None and subject.gradients.reads_weights)
        fused = not reads_weights and all(len(row) == encoded.longest for row in encoded)
        shows_no_maps = attention_maps.is_fused(subject.twin)
        mixes = rules is not None and not rules.mask and shows_no_maps and not whole_maps
        run_attention = attention_maps.with_eager_masks if fused or mixes else attention_maps.with_mode
        # What is left of attention that shows no maps may take some later: see `Stream.blocks`.
        maps = 0 if mixes or (fused and shows_no_maps) else memory.STREAMED_MAPS
        memory.check_fits(subject, encoded, maps, states=memory.STREAMED_STATES * subject.depth)
        keep_graphs = fused and shows_no_maps and self.gradients and _graphs_fit(subject, encoded)
        recorder = Mixer() if mixes else FusedRecorder(keeps="all" if keep_graphs else "" if self.gradients else "keys")
        with (
            _running(subject, subject.twin, run_attention(subject.twin, recorder), rules) as relevance_mode,
            record_calls(subject.twin, subject.depth, start_graph, keep_graphs, self.replaced) as calls,
        ):
            logits = subject.logits(self.inputs)
        check_count("hidden states", len(calls), subject.depth, subject)
        check_layout("hidden states", [leaves[0].shape[:2]], encoded, subject)
        complete = recorder.readable and len(recorder.shapes) == len(calls)
        if mixes and not complete:
            return self(whole_maps=True)
        if not complete:
            drop_graphs(calls)
        elif recorder.shapes:
            check_layout("attention maps", [(shape[0], *shape[2:]) for shape in recorder.shapes], encoded, subject)
        readable = complete and isinstance(recorder, FusedRecorder)
        attention = recorder.calls if readable and isinstance(recorder, FusedRecorder) else []
        mixed = recorder.mixed if isinstance(recorder, Mixer) else []
        return Stream(subject, subject.twin, encoded, rules, calls, readable, attention, mixed, leaves[0], logits)


def _graphs_fit(subject: Subject, encoded: Encoded) -> bool:
    """Whether the graphs of all blocks may be held at once, without attention maps."""
    states = memory.STATES * subject.depth * subject.width
    return len(encoded) * encoded.longest * states * subject.dtype.itemsize <= GRAPHS


@contextmanager
def _running(
    subject: Subject, model: Any, attention: AbstractContextManager[Any], rules: Rules | None
) -> Iterator[RelevanceMode | None]:
    """Run the model, or a block of it, with that attention, under the rules if there are any."""
    with (
        forward_mode(gradients=True),
        attention,
        nullcontext()
        if rules is None
        else mode.rules_mode(model, rules, {}, subject.multiplies_in_float32) as relevance_mode,
    ):
        yield relevance_mode


def _from_several(outputs: Sequence[Tensor], hidden: Tensor, arriving: Sequence[Tensor]) -> Tensor:
    """The gradient, or on proxies the relevance, that reaches an input from several outputs."""
    same = [each.to(output) for each, output in zip(arriving, outputs, strict=True)]
    (result,) = torch.autograd.grad(outputs, [hidden], same)
    return result


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
