"""Record one forward and one backward pass of a subject, for all methods to use.

Layer 0 is the embedding output, layer n the output of block n - 1, before any final norm. Attention is captured where
the stock model computes its softmax, so its gradients are true on every architecture and the model is not modified.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nbsal.model import sides
from nbsal.model.running import architecture, attention_maps, batching, memory, restore
from nbsal.model.running.attention_maps import AttentionRecorder, HeadSwitch
from nbsal.model.running.finite import check_finite
from nbsal.model.running.layers import Layers, Parts, check_maps, deepest, first_blocks, join, map_count, run_model
from nbsal.model.running.layout import check_count, check_layout, unpad
from nbsal.model.subject import Subject
from nbsal.model.target import Decision
from nbsal.model.targets import decide
from nbsal.model.text.tokens import Encoded
from nbsal.passes import positions
from nbsal.passes.lrp import mode
from nbsal.passes.lrp.graph import RelevanceGraph
from nbsal.passes.lrp.mode import AttentionFilter, RelevanceMaps, RelevanceMode, unfiltered
from nbsal.passes.lrp.rules import DEFAULT, Rules
from nbsal.passes.positions import Apart
from nbsal.passes.stream import Block, Stream, open_stream, recorded_parts, rows_of_map, summaries
from nbsal.support.errors import ModelError, UnknownName
from nbsal.support.progress import Meter
from nbsal.support.validation import checked

__all__ = ("NEEDS", "Trace", "record")

# The parts of a model's computation that methods read.
NEEDS = {
    "hidden": "hidden layers",
    "hidden_grad": "gradients at the hidden layers",
    "attention": "attention weights",
    "attention_grad": "gradients at the attention weights",
    "relevance": "relevance propagated back through the model",
    "forward": "outputs of forward passes that the method runs itself",  # nothing is recorded
}
T = TypeVar("T")


@dataclass
@checked
class Trace:
    """The recorded values of one batch; tensors are [batch, ...], padded on the right, with zero gradient at padding.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> trace = record(subject, subject.encode(["A joy.", "A bore."]), needs={"attention"})
    >>> tuple(trace.attention[0].shape), [decision.label for decision in trace.decisions]
    ((2, 12, 5, 5), ['positive', 'negative'])
    """

    subject: Subject
    encoded: Encoded
    decisions: list[Decision]
    logits: Tensor
    values: Tensor  # the explained number of each text
    hidden: dict[int, Tensor] = field(default_factory=dict)  # layer -> [batch, position, width]
    hidden_grad: dict[int, Tensor] = field(default_factory=dict)
    attention: dict[int, Tensor] = field(default_factory=dict)  # block -> [batch, head, query, key]
    attention_grad: dict[int, Tensor] = field(default_factory=dict)
    relevance_graph: RelevanceGraph | None = None  # of the same forward pass, under the default rules
    graphs: dict[Any, Any] | None = None  # of later forward passes under other rules, if they are kept
    streamed: bool = False  # whether attention, its gradients and relevance are left to `blocks`
    meter: Meter = field(default_factory=lambda: Meter(None))  # progress and cancellation of long methods
    cache: dict[Any, Any] = field(default_factory=dict)  # results that methods share

    def lengths(self) -> Tensor:
        """The number of tokens of each text."""
        return torch.tensor([len(row) for row in self.encoded], device=self.logits.device)

    def decision_positions(self) -> list[list[int] | None]:
        """The positions each prediction is read from; None where the model averages all of them."""
        if self.subject.task == "sequence":
            return [None if place is None else [place] for place in self.subject.pooled_positions(self.encoded)]
        return [sorted({index[0] for index, _ in decision.target.terms}) for decision in self.decisions]

    def per_end_traces(self, needs: Collection[str]) -> "list[Trace]":
        """One trace for each end if targets are spans, else this trace; for methods whose scores are not additive."""
        subject, encoded = self.subject, self.encoded
        ends = [decision.target.ends() for decision in self.decisions]
        sides = range(max(map(len, ends)))
        if subject.task != "span" or len(sides) == 1:
            return [self]
        return [
            record(subject, encoded, [targets[side % len(targets)] for targets in ends], needs, stream=self.streamed)
            for side in sides
        ]

    def blocks(
        self,
        *parts: str,
        rules: Rules = DEFAULT,
        attention_filter: AttentionFilter = unfiltered,
        queries: Tensor | None = None,
    ) -> Iterator[Block]:
        """The values of every block by name, from the last block to the first; see `nbsal.passes.stream.Block`.

        Read a block's values before the next is requested, which may free them; "attention" at `queries` only, if any.

        >>> import nbsal
        >>> reviews = nbsal.load("demo/reviews")
        >>> trace = record(reviews, reviews.encode("A joy."), needs={"attention"}, stream=True)
        >>> next(trace.blocks("attention"))["attention"].shape[1:]
        torch.Size([12, 5, 5])
        """
        if not self.streamed:
            blocks = self._whole_blocks(parts, rules, attention_filter)
            yield from (block | rows_of_map(block, queries) for block in blocks)
            return
        stream = self._stream(rules if "relevance" in parts else None)
        for block in stream.blocks(self.decisions, parts, attention_filter, queries):
            self.meter.check()
            yield block

    def _stream(self, rules: Rules | None) -> Stream:
        """The forward pass of the blocks under those rules; without rules, any will do."""
        recorded: Stream | None = self.cache.get("stream")
        if recorded is not None and rules in (None, recorded.rules):
            return recorded
        return self.cached(("stream", rules), lambda: open_stream(self.subject, self.encoded, rules))

    def _whole_blocks(self, parts: Collection[str], rules: Rules, attention_filter: AttentionFilter) -> Iterator[Block]:
        """The values of every block from what was recorded."""
        names = recorded_parts(parts)
        values = {name: getattr(self, name) for name in names if "relevance" not in name}
        if "relevance" in parts:
            maps = self.relevance_maps(rules, attention_filter)
            tables = {"relevance": maps.hidden, "attention_relevance": maps.attention}
            values |= {name: table for name, table in tables.items() if name in names}
        for block in reversed(range(self.subject.depth)):
            recorded = {name: tensors[block] for name, tensors in values.items()}
            yield recorded | summaries(recorded, parts)

    def relevance_maps(self, rules: Rules = DEFAULT, attention_filter: AttentionFilter = unfiltered) -> RelevanceMaps:
        """Relevance at every layer and in every attention map; computed once per rules and filter."""
        return self.cached((rules, attention_filter), lambda: propagate(self, rules, attention_filter))

    def apart(self) -> Apart:
        """Relevance of tokens and of positions, told apart, if the gradients of the subject are relevance."""
        graphs = {} if self.graphs is None else self.graphs
        return self.cached("apart", lambda: positions.apart(self.subject, self.encoded, self.decisions, graphs))

    def cached(self, key: Any, compute: Callable[[], T]) -> T:
        """The cached result of `compute`, which runs outside any inference mode of the caller."""
        if key not in self.cache:
            with torch.inference_mode(False):
                self.cache[key] = compute()
        result: T = self.cache[key]
        return result

    @property
    def relevance(self) -> dict[int, Tensor]:
        """Relevance at every layer under the default LRP rules, layer -> [batch, position, hidden size]."""
        return self.relevance_maps().hidden

    @property
    def relevance_attention(self) -> dict[int, Tensor]:
        """Relevance of the attention probabilities, block -> [batch, head, query, key]."""
        return self.relevance_maps().attention


@checked
def record(
    subject: Subject,
    encoded: Encoded,
    targets: Sequence[Any] | None = None,
    needs: Collection[str] = ("hidden", "hidden_grad"),
    keep: Collection[int] | None = None,
    stream: bool = False,
) -> Trace:
    """Run the model forwards once, and backwards once if gradients are needed.

    `needs` names the values to record, `keep` the hidden layers to keep (default: all). With `stream`, none of them is
    kept; `Trace.blocks` computes them block by block, in much less memory.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> trace = record(subject, subject.encode("A joy."), keep=[5])
    >>> tuple(trace.hidden_grad[5].shape)
    (1, 5, 384)
    """
    for need in set(needs) - set(NEEDS):
        raise UnknownName("needs", need, NEEDS)
    if stream:
        return restore.exclusively(subject.model, lambda: _record_stream(subject, encoded, targets, needs))
    return restore.exclusively(subject.model, lambda: _record(subject, encoded, targets, needs, keep))


def _record_stream(subject: Subject, encoded: Encoded, targets: Sequence[Any] | None, needs: Collection[str]) -> Trace:
    if not needs:  # the method runs under rules of its own
        trace = _record(subject, encoded, targets, needs, None)
        trace.streamed = True
        return trace
    gradients = any(need.endswith("_grad") for need in needs)
    stream = open_stream(subject, encoded, DEFAULT if "relevance" in needs else None, gradients)
    logits = stream.logits.detach()
    decisions = _decisions(subject, encoded, logits, targets)
    trace = Trace(subject, encoded, decisions, logits, _values(decisions, logits), streamed=True)
    trace.cache["stream"] = stream
    return trace


def _record(
    subject: Subject,
    encoded: Encoded,
    targets: Sequence[Any] | None,
    needs: Collection[str],
    keep: Collection[int] | None,
) -> Trace:
    layers_to_keep = range(subject.depth + 1) if keep is None else sorted(set(keep))
    gradient_names = {need.removesuffix("_grad") for need in needs if need.endswith("_grad")}
    needs_attention = any(need.startswith("attention") for need in needs)
    needs_hidden = any(need.startswith("hidden") for need in needs)
    needs_relevance = "relevance" in needs
    maps = memory.WHOLE_MAPS_OF_RELEVANCE if needs_relevance else memory.WHOLE_MAPS * needs_attention
    states = memory.STATES * bool(gradient_names)
    depth = deepest(subject)
    memory.check_fits(subject, encoded, maps * depth, states * depth)
    needs_graph = bool(gradient_names) or needs_relevance
    recorder = AttentionRecorder(square=subject.task != sides.REPLY)
    recording = attention_maps.with_mode(subject.model, recorder) if needs_attention else nullcontext()
    with architecture.forward_mode(subject.model, needs_graph):
        with (
            recording,
            _relevance_forward(subject, DEFAULT) if needs_relevance else nullcontext() as relevance_mode,
        ):
            logits, layers = run_model(subject, subject.inputs(encoded))
        if needs_relevance or needs_hidden:
            check_layout("hidden states", layers.shapes, encoded, subject)
        if needs_attention:
            check_maps(subject, encoded, recorder.maps)
        decisions = _decisions(subject, encoded, logits.detach(), targets)
        values = _values(decisions, logits)
        parts: dict[str, dict[int, Parts]] = {
            "hidden": {layer: layers.parts(layer) for layer in layers_to_keep},
            "attention": {block: (weights,) for block, weights in enumerate(recorder.maps)},
        }
        gradients = _gradients(values, {name: parts[name] for name in gradient_names})
        check_finite(values, *(tensor for tensors in gradients.values() for tensor in tensors.values()))
    graph = None if relevance_mode is None else _relevance_graph(subject, relevance_mode, layers, logits)
    trace = Trace(subject, encoded, decisions, logits.detach(), values.detach(), relevance_graph=graph)
    trace.hidden = {layer: join(tensors).detach() for layer, tensors in parts["hidden"].items()}
    trace.attention = {block: join(tensors).detach() for block, tensors in parts["attention"].items()}
    trace.hidden_grad, trace.attention_grad = gradients.get("hidden", {}), gradients.get("attention", {})
    return trace


def _decisions(subject: Subject, encoded: Encoded, logits: Tensor, targets: Sequence[Any] | None) -> list[Decision]:
    requested = list(targets) if targets is not None else [None] * len(encoded)
    rows = zip(encoded, unpad(logits, encoded), requested, strict=True)
    return [decide(subject, row, row_logits, target) for row, row_logits, target in rows]


def _values(decisions: Sequence[Decision], logits: Tensor) -> Tensor:
    """The explained number of each text."""
    return torch.stack([decision.target.value(row) for decision, row in zip(decisions, logits, strict=True)])


def decide_without_heads(subject: Subject, encoded: Encoded, targets: Sequence[Any], off: ArrayLike) -> list[Decision]:
    """What the model decides with the output of some attention heads set to zero; `off` is [block, head].

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> (decision,) = decide_without_heads(subject, subject.encode("A joy."), [None], ~subject.mask.selected)
    >>> decision.label
    'positive'
    """
    switch = HeadSwitch(torch.as_tensor(off, device=subject.device))

    def run() -> Tensor:
        with (
            architecture.forward_mode(subject.model, gradients=False),
            attention_maps.with_switch(subject.model, switch),
        ):
            return subject.logits(subject.inputs(encoded))

    logits = restore.exclusively(subject.model, run)
    check_count("attention maps", switch.block, subject.depth, subject)
    return _decisions(subject, encoded, logits, targets)


def propagate(trace: Trace, rules: Rules, attention_filter: AttentionFilter) -> RelevanceMaps:
    """Propagate relevance back from the targets of a trace; rules other than the default need another forward pass."""
    return restore.exclusively(trace.subject.model, lambda: _propagate(trace, rules, attention_filter))


def _propagate(trace: Trace, rules: Rules, attention_filter: AttentionFilter) -> RelevanceMaps:
    subject = trace.subject
    with architecture.forward_mode(subject.model, gradients=True):
        graph = trace.relevance_graph if rules == DEFAULT else (trace.graphs or {}).get(rules)
        graph = _rerun(subject, trace.encoded, rules) if graph is None else graph
        if trace.graphs is not None:
            trace.graphs[rules] = graph
        graph.mode.attention_filter, graph.mode.attention_maps = attention_filter, {}
        pairs = zip(trace.decisions, unpad(graph.logits, trace.encoded), strict=True)
        values = [decision.target.value(row_logits) for decision, row_logits in pairs]
        spread = trace.lengths() if rules.spread and subject.task == "span" else None
        tensors = [part for parts in graph.layers for part in parts]
        relevance = iter(_backward(torch.stack(values).sum(), tensors, spread))
    hidden = {layer: join([next(relevance) for _ in parts]) for layer, parts in enumerate(graph.layers)}
    return RelevanceMaps(hidden, graph.mode.attention_maps)


def _rerun(subject: Subject, encoded: Encoded, rules: Rules) -> RelevanceGraph:
    """Run the model again, for relevance only."""
    memory.check_fits(subject, encoded, memory.WHOLE_MAPS_OF_RELEVANCE * deepest(subject))
    # In decoders the causal mask is part of the operation; elsewhere the published code adds masks as summands.
    effective = replace(rules, mask=rules.mask and not subject.causal)
    inputs = subject.inputs(encoded)
    if effective.mask:  # stock models drop a mask that hides nothing, but the published sum with it has an effect
        hidden = 1 - inputs["attention_mask"][:, None, None].to(subject.dtype)
        size = (-1, -1, encoded.longest, -1)
        inputs["attention_mask"] = (hidden * torch.finfo(subject.dtype).min).expand(*size)
    with _relevance_forward(subject, effective) as relevance_mode:
        try:
            logits, layers = run_model(subject, inputs)
        except (RuntimeError, ValueError, IndexError) as error:
            if batching.is_out_of_memory(error) or not effective.mask or relevance_mode.softmaxes:
                raise
            raise ModelError(
                "The published rules treat the attention mask as a summand of the attention scores, but "
                f"{type(subject.model).__name__} adds no mask to them. Use the method's plain name, such as lrp.",
                part="attention mask",
            ) from error
    return _relevance_graph(subject, relevance_mode, layers, logits)


@contextmanager
def _relevance_forward(subject: Subject, rules: Rules) -> Iterator[RelevanceMode]:
    """Run the model with eager attention, recording a graph for relevance under those rules."""
    with (
        attention_maps.eager(subject.model),
        mode.relevance_mode(subject.model, first_blocks(subject), rules, subject.multiplies_in_float32) as recording,
    ):
        yield recording


def _relevance_graph(subject: Subject, relevance_mode: RelevanceMode, layers: Layers, logits: Tensor) -> RelevanceGraph:
    """The graph that a forward pass under the mode recorded."""
    check_count("attention maps", relevance_mode.softmaxes, map_count(subject), subject)
    parts = [layers.parts(layer) for layer in range(subject.depth + 1)]
    proxies = [tuple(proxy for proxy in map(mode.proxy_of, layer) if proxy is not None) for layer in parts]
    count = sum(map(len, proxies)) // len(parts[0])
    check_count("relevance proxies of layers", count, subject.depth + 1, subject)
    logits_proxy = mode.proxy_of(logits)
    assert logits_proxy is not None, "logits depend on the last layer"
    return RelevanceGraph(relevance_mode, proxies, logits_proxy)


def _backward(value: Tensor, layers: list[Tensor], spread: Tensor | None) -> Sequence[Tensor]:
    """Relevance at every layer; `spread`, the lengths of the texts, spreads the last layer's evenly over each text."""
    if spread is None:
        return torch.autograd.grad(value, layers, retain_graph=True, materialize_grads=True)
    (last,) = torch.autograd.grad(value, layers[-1:], retain_graph=True)
    in_text = torch.arange(last.shape[1], device=last.device) < spread[:, None]
    last = (last.sum(1) / spread[:, None])[:, None] * in_text[..., None]
    below = torch.autograd.grad(layers[-1], layers[:-1], last, retain_graph=True, materialize_grads=True)
    return *below, last


def _gradients(values: Tensor, parts: dict[str, dict[int, Parts]]) -> dict[str, dict[int, Tensor]]:
    """The gradients of every part, from one backward pass.

    Texts do not influence each other, so the gradient of the sum of their values is the gradient of each.
    """
    flat = [tensor for by_index in parts.values() for tensors in by_index.values() for tensor in tensors]
    if not flat:
        return {}
    results = iter(torch.autograd.grad(values.sum(), flat, materialize_grads=True))
    return {
        name: {index: join([next(results) for _ in tensors]) for index, tensors in by_index.items()}
        for name, by_index in parts.items()
    }


def to_numpy(tensor: Tensor) -> NDArray[np.floating[Any]]:
    """The tensor as a numpy array; half precision, which numpy supports only in part, becomes float32."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()).numpy()


def __dir__() -> list[str]:
    return sorted(__all__)
