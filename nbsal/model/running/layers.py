"""One forward pass of a subject with its hidden layers; those of an encoder-decoder have parts of both sides."""

import inspect
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbsal.model import encoder_decoder
from nbsal.model.running import attention_maps
from nbsal.model.running.attention_maps import AttentionRecorder
from nbsal.model.running.checks import check_count, check_layout, check_sides
from nbsal.model.running.hooks import record_layers, replace_layer
from nbsal.model.running.memory import memory_errors
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded

ATTENTION = frozenset({"attention", "attention_grad"})  # what is needed of attention
STATES = frozenset({"hidden", "hidden_grad", "relevance"})  # what is read of hidden states
Parts = tuple[Tensor, ...]  # tensors that make up one when they are joined along positions


def reads_attention(needs: Iterable[str]) -> bool:
    """Whether something of the attention maps is needed."""
    return not ATTENTION.isdisjoint(needs)


@dataclass(frozen=True)
class HiddenStates:
    """The hidden states of a forward pass, layer by layer; `reply` holds those of a decoder beside its encoder."""

    states: list[Tensor]
    reply: list[Tensor]

    def parts(self, layer: int) -> Parts:
        return (self.states[layer], *self.reply[:1])

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """The texts and positions of every layer."""
        extra = self.reply[0].shape[1] if self.reply else 0
        return [(states.shape[0], states.shape[1] + extra) for states in self.states]

    @property
    def top(self) -> Tensor:
        """The output of the last block, which the head reads."""
        return (self.reply or self.states)[-1]


def join(parts: Sequence[Tensor]) -> Tensor:
    """The tensors of a layer as one, [batch, position, width]."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), 1)


def unpad(logits: Tensor, encoded: Encoded) -> Iterator[Tensor]:
    """The logits of each text, without those at padding."""
    for row, row_logits in zip(encoded.rows, logits, strict=True):
        yield row_logits[: len(row)] if row_logits.ndim > 1 else row_logits


@contextmanager
def forward_mode(gradients: bool) -> Iterator[None]:
    """Record a graph for gradients, or none, whatever the mode of torch that a caller is in."""
    with memory_errors(), torch.inference_mode(False), torch.set_grad_enabled(gradients):
        yield


def run_model(
    subject: Subject, inputs: dict[str, Tensor], replaced: tuple[int, Tensor] | None = None
) -> tuple[Tensor, HiddenStates]:
    """The logits, and the hidden states of every layer; `replaced` is a layer with other states in its place."""
    reply: list[Tensor] = []
    with ExitStack() as stack:
        states = stack.enter_context(record_layers(subject.twin, subject.twin_blocks()))
        if subject.task == encoder_decoder.REPLY:
            reply = stack.enter_context(record_layers(subject.twin, subject.twin_blocks(encoder_decoder.REPLY)))
        if replaced is not None:
            size = inputs["input_ids"].shape[1]
            pieces = stack.enter_context(replace_states(subject, *replaced, size))
        logits = subject.logits(inputs)
    if replaced is not None:
        states[replaced[0]], reply[:1] = pieces[0], pieces[1:]
    check_count("hidden states", len(states), subject.depth + 1, subject)
    if subject.task == encoder_decoder.REPLY:
        check_count(
            "hidden states", len(reply), encoder_decoder.depth(subject.twin, encoder_decoder.REPLY) + 1, subject
        )
        both = [inputs[name].shape for name in ("input_ids", "decoder_input_ids")]
        expected = [both[0]] * len(states) + [both[1]] * len(reply)
        check_sides("hidden states", [layer.shape[:2] for layer in (*states, *reply)], expected, subject)
    return logits, HiddenStates(states, reply)


@contextmanager
def recorded_maps(subject: Subject, needs: Collection[str]) -> Iterator[list[Tensor]]:
    """Record the attention maps of a forward pass, in order, if any of its needs is of attention."""
    if not reads_attention(needs):
        yield []
        return
    recorder = AttentionRecorder(square=subject.task != encoder_decoder.REPLY)
    with attention_maps.with_mode(subject.twin, recorder):
        yield recorder.maps


def check_recorded(
    subject: Subject, encoded: Encoded, needs: Collection[str], layers: HiddenStates, maps: Sequence[Tensor]
) -> None:
    """Refuse hidden states and attention maps, where they are needed, that are not laid out by text and position."""
    if not STATES.isdisjoint(needs):
        check_layout("hidden states", layers.shapes, encoded, subject)
    if reads_attention(needs):
        _check_maps(subject, encoded, maps)


def _check_maps(subject: Subject, encoded: Encoded, maps: Sequence[Tensor]) -> None:
    """Refuse attention maps of which some are missing, or that are not laid out by text and position."""
    shapes, texts = [(len(weights), *weights.shape[2:]) for weights in maps], len(encoded)
    check_count("attention maps", len(maps), map_count(subject), subject)
    if subject.task != encoder_decoder.REPLY:
        check_layout("attention maps", shapes, encoded, subject)
        return
    source = encoder_decoder.source_size(encoded[0])
    reply = encoded.longest - source
    crossing = [(texts, reply, reply), (texts, reply, source)] * encoder_decoder.depth(
        subject.twin, encoder_decoder.REPLY
    )
    check_sides("attention maps", shapes, [(texts, source, source)] * subject.depth + crossing, subject)


def reply_layers(subject: Subject, encoded: Encoded, layers: Sequence[int]) -> dict[int, Tensor]:
    """Some hidden layers of what writes the reply: of an encoder-decoder, of its decoder."""

    def run() -> dict[int, Tensor]:
        with forward_mode(gradients=False):
            recorded = run_model(subject, subject.inputs(encoded))[1]
        return {layer: (recorded.reply or recorded.states)[layer] for layer in layers}

    return subject.exclusively(run)


def logits_at(subject: Subject, inputs: dict[str, Any], at: NDArray[np.int64]) -> Tensor:
    """The logits at some positions of each text, [text, position]; where the model can, it computes no others."""
    inputs, rows = keep_logits(subject, inputs, np.unique(at).tolist())
    logits = subject.logits(inputs)
    at = np.vectorize(rows.__getitem__)(at)
    return logits[torch.arange(len(at), device=logits.device)[:, None], torch.as_tensor(at, device=logits.device)]


def keeps_logits(subject: Subject) -> bool:
    """Whether a model can compute the logits at some positions alone."""
    return "logits_to_keep" in inspect.signature(subject.model.forward).parameters


def keep_logits(
    subject: Subject, inputs: dict[str, Any], positions: Sequence[int]
) -> tuple[dict[str, Any], dict[int, int]]:
    """Inputs with which a model computes the logits at some positions alone, if it can, and the row of each of them."""
    if not keeps_logits(subject):
        return inputs, {position: position for position in positions}
    kept = torch.as_tensor(positions, device=subject.device)
    return inputs | {"logits_to_keep": kept}, {position: row for row, position in enumerate(positions)}


def map_count(subject: Subject) -> int:
    """The attention maps of a forward pass: one a block, and two a block of a decoder that also reads an encoder."""
    if subject.task != encoder_decoder.REPLY:
        return subject.depth
    return subject.depth + 2 * encoder_decoder.depth(subject.twin, encoder_decoder.REPLY)


def deepest(subject: Subject) -> int:
    """The blocks of the deeper side: what the maps over source and reply together are at most, for a whole row."""
    return max(
        subject.depth,
        encoder_decoder.depth(subject.twin, encoder_decoder.REPLY) if subject.task == encoder_decoder.REPLY else 0,
    )


def first_blocks(subject: Subject) -> list[nn.Module]:
    """The blocks that read embeddings: the first one, of each side."""
    deciding = [encoder_decoder.REPLY] if subject.task == encoder_decoder.REPLY else []
    return [subject.twin_blocks(side)[0] for side in (encoder_decoder.SOURCE, *deciding)]


@contextmanager
def replace_states(subject: Subject, layer: int, states: Tensor, size: int) -> Iterator[Parts]:
    """Run the model with other states in place of those of a layer; `size` of its positions are an encoder's.

    Yields the parts of the states: those of an encoder, and those of its decoder's input.
    """
    pieces: Parts = (states,) if subject.task != encoder_decoder.REPLY else (states[:, :size], states[:, size:])
    with ExitStack() as stack:
        stack.enter_context(replace_layer(subject.twin_blocks(), layer, pieces[0], layer == subject.depth))
        for reply_states in pieces[1:]:
            blocks = subject.twin_blocks(encoder_decoder.REPLY)
            stack.enter_context(replace_layer(blocks, 0, reply_states, is_last=False))
        yield pieces
