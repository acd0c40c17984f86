"""What each position brings to a reading position in every block: Information Flow Routes (Ferrando and Voita 2024).

A block adds to the residual stream what its attention heads bring from other positions. What a head brings from a
position counts by how close it comes to their sum, in the l1 norm: its proximity. A span of positions is averaged first
and then read as one, as Pan et al. (2026) do.

A norm before attention counts as linear, with the scale that it has. A layer norm also subtracts the mean, which is
linear; the program of Pan et al., written for models without it, does not.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from nbsal.methods import alti
from nbsal.methods.attention import deciding_positions, normalise_rows
from nbsal.methods.base import register
from nbsal.methods.cost import Cost
from nbsal.methods.facts import Facts
from nbsal.model.subject import Subject
from nbsal.passes.trace import Trace
from nbsal.support.errors import ModelError

CHUNK = 2**18  # numbers of the vectors that are compared at once: few enough for a processor's caches
MANY = 1e3  # beside it, the epsilon of a norm is rounding


@dataclass(frozen=True)
class Paths:
    """Paths of the modules of a block that IFR reads; `value` may be a projection to queries, keys and values."""

    value: str
    out: str
    norm: str = ""  # before attention; a post-norm block has none
    second: str = ""  # between attention and the sum with the block's input
    by_head: bool = False  # whether a joint projection has the query, key and value of each head side by side


_LLAMA = Paths("self_attn.v_proj", "self_attn.o_proj", "input_layernorm")
_GEMMA = Paths("self_attn.v_proj", "self_attn.o_proj", "input_layernorm", "post_attention_layernorm")
_GPT2 = Paths("attn.c_attn", "attn.c_proj", "ln_1")
PATHS = {
    **{kind: Paths(parts.value, parts.out) for kind, parts in alti.PARTS.items()},
    "big_bird": Paths("attention.self.value", "attention.output.dense"),
    "modernbert": Paths("attn.Wqkv", "attn.Wo", "attn_norm"),
    **dict.fromkeys(("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "gemma"), _LLAMA),
    **dict.fromkeys(("cohere", "gpt_oss", "olmo", "stablelm", "starcoder2"), _LLAMA),
    **dict.fromkeys(("gemma2", "gemma3_text"), _GEMMA),
    "olmo2": Paths("self_attn.v_proj", "self_attn.o_proj", second="post_attention_layernorm"),
    "phi": Paths("self_attn.v_proj", "self_attn.dense", "input_layernorm"),
    "phi3": Paths("self_attn.qkv_proj", "self_attn.o_proj", "input_layernorm"),
    "gpt2": _GPT2,
    "gptj": Paths("attn.v_proj", "attn.out_proj", "ln_1"),
    "gpt_neo": Paths("attn.attention.v_proj", "attn.attention.out_proj", "ln_1"),
    "gpt_neox": Paths("attention.query_key_value", "attention.dense", "input_layernorm", by_head=True),
    "opt": Paths("self_attn.v_proj", "self_attn.out_proj", "self_attn_layer_norm"),
    "bloom": Paths("self_attention.query_key_value", "self_attention.dense", "input_layernorm", by_head=True),
}
# Settings of configurations with which a kind of model orders its blocks otherwise, and the value they must have.
SETTINGS = {"do_layer_norm_before": True, "apply_residual_connection_post_layernorm": False}


@register(
    "ifr",
    family="attention",
    needs={"hidden", "attention"},
    paper="Ferrando and Voita 2024",
    cost=Cost(1),
    promise={"nonnegative", "not_about_target"},
)
@dataclass(frozen=True)
class IFR(alti.BlockMethod):
    """Share of each position in what attention brings to the deciding position, summed over blocks.

    It shows where the model reads, whatever it then writes: not what speaks for the target or against it, nor what the
    feed-forward layers make of it. A target at several positions is read as a span, by the size of its coefficients.
    """

    facts = Facts(
        "Information flow routes",
        look=29,
        start="the same without a target: what attention carries to each token of a reply",
        replies=4,
        default_for={"routes": 1},
    )

    shares = "pass"
    averages_span = True
    centres: ClassVar[bool] = True  # whether a layer norm subtracts the mean

    def resolve(self, subject: Subject) -> Self:
        config = subject.model.config
        if config.model_type not in PATHS or any(
            getattr(config, name, value) != value for name, value in SETTINGS.items()
        ):
            message = f"ifr cannot read the blocks of this {config.model_type}. It supports: {', '.join(PATHS)}."
            raise ModelError(message, part="attention blocks")
        return super().resolve(subject)

    @torch.no_grad()
    def scores(self, trace: Trace) -> Tensor:
        paths, subject = PATHS[trace.subject.model.config.model_type], trace.subject
        weights = reading_weights(trace)
        queries, scores = weights.any(0).nonzero()[:, 0], torch.zeros_like(weights)
        for block, values in alti.each_block(trace, queries):
            # Copies of one row, each with its own prediction, share what positions send.
            for row, copies in groupby(range(len(weights)), key=lambda i: trace.encoded[i]):
                texts = list(copies)
                if not weights[texts].any():
                    continue  # a later hop may find no way on: all coefficients are 0
                end = int(weights[texts].any(0).nonzero().max()) + 1 if subject.causal else len(row)
                at = queries[queries < end]
                states, attention = values["hidden"][texts[0], :end], values["attention"][texts[0], :, : len(at), :end]
                part = self.route_shares(block, paths, states, attention, at, weights[texts][:, at])
                scores[texts, :end] += part.to(scores)
        return scores

    def route_shares(
        self, block: Any, paths: Paths, states: Tensor, attention: Tensor, at: Tensor, weights: Tensor
    ) -> Tensor:
        """Share of each position [column] in what each span reads in a block [row].

        `attention` is [head, query, key] for the queries at the positions `at`, `weights` those of each span on them.
        """
        value, out = block.get_submodule(paths.value), block.get_submodule(paths.out)
        norm, second = (block.get_submodule(path) if path else nn.Identity() for path in (paths.norm, paths.second))
        heads, wide = len(attention), torch.promote_types(states.dtype, torch.float32)  # half precision is too coarse
        values = _by_head(value(norm(states)), paths, heads, out)
        output, weights, attention = _matrix(out).to(wide), weights.to(wide), attention.to(wide)
        rest = weights @ states[at].to(wide)
        if paths.second:  # linear but for its scale at each position
            added = _added(out, attention, values)
            normed, gain = second(added).to(wide), second(torch.full_like(added[0], MANY)).to(wide)
            gained, output = added.to(wide) * gain, output * gain[:, None]
            whole = rest + weights @ normed
            weights = weights * (gained * normed).sum(-1) / (gained * gained).sum(-1)
        attention = weights @ attention
        if not paths.second:
            whole = rest + _added(out, attention, values).to(wide)
        sent = _by_head(linear(_linear_norm(norm, states, self.centres), _matrix(value)), paths, heads, out).to(wide)
        nearness = _proximities(sent, output.reshape(len(output), heads, -1), attention, whole)
        total = nearness.sum(-1) + _proximity(whole - rest, whole)
        return nearness / total.clamp_min(torch.finfo(wide).tiny)[:, None]


@register("ifr@flashtrace", paper="Pan et al. 2026, as in the released code")
@dataclass(frozen=True)
class FlashTraceIFR(IFR):
    """IFR as in the program of Pan et al.: layer norms do not subtract the mean, and hops add up sums over blocks.

    So scores that are followed through a reply are not shares: they add up to more than 1.
    """

    centres = False
    sums_hops = True


def reading_weights(trace: Trace) -> Tensor:
    """The weight of each position that a target is read from, [batch, position]; those of a text sum to 1."""
    weights = deciding_positions(trace).sum(1)
    if trace.subject.task != "sequence":
        weights.zero_()
        for text, decision in enumerate(trace.decisions):
            for (position, *_), coefficient in decision.target.terms:
                weights[text, position] += abs(coefficient)
    return normalise_rows(weights)


def _added(out: nn.Module, attention: Tensor, values: Tensor) -> Tensor:
    """What attention adds to the residual stream, [query, width]."""
    added: Tensor = out((attention.to(values) @ values).transpose(0, 1).flatten(1))
    return added


def _proximities(sent: Tensor, output: Tensor, attention: Tensor, whole: Tensor) -> Tensor:
    """How close to the whole of each span is what heads bring from each position, summed over heads, [span, position].

    `sent` is [head, position, size], `output` [width, head, size], and `attention` [head, span, position].
    """
    result = torch.empty_like(attention[0])
    size = max(1, CHUNK // (len(sent) * whole.numel()))
    for start in range(0, result.shape[1], size):
        part = slice(start, start + size)
        vectors = torch.einsum("hjd,ohd->hjo", sent[:, part], output)
        # The whole without what is brought, [head, span, position, width].
        without = torch.addcmul(whole[:, None], attention[..., part, None], vectors[:, None], value=-1)
        result[:, part] = _proximity(without, whole[:, None]).sum(0)
    return result


def _proximity(without: Tensor, whole: Tensor) -> Tensor:
    """How much closer to 0 in the l1 norm the whole is without a part, which is overwritten; 0 if it is no closer."""
    # The difference of each feature first: that of two long sums would be rounding where a part is small.
    return torch.sub(whole.abs(), without.abs_(), out=without).sum(-1).relu()


def _by_head(projected: Tensor, paths: Paths, heads: int, out: nn.Module) -> Tensor:
    """The values of each head, [head, position, size], of the output of the value projection."""
    size = _matrix(out).shape[1] // heads
    if paths.by_head:
        return projected.view(len(projected), heads, 3, size)[:, :, 2].transpose(0, 1)
    joint = projected.shape[-1] - heads * size  # what is read beside queries; grouped heads share values
    values = projected[:, -joint // 2 :] if joint > 0 else projected
    values = values.reshape(len(projected), -1, size).transpose(0, 1)
    return values.repeat_interleave(heads // len(values), 0)


def _matrix(projection: Any) -> Tensor:
    """The weights of a projection, [output, input]."""
    weight: Tensor = projection.weight
    return weight.T if type(projection).__name__ == "Conv1D" else weight  # GPT-2's are the other way round


def _linear_norm(norm: nn.Module, states: Tensor, centres: bool) -> Tensor:
    """What a norm makes of the states with their own scale and without a bias, so linearly."""
    if not type(norm).__name__.endswith("LayerNorm"):
        scaled: Tensor = norm(states)
        return scaled
    wide = states.to(torch.promote_types(states.dtype, torch.float32))
    epsilon = getattr(norm, "eps", getattr(norm, "variance_epsilon", 1e-5))
    deviation = (wide.var(-1, unbiased=False, keepdim=True) + epsilon).sqrt()
    scaled = (wide - wide.mean(-1, keepdim=True) if centres else wide) / deviation
    weight = getattr(norm, "weight", None)  # OLMo's norms have none
    return (scaled if weight is None else scaled * weight).to(states)
