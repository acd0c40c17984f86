"""Relevance through DeBERTa's disentangled attention, whose scores also depend on relative positions.

Under the rules of AttnLRP, relevance equals gradient x input of a model whose non-linear parts are fixed factors. This
second formulation, with attention scores computed pair by pair, must agree with ours at every layer and in every map.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers.activations import GELUActivation
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

from nbsal.passes import trace
from nbsal.passes.changed_gradients import ATTN_LRP
from tests import axioms
from tests.cases import cases
from tests.lrp.test_attn_lrp import half
from tests.lrp.test_gim import layer_norm

VERSIONS = {
    "second": {},
    "third": {"share_att_key": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p"},
    "one way": {"pos_att_type": ["c2p"]},
    "content alone": {"relative_attention": False, "pos_att_type": None},
}


def fixed_factor(function):
    """The function as a multiplication by a fixed factor."""
    return lambda self, x: x * (function(self, x) / x).detach()


class Attention:
    """Attention in the second formulation, which stores its maps."""

    def __init__(self):
        self.maps = []

    def __call__(self, module, hidden, distances, table):
        def split(x):
            return x.unflatten(-1, (module.num_attention_heads, -1)).movedim(-2, 0)

        def position_scores(place, content, positions):
            """The scores of content and relative position, [head, query, key]; `place`: of the query or the key."""
            pairs = split(positions(table))[:, module.pos_ebd_size + distances[0]]
            return torch.einsum(f"h{place}d,hijd->hij", content, pairs)

        q, k, v = (split(part(hidden[0])) for part in (module.query_proj, module.key_proj, module.value_proj))
        scores, separate = half(q @ k.mT), not module.share_att_key
        if "c2p" in module.pos_att_type:
            scores = scores + position_scores("i", q, module.pos_key_proj if separate else module.key_proj)
        if "p2c" in module.pos_att_type:
            scores = scores + position_scores("j", k, module.pos_query_proj if separate else module.query_proj)
        size = q.shape[-1] * (1 + len(module.pos_att_type))
        scores = scores / float(np.sqrt(np.float32(size)))  # DeBERTa takes the root in float32
        self.maps.append(scores.softmax(-1))
        out = half(self.maps[-1] @ v)
        return out.movedim(0, 1).flatten(1)[None], None


def gradient_times_input(subject, row, monkeypatch):
    """Relevance at every layer and in every block's map, and the logits, of which the first is explained."""
    attend = Attention()
    with monkeypatch.context() as patched:
        patched.setattr(nn.LayerNorm, "forward", layer_norm)
        patched.setattr(GELUActivation, "forward", fixed_factor(lambda self, x: functional.gelu(x)))
        patched.setattr(
            DisentangledSelfAttention,
            "forward",
            lambda self, hidden, *_, relative_pos, rel_embeddings, **__: attend(
                self, hidden, relative_pos, rel_embeddings
            ),
        )
        out = subject.model(torch.tensor([row.ids]), output_hidden_states=True)
    value, parts = out.logits[0, 0], [*out.hidden_states, *attend.maps]
    gradients = torch.autograd.grad(value, parts)
    relevance = [(part * gradient).detach() for part, gradient in zip(parts, gradients, strict=True)]
    return relevance[: subject.depth + 1], relevance[subject.depth + 1 :], out.logits[0].detach()


@cases("version", VERSIONS)
def test_scores_equal_gradient_times_input_with_fixed_factors(load, monkeypatch, version):
    subject = load("deberta-v2", **VERSIONS[version]).with_gradients(ATTN_LRP)
    needs = {"hidden", "hidden_grad", "attention", "attention_grad"}
    ours = trace.record(subject, subject.encode(axioms.TEXTS[0]), [0], needs)
    layers, maps, logits = gradient_times_input(subject, ours.encoded[0], monkeypatch)
    assert axioms.relative(ours.logits[0], logits) < 1e-10
    for layer, truth in enumerate(layers):
        assert axioms.relative(ours.hidden[layer] * ours.hidden_grad[layer], truth) < 1e-9, layer
    for block, truth in enumerate(maps):
        assert axioms.relative((ours.attention[block] * ours.attention_grad[block])[0], truth) < 1e-9, block
