"""The part of a model above a hidden layer, run on other states than its own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nbsal.ablation.decision import DecisionText
from nbsal.ablation.engine import TOKENS, Ablation
from nbsal.model import encoder_decoder
from nbsal.model.loading.composite import transformer_of
from nbsal.model.running.hooks import hooks
from nbsal.model.running.layers import forward_mode, join, replace_states, run_model
from nbsal.model.running.memory import run_in_halves
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Row
from nbsal.passes import reply_trace
from nbsal.passes.plan import TraceJob
from nbsal.passes.trace import Trace
from nbsal.support.errors import InputError, ModelError, UnknownName
from nbsal.support.progress import Meter

BASELINES = ("zero", "pad", "mask", "mean")
SEVERAL = ("zero", "pad")  # of texts that are classified
IDS = 4096  # tokens that are embedded together for their mean


class Point(NamedTuple):
    """States of a layer, [text, position, width], and the weight of the gradient there."""

    weight: float
    states: Tensor


class UpperLayers:
    """The target values of a trace's texts as a function of the states of one hidden layer.

    The whole stock model runs; at that layer its states are replaced. Texts that share a row (see `reply_trace`) share
    its states: these, and the points of a path, have one entry then.
    """

    def __init__(self, trace: Trace, layer: int) -> None:
        self.trace = trace
        self.layer = layer
        self.shared = bool(trace.ends)
        self.encoded = trace.encoded.select([0]) if self.shared else trace.encoded
        self.states = trace.hidden[layer][: len(self.encoded)]
        self.inputs = trace.subject.inputs(self.encoded)

    @property
    def rows(self) -> Sequence[Row]:
        """The rows that the states are of."""
        return self.encoded.rows

    def zeros(self, count: int | None = None) -> Tensor:
        """Zeros for the features of some texts, by default of all of them, [text, position, width]."""
        return self.states.new_zeros(len(self.trace.encoded) if count is None else count, *self.states.shape[1:])

    def values(self, states: Tensor, texts: Tensor) -> Tensor:
        """The target value for each entry of `states`, [entry, position, width]; `texts` says which text each is of.

        Positions that all of these texts lack may be left out.
        """
        subject = self.trace.subject
        # A trace of a model that cannot mask padding holds one text, whose copies need none. Without a padding id, a
        # classifier reads one entry at a time.
        if len(states) > 1 and subject.unbatchable and getattr(subject.model.config, "pad_token_id", None) is None:
            return torch.cat([self.values(states[i : i + 1], texts[i : i + 1]) for i in range(len(states))])
        logits = self._logits(states, {name: rows[texts, : states.shape[1]] for name, rows in self.inputs.items()})
        targets = [self.trace.decisions[text].target for text in texts.tolist()]
        return torch.stack([target.value(output) for target, output in zip(targets, logits, strict=True)])

    def _logits(self, states: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        with replace_states(self.trace.subject, self.layer, states, inputs["input_ids"].shape[1]):
            return self.trace.subject.logits(inputs)

    def values_without_gradient(self, states: Tensor) -> Tensor:
        """The target value of each text, computed without gradients."""
        with forward_mode(gradients=False):
            if not self.shared:
                return self.values(states, torch.arange(len(states)))
            (logits,) = self._logits(states, self.inputs)
            return torch.stack([decision.target.value(logits) for decision in self.trace.decisions])

    def gradient(
        self, points: Iterable[Point], count: int, steps: float = 1, texts: Sequence[int] | None = None
    ) -> Tensor:
        """The weighted sum of the gradients at `count` points, [text, position, width].

        Together they advance the trace's meter by `steps`. `texts` are the numbers of those that are run: by default
        all of them.
        """
        numbers = range(len(self.trace.encoded)) if texts is None else texts
        sum_gradients = self._gradient_of_row if self.shared else self._gradient_of_texts
        return sum_gradients(points, self.trace.meter.part(steps, count), numbers)

    def _gradient_of_row(self, points: Iterable[Point], meter: Meter, numbers: Sequence[int]) -> Tensor:
        """From one forward pass at each point, for all targets."""
        encoded, decisions = self.trace.encoded.select(numbers), self.trace.decisions
        targets, total = [decisions[number].target for number in numbers], self.zeros(len(numbers))
        needs, layers = frozenset({"hidden_grad"}), frozenset({self.layer})
        job = TraceJob(self.trace.subject, encoded, range(len(numbers)), targets, ("",), needs, layers, work=1)
        for point in points:

            def add(part: TraceJob, _: str, trace: Trace, weight: float = point.weight) -> None:
                first, last = part.places[0], part.places[-1]
                total[first : last + 1] += weight * trace.hidden_grad[self.layer]

            reply_trace.each_prediction(job, add, meter, replaced=(self.layer, point.states))
        return total

    def _gradient_of_texts(self, points: Iterable[Point], meter: Meter, numbers: Sequence[int]) -> Tensor:
        """From passes of as many copies of the texts as fit well."""
        total, source, groups = self.zeros(len(numbers)), iter(points), self._by_length(numbers)
        size = max(1, TOKENS // max(length * len(places) for length, places in groups.items()))

        def sum_gradients(length: int, places: Sequence[int], batch: Sequence[Point]) -> Tensor:
            chosen = torch.tensor([numbers[place] for place in places])
            states = torch.cat([point.states[chosen, :length] for point in batch]).detach().requires_grad_(True)
            (gradients,) = torch.autograd.grad(self.values(states, chosen.repeat(len(batch))).sum(), states)
            weights = gradients.new_tensor([point.weight for point in batch])
            return (gradients.view(len(batch), *total[places, :length].shape) * weights[:, None, None, None]).sum(0)

        with forward_mode(gradients=True):
            while batch := list(islice(source, size)):
                meter.check()
                for length, places in groups.items():
                    for part in run_in_halves(batch, partial(sum_gradients, length, places)):
                        total[places, :length] += part
                meter.step(len(batch))
        return total

    def _by_length(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """The places of texts of each length among those numbers: at many points, padding costs more than passes."""
        rows, groups, width = self.trace.encoded, dict[int, list[int]](), self.states.shape[1]
        reply = self.trace.subject.task == encoder_decoder.REPLY
        padded = not reply and width > rows.longest  # by the model itself: Longformer's blocks read whole windows
        for place, number in enumerate(numbers):
            length = rows.longest if reply else width if padded else len(rows[number])
            groups.setdefault(length, []).append(place)
        return groups

    def changeable(self) -> Tensor:
        """Where states may change, [text, position, 1]: at content tokens in layer 0, at every token above it."""
        return self._places(self._changeable_in)[..., None]

    def _places(self, choose: Callable[[Row], Sequence[int]]) -> Tensor:
        """Whether each position is one of those that are chosen in its row, [text, position]."""
        places = torch.zeros(self.states.shape[:2], dtype=torch.bool, device=self.states.device)
        for i, row in enumerate(self.rows):
            places[i, list(choose(row))] = True
        return places

    def _changeable_in(self, row: Row) -> Sequence[int]:
        if self.layer == 0:
            return row.content
        both = self.trace.subject.task == encoder_decoder.REPLY
        return encoder_decoder.changeable(row) if both else np.flatnonzero(row.mask).tolist()

    def baseline(self, kind: str) -> Tensor:
        """The baseline states: "zero", or those of the text with something else in place of its content.

        This is a "pad" or "mask" token, or the "mean" of all token embeddings. With the mean, the first token of a
        causal model stays, since all others attend to it.
        """
        run = partial(self.trace.subject.exclusively, partial(self._baseline, kind))
        return self.trace.cached(("baseline", self.layer, kind), run)

    def _baseline(self, kind: str) -> Tensor:
        states = torch.zeros_like(self.states) if kind == "zero" else self._states_without_content(kind)
        return torch.where(self.changeable(), states, self.states)

    def _states_without_content(self, kind: str) -> Tensor:
        subject, inputs = self.trace.subject, self.inputs
        replaced: AbstractContextManager[None] = nullcontext()
        if kind == "mean":
            places = self._places(lambda row: row.content)
            if subject.causal:
                places[:, 0] = False
            replaced = _mean_embeddings(subject, places, inputs["input_ids"].shape[1])
        else:
            visible = [~np.isin(range(len(row)), row.content) for row in self.rows]
            ablation = self.trace.cached("ablation", lambda: Ablation(subject))
            inputs = ablation.inputs([DecisionText(subject, row, way=kind) for row in self.rows], visible)
        with forward_mode(gradients=False), replaced:
            return join(run_model(subject, inputs)[1].parts(self.layer))


@contextmanager
def _mean_embeddings(subject: Subject, places: Tensor, size: int) -> Iterator[None]:
    """Run the model with the mean of all token embeddings at some places; an encoder reads the first `size` of them."""
    model = transformer_of(subject.twin)
    both = [model.get_encoder(), model.get_decoder()] if subject.task == encoder_decoder.REPLY else [model]
    tables = list(dict.fromkeys(side.get_input_embeddings() for side in both))
    means = {table: _mean_embedding(table) for table in tables}
    parts = iter([places] if len(both) == 1 else [places[:, :size], places[:, size:]])

    def replace(table: nn.Module, args: tuple[Any, ...], kwargs: Any, output: Tensor) -> Tensor:
        part = next(parts, None)
        return output if part is None else torch.where(part[..., None], means[table], output)

    with hooks(tables, after=replace):
        yield
    if next(parts, None) is not None:
        message = f"{subject.name} does not read its table of token embeddings. Choose another baseline than 'mean'."
        raise ModelError(message, part="embeddings")


def _mean_embedding(table: nn.Module) -> Tensor:
    weight: Tensor = table.weight  # type: ignore[assignment]
    dtype = torch.promote_types(weight.dtype, torch.float32)
    total = torch.zeros(weight.shape[1], dtype=dtype, device=weight.device)
    for first in range(0, len(weight), IDS):
        part = torch.arange(first, min(first + IDS, len(weight)), device=weight.device)
        total += table(part[None])[0].sum(0, dtype=dtype)  # by calling the table, since some scale their rows
    return (total / len(weight)).to(weight.dtype)


def check_baseline(subject: Subject, kind: str, argument: str = "baseline") -> None:
    """Refuse a baseline that does not exist, or that this subject lacks the token for."""
    if kind not in BASELINES:
        raise UnknownName(argument, kind, BASELINES)
    if kind == "mask" and getattr(subject.tokenizer, "mask_token_id", None) is None:
        message = f"{argument}='mask', but {subject.name} has no mask token. Choose 'zero', 'pad' or 'mean'."
        raise InputError(message, argument=argument, value=kind)


def default_baselines(subject: Subject, others: tuple[str, ...]) -> tuple[str, ...]:
    """The baselines of a subject by default: the mean embedding if it predicts tokens."""
    return ("mean",) if subject.task in ("next-token", encoder_decoder.REPLY) else others


def checked_baselines(subject: Subject, baselines: Sequence[str] | None) -> tuple[str, ...]:
    """The baselines as a tuple, after checking that each is available."""
    baselines = default_baselines(subject, SEVERAL) if baselines is None else baselines
    if not baselines:
        message = f'baselines must be a tuple of names such as ("zero", "pad"), not {baselines!r}.'
        raise InputError(message, argument="baselines", value=baselines)
    for kind in baselines:
        check_baseline(subject, kind, "baselines")
    return tuple(baselines)
