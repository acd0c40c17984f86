"""Trace: one forward and one backward, recorded for every method that wants to read them.

Hidden states are the embedding output (layer 0) and every block's output as the block gives it, before any final norm.
Attention probabilities are taken where the stock model computes its softmax, so that their gradients are true gradients
on every architecture and nothing is registered, patched or left behind.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbsal import anatomy
from nbsal.encoding import Encoded
from nbsal.errors import ModelError, UnknownName
from nbsal.subject import Subject
from nbsal.target import Decision, decide

NEEDS = ("hidden", "hidden_grad", "attention", "attention_grad")


@dataclass
class Trace:
    """What one batch left behind: every tensor is [batch, ...], padded on the right, zero gradient at padding."""

    subject: Subject
    encoded: Encoded
    decisions: list[Decision]
    logits: Tensor
    values: Tensor  # the explained number of each text
    hidden: dict[int, Tensor] = field(default_factory=dict)  # layer -> [batch, position, width]
    hidden_grad: dict[int, Tensor] = field(default_factory=dict)
    attention: dict[int, Tensor] = field(default_factory=dict)  # block -> [batch, head, query, key]
    attention_grad: dict[int, Tensor] = field(default_factory=dict)


def record(
    subject: Subject,
    encoded: Encoded,
    targets: Sequence[Any] | None = None,
    needs: Collection[str] = ("hidden", "hidden_grad"),
    keep: Collection[int] | None = None,
) -> Trace:
    """Run the model once, and once backwards if gradients are needed; `keep` names the layers to hold on to.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> trace = record(subject, subject.encode("A joy."), keep=[5])
    >>> tuple(trace.hidden_grad[5].shape)
    (1, 5, 384)
    """
    for need in set(needs) - set(NEEDS):
        raise UnknownName("part of a trace", need, NEEDS)
    kept = range(subject.depth + 1) if keep is None else sorted(set(keep))
    wanted = list(targets) if targets is not None else [None] * len(encoded)
    grads = {need.removesuffix("_grad") for need in needs if need.endswith("_grad")}
    attending = any(need.startswith("attention") for need in needs)
    # Callers may sit inside no_grad or inference_mode; what is recorded here needs a graph all the same.
    graph = torch.enable_grad() if grads else torch.no_grad()
    with subject.lock, torch.inference_mode(False), graph, anatomy.evaluating(subject.model):
        with anatomy.listening(subject.model) as heard, _attending(subject, attending) as seen:
            logits = subject.logits(subject.inputs(encoded))
        _complete("hidden states", heard, subject.depth + 1, subject)
        if attending:
            _complete("attention", seen, subject.depth, subject)
        decisions = [
            decide(subject, row, given[: len(row)] if given.ndim > 1 else given, want)
            for row, given, want in zip(encoded, logits.detach(), wanted, strict=True)
        ]
        values = torch.stack([d.target.value(given) for d, given in zip(decisions, logits, strict=True)])
        parts = {"hidden": {layer: heard[layer] for layer in kept}, "attention": dict(enumerate(seen))}
        gradients = _gradients(values, {name: parts[name] for name in grads})
    trace = Trace(subject, encoded, decisions, logits.detach(), values.detach())
    trace.hidden = {layer: tensor.detach() for layer, tensor in parts["hidden"].items()}
    trace.attention = {block: tensor.detach() for block, tensor in parts["attention"].items()}
    trace.hidden_grad, trace.attention_grad = gradients.get("hidden", {}), gradients.get("attention", {})
    return trace


def _gradients(values: Tensor, parts: dict[str, dict[int, Tensor]]) -> dict[str, dict[int, Tensor]]:
    """One backward pass to every part; texts do not see each other, so the gradient of the sum is each one's own."""
    flat = [(name, index, tensor) for name, found in parts.items() for index, tensor in found.items()]
    if not flat:
        return {}
    found = torch.autograd.grad(values.sum(), [tensor for *_, tensor in flat], allow_unused=True)
    gradients: dict[str, dict[int, Tensor]] = {name: {} for name in parts}
    for (name, index, tensor), gradient in zip(flat, found, strict=True):
        gradients[name][index] = torch.zeros_like(tensor) if gradient is None else gradient
    return gradients


def _complete(what: str, found: Sequence[Tensor], expected: int, subject: Subject) -> None:
    """Refuse silent nothing: every block must have been heard exactly once."""
    if len(found) != expected:
        raise ModelError(
            f"{len(found)} of {expected} {what} were seen in {type(subject.model).__name__}: "
            f"its forward is not one pass through its {subject.depth} blocks."
        )


class _Attention(TorchFunctionMode):
    """Keeps what every attention softmax returns, while the stock model runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func not in _SOFTMAX or args[0].ndim != 4:
            return func(*args, **kwargs)
        if args[0].dtype == torch.float64:
            kwargs.pop("dtype", None)  # some models ask for float32 here, which would round float64 away
        self.seen.append(func(*args, **kwargs))
        return self.seen[-1]


_SOFTMAX = (torch.nn.functional.softmax, torch.softmax, Tensor.softmax)


@contextmanager
def _attending(subject: Subject, wanted: bool) -> Iterator[list[Tensor]]:
    """Attention probabilities of every block, in order, while the model runs with its plain attention."""
    if not wanted:
        yield []
        return
    model = subject.model
    before = model.config._attn_implementation
    if before != "eager":
        model.set_attn_implementation("eager")
    try:
        with _Attention() as mode:
            yield mode.seen
    finally:
        if before != "eager":
            model.set_attn_implementation(before)
