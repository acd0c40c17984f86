"""ALTI (Ferrando et al. 2022): how much of each block's output comes from each position, followed through the blocks.

What a position sends is its value vector as the output projection and the norm transform it, the residual included; its
contribution is how much nearer it brings the output (in the l1 norm).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from nbsal.errors import ModelError
from nbsal.methods.attention import deciding_rows, rolled_out, row_normalised
from nbsal.methods.base import Method, register
from nbsal.model.subject import Subject
from nbsal.trace import Trace


@dataclass(frozen=True)
class Parts:
    """Where a post-norm block keeps what ALTI reads, by path, and its feed-forward part as a function."""

    value: str
    out: str
    norm: str
    second: str
    feed_forward: Callable[[Any, Tensor], Tensor]


_BERT = Parts(
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "output.LayerNorm",
    lambda block, y: block.output.dense(block.intermediate(y)),
)
PARTS = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", "camembert"), _BERT),
    "deberta-v2": replace(_BERT, value="attention.self.value_proj"),
    "mpnet": Parts("attention.attn.v", "attention.attn.o", "attention.LayerNorm", _BERT.second, _BERT.feed_forward),
    "distilbert": Parts(
        "attention.v_lin",
        "attention.out_lin",
        "sa_layer_norm",
        "output_layer_norm",
        lambda block, y: block.ffn(y),
    ),
    "albert": Parts(
        "albert_layers.0.attention.value",
        "albert_layers.0.attention.dense",
        "albert_layers.0.attention.LayerNorm",
        "albert_layers.0.full_layer_layer_norm",
        lambda group, y: group.albert_layers[0].ff_chunk(y),
    ),
}


@register(
    "alti",
    family="attention",
    needs={"hidden", "attention"},
    paper="Ferrando et al. 2022",
    cost="1",
    promise="0 or more; a text's scores sum to 1; not about the target",
)
@dataclass(frozen=True)
class ALTI(Method):
    """Contributions of positions to positions, rolled out; `second_norm` follows them past the block's second norm."""

    second_norm: bool = False

    def resolve(self, subject: Subject) -> Self:
        kind = subject.model.config.model_type
        if kind not in PARTS:
            raise ModelError(f"alti reads blocks of post-norm encoders it knows ({', '.join(PARTS)}), not {kind}.")
        return self

    def layers(self, depth: int) -> set[int]:
        return set(range(depth))

    @torch.no_grad()
    def scores(self, trace: Trace) -> Tensor:
        parts, subject = PARTS[trace.subject.model.config.model_type], trace.subject
        found = torch.zeros_like(trace.attention[0][:, 0])
        for i, row in enumerate(trace.encoded):
            n, maps = len(row), []
            for b in range(subject.depth):
                block = subject.blocks[b % len(subject.blocks)]  # ALBERT calls one block again and again
                maps.append(self.contributions(block, parts, trace.hidden[b][i, :n], trace.attention[b][i, :, :n, :n]))
            found[i, :n, :n] = rolled_out(maps)
        return deciding_rows(found, trace)

    def contributions(self, block: nn.Module, parts: Parts, x: Tensor, attention: Tensor) -> Tensor:
        """What each position's output [row] owes to each position [column]; rows sum to 1."""
        paths = (parts.value, parts.out, parts.norm, parts.second)
        modules: list[Any] = [block.get_submodule(path) for path in paths]
        value, out, norm, second = modules
        heads, n = len(attention), len(x)
        weight = out.weight.view(x.shape[-1], heads, -1)
        sent = torch.einsum("jhd,ohd->hjo", value(x).view(n, heads, -1), weight)
        raw = torch.einsum("hij,hjo->ijo", attention, sent)
        raw[range(n), range(n)] += x
        sums, bias = raw.sum(1), out.bias
        spread = (sums + bias).std(-1, unbiased=False)[:, None]
        moved = norm.weight * _centred(raw) / spread[:, None]
        output = norm.weight * _centred(sums + bias) / spread + norm.bias
        if self.second_norm:
            states = parts.feed_forward(block, output) + output
            spread = states.std(-1, unbiased=False)[:, None]
            moved = second.weight * _centred(moved) / spread[:, None]
            output = second.weight * _centred(states) / spread + second.bias
        distance = (moved - output[:, None] + 1e-6).abs().sum(-1)
        return row_normalised((output.abs().sum(-1)[:, None] - distance).relu())


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)
