"""Hidden states and logits as sums of one vector for each token: DecompX (Modarressi et al. 2023).

The embedding of each token is followed through every block, with attention weights and the scales of norms as they
are: what a position holds is at every point the sum of what it holds of each token. An activation f is replaced by the
line through 0 that meets it, f(x) / x, and a bias is divided among the tokens by the size of their products with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from nbsal.methods.alti import PARTS, BlockMethod
from nbsal.methods.base import register
from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts
from nbsal.model.loading.composite import Composite
from nbsal.model.running.double import block_by_block
from nbsal.model.running.memory import check_fits
from nbsal.model.subject import Subject
from nbsal.model.text.tokens import Encoded
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError

TINY = 1e-12  # added to what is divided by
ALIVE = 3  # tensors of a vector for each pair of positions at once
CHUNK = 2**24  # numbers of the inner vectors of a feed-forward part at once
AGREES = 1e-2  # of a logit, relative to the size of its scores: half precision is coarse
Activation = Callable[[Tensor], Tensor]

_BERT = ("intermediate.dense", "intermediate.intermediate_act_fn", "output.dense")
# The linear layers of a feed-forward part and the activation between them.
FEED_FORWARD = dict.fromkeys(PARTS, _BERT) | {
    "distilbert": ("ffn.lin1", "ffn.activation", "ffn.lin2"),
    "albert": ("albert_layers.0.ffn", "albert_layers.0.activation", "albert_layers.0.ffn_output"),
}
_ROBERTA: tuple[str, Activation, str] = ("classifier.dense", torch.tanh, "classifier.out_proj")
# The same of the heads that classify texts.
HEADS = dict.fromkeys(PARTS, _ROBERTA) | {
    "bert": ("bert.pooler.dense", torch.tanh, "classifier"),
    "electra": ("classifier.dense", functional.gelu, "classifier.out_proj"),
    "distilbert": ("pre_classifier", torch.relu, "classifier"),
    "albert": ("albert.pooler", torch.tanh, "classifier"),
    "deberta-v2": ("pooler.dense", functional.gelu, "classifier"),
}
LAST_LINEAR = {"token": "classifier", "span": "qa_outputs"}  # heads of one layer


@register(
    "decompx",
    family="attention",
    needs={"hidden", "attention"},
    paper="Modarressi et al. 2023",
    cost=Cost(1),
    promise={"signed", "about_target", "sums_to_output"},
)
@dataclass(frozen=True)
class DecompX(BlockMethod):
    """What the vector of each token adds to the target, with its share of all biases.

    Attention weights count as given, so a token that only directs attention gets nothing for it. Each pair of positions
    has a vector: n tokens take about the time of n forward passes, and 512 tokens of a base model 2.4 GB.
    """

    facts = Facts("DecompX", look=32)

    linear = True
    by_block = False  # a vector for each pair of positions goes through all blocks, from the first on

    def resolve(self, subject: Subject) -> Self:
        kind, task = subject.model.config.model_type, subject.task
        if kind not in PARTS:
            message = f"decompx cannot read the blocks of {kind}. It supports these encoders: {', '.join(PARTS)}."
            raise ModelError(message, part="post-norm blocks")
        if isinstance(subject.model, Composite) or task not in ("sequence", *LAST_LINEAR):
            raise _other_head(subject)
        return super().resolve(subject)

    def layers(self, depth: int) -> set[int]:
        return {0}

    @torch.no_grad()
    def scores(self, trace: Trace) -> Tensor:
        scores = torch.zeros(len(trace.encoded), trace.encoded.longest).to(trace.logits)
        for i, places in enumerate(trace.decision_positions()):
            assert places is not None, "these heads read single positions"
            row, target = trace.encoded[i], trace.decisions[i].target
            check_fits(trace.subject, Encoded([row], 0), ALIVE * trace.subject.width / trace.subject.heads)
            logits = through_head(trace.subject, self.vectors(trace, i, places))
            for index, weight in target.terms:
                query = places.index(index[0]) if len(index) == 2 else 0
                scores[i, : len(row)] += weight * logits[query, :, index[-1]].to(scores)
            if abs(scores[i].sum() - trace.values[i]) > AGREES * scores[i].abs().sum():
                raise _other_head(trace.subject)
        return scores

    @torch.no_grad()
    def vectors(self, trace: Trace, text: int, places: list[int], depth: int | None = None) -> Tensor:
        """What some positions of a layer (default: the last) hold of each token, [place, token, width]."""
        subject, n = trace.subject, len(trace.encoded[text])
        hidden = trace.hidden[0][text, :n]
        vectors = hidden.to(torch.promote_types(hidden.dtype, torch.float32)).T.diag_embed().permute(1, 2, 0)
        depth, blocks = subject.depth if depth is None else depth, subject.twin_blocks()
        for number in range(depth):
            block = blocks[number % len(blocks)]  # ALBERT calls the same block repeatedly
            queries = places if number == depth - 1 else list(range(n))
            attention = trace.attention[number][text, :, queries, :n]
            with block_by_block(block):
                vectors = through_block(block, subject.model.config.model_type, vectors, attention, queries, not number)
        return vectors if depth else vectors[places]


def through_block(
    block: nn.Module, kind: str, vectors: Tensor, attention: Tensor, queries: list[int], first: bool
) -> Tensor:
    """The vectors behind a block, [query, token, width]; in the first block, tokens bring the bias of their values."""
    parts = PARTS[kind]
    paths = (parts.value, parts.out, parts.norm, *FEED_FORWARD[kind], parts.second)
    modules: list[Any] = [block.get_submodule(path) for path in paths]
    value, out, norm, inner, activation, outer, second = modules
    weight, bias = (each.to(vectors) for each in (out.weight, out.bias))
    values = vectors @ value.weight.to(vectors).mT
    if first:
        values.diagonal(dim1=0, dim2=1).add_(value.bias.to(vectors)[:, None])
    else:
        bias = bias + weight @ value.bias.to(vectors)
    values = values.unflatten(-1, (len(attention), -1))
    size = max(1, CHUNK // (len(vectors) * inner.out_features))
    results = []
    for start in range(0, len(queries), size):
        part = slice(start, start + size)
        mixed = torch.einsum("hqs,sjhd->qjhd", attention[:, part].to(vectors), values).flatten(2)
        states = through_norm(with_bias(mixed @ weight.mT + vectors[queries[part]], bias), norm)
        states = states + through_linear(through_activation(through_linear(states, inner), activation), outer)
        results.append(through_norm(states, second))
    return torch.cat(results)


def through_head(subject: Subject, vectors: Tensor) -> Tensor:
    """What each token adds to every logit, [place, token, label]."""
    model: Any = subject.twin
    last = LAST_LINEAR.get(subject.task)
    try:
        if last is None:
            first, activation, last = HEADS[model.config.model_type]
            vectors = through_activation(through_linear(vectors, model.get_submodule(first)), activation)
        return through_linear(vectors, model.get_submodule(last))
    except AttributeError as error:  # a module of that name is missing, or is none with weights
        raise _other_head(subject) from error


def through_linear(vectors: Tensor, layer: Any) -> Tensor:
    """The vectors behind a linear layer, its bias divided among them."""
    result = vectors @ layer.weight.to(vectors).mT
    return result if layer.bias is None else with_bias(result, layer.bias.to(vectors))


def through_activation(vectors: Tensor, activation: Activation) -> Tensor:
    """The vectors behind an activation, replaced by the line through 0 and its value for their sum.

    >>> through_activation(torch.tensor([[2.0], [-6.0]]), lambda x: x.clamp(min=-1))
    tensor([[ 0.5000],
            [-1.5000]])
    """
    total = vectors.sum(-2, keepdim=True)
    return vectors * (activation(total) / (total + TINY))


def through_norm(vectors: Tensor, norm: Any) -> Tensor:
    """The vectors behind a layer norm, whose scale is that of their sum."""
    scale = torch.sqrt(vectors.sum(-2, keepdim=True).var(-1, correction=0, keepdim=True) + norm.eps)
    centred = vectors - vectors.mean(-1, keepdim=True)
    return with_bias(centred / scale * norm.weight.to(vectors), norm.bias.to(vectors))


def with_bias(vectors: Tensor, bias: Tensor) -> Tensor:
    """Add to the vectors their shares of a bias, by the size of their products with it.

    >>> with_bias(torch.tensor([[1.0, 0.0], [-3.0, 5.0]]), torch.tensor([4.0, 0.0]))
    tensor([[2., 0.],
            [0., 5.]])
    """
    weights = (vectors @ bias).abs()
    return vectors + (weights / (weights.sum(-1, keepdim=True) + TINY))[..., None] * bias


def _other_head(subject: Subject) -> ModelError:
    message = (
        f"decompx follows tokens through the heads of stock encoders that classify; {subject.name} has another one. "
        "Use alti, or a gradient method."
    )
    return ModelError(message, part="head")
