"""GIM (Edin et al. 2025) equals the gradient of a model whose functions are changed one by one, times the embedding."""

import torch
from torch import nn
from transformers.models.bert import modeling_bert
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama

import nbsal
from tests import axioms, zoo
from tests.cases import cases
from tests.lrp.test_attn_lrp import half, norm
from tests.raising import refuses_part

MODELS = {"bert": (modeling_bert, "sequence"), "gpt2": (modeling_gpt2, "causal"), "llama": (modeling_llama, "causal")}


def softmax(scores, temperature):
    """The softmax of the scores whose gradient is that of the softmax of the scores / temperature, times that."""
    flat = temperature * (scores / temperature).softmax(-1)
    return flat + (scores.softmax(-1) - flat).detach()


def layer_norm(self, x):
    scale = torch.sqrt(x.var(-1, correction=0, keepdim=True) + self.eps).detach()
    return (x - x.mean(-1, keepdim=True)) / scale * self.weight + self.bias


def feed_forward(self, x):
    return self.down_proj(half(torch.nn.functional.silu(self.gate_proj(x)) * self.up_proj(x)))


def attention(temperature):
    def compute(module, query, key, value, attention_mask, scaling=None, **kwargs):
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        scores = half(query @ key.mT) * scaling + (0 if attention_mask is None else attention_mask)
        weights = softmax(scores, temperature)
        return half(weights @ value).transpose(1, 2), weights

    return compute


@cases("name, temperature", [(name, t) for name in MODELS for t in (2.0, 0.7)])
def test_gim_equals_changed_functions(monkeypatch, name, temperature):
    module, head = MODELS[name]
    model = zoo.model(name, head, attn_implementation="eager").double()
    subject = nbsal.load(model, tokenizer=zoo.tokenizer((zoo.ARCHITECTURES)[name][2]))
    ours = nbsal.Explainer(subject, "gim", temperature=temperature)(axioms.TEXTS[0], target=1)
    ids = torch.tensor([ours.row.ids])
    with torch.no_grad():
        stock = model(ids).logits.flatten(0, -2)[-1, 1]
    monkeypatch.setattr(module, "eager_attention_forward", attention(temperature))
    monkeypatch.setattr(nn.LayerNorm, "forward", layer_norm)
    monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", norm)
    monkeypatch.setattr(modeling_llama.LlamaMLP, "forward", feed_forward)
    output = model(ids, output_hidden_states=True)
    value, embedding = output.logits.flatten(0, -2)[-1, 1], output.hidden_states[0]
    (gradient,) = torch.autograd.grad(value, embedding)
    assert abs(float(value.detach() - stock)) < 1e-5
    assert axioms.relative(ours.scores, (embedding * gradient).sum(-1)[0].detach()) < 1e-5


@cases("change, part", [(torch.maximum, "torch.maximum"), (lambda y, x: y.mul_(2), "torch.Tensor.mul_")])
def test_functions_that_gim_does_not_know_are_refused(change, part):
    """Those of two computed tensors may be products, and those that write in place may leave a gradient out."""
    subject = nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("wordpiece"))
    subject.blocks[1].register_forward_hook(lambda module, args, output: change(output, args[0]))
    with refuses_part(part):
        nbsal.Explainer(subject, "gim")(axioms.TEXTS[0])
