"""Where a model adds or multiplies positions, so that their relevance is told apart from that of the tokens.

Relevance then starts at the token embeddings and at the positions: at tables that are added, learned or sinusoidal,
and at the cosines and sines of rotary positions, which are factors of queries and keys and get half (Bakish et al.
2025). Positions that act on attention scores (T5, ALiBi, DeBERTa) are part of the operation, and get none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model import sides
from nbsal.model.loading.composite import transformer_of
from nbsal.model.running import architecture, memory, restore
from nbsal.model.subject import Subject
from nbsal.model.target import Decision
from nbsal.model.text.tokens import Encoded

ADDED = re.compile(r"(^|\.)(position_embeddings|embed_positions|wpe)$")


@dataclass(frozen=True)
class Apart:
    """The relevance of tokens, [batch, position]; of all positions together, and of the output, [batch]."""

    tokens: Tensor
    positions: Tensor
    output: Tensor


@dataclass
class ApartGraph:
    """A forward pass from token embeddings and positions to logits, along which any number of targets propagate."""

    logits: Tensor
    tokens: list[Tensor]
    positions: list[Tensor]

    def relevance(self, value: Tensor) -> Apart:
        """What is told apart of a number that is made of the logits.

        >>> tokens, positions = torch.ones(1, 3, 2, requires_grad=True), torch.ones(1, 3, 2, requires_grad=True)
        >>> logits = (tokens + positions).sum((1, 2))[:, None]
        >>> ApartGraph(logits, [tokens], [positions]).relevance(logits[0, 0]).positions
        tensor([6.])
        """
        tensors, count = [self.logits, *self.tokens, *self.positions], 1 + len(self.tokens)
        output, *gradients = torch.autograd.grad(value, tensors, retain_graph=True, materialize_grads=True)
        relevance = [(each.detach() * grad).sum(-1) for each, grad in zip(tensors[1:], gradients, strict=True)]
        positions = torch.stack([each.flatten(1).sum(1) for each in relevance[count - 1 :]]).sum(0)
        return Apart(torch.cat(relevance[: count - 1], 1), positions, output.flatten(1).sum(1))


def apart(subject: Subject, encoded: Encoded, decisions: Sequence[Decision], graphs: dict[Any, Any]) -> Apart:
    """The relevance of tokens and positions for some decisions of a subject whose gradients are relevance.

    The forward pass is kept in `graphs`, for other decisions on the same texts.
    """

    def run() -> Apart:
        if ApartGraph not in graphs:
            graphs[ApartGraph] = record_apart(subject, encoded)
        logits = graphs[ApartGraph].logits
        values = [decision.target.value(row) for decision, row in zip(decisions, logits, strict=True)]
        result: Apart = graphs[ApartGraph].relevance(torch.stack(values).sum())
        return result

    return restore.exclusively(subject.model, run)


def record_apart(subject: Subject, encoded: Encoded) -> ApartGraph:
    """Run a subject, whose gradients are relevance, with graphs from token embeddings and positions on.

    >>> import nbsal
    >>> subject = nbsal.load("demo/notes")
    >>> graph = record_apart(subject, subject.encode("A joy."))
    >>> len(graph.tokens), len(graph.positions)  # one table; cosines and sines
    (1, 2)
    """
    graph, model = ApartGraph(torch.empty(0), [], []), subject.model

    def of_tokens(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        graph.tokens.append(output.detach().requires_grad_())
        return graph.tokens[-1]

    def of_positions(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        tensors = [each.detach().requires_grad_() for each in _of_each_text(output, len(encoded))]
        graph.positions += tensors
        return tuple(tensors) if isinstance(output, tuple) else tensors[0]

    memory.check_fits(subject, encoded, 0, memory.STATES * len(architecture.blocks(model)))
    with (
        architecture.forward_mode(model, gradients=True),
        restore.hooks(model, token_tables(model), after=of_tokens),
        restore.hooks(model, position_tables(model), after=of_positions),
    ):
        graph.logits = subject.logits(subject.inputs(encoded))
    return graph


def position_tables(model: nn.Module) -> list[nn.Module]:
    """The modules whose output is what a model adds or multiplies for positions.

    >>> import nbsal
    >>> [type(table).__name__ for table in position_tables(nbsal.load("demo/notes").model)]
    ['LlamaRotaryEmbedding']
    """
    return [
        module
        for name, module in model.named_modules()
        if ADDED.search(name) or type(module).__name__.endswith("RotaryEmbedding")
    ]


def token_tables(model: nn.Module) -> list[nn.Module]:
    """The token embeddings of a model, those of its decoder after those of its encoder."""
    transformer: Any = transformer_of(model)
    parts: list[Any] = [transformer]
    if sides.writes_replies(transformer):
        parts = [architecture.body(transformer, side) for side in (sides.SOURCE, sides.REPLY)]
    return list(dict.fromkeys(part.get_input_embeddings() for part in parts))


def _of_each_text(output: Any, count: int) -> tuple[Tensor, ...]:
    """The tensors of positions, each with a part of its own for each of some texts, which may share them."""
    tensors: tuple[Tensor, ...] = output if isinstance(output, tuple) else (output,)
    shared = [tensor[None] if tensor.ndim == 2 else tensor for tensor in tensors]
    return tuple(tensor.expand(count, *tensor.shape[1:]) for tensor in shared)
