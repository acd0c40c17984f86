"""AttnLRP (Achtibat et al. 2024) equals gradient x input of a model whose non-linear parts are fixed factors.

This second formulation, implemented here on a stock Llama, must agree with our rules.
"""

import copy

import pytest
import torch
from transformers.activations import ACT2FN
from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb, repeat_kv

import nbsal
from nbsal.model.running import attention_maps
from nbsal.model.running.layers import first_blocks
from nbsal.model.text.tokens import Encoded
from nbsal.passes.changed_gradients import ATTN_LRP
from tests import axioms, zoo
from tests.answers import writers
from tests.cases import cases
from tests.lrp import literal


def half(x):
    """The same value with half the gradient: the two factors of a product share its relevance."""
    return (x + x.detach()) / 2


def norm(self, x):
    return x * (self.weight * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)).detach()


def feed_forward(self, x):
    gate = self.gate_proj(x)
    active = gate * (torch.nn.functional.silu(gate) / gate).detach()
    return self.down_proj(half(active * self.up_proj(x)))


def attention(self, hidden_states, position_embeddings, attention_mask, **kwargs):
    shape = (*hidden_states.shape[:-1], -1, self.head_dim)
    q, k, v = (p(hidden_states).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
    q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
    k, v = (repeat_kv(x, self.num_key_value_groups) for x in (k, v))
    n = q.shape[2]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    scores = (half(q @ k.mT) * self.scaling).masked_fill(future, -torch.inf)
    out = half(scores.softmax(-1) @ v)
    return self.o_proj(out.transpose(1, 2).reshape(*hidden_states.shape[:-1], -1)), None


def fixed_factors(model, monkeypatch):
    """A copy of the model in the second formulation, for one test."""
    monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", norm)
    monkeypatch.setattr(modeling_llama.LlamaMLP, "forward", feed_forward)
    monkeypatch.setattr(modeling_llama.LlamaAttention, "forward", attention)
    return copy.deepcopy(model)


def gradient_times_input(model, ids, index):
    embedded = model.get_input_embeddings()(torch.tensor([ids])).detach().requires_grad_(True)
    value = model(inputs_embeds=embedded, use_cache=False).logits[0, -1, index]
    (gradient,) = torch.autograd.grad(value, embedded)
    return (embedded * gradient).sum(-1)[0].detach(), float(value.detach())


def test_rules_equal_gradient_times_input_with_fixed_factors(monkeypatch):
    model = zoo.model("llama", "causal").double()
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("pieces"))
    ours = nbsal.Explainer(subject, "attn-lrp")(axioms.TEXTS[0], target=7)
    truth, value = gradient_times_input(fixed_factors(model, monkeypatch), ours.row.ids, 7)
    with torch.no_grad():
        monkeypatch.undo()
        assert abs(float(model(torch.tensor([ours.row.ids])).logits[0, -1, 7]) - value) < 1e-5
    assert axioms.relative(ours.scores, truth) < 1e-4  # Llama computes its stock norms in float32


@cases("name", ["llama", "qwen3", "gpt2", "bert", "gpt-neox", "modernbert", "gemma2"])
def test_scores_are_those_of_the_rules_function_by_function(name):
    head = "causal" if name in zoo.DECODERS | zoo.OTHER_DECODERS else "sequence"
    model = zoo.model(name, head).double()
    subject = nbsal.load(model, tokenizer=zoo.tokenizer((zoo.ARCHITECTURES | zoo.OTHERS)[name][2]))
    explain, inputs = nbsal.Explainer(subject, "attn-lrp"), subject.inputs(subject.encode(axioms.TEXTS[0]))
    with torch.no_grad():
        if head == "sequence":
            model.classifier.bias[:2] += torch.tensor([3, -3])  # logits of both signs
        logits = model(**inputs).logits[0]
    logits = logits if head == "sequence" else logits[-1]
    targets = int(logits.argmax()), int(logits.argmin())
    assert logits[targets[0]] > 0 > logits[targets[1]]
    for target in targets:
        ours = explain(axioms.TEXTS[0], target=target)
        index = (0, target) if head == "sequence" else (0, -1, target)
        with attention_maps.eager(model):
            (truth,) = literal.relevance(model, lambda: model(**inputs).logits, subject.blocks[:1], index)
        assert axioms.relative(ours.scores, truth.sum(-1)[0]) < 1e-6
        assert ours.scores.sum() + ours.provenance["absorbed"] == pytest.approx(float(logits[target]), abs=1e-4)
    first, second = (explain(axioms.TEXTS[0], target=target).scores for target in targets)
    difference = explain(axioms.TEXTS[0], target=nbsal.contrast(*targets)).scores
    assert axioms.relative(difference, first - second) < 1e-6, "a difference starts once"


@cases("name", ["t5", "bart"])
def test_scores_of_both_sides_are_those_of_the_rules_function_by_function(name):
    subject = writers.load(name)
    ours = nbsal.answer(subject, writers.SOURCE, writers.REPLY, method="attn-lrp", progress=False)
    inputs = subject.inputs(Encoded([ours.reading.row], 0))
    position = ours.reading.position(2)
    with attention_maps.eager(subject.twin):
        truth = literal.relevance(
            subject.twin,
            lambda: subject.twin(**inputs, use_cache=False).logits,
            first_blocks(subject),
            (0, position, ours.ids[2]),
        )
    assert axioms.relative(ours.scores[2], torch.cat(truth, 1).sum(-1)[0]) < 1e-6


@cases("activation, limit", [("gelu", 0.5), ("gelu_new", 0.5), ("silu", 0.5), ("tanh", 1.0)])
def test_an_activation_at_zero_is_the_factor_that_it_is_near_zero(activation, limit):
    """There y / x is not defined, but what is summed to 0 has relevance beside it all the same."""
    module, x = torch.nn.Sequential(ACT2FN[activation]), torch.tensor([0.0, 1e-3], requires_grad=True)
    with ATTN_LRP.running(module):
        y = module(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert axioms.relative(gradient, torch.tensor([limit, limit])) < 1e-3
