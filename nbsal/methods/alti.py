"""Contributions of positions to each block's output, rolled out through the blocks: ALTI (Ferrando et al. 2022).

A position sends its value vector, transformed by the output projection and the norm, to every other position; the
residual connection is part of what it sends to itself. Its contribution is how much closer to the output the sent
vector comes, in the l1 norm.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from nbsal.methods.attention import deciding_positions, normalise_rows
from nbsal.methods.base import Method, register
from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts
from nbsal.model.refusals import check_plain_weights
from nbsal.model.running.double import block_by_block
from nbsal.model.subject import Subject
from nbsal.passes.stream import Block
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError

EPSILON = 1e-6  # added to every difference, as `torch.pairwise_distance` does
CHUNK = 2**20  # numbers of the vectors that are sent at once: those of all pairs of positions would fill the memory


@dataclass(frozen=True)
class Parts:
    """Paths of the modules of a post-norm block that ALTI reads, and the block's feed-forward part as a function."""

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


@dataclass(frozen=True)
class BlockMethod(Method):
    """A method that reads the weights of every block: in a copy if adapters are to be merged, or 8 bits dequantised."""

    by_block = True

    def resolve(self, subject: Subject) -> Self:
        check_plain_weights(subject, self.name)
        return super().resolve(subject)

    def subject_for(self, subject: Subject) -> Subject:
        return subject.merged

    def layers(self, depth: int) -> set[int]:
        return set(range(depth))


@register(
    "alti",
    family="attention",
    needs={"hidden", "attention"},
    paper="Ferrando et al. 2022",
    cost=Cost(1),
    promise={"nonnegative", "sums_to_1_per_decision", "not_about_target"},
)
@dataclass(frozen=True)
class ALTI(BlockMethod):
    """Contributions of positions to positions, rolled out; `second_norm` includes the second norm of each block."""

    facts = Facts("ALTI", look=15, explains_replies=False)

    second_norm: bool = False

    def resolve(self, subject: Subject) -> Self:
        kind = subject.model.config.model_type
        if kind not in PARTS:
            message = f"alti cannot read the blocks of {kind}. It supports these encoders: {', '.join(PARTS)}."
            raise ModelError(message, part="post-norm blocks")
        return super().resolve(subject)

    @torch.no_grad()
    def scores(self, trace: Trace) -> Tensor:
        parts = PARTS[trace.subject.model.config.model_type]
        rows = deciding_positions(trace).sum(1)
        for block, values in each_block(trace):
            for i, row in enumerate(trace.encoded):
                n = len(row)
                queries = rows[i, :n].nonzero()[:, 0]  # in the last block, the deciding positions alone
                attention = values["attention"][i, :, queries, :n]
                shares = self.contributions(block, parts, values["hidden"][i, :n], attention, queries)
                rows[i, :n] = rows[i, queries] @ shares.to(rows)
        return rows

    def contributions(self, block: nn.Module, parts: Parts, x: Tensor, attention: Tensor, queries: Tensor) -> Tensor:
        """Share of each position [column] in the block's output at some positions [row]; rows sum to 1."""
        paths = (parts.value, parts.out, parts.norm, parts.second)
        modules: list[Any] = [block.get_submodule(path) for path in paths]
        value, out, norm, second = modules
        heads, n = len(attention), len(x)
        own, wide = x.dtype, torch.promote_types(x.dtype, torch.float32)  # half precision is too coarse for distances
        weight = out.weight.view(x.shape[-1], heads, -1).to(wide)
        values = torch.einsum("jhd,ohd->jho", value(x).view(n, heads, -1).to(wide), weight)
        x, attention = x.to(wide), attention.to(wide)
        sums = torch.einsum("hij,jho->io", attention, values) + x[queries] + out.bias
        deviation = sums.std(-1, unbiased=False)[:, None]
        output = norm.weight * _centred(sums) / deviation + norm.bias
        # The norms are linear but for their deviations: what is sent has been through them before it is summed.
        values, x = norm.weight * _centred(values), norm.weight * _centred(x)
        if self.second_norm:
            states = parts.feed_forward(block, output.to(own)).to(wide) + output
            second_deviation = states.std(-1, unbiased=False)[:, None]
            output = second.weight * _centred(states) / second_deviation + second.bias
            deviation = deviation * second_deviation
            values, x = second.weight * _centred(values), second.weight * _centred(x)
        target, distance = (output - EPSILON) * deviation, torch.empty_like(attention[0])
        size = max(1, CHUNK // target.numel())  # few positions at a time, not few queries: their products are larger
        for start in range(0, n, size):
            part = slice(start, start + size)
            distance[:, part] = _distances(values[part], x[part], attention[..., part], queries - start, target)
        return normalise_rows((output.abs().sum(-1)[:, None] - distance / deviation).relu())


def each_block(trace: Trace, queries: Tensor | None = None) -> Iterator[tuple[Any, Block]]:
    """Every block, from the last to the first, in its own precision, with its input and rows of its attention map."""
    subject, values_by_block = trace.subject, trace.blocks("hidden", "attention", queries=queries)
    blocks = subject.twin_blocks()
    for number, values in zip(reversed(range(subject.depth)), values_by_block, strict=True):
        block = blocks[number % len(blocks)]  # ALBERT calls the same block repeatedly
        with block_by_block(block):
            yield block, values


def _distances(values: Tensor, x: Tensor, attention: Tensor, queries: Tensor, target: Tensor) -> Tensor:
    """The l1 distances of what some positions send to queries from their target, [query, position].

    `queries` are the queries' positions, counted from the first of those.
    """
    sent = torch.baddbmm(-target, attention.permute(2, 1, 0), values)  # [position, query, width]
    own = ((queries >= 0) & (queries < len(x))).nonzero()[:, 0]
    sent[queries[own], own] += x[queries[own]]  # the residual connection
    distances: Tensor = torch.linalg.vector_norm(sent, 1, -1)
    return distances.T


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)
