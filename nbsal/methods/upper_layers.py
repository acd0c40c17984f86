"""Above: a model from one of its hidden layers on, run with other states there than its own."""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from nbsal.errors import UnknownName
from nbsal.model import architecture, batching
from nbsal.model.masking import TOKENS, MaskedModel
from nbsal.model.subject import Subject
from nbsal.trace import Trace

BASELINES = ("zero", "pad", "mask")


class UpperLayers:
    """What the explained number of a trace's texts would be, were a hidden layer's states others.

    The model's stock forward is run whole; at the layer its own states are exchanged for those given.
    """

    def __init__(self, trace: Trace, layer: int) -> None:
        self.trace = trace
        self.layer = layer
        self.states = trace.hidden[layer]
        self.inputs = trace.subject.inputs(trace.encoded)

    def values(self, states: Tensor, texts: Tensor) -> Tensor:
        """The explained number for each [position, width] of states, of the text that `texts` names for it."""
        if len(states) > 1 and self.trace.subject.one_at_a_time:
            return torch.cat([self.values(states[i : i + 1], texts[i : i + 1]) for i in range(len(states))])
        subject = self.trace.subject
        inputs = {name: rows[texts] for name, rows in self.inputs.items()}
        with architecture.replace_layer(subject.model, self.layer, states):
            logits = subject.logits(inputs)
        targets = [self.trace.decisions[text].target for text in texts.tolist()]
        return torch.stack([target.value(given) for target, given in zip(targets, logits, strict=True)])

    def plain(self, states: Tensor) -> Tensor:
        """The same without gradients, one set of states a text."""
        subject = self.trace.subject
        with subject.lock, torch.inference_mode(False), torch.no_grad(), architecture.eval_mode(subject.model):
            return self.values(states, torch.arange(len(states)))

    def gradient(self, points: Iterable[Tensor], count: int, worth: float = 1) -> Tensor:
        """The mean gradient at `count` points, each [text, position, width] like the states themselves.

        All of them are `worth` steps of the trace's meter.
        """
        subject, meter = self.trace.subject, self.trace.meter.part(worth, count)
        total, source, size = torch.zeros_like(self.states), iter(points), batch_per_text(self.trace)

        def summed(some: Sequence[Tensor]) -> Tensor:
            states = torch.cat(list(some)).detach().requires_grad_(True)
            texts = torch.arange(len(self.states)).repeat(len(some))
            (found,) = torch.autograd.grad(self.values(states, texts).sum(), states)
            return found.view(len(some), *total.shape).sum(0)

        with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
            while some := list(islice(source, size)):
                meter.check()
                for found in batching.run_in_halves(some, summed):
                    total += found
                meter.step(len(some))
        return total / count

    def free(self) -> Tensor:
        """Where states may be others at all, [text, position, 1]: at the embeddings, only content tokens are."""
        open_ = torch.zeros(self.states.shape[:2], dtype=torch.bool, device=self.states.device)
        for i, row in enumerate(self.trace.encoded):
            places = row.content if self.layer == 0 else np.flatnonzero(row.mask)
            open_[i, list(places)] = True
        return open_[..., None]

    def baseline(self, kind: str) -> Tensor:
        """The states of a text that says nothing: "zero", or those of padding or mask tokens in place of its own."""
        states = torch.zeros_like(self.states) if kind == "zero" else self._emptied(kind)
        return torch.where(self.free(), states, self.states)

    def _emptied(self, kind: str) -> Tensor:
        subject, rows = self.trace.subject, list(self.trace.encoded)
        kept = [~np.isin(range(len(row)), row.content) for row in rows]
        masked_model = self.trace.cached(("hiding", kind), lambda: MaskedModel(subject, kind))
        inputs = masked_model.inputs(rows, kept)
        quiet = architecture.eval_mode(subject.model)
        with (
            subject.lock,
            torch.inference_mode(False),
            torch.no_grad(),
            quiet,
            architecture.record_layers(subject.model) as heard,
        ):
            subject.logits(inputs)
        return heard[self.layer]


def check_baseline(subject: Subject, kind: str) -> None:
    """Refuse a baseline that does not exist, or not for this subject."""
    if kind not in BASELINES:
        raise UnknownName("baseline", kind, BASELINES)
    if kind != "zero":
        MaskedModel(subject, kind)


def batch_per_text(trace: Trace) -> int:
    """How many times a trace's batch goes well into one run of the model."""
    return max(1, TOKENS // (len(trace.encoded) * trace.encoded.longest))
