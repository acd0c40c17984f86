"""Where a model adds or multiplies positions, so that their relevance is told apart from that of the tokens.

Relevance then starts at the token embeddings and at the positions: at tables that are added, learned or sinusoidal,
and at the cosines and sines of rotary positions, which are factors of queries and keys and get half (Bakish et al.
2025). Positions that act on attention scores (T5, ALiBi, DeBERTa) are part of the operation, and get none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from nbsal.model import sides
from nbsal.model.loading.composite import transformer_of
from nbsal.model.running import architecture

ADDED = re.compile(r"(^|\.)(position_embeddings|embed_positions|wpe)$")


@dataclass(frozen=True)
class Apart:
    """The relevance of tokens, [batch, position]; of all positions together, and of the output, [batch]."""

    tokens: Tensor
    positions: Tensor
    output: Tensor

    @classmethod
    def of(cls, relevance: Sequence[Tensor], count: int) -> Self:
        """From the relevance of `count` token embeddings, of the tensors of positions, and of the logits.

        >>> Apart.of([torch.ones(1, 3, 2), torch.ones(1, 3, 2), torch.ones(1, 2)], 1).positions
        tensor([6.])
        """
        tokens = torch.cat([each.sum(-1) for each in relevance[:count]], 1)
        *positions, output = (each.flatten(1).sum(1) for each in relevance[count:])
        return cls(tokens, torch.stack(positions).sum(0), output)


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


def of_each_text(output: Any, count: int) -> tuple[Tensor, ...]:
    """The tensors of positions, each with a part of its own for each of some texts, which may share them."""
    tensors: tuple[Tensor, ...] = output if isinstance(output, tuple) else (output,)
    shared = [tensor[None] if tensor.ndim == 2 else tensor for tensor in tensors]
    return tuple(tensor.expand(count, *tensor.shape[1:]) for tensor in shared)
