"""The part of a model above a hidden layer, run on other states than its own."""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from nbsal.errors import InputError, UnknownName
from nbsal.model import architecture, batching, sides
from nbsal.model.layers import join, replace_states, run_model
from nbsal.model.masking import TOKENS, MaskedModel
from nbsal.model.subject import Subject
from nbsal.model.tokens import Row
from nbsal.trace import Trace

BASELINES = ("zero", "pad", "mask")


class UpperLayers:
    """The target values of a trace's texts as a function of the states of one hidden layer.

    The whole stock model runs; at that layer its states are replaced.
    """

    def __init__(self, trace: Trace, layer: int) -> None:
        self.trace = trace
        self.layer = layer
        self.states = trace.hidden[layer]
        self.inputs = trace.subject.inputs(trace.encoded)

    def values(self, states: Tensor, texts: Tensor) -> Tensor:
        """The target value for each entry of `states`, [entry, position, width]; `texts` says which text each is of."""
        if len(states) > 1 and self.trace.subject.unbatchable:
            return torch.cat([self.values(states[i : i + 1], texts[i : i + 1]) for i in range(len(states))])
        subject = self.trace.subject
        inputs = {name: rows[texts] for name, rows in self.inputs.items()}
        with replace_states(subject, self.layer, states, inputs["input_ids"].shape[1]):
            logits = subject.logits(inputs)
        targets = [self.trace.decisions[text].target for text in texts.tolist()]
        return torch.stack([target.value(output) for target, output in zip(targets, logits, strict=True)])

    def values_without_gradient(self, states: Tensor) -> Tensor:
        """The target value of each text, computed without gradients; `states` has one entry per text."""
        subject = self.trace.subject
        with subject.lock, torch.inference_mode(False), torch.no_grad(), architecture.eval_mode(subject.model):
            return self.values(states, torch.arange(len(states)))

    def gradient(self, points: Iterable[Tensor], count: int, steps: float = 1) -> Tensor:
        """The mean gradient at `count` points, each [text, position, width] like the states themselves.

        Together they advance the trace's meter by `steps`.
        """
        subject, meter = self.trace.subject, self.trace.meter.part(steps, count)
        total, source, size = torch.zeros_like(self.states), iter(points), copies_per_batch(self.trace)

        def sum_gradients(batch: Sequence[Tensor]) -> Tensor:
            states = torch.cat(list(batch)).detach().requires_grad_(True)
            texts = torch.arange(len(self.states)).repeat(len(batch))
            (gradients,) = torch.autograd.grad(self.values(states, texts).sum(), states)
            return gradients.view(len(batch), *total.shape).sum(0)

        with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
            while batch := list(islice(source, size)):
                meter.check()
                for part in batching.run_in_halves(batch, sum_gradients):
                    total += part
                meter.step(len(batch))
        return total / count

    def changeable(self) -> Tensor:
        """Where states may change, [text, position, 1]: at content tokens in layer 0, at every token above it."""
        places = torch.zeros(self.states.shape[:2], dtype=torch.bool, device=self.states.device)
        for i, row in enumerate(self.trace.encoded):
            places[i, self._changeable_in(row)] = True
        return places[..., None]

    def _changeable_in(self, row: Row) -> list[int]:
        if self.layer == 0:
            return list(row.content)
        both = self.trace.subject.task == sides.REPLY
        return sides.changeable(row) if both else np.flatnonzero(row.mask).tolist()

    def baseline(self, kind: str) -> Tensor:
        """The baseline states: "zero", or those of the text with "pad" or "mask" tokens in place of its content."""
        states = torch.zeros_like(self.states) if kind == "zero" else self._masked_states(kind)
        return torch.where(self.changeable(), states, self.states)

    def _masked_states(self, kind: str) -> Tensor:
        subject, rows = self.trace.subject, list(self.trace.encoded)
        visible = [~np.isin(range(len(row)), row.content) for row in rows]
        masked_model = self.trace.cached(("masked model", kind), lambda: MaskedModel(subject, kind))
        inputs = masked_model.inputs(rows, visible)
        with (
            subject.lock,
            torch.inference_mode(False),
            torch.no_grad(),
            architecture.eval_mode(subject.model),
        ):
            return join(run_model(subject, inputs)[1].parts(self.layer))


def check_baseline(subject: Subject, kind: str, argument: str = "baseline") -> None:
    """Refuse a baseline that does not exist, or that this subject lacks the token for."""
    if kind not in BASELINES:
        raise UnknownName(argument, kind, BASELINES)
    if kind == "mask" and getattr(subject.tokenizer, "mask_token_id", None) is None:
        message = f"{argument}='mask', but {subject.name} has no mask token. Choose 'zero' or 'pad'."
        raise InputError(message, argument=argument, value=kind)


def copies_per_batch(trace: Trace) -> int:
    """How many copies of a trace's batch fit well into one forward pass."""
    return max(1, TOKENS // (len(trace.encoded) * trace.encoded.longest))
