"""A recorded forward pass through which relevance is propagated back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbsal.model.running import attention_maps, memory
from nbsal.model.running.checks import check_count
from nbsal.model.running.layers import HiddenStates, Parts, deepest, first_blocks, join, map_count, run_model, unpad
from nbsal.model.subject import Subject
from nbsal.model.target import Decision
from nbsal.model.text.tokens import Encoded
from nbsal.passes.lrp import mode
from nbsal.passes.lrp.mode import AttentionFilter, RelevanceMaps, RelevanceMode
from nbsal.passes.lrp.rules import Rules
from nbsal.support.errors import ModelError


@dataclass
class RelevanceGraph:
    """A forward pass through which relevance can be propagated back, any number of times."""

    mode: RelevanceMode
    layers: list[Parts]
    logits: Tensor

    def propagate(
        self, encoded: Encoded, decisions: Sequence[Decision], attention_filter: AttentionFilter, spread: Tensor | None
    ) -> RelevanceMaps:
        """The relevance for each text's target; with `spread`, see `_backward`."""
        self.mode.attention_filter, self.mode.attention_maps = attention_filter, {}
        pairs = zip(decisions, unpad(self.logits, encoded), strict=True)
        values = [decision.target.relevance(row_logits) for decision, row_logits in pairs]
        tensors = [part for parts in self.layers for part in parts]
        relevance = iter(_backward(torch.stack(values).sum(), tensors, spread))
        hidden = {layer: join([next(relevance) for _ in parts]) for layer, parts in enumerate(self.layers)}
        return RelevanceMaps(hidden, self.mode.attention_maps)


def run_for_relevance(subject: Subject, encoded: Encoded, rules: Rules) -> RelevanceGraph:
    """Run the model again, for relevance only."""
    memory.check_fits(subject, encoded, memory.WHOLE_MAPS_OF_RELEVANCE * deepest(subject))
    # In decoders the causal mask is part of the operation; elsewhere the published code adds masks as summands.
    effective = replace(rules, mask=rules.mask and not subject.causal)
    inputs = subject.inputs(encoded)
    if effective.mask:  # stock models drop a mask that hides nothing, but the published sum with it has an effect
        hidden = 1 - inputs["attention_mask"][:, None, None].to(subject.dtype)
        size = (-1, -1, encoded.longest, -1)
        inputs["attention_mask"] = (hidden * torch.finfo(subject.dtype).min).expand(*size)
    with relevance_forward(subject, effective) as relevance_mode:
        try:
            logits, layers = run_model(subject, inputs)
        except (RuntimeError, ValueError, IndexError) as error:
            if memory.is_out_of_memory(error) or not effective.mask or relevance_mode.softmaxes:
                raise
            raise ModelError(
                "The published rules treat the attention mask as a summand of the attention scores, but "
                f"{type(subject.twin).__name__} adds no mask to them. Use the method's plain name, such as lrp.",
                part="attention mask",
            ) from error
    return relevance_graph(subject, relevance_mode, layers, logits)


@contextmanager
def relevance_forward(subject: Subject, rules: Rules) -> Iterator[RelevanceMode]:
    """Run the model with eager attention, recording a graph for relevance under those rules."""
    with (
        attention_maps.eager(subject.twin),
        mode.relevance_mode(subject.twin, first_blocks(subject), rules, subject.multiplies_in_float32) as recording,
    ):
        yield recording


def relevance_graph(
    subject: Subject, relevance_mode: RelevanceMode, layers: HiddenStates, logits: Tensor
) -> RelevanceGraph:
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
