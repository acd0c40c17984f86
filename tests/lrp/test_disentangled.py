"""Relevance through DeBERTa's attention, which adds to its scores what queries and keys make of distances.

Under the rules of AttnLRP relevance is gradient x input of a model whose non-linear parts hold their factors fixed.
That second formulation, with its scores written out pair by pair, must give what our rules give: at every layer, in
every map, and where a mask lets only some heads pass.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.activations import GELUActivation
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

import nbsal
from nbsal import trace
from nbsal.heads import HeadMask
from nbsal.lrp import mode, rules
from nbsal.methods.relevance import MaskSettings
from tests import axioms
from tests.lrp.test_attn_lrp import half
from tests.lrp.test_relevance import RELEVANCE, totals

VERSIONS = {
    "second": {},
    "third": {"share_att_key": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm", "pos_att_type": "p2c|c2p"},
    "one way": {"pos_att_type": ["c2p"]},
    "content alone": {"relative_attention": False, "pos_att_type": None},
}
ALL, SOME = np.ones((3, 4), int), np.array([[1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 1, 0]])
every_version = pytest.mark.parametrize("version", VERSIONS)


def held(function):
    """That function, the factor by which it scales held fixed."""
    return lambda self, x: x * (function(self, x) / x).detach()


class Attention:
    """Attention that holds the factors of its products fixed, keeps its maps, and lets only selected heads pass."""

    def __init__(self, selected):
        self.selected, self.maps = torch.as_tensor(selected), []

    def __call__(self, module, hidden, distances, table):
        def split(x):
            return x.unflatten(-1, (module.num_attention_heads, -1)).movedim(-2, 0)

        def about(place, content, positions):
            """What content at the query's or the key's place makes of the distance, [head, query, key]."""
            pairs = split(positions(table))[:, module.pos_ebd_size + distances[0]]
            return torch.einsum(f"h{place}d,hijd->hij", content, pairs)

        q, k, v = (split(part(hidden[0])) for part in (module.query_proj, module.key_proj, module.value_proj))
        scores, own = half(q @ k.mT), not module.share_att_key
        if "c2p" in module.pos_att_type:
            scores = scores + about("i", q, module.pos_key_proj if own else module.key_proj)
        if "p2c" in module.pos_att_type:
            scores = scores + about("j", k, module.pos_query_proj if own else module.query_proj)
        size = q.shape[-1] * (1 + len(module.pos_att_type))
        scores = scores / float(np.sqrt(np.float32(size)))  # DeBERTa takes the root in float32
        passes = self.selected[len(self.maps), :, None, None]
        self.maps.append(scores.softmax(-1))
        out = half(self.maps[-1] @ v)
        out = out * passes + (out * (1 - passes)).detach()
        return out.movedim(0, 1).flatten(1)[None], None


def gradient_times_input(subject, row, selected, monkeypatch):
    """What arrives at every layer and in every block's map, and the logits; the first of them is explained."""
    attend = Attention(selected)
    with monkeypatch.context() as patched:
        patched.setattr(nn.LayerNorm, "forward", held(nn.LayerNorm.forward))
        patched.setattr(GELUActivation, "forward", held(lambda self, x: functional.gelu(x)))
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
    found = [(part * gradient / value).detach() for part, gradient in zip(parts, gradients, strict=True)]
    return found[: subject.depth + 1], found[subject.depth + 1 :], out.logits[0].detach()


def check(subject, selected, monkeypatch, given=None):
    monkeypatch.setattr(rules, "TINY", 1e-15)  # the second formulation has no stabiliser
    read = trace.record(subject, subject.encode(axioms.TEXTS[0]), [0], needs=set())
    mask = HeadMask.from_array(selected if given is None else given)
    ours = read.relevance_maps(rules.ATTN, MaskSettings(mask, "after", False, "block", False, False))
    layers, maps, logits = gradient_times_input(subject, read.encoded[0], selected, monkeypatch)
    assert axioms.relative(read.logits[0], logits) < 1e-10
    for layer, truth in enumerate(layers):
        assert axioms.relative(ours.hidden[layer], truth) < 1e-9, layer
    for block, truth in enumerate(maps):
        assert axioms.relative(ours.attention[block][0], truth) < 1e-9, block


@every_version
@pytest.mark.parametrize("selected", [ALL, SOME], ids=["all", "some"])
def test_rules_equal_gradient_times_input_with_fixed_factors(load, monkeypatch, version, selected):
    check(load("deberta-v2", **VERSIONS[version]), selected, monkeypatch)


def test_the_second_formulation_catches_other_heads(load, monkeypatch):
    with pytest.raises(AssertionError):
        check(load("deberta-v2"), SOME, monkeypatch, given=np.roll(SOME, 1, axis=1))


@every_version
def test_relevance_is_conserved(load, version):
    subject = load("deberta-v2", **VERSIONS[version])
    read = trace.record(subject, subject.encode(axioms.TEXTS), needs=set())
    assert axioms.relative(totals(read), torch.ones(4, 4)) < 1e-6


@pytest.mark.parametrize("name", RELEVANCE)
@every_version
def test_batches_and_padding(load, version, name):
    explain = nbsal.Explainer(load("deberta-v2", **VERSIONS[version]), name)
    axioms.batch_equals_singles(explain)
    axioms.padding_is_invisible(explain)


@pytest.fixture
def tables_take_half(monkeypatch):
    """A mutant: what belongs to positions is lost at their tables."""
    own = rules.Product.backward

    def backward(ctx, relevance):
        ours, theirs, *rest = own(ctx, relevance)
        return (ours if all(ctx.needs_input_grad[:2]) else ours / 2), theirs, *rest

    monkeypatch.setattr(rules.Product, "backward", staticmethod(backward))


def test_conservation_catches_what_tables_take(load, tables_take_half):
    with pytest.raises(AssertionError):
        test_relevance_is_conserved(load, "second")


def test_the_second_formulation_catches_what_tables_take(load, monkeypatch, tables_take_half):
    with pytest.raises(AssertionError):
        check(load("deberta-v2"), ALL, monkeypatch)


def test_attention_that_is_not_followed_to_the_values_is_caught(load, monkeypatch):
    monkeypatch.setattr(mode, "_mark", lambda y, x: None)
    with pytest.raises(KeyError):
        check(load("deberta-v2"), ALL, monkeypatch)
