"""Where a model adds or multiplies positions, so that their relevance is separate from that of the tokens.

Relevance then starts at the token embeddings and at the positions: at tables that are added, learned or sinusoidal,
and at the cosines and sines of rotary positions, which are factors of queries and keys and get half (Bakish et al.
2025). Each block that reads cosines and sines has relevance of its own at them. Positions that act on attention scores
(T5, ALiBi, DeBERTa) are part of the operation, and get none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nbsal.model import encoder_decoder
from nbsal.model.loading.composite import transformer_of
from nbsal.model.running import architecture, memory
from nbsal.model.running.hooks import hooks
from nbsal.model.running.layers import forward_mode
from nbsal.model.subject import Subject
from nbsal.model.target import Decision
from nbsal.model.text.tokens import Encoded

ADDED = re.compile(r"(^|\.)(position_embeddings|embed_positions|wpe)$")


@dataclass
class SeparateGraph:
    """A forward pass from token embeddings and positions to logits, along which any number of targets propagate.

    `positions` has for each side of the model, as `tokens` has, every tensor of positions that was added or multiplied.
    """

    logits: Tensor = field(default_factory=lambda: torch.empty(0))
    tokens: list[Tensor] = field(default_factory=list)
    positions: list[list[Tensor]] = field(default_factory=list)

    def relevance(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The relevance of tokens for a number that is made of the logits, and the sizes of that of positions.

        Both are [batch, position].

        >>> tokens, positions = torch.ones(1, 3, 2, requires_grad=True), -torch.ones(1, 3, 2).requires_grad_()
        >>> logits = (tokens + positions).sum((1, 2))[:, None]
        >>> SeparateGraph(logits, [tokens], [[positions]]).relevance(logits[0, 0])
        (tensor([[2., 2., 2.]]), tensor([[2., 2., 2.]]))
        """
        tensors = [tensor for group in (self.tokens, *self.positions) for tensor in group]
        gradients = torch.autograd.grad(value, tensors, retain_graph=True, materialize_grads=True)
        products = iter((each.detach() * grad).sum(-1) for each, grad in zip(tensors, gradients, strict=True))
        tokens = [next(products) for _ in self.tokens]
        sizes = [
            torch.stack([next(products).abs() for _ in used]).sum(0) if used else torch.zeros_like(side)
            for side, used in zip(tokens, self.positions, strict=True)
        ]
        return torch.cat(tokens, 1), torch.cat(sizes, 1)


def separate(
    subject: Subject, encoded: Encoded, decisions: Sequence[Decision], graphs: dict[Any, Any]
) -> tuple[Tensor, Tensor]:
    """The relevance of tokens, and the sizes of that of positions, for decisions of a subject.

    The gradients of the subject are relevance. The forward pass is kept in `graphs`, for other decisions on its texts.
    """

    def run() -> tuple[Tensor, Tensor]:
        if SeparateGraph not in graphs:
            graphs[SeparateGraph] = record_separately(subject, encoded)
        graph: SeparateGraph = graphs[SeparateGraph]
        values = [decision.target.value(row) for decision, row in zip(decisions, graph.logits, strict=True)]
        return graph.relevance(torch.stack(values).sum())

    return subject.exclusively(run)


def record_separately(subject: Subject, encoded: Encoded) -> SeparateGraph:
    """Run a subject, whose gradients are relevance, with graphs from token embeddings and positions on.

    >>> import nbsal
    >>> subject = nbsal.load("demo/notes")
    >>> graph = record_separately(subject, subject.encode("A joy."))
    >>> len(graph.tokens), len(graph.positions[0])  # one table; cosines and sines of four blocks
    (1, 8)
    """
    graph, model = SeparateGraph(), subject.twin
    tables: list[Tensor] = []  # of the side that runs now

    def of_tokens(module: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        tables.clear()
        graph.tokens.append(output.detach().requires_grad_())
        graph.positions.append([])
        return graph.tokens[-1]

    def of_positions(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        tensors = [each.detach().requires_grad_() for each in _of_each_text(output, len(encoded))]
        tables.extend(tensors)
        graph.positions[-1] += tensors
        return tuple(tensors) if isinstance(output, tuple) else tensors[0]

    def of_block(module: nn.Module, args: Any, kwargs: Any) -> Any:
        def copy(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple(map(copy, value))
            if not any(value is table for table in tables):
                return value
            used = graph.positions[-1]
            used[:] = [each for each in used if each is not value]  # read by blocks only
            used.append(value.detach().requires_grad_())
            return used[-1]

        return tuple(map(copy, args)), {name: copy(value) for name, value in kwargs.items()}

    memory.check_fits(subject, encoded, 0, memory.STATES * len(architecture.blocks(model)))
    with (
        forward_mode(gradients=True),
        hooks(token_tables(model), after=of_tokens),
        hooks(position_tables(model), after=of_positions),
        hooks(_all_blocks(model), before=of_block),
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
    if encoder_decoder.writes_replies(transformer):
        parts = [architecture.body(transformer, side) for side in (encoder_decoder.SOURCE, encoder_decoder.REPLY)]
    return list(dict.fromkeys(part.get_input_embeddings() for part in parts))


def _all_blocks(model: nn.Module) -> list[nn.Module]:
    both = encoder_decoder.writes_replies(transformer_of(model))
    return [
        block
        for side in (encoder_decoder.SOURCE, encoder_decoder.REPLY)[: 1 + both]
        for block in architecture.blocks(model, side)
    ]


def _of_each_text(output: Any, count: int) -> tuple[Tensor, ...]:
    """The tensors of positions, each with a part of its own for each of some texts, which may share them."""
    tensors: tuple[Tensor, ...] = output if isinstance(output, tuple) else (output,)
    shared = [tensor[None] if tensor.ndim == 2 else tensor for tensor in tensors]
    return tuple(tensor.expand(count, *tensor.shape[1:]) for tensor in shared)
