"""Record one forward and one backward pass of a subject, for all methods to use.

Layer 0 is the embedding output, layer n the output of block n - 1, before any final norm. Attention is captured where
the stock model computes its softmax, so its gradients are true on every architecture and the model is not modified.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from nbsal.model.running import attention_maps, memory
from nbsal.model.running.attention_maps import HeadSwitch
from nbsal.model.running.checks import check_count, check_finite
from nbsal.model.running.layers import (
    Parts,
    check_recorded,
    deepest,
    forward_mode,
    join,
    reads_attention,
    recorded_maps,
    run_model,
    unpad,
)
from nbsal.model.subject import Subject
from nbsal.model.target import Decision
from nbsal.model.targets import decide
from nbsal.model.text.tokens import Encoded
from nbsal.passes import positions
from nbsal.passes.lrp.graph import RelevanceGraph, relevance_forward, relevance_graph, run_for_relevance
from nbsal.passes.lrp.mode import AttentionFilter, RelevanceMaps, unfiltered
from nbsal.passes.lrp.rules import DEFAULT, Rules
from nbsal.passes.stream import Block, Selection, Stream, open_stream, recorded_parts
from nbsal.support.errors import UnknownName
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
GRADIENTS = frozenset({"hidden_grad", "attention_grad"})
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
    source: "AtOnce | ByBlock" = field(default_factory=lambda: AtOnce())  # where `blocks` has its values from
    ends: Sequence[int] = ()  # where the text of each copy of a row ends, if not with the row (see `reply_trace`)
    meter: Meter = field(default_factory=partial(Meter, None))  # progress and cancellation of long methods
    cache: dict[Any, Any] = field(default_factory=dict)  # results that methods share

    def lengths(self) -> Tensor:
        """The number of tokens of each text."""
        return torch.tensor(self.ends or [len(row) for row in self.encoded], device=self.logits.device)

    def decision_positions(self) -> list[list[int] | None]:
        """The positions each prediction is read from; None where the model averages all of them."""
        if self.subject.task == "sequence":
            return [None if place is None else [place] for place in self.subject.pooled_positions(self.encoded)]
        return [sorted({index[0] for index, _ in decision.target.terms}) for decision in self.decisions]

    def per_end_traces(self, needs: Collection[str]) -> "list[Trace]":
        """One trace for each end if targets are spans, else this trace; for methods whose scores are not additive."""
        subject, encoded = self.subject, self.encoded
        if subject.task != "span":
            return [self]
        ends = [decision.target.ends() for decision in self.decisions]
        sides = range(max(map(len, ends)))
        if len(sides) == 1:
            return [self]
        targets = [[each[side % len(each)] for each in ends] for side in sides]
        stream = isinstance(self.source, ByBlock)
        runs = [partial(record_now, subject, encoded, each, needs, None, stream) for each in targets]
        return [subject.exclusively(run) for run in runs]

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
        for block in self.source.blocks(self, Selection(parts, rules, attention_filter, queries)):
            self.meter.check()
            yield block

    def first_block(self, *parts: str, rules: Rules = DEFAULT) -> Block:
        """The values of the first block, whose input is the embedding output.

        >>> import nbsal
        >>> reviews = nbsal.load("demo/reviews")
        >>> trace = record(reviews, reviews.encode("A joy."), keep=[0])
        >>> trace.first_block("hidden")["hidden"].shape
        torch.Size([1, 5, 384])
        """
        block: Block = {}
        for values in self.blocks(*parts, rules=rules):
            block = dict(values)
        return block

    def relevance_maps(self, rules: Rules = DEFAULT, attention_filter: AttentionFilter = unfiltered) -> RelevanceMaps:
        """Relevance at every layer and in every attention map; computed once per rules and filter."""
        run = partial(self.subject.exclusively, lambda: self._propagate(rules, attention_filter))
        return self.cached((rules, attention_filter), run)

    def _propagate(self, rules: Rules, attention_filter: AttentionFilter) -> RelevanceMaps:
        """Relevance of the targets; rules other than the default need another forward pass."""
        with forward_mode(gradients=True):
            graph = self.relevance_graph if rules == DEFAULT else (self.graphs or {}).get(rules)
            graph = run_for_relevance(self.subject, self.encoded, rules) if graph is None else graph
            if self.graphs is not None:
                self.graphs[rules] = graph
            spread = self.lengths() if rules.spread and self.subject.task == "span" else None
            return graph.propagate(self.encoded, self.decisions, attention_filter, spread)

    def separate(self) -> tuple[Tensor, Tensor]:
        """The relevance of tokens and the sizes of that of positions, if the subject's gradients are relevance."""
        graphs = {} if self.graphs is None else self.graphs
        return self.cached("separate", lambda: positions.separate(self.subject, self.encoded, self.decisions, graphs))

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
    return subject.exclusively(partial(record_now, subject, encoded, targets, needs, keep, stream))


def record_now(
    subject: Subject,
    encoded: Encoded,
    targets: Sequence[Any] | None,
    needs: Collection[str],
    keep: Collection[int] | None,
    stream: bool,
) -> Trace:
    """What `record` returns, without its checks, in a run of the model that has begun."""
    return (ByBlock() if stream else AtOnce()).record(subject, encoded, targets, needs, keep)


class AtOnce:
    """The values of all blocks, recorded in one pass."""

    def record(
        self,
        subject: Subject,
        encoded: Encoded,
        targets: Sequence[Any] | None,
        needs: Collection[str],
        keep: Collection[int] | None,
    ) -> Trace:
        needs_gradients, needs_relevance = not GRADIENTS.isdisjoint(needs), "relevance" in needs
        held = memory.WHOLE_MAPS_OF_RELEVANCE if needs_relevance else memory.WHOLE_MAPS * reads_attention(needs)
        depth = deepest(subject)
        memory.check_fits(subject, encoded, held * depth, memory.STATES * needs_gradients * depth)
        with forward_mode(needs_gradients or needs_relevance):
            with (
                recorded_maps(subject, needs) as maps,
                relevance_forward(subject, DEFAULT) if needs_relevance else nullcontext() as relevance_mode,
            ):
                logits, layers = run_model(subject, subject.inputs(encoded))
            check_recorded(subject, encoded, needs, layers, maps)
            decisions = _decisions(subject, encoded, logits.detach(), targets)
            values = _values(decisions, logits)
            check_finite(values)
            keep = range(subject.depth + 1) if keep is None else sorted(set(keep))
            parts: dict[tuple[str, int], Parts] = {("hidden", layer): layers.parts(layer) for layer in keep}
            for block, weights in enumerate(maps):
                parts["attention", block] = (weights,)
            wanted = {key: tensors for key, tensors in parts.items() if f"{key[0]}_grad" in needs}
            gradients = _gradients(values, wanted.values())
        graph = None if relevance_mode is None else relevance_graph(subject, relevance_mode, layers, logits)
        detached = logits.detach(), values.detach()
        trace = Trace(subject, encoded, decisions, *detached, relevance_graph=graph, source=self)
        for (name, index), tensors in parts.items():
            getattr(trace, name)[index] = join(tensors).detach()
        for (name, index), gradient in zip(wanted, gradients, strict=True):
            getattr(trace, f"{name}_grad")[index] = gradient
        return trace

    def blocks(self, trace: Trace, selection: Selection) -> Iterator[Block]:
        names = recorded_parts(selection.parts)
        values = {name: getattr(trace, name) for name in names if "relevance" not in name}
        if "relevance" in selection.parts:
            maps = trace.relevance_maps(selection.rules, selection.attention_filter)
            tables = {"relevance": maps.hidden, "attention_relevance": maps.attention}
            values |= {name: table for name, table in tables.items() if name in names}
        for block in reversed(range(trace.subject.depth)):
            recorded = {name: tensors[block] for name, tensors in values.items() if block in tensors}
            yield recorded | selection.derived(recorded)


@dataclass(frozen=True)
class ByBlock:
    """The values of one block at a time, each computed when it is read."""

    stream: Stream | None = None  # the recorded pass; None if none was, since the method runs under rules of its own

    def record(
        self,
        subject: Subject,
        encoded: Encoded,
        targets: Sequence[Any] | None,
        needs: Collection[str],
        keep: Collection[int] | None,
    ) -> Trace:
        if not needs:
            return replace(AtOnce().record(subject, encoded, targets, needs, keep), source=ByBlock())
        gradients = any(need.endswith("_grad") for need in needs)
        stream = open_stream(subject, encoded, DEFAULT if "relevance" in needs else None, gradients)
        logits = stream.logits.detach()
        decisions = _decisions(subject, encoded, logits, targets)
        return Trace(subject, encoded, decisions, logits, _values(decisions, logits), source=ByBlock(stream))

    def blocks(self, trace: Trace, selection: Selection) -> Iterator[Block]:
        rules = selection.rules if "relevance" in selection.parts else None  # without relevance, any will do
        stream = self.stream
        if stream is None or rules not in (None, stream.rules):
            stream = trace.cached(("stream", rules), lambda: open_stream(trace.subject, trace.encoded, rules))
        return stream.blocks(trace.decisions, selection)


def _decisions(subject: Subject, encoded: Encoded, logits: Tensor, targets: Sequence[Any] | None) -> list[Decision]:
    requested = list(targets) if targets is not None else [None] * len(encoded)
    rows = zip(encoded.rows, unpad(logits, encoded), requested, strict=True)
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
            forward_mode(gradients=False),
            attention_maps.with_switch(subject.twin, switch),
        ):
            return subject.logits(subject.inputs(encoded))

    logits = subject.exclusively(run)
    check_count("attention maps", switch.block, subject.depth, subject)
    return _decisions(subject, encoded, logits, targets)


def _gradients(values: Tensor, parts: Collection[Parts]) -> list[Tensor]:
    """The gradients of some parts, from one backward pass.

    Texts do not influence each other, so the gradient of the sum of their values is the gradient of each.
    """
    if not parts:
        return []
    gradients = torch.autograd.grad(values.sum(), [*chain.from_iterable(parts)], materialize_grads=True)
    check_finite(*gradients)
    rest = iter(gradients)
    return [join([*islice(rest, len(tensors))]) for tensors in parts]


def to_numpy(tensor: Tensor) -> NDArray[np.floating[Any]]:
    """The tensor as a numpy array; half precision, which numpy supports only in part, becomes float32."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()).numpy()


def __dir__() -> list[str]:
    return sorted(__all__)
