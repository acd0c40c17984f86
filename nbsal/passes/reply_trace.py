"""Record traces of several targets of one text: the predictions of a reply's tokens.

The head of a causal model, or of a decoder beside an encoder, works position by position. The sum of all predictions
has therefore, at the last block's output, the gradient of each prediction at that prediction's own position; below,
each is propagated by itself.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import torch
from torch import Tensor

from nbsal.model import encoder_decoder
from nbsal.model.running import attention_maps
from nbsal.model.running.checks import check_finite
from nbsal.model.running.fused_attention import FusedAttention
from nbsal.model.running.layers import HiddenStates, Parts, check_recorded, forward_mode, join, recorded_maps, run_model
from nbsal.model.subject import Subject
from nbsal.model.target import Decision, Target
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes import last_block, trace
from nbsal.passes.last_block import AttentionCalls, Starts
from nbsal.passes.plan import PlannedMethod, TraceJob, plan
from nbsal.passes.run import Use, run
from nbsal.passes.stream import Block, Selection
from nbsal.passes.trace import AtOnce, Trace
from nbsal.support.progress import Meter

MOST = 8  # predictions that are propagated together
ROWS = 2**10  # positions of all of them: more leave a processor's caches, and cost more than one after the other
CELLS = 2**21  # entries of the attention maps of a block, beyond which they leave a processor's caches
FEATURES = 2**26  # entries of a layer that methods with forward passes of their own score together


def run_targets(
    methods: Mapping[str, PlannedMethod],
    subject: Subject,
    rows: Sequence[Row],
    targets: Sequence[Target],
    shared: str,
    use: Use,
    meter: Meter,
    size: int | None = None,
) -> None:
    """Call `use` with traces of each target in its row, for methods that run the same model (see `passes.run`).

    With `shared` ("pass" or "graph", see `Method.shares`), all rows are the same one. `meter` counts the targets; at
    most `size` of them, by default what fits well, have a trace together.
    """
    encoded, places = Encoded(rows, subject.text_encoder.pad_id), range(len(targets))
    if not shared:
        run(plan(methods, subject, encoded, targets), use, meter)
        return
    model = next(iter(methods.values())).subject_for(subject)
    needs, layers, by_block = frozenset[str](), frozenset[int](), True
    for method in methods.values():
        needs |= method.needs
        layers |= method.layers(model.depth)
        by_block &= method.by_block
    job = TraceJob(model, encoded, places, targets, tuple(methods), needs, layers, by_block, work=len(targets))
    if shared == "graph":
        _each_from_graph(job, use, meter)
    else:
        each_prediction(job, use, meter, size)


def _each_from_graph(job: TraceJob, use: Use, meter: Meter) -> None:
    """Relevance: a forward pass under each set of rules, from which one target after the other is propagated back."""
    whole = trace.record(job.subject, job.rows[:1], job.targets[:1], job.needs)
    whole.graphs = {}

    def propagate(part: TraceJob) -> Trace:
        (target,) = part.targets
        decision = Decision(target.label, whole.logits.new_empty(0), target)
        return replace(whole, decisions=[decision], values=target.value(whole.logits[0])[None], cache={})

    run((job.part([number]) for number in range(len(job.targets))), use, meter, propagate)


def each_prediction(
    job: TraceJob, use: Use, meter: Meter, size: int | None = None, replaced: tuple[int, Tensor] | None = None
) -> None:
    """Call `use` with traces of some copies of a row each, from one forward pass.

    Each target is a number of the logits at one position, which later positions do not change. `replaced` is a layer
    with other states in its place, [1, position, width].
    """
    subject, targets, needs, layers = job.subject, job.targets, job.needs, job.layers

    def run_row() -> None:
        other = None if replaced is None else (replaced[0], replaced[1].detach().requires_grad_())
        below = "hidden_grad" in needs and max(layers, default=subject.depth) < subject.depth
        below = below and subject.task != encoder_decoder.REPLY
        with forward_mode(gradients=True):
            forward = _forward(subject, job.rows[:1], needs, other, job.by_block, below)
            logits, states = forward.logits, forward.states
            values = torch.stack([target.value(logits[0]) for target in targets])
            check_finite(values)
            parts = {("hidden", layer): states.parts(layer) for layer in layers}
            for block, weights in enumerate(forward.maps):
                parts["attention", block] = (weights,)
            wanted = {key: tensors for key, tensors in parts.items() if f"{key[0]}_grad" in needs}
            positions = [target.terms[0][0][0] for target in targets]
            begin: Starts | TopStarts | None = None
            if below:
                begin = last_block.starts(forward.in_last_block, values, positions, states.states[-2])
            if wanted and begin is None:
                (gradient,) = torch.autograd.grad(values.sum(), states.top, retain_graph=True)
                begin = TopStarts([states.top], positions, gradient[0])
            count = size or _chunk(job, bool(wanted), bool(forward.maps))
            source = FusedMaps(forward.calls) if forward.calls else AtOnce()

            def propagate(chunk: TraceJob) -> Trace:
                part = _copies(chunk, logits, values, source)
                for (name, index), tensors in parts.items():
                    value = join(tensors).detach()
                    getattr(part, name)[index] = value.expand(len(chunk.rows), *value.shape[1:])
                if begin is not None:
                    gradients = _propagated(begin.tensors, list(wanted.values()), begin.of(chunk.places))
                    for (name, index), gradient in zip(wanted, gradients, strict=True):
                        getattr(part, f"{name}_grad")[index] = gradient
                return part

            for first in range(0, len(targets), count):
                run([job.part(range(first, min(first + count, len(targets))))], use, meter, propagate)

    subject.exclusively(run_row)


@dataclass(frozen=True)
class Forward:
    """What a forward pass has recorded: maps of attention, or the calls of fused attention in their place."""

    logits: Tensor
    states: HiddenStates
    maps: Sequence[Tensor]
    calls: Sequence[FusedAttention]  # of all blocks, or none
    in_last_block: Sequence[FusedAttention | None]


def _forward(
    subject: Subject,
    encoded: Encoded,
    needs: Collection[str],
    replaced: tuple[int, Tensor] | None,
    by_block: bool,
    below: bool,
) -> Forward:
    """Run a row; methods that read `by_block` need no maps of all heads where attention is fused.

    Those that propagate `below` the last block need its attention.
    """
    reads_maps = "attention" in needs and "attention_grad" not in needs and subject.task != encoder_decoder.REPLY
    fused = by_block and reads_maps and attention_maps.is_fused(subject.twin)
    recorded = set(needs) - {"attention"} if fused else set(needs)
    watched = subject.twin_blocks() if fused else subject.twin_blocks()[-1:] if below else []
    calls_of: AbstractContextManager[list[FusedAttention | None]]
    calls_of = AttentionCalls().watching(watched) if watched else nullcontext([])
    with (
        torch.set_grad_enabled(not trace.GRADIENTS.isdisjoint(needs)),
        recorded_maps(subject, recorded) as maps,
        calls_of as attention,
    ):
        logits, states = run_model(subject, subject.inputs(encoded), replaced)
    check_recorded(subject, encoded, {"hidden", *recorded}, states, maps)
    if not fused:
        return Forward(logits, states, maps, [], attention)
    calls = [call for call in attention if call is not None]
    if not len(calls) == len(attention) == len(watched):
        return _forward(subject, encoded, needs, replaced, by_block=False, below=below)
    return Forward(logits, states, maps, calls, calls[-1:])


@dataclass(frozen=True, eq=False)
class FusedMaps(AtOnce):
    """The recorded values of all blocks; rows of maps, and means over heads, are computed of what attention read."""

    calls: Sequence[FusedAttention]
    means: dict[int, Tensor] = field(default_factory=dict)  # by block; all predictions read the same

    def blocks(self, trace: Trace, selection: Selection) -> Iterator[Block]:
        parts, queries = set(selection.parts), selection.queries
        recorded = super().blocks(trace, replace(selection, parts=parts - {"attention", "mean_attention"}))
        for number, block in zip(reversed(range(len(self.calls))), recorded, strict=True):
            maps: Block = {}
            if "attention" in parts:
                maps["attention"] = self.calls[number].rows(queries)
            if "mean_attention" in parts:
                maps["mean_attention"] = self._mean(number)
            yield block | {name: part.expand(len(trace.encoded), *part.shape[1:]) for name, part in maps.items()}

    def _mean(self, number: int) -> Tensor:
        if number not in self.means:
            self.means[number] = self.calls[number].mean()
        return self.means[number]


def _chunk(job: TraceJob, gradients: bool, maps: bool) -> int:
    """How many targets are propagated, or scored by a method's own forward passes, together."""
    size, subject = job.rows.longest, job.subject
    if "forward" in job.needs:  # as many as memory allows, since they share these passes
        return max(1, FEATURES // (size * subject.width))
    if not gradients:  # copies share their maps, and a method may average these
        return max(1, min(4 * MOST, 8 * CELLS // size**2))
    return max(1, min(MOST, CELLS // (subject.heads * size**2))) if maps else max(1, min(MOST, ROWS // size))


def _copies(job: TraceJob, logits: Tensor, values: Tensor, source: AtOnce) -> Trace:
    """A trace of one copy of the row for each target, whose text ends there, without any parts yet."""
    decisions = [Decision(target.label, logits.new_empty(0), target) for target in job.targets]
    rows = logits.detach().expand(len(job.rows), *logits.shape[1:])
    trace = Trace(job.subject, job.rows, decisions, rows, values[list(job.places)].detach(), source=source)
    before = job.rows.longest - logits.shape[1]  # positions of an encoder
    trace.ends = [before + 1 + max(position for (position, *_), _ in target.terms) for target in job.targets]
    return trace


@dataclass(frozen=True)
class TopStarts:
    """The output of the last block, from which predictions go back, and what each begins with there."""

    tensors: Sequence[Tensor]
    positions: Sequence[int]
    gradient: Tensor  # of all predictions together, [position, width]

    def of(self, numbers: Sequence[int]) -> list[Tensor]:
        """What some predictions begin with, [prediction, 1, position, width]."""
        result, positions = self.gradient.new_zeros(len(numbers), 1, *self.gradient.shape), self.positions
        for place, number in enumerate(numbers):
            result[place, 0, positions[number]] = self.gradient[positions[number]]
        return [result]


def _propagated(outputs: Sequence[Tensor], values: Sequence[Parts], starts: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of each prediction at some values, each [prediction, ...]."""
    tensors = list(chain.from_iterable(values))
    options, count = {"retain_graph": True, "allow_unused": True}, len(starts[0])
    if count == 1:  # batched gradients cost more than a plain one
        results = torch.autograd.grad(outputs, tensors, [start[0] for start in starts], **options)
        results = tuple(None if result is None else result[None] for result in results)
    else:
        results = torch.autograd.grad(outputs, tensors, starts, is_grads_batched=True, **options)
    flat = iter(
        tensor.new_zeros(count, *tensor.shape[1:]) if result is None else result[:, 0]
        for tensor, result in zip(tensors, results, strict=True)
    )
    return [join(list(islice(flat, len(parts)))) for parts in values]
