"""Record traces of several targets of one text: the predictions of a reply's tokens.

Those of a causal model are propagated block by block (see `nbsal.passes.reply_stream`). The maps of all blocks are held
at once of a decoder beside an encoder, and for methods as their authors' programs run them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

import torch
from torch import Tensor

from nbsal.model import encoder_decoder
from nbsal.model.running import attention_maps, memory
from nbsal.model.running.block_calls import Replaced
from nbsal.model.running.checks import check_finite
from nbsal.model.running.layers import (
    check_recorded,
    deepest,
    forward_mode,
    join,
    reads_attention,
    recorded_maps,
    run_model,
)
from nbsal.model.subject import Subject
from nbsal.model.target import Decision, Target
from nbsal.model.text.tokens import Encoded, Row
from nbsal.passes import trace
from nbsal.passes.plan import PlannedMethod, TraceJob, plan
from nbsal.passes.reply_stream import CELLS, MOST, ROWS, open_replies, propagated
from nbsal.passes.run import Use, run
from nbsal.passes.trace import AtOnce, ByBlock, Trace
from nbsal.support.progress import Meter

TOGETHER = 64  # predictions that a block which runs again serves at most
PROPAGATED = 2**26  # entries of what they have then at a block, of which STATES are hidden states of each
STATES = 4
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
    job: TraceJob, use: Use, meter: Meter, size: int | None = None, replaced: Replaced | None = None
) -> None:
    """Call `use` with traces of some copies of a row each, from one forward pass.

    Each target is a number of the logits at one position, which later positions do not change. `replaced` is a layer
    with other states in its place.
    """
    propagate = _whole if _reads_whole_maps(job) else _by_block
    job.subject.exclusively(partial(propagate, job, use, meter, size, replaced))


def _reads_whole_maps(job: TraceJob) -> bool:
    """A stream follows one stack of blocks that can show their maps, and programs of others read the maps of all."""
    if job.subject.task == encoder_decoder.REPLY or not attention_maps.shows_own(job.subject.model):
        return True
    return reads_attention(job.needs) and not job.by_block


def _by_block(job: TraceJob, use: Use, meter: Meter, size: int | None, replaced: Replaced | None) -> None:
    gradients = not trace.GRADIENTS.isdisjoint(job.needs)
    with forward_mode(gradients=True):
        stream = open_replies(job.subject, job.rows[:1], job.targets, gradients, replaced)

        def propagate(chunk: TraceJob) -> Trace:
            source = stream.part(chunk.places)
            part = _copies(chunk, stream.logits, stream.values, ByBlock(source))
            if not job.by_block:
                part.hidden, part.hidden_grad = source.layers(chunk.layers, "hidden_grad" in chunk.needs)
            return part

        maps = 0 if "attention_grad" not in job.needs else 1 if stream.readable else job.subject.heads
        _run_chunks(job, use, meter, propagate, size or _chunk(job, gradients, maps, bool(stream.fused)))


def _whole(job: TraceJob, use: Use, meter: Meter, size: int | None, replaced: Replaced | None) -> None:
    """With the graph and the maps of all blocks at once."""
    subject, targets, needs = job.subject, job.targets, job.needs
    depth, gradients = deepest(subject), not trace.GRADIENTS.isdisjoint(needs)
    maps = memory.WHOLE_MAPS * reads_attention(needs) * depth
    memory.check_fits(subject, job.rows[:1], maps, memory.STATES * gradients * depth)
    other = None if replaced is None else (replaced[0], replaced[1].detach().requires_grad_())
    with forward_mode(gradients=True):
        with torch.set_grad_enabled(gradients), recorded_maps(subject, needs) as recorded:
            logits, states = run_model(subject, subject.inputs(job.rows[:1]), other)
        check_recorded(subject, job.rows[:1], {"hidden", *needs}, states, recorded)
        values = torch.stack([target.value(logits[0]) for target in targets])
        check_finite(values)
        parts = {("hidden", layer): states.parts(layer) for layer in job.layers}
        parts |= {("attention", block): (weights,) for block, weights in enumerate(recorded)}
        wanted = {key: tensors for key, tensors in parts.items() if f"{key[0]}_grad" in needs}
        gradient = torch.autograd.grad(values.sum(), states.top, retain_graph=True)[0] if wanted else states.top

        def propagate(chunk: TraceJob) -> Trace:
            part = _copies(chunk, logits, values, AtOnce())
            for (name, index), tensors in parts.items():
                value = join(tensors).detach()
                getattr(part, name)[index] = value.expand(len(chunk.rows), *value.shape[1:])
            if wanted:
                arriving = gradient.new_zeros(len(chunk.rows), *gradient.shape)
                at = [target.terms[0][0][0] for target in chunk.targets]
                arriving[range(len(at)), 0, at] = gradient[0, at]
                flat = iter(propagated([states.top], list(chain.from_iterable(wanted.values())), [arriving]))
                for (name, index), pieces in wanted.items():
                    getattr(part, f"{name}_grad")[index] = join(list(islice(flat, len(pieces))))
            return part

        _run_chunks(job, use, meter, propagate, size or _chunk(job, bool(wanted), subject.heads * bool(recorded)))


def _run_chunks(job: TraceJob, use: Use, meter: Meter, propagate: Callable[[TraceJob], Trace], size: int) -> None:
    for first in range(0, len(job.targets), size):
        run([job.part(range(first, min(first + size, len(job.targets))))], use, meter, propagate)


def _chunk(job: TraceJob, gradients: bool, maps: int, keeps_graphs: bool = True) -> int:
    """How many targets are propagated, or scored by a method's own forward passes, together.

    `maps` are the attention maps of a block that each of them has gradients of.
    """
    size, subject = job.rows.longest, job.subject
    if "forward" in job.needs:  # as many as memory allows, since they share these passes
        return max(1, FEATURES // (size * subject.width))
    if not gradients:  # copies share their maps, and a method may average these
        return max(1, min(4 * MOST, 8 * CELLS // size**2))
    if not keeps_graphs:  # blocks run again for each chunk
        return max(1, min(TOGETHER, PROPAGATED // (size * (STATES * subject.width + 2 * maps * size))))
    return max(1, min(MOST, CELLS // (maps * size**2))) if maps > 1 else max(1, min(MOST, ROWS // size))


def _copies(job: TraceJob, logits: Tensor, values: Tensor, source: AtOnce | ByBlock) -> Trace:
    """A trace of one copy of the row for each target, whose text ends there, without any parts yet."""
    decisions = [Decision(target.label, logits.new_empty(0), target) for target in job.targets]
    rows = logits.detach().expand(len(job.rows), *logits.shape[1:])
    trace = Trace(job.subject, job.rows, decisions, rows, values[list(job.places)].detach(), source=source)
    before = encoder_decoder.source_size(job.rows[0]) if job.subject.task == encoder_decoder.REPLY else 0
    trace.ends = [before + 1 + max(position for (position, *_), _ in target.terms) for target in job.targets]
    return trace
