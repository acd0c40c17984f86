"""Trace: one forward and one backward, recorded for every method that wants to read them.

Hidden states are the embedding output (layer 0) and every block's output as the block gives it, before any final norm.
Attention probabilities are taken where the stock model computes its softmax, so that their gradients are true gradients
on every architecture and nothing is registered, patched or left behind.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbsal.errors import ModelError, UnknownName
from nbsal.lrp import mode
from nbsal.lrp.mode import AttentionFilter, RelevanceMaps, RelevanceMode, unfiltered
from nbsal.lrp.rules import DEFAULT, Rules
from nbsal.model import architecture, batching
from nbsal.model.subject import Subject
from nbsal.model.targets import Decision, decide
from nbsal.model.tokens import Encoded
from nbsal.progress import Meter

# "forward" costs nothing here: such a method runs the subject by itself.
NEEDS = ("hidden", "hidden_grad", "attention", "attention_grad", "relevance", "forward")
T = TypeVar("T")


@dataclass
class RelevanceGraph:
    """A forward that relevance can flow back through, as often as it is asked to."""

    mode: RelevanceMode
    layers: list[Tensor]
    logits: Tensor


@dataclass
class Trace:
    """What one batch left behind: every tensor is [batch, ...], padded on the right, zero gradient at padding.

    >>> import nbsal
    >>> subject = nbsal.load("demo/reviews")
    >>> read = record(subject, subject.encode(["A joy.", "A bore."]), needs={"attention"})
    >>> tuple(read.attention[0].shape), [decision.label for decision in read.decisions]
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
    flow: RelevanceGraph | None = None  # for relevance under the default rules, beside the same forward
    meter: Meter = field(default_factory=lambda: Meter(None))  # progress and cancel of a method that takes long
    known: dict[Any, Any] = field(default_factory=dict)  # what methods found out from it

    def lengths(self) -> Tensor:
        """The number of tokens of each text."""
        return torch.tensor([len(row) for row in self.encoded], device=self.logits.device)

    def decision_positions(self) -> list[list[int] | None]:
        """The positions each decision is read from; None where all of them are averaged."""
        if self.subject.task == "sequence":
            return [None if place is None else [place] for place in self.subject.pooled(self.encoded)]
        return [sorted({index[0] for index, _ in decision.target.terms}) for decision in self.decisions]

    def per_end_traces(self, needs: Collection[str]) -> "list[Trace]":
        """This trace, or one for each end where targets are spans: what is not additive explains each end alone."""
        if self.subject.task != "span":
            return [self]
        targets = [decision.target.ends() for decision in self.decisions]
        widest = max(map(len, targets))
        return [
            record(self.subject, self.encoded, [ends[side % len(ends)] for ends in targets], needs)
            for side in range(widest)
        ]

    def relevance_maps(self, rules: Rules = DEFAULT, passage: AttentionFilter = unfiltered) -> RelevanceMaps:
        """Relevance at every layer and in every attention map, propagated once under those rules."""
        return self.cached((rules, passage), lambda: propagate(self, rules, passage))

    def cached(self, key: Any, work: Callable[[], T]) -> T:
        """What the work finds, done when it is first asked for, and outside a caller's inference mode."""
        if key not in self.known:
            with torch.inference_mode(False):
                self.known[key] = work()
        found: T = self.known[key]
        return found

    @property
    def relevance(self) -> dict[int, Tensor]:
        """Relevance at every layer under the default rules, layer -> [batch, position, width]."""
        return self.relevance_maps().hidden

    @property
    def relevance_attention(self) -> dict[int, Tensor]:
        """Relevance of the attention probabilities, block -> [batch, head, query, key]."""
        return self.relevance_maps().attention


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
    attending, flowing = any(need.startswith("attention") for need in needs), "relevance" in needs
    # Callers may sit inside no_grad or inference_mode; what is recorded here needs a graph all the same.
    graph = torch.enable_grad() if grads or flowing else torch.no_grad()
    with (
        subject.lock,
        batching.memory_errors(),
        torch.inference_mode(False),
        graph,
        architecture.eval_mode(subject.model),
    ):
        with (
            _attending(subject, attending) as seen,
            _flowing(subject, DEFAULT) if flowing else nullcontext() as running,
        ):
            logits, heard = _heard(subject, subject.inputs(encoded))
        if flowing or any(need.startswith("hidden") for need in needs):
            _laid_out("hidden states", [hidden.shape[:2] for hidden in heard], encoded, subject)
        if attending:
            _complete("attention", len(seen), subject.depth, subject)
            _laid_out("attention maps", [(len(maps), *maps.shape[2:]) for maps in seen], encoded, subject)
        decisions = [
            decide(subject, row, given[: len(row)] if given.ndim > 1 else given, want)
            for row, given, want in zip(encoded, logits.detach(), wanted, strict=True)
        ]
        values = torch.stack([d.target.value(given) for d, given in zip(decisions, logits, strict=True)])
        parts = {"hidden": {layer: heard[layer] for layer in kept}, "attention": dict(enumerate(seen))}
        gradients = _gradients(values, {name: parts[name] for name in grads})
        _finite(values, *(tensor for found in gradients.values() for tensor in found.values()))
    flow = None if running is None else _flow(subject, running, heard, logits)
    trace = Trace(subject, encoded, decisions, logits.detach(), values.detach(), flow=flow)
    trace.hidden = {layer: tensor.detach() for layer, tensor in parts["hidden"].items()}
    trace.attention = {block: tensor.detach() for block, tensor in parts["attention"].items()}
    trace.hidden_grad, trace.attention_grad = gradients.get("hidden", {}), gradients.get("attention", {})
    return trace


def propagate(trace: Trace, rules: Rules, passage: AttentionFilter) -> RelevanceMaps:
    """Relevance back from the targets of a trace; under other rules than the default the model runs once more."""
    subject = trace.subject
    with subject.lock, torch.inference_mode(False), torch.enable_grad(), architecture.eval_mode(subject.model):
        flow = trace.flow if trace.flow is not None and rules == DEFAULT else _run(subject, trace.encoded, rules)
        flow.mode.passage, flow.mode.found = passage, {}
        shortened = [
            given[: len(row)] if given.ndim > 1 else given
            for row, given in zip(trace.encoded, flow.logits, strict=True)
        ]
        values = [d.target.value(given) for d, given in zip(trace.decisions, shortened, strict=True)]
        spread = trace.lengths() if rules.spread and subject.task == "span" else None
        found = _backward(torch.stack(values).sum(), flow.layers, spread)
    reached = [torch.zeros_like(h) if r is None else r for h, r in zip(flow.layers, found, strict=True)]
    return RelevanceMaps(dict(enumerate(reached)), flow.mode.found)


def _run(subject: Subject, encoded: Encoded, rules: Rules) -> RelevanceGraph:
    """The model once more, for relevance alone."""
    # In decoders the causal mask is part of the operation; elsewhere the published code adds masks as summands.
    chosen = replace(rules, mask=rules.mask and not subject.causal)
    inputs = subject.inputs(encoded)
    if chosen.mask:  # stock models drop a mask that hides nothing; the published sum over it is not nothing
        hidden = 1 - inputs["attention_mask"][:, None, None].to(subject.dtype)
        size = (-1, -1, encoded.longest, -1)
        inputs["attention_mask"] = (hidden * torch.finfo(subject.dtype).min).expand(*size)
    with _flowing(subject, chosen) as running:
        try:
            logits, heard = _heard(subject, inputs)
        except (RuntimeError, ValueError) as error:
            if batching.is_out_of_memory(error) or not chosen.mask or running.softmaxes:
                raise
            raise ModelError(
                f"The published rules count the attention mask as a summand, which {type(subject.model).__name__} does "
                "not add to its scores: explain with the method's plain name, such as lrp."
            ) from error
    return _flow(subject, running, heard, logits)


@contextmanager
def _flowing(subject: Subject, rules: Rules) -> Iterator[RelevanceMode]:
    """The model with its plain attention, under those rules."""
    with _eager(subject.model), mode.relevance_mode(subject.model, subject.blocks[0], rules) as running:
        yield running


def _flow(subject: Subject, running: RelevanceMode, heard: Sequence[Tensor], logits: Tensor) -> RelevanceGraph:
    """What a forward under the mode left for relevance to flow back through."""
    _complete("attention", running.softmaxes, subject.depth, subject)
    layers, beneath = [mode.shadow(hidden) for hidden in heard], mode.shadow(logits)
    _complete("shadows", sum(layer is not None for layer in layers), subject.depth + 1, subject)
    assert beneath is not None, "logits come of the last layer"
    return RelevanceGraph(running, [layer for layer in layers if layer is not None], beneath)


def _heard(subject: Subject, inputs: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Logits and the hidden states of every layer."""
    with architecture.record_layers(subject.model) as heard:
        logits = subject.logits(inputs)
    _complete("hidden states", len(heard), subject.depth + 1, subject)
    return logits, heard


def _backward(value: Tensor, layers: list[Tensor], spread: Tensor | None) -> Sequence[Tensor | None]:
    """Relevance at every layer; with `spread`, the texts' lengths, the last one's mean on each position of a text."""
    if spread is None:
        return torch.autograd.grad(value, layers, retain_graph=True, allow_unused=True)
    (last,) = torch.autograd.grad(value, layers[-1:], retain_graph=True)
    read = torch.arange(last.shape[1], device=last.device) < spread[:, None]
    last = (last.sum(1) / spread[:, None])[:, None] * read[..., None]
    found = torch.autograd.grad(layers[-1], layers[:-1], last, retain_graph=True, allow_unused=True)
    return *found, last


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


def _finite(*tensors: Tensor) -> None:
    """Refuse to rank tokens by NaN."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
        raise ModelError(
            "The model's output or its gradient is NaN or infinite for this text: weights are broken, or its precision "
            'overflows (load it with dtype="float32").'
        )


def _complete(what: str, found: int, expected: int, subject: Subject) -> None:
    """Refuse silent nothing: every block must have been heard exactly once."""
    if found != expected:
        raise ModelError(
            f"{found} of {expected} {what} were seen in {type(subject.model).__name__}: "
            f"its forward is not one pass through its {subject.depth} blocks."
        )


def _laid_out(what: str, shapes: Sequence[Sequence[int]], encoded: Encoded, subject: Subject) -> None:
    """Refuse what does not lie text by text and position by position: it would be taken for other positions."""
    for texts, *places in shapes:
        if texts != len(encoded) or len(set(places)) > 1 or places[0] < encoded.longest:
            raise ModelError(
                f"The {what} of {type(subject.model).__name__} do not lie text by text and position by position: "
                "explain with a method that reads other parts of a model (see `nbsal methods`), or only runs it, such "
                "as occlusion."
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
def _eager(model: Any) -> Iterator[None]:
    """The model with its plain attention; its own implementation comes back afterwards."""
    before = model.config._attn_implementation
    if before != "eager":
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        if before != "eager":
            model.set_attn_implementation(before)


@contextmanager
def _attending(subject: Subject, wanted: bool) -> Iterator[list[Tensor]]:
    """Attention probabilities of every block, in order, while the model runs with its plain attention."""
    if not wanted:
        yield []
        return
    with _eager(subject.model), _Attention() as attention:
        yield attention.seen
