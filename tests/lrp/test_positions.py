"""PA-LRP (Bakish et al. 2025): what goes to positions, beside what goes to tokens."""

import torch
from transformers.models.llama import modeling_llama

import nbsal
from nbsal.passes import trace
from nbsal.passes.changed_gradients import ATTN_LRP, GradientMode
from tests import axioms, zoo
from tests.answers import writers
from tests.cases import cases
from tests.lrp import test_attn_lrp
from tests.lrp.test_attn_lrp import half

KINDS = {"gpt2": "learned", "roberta": "learned", "distilbert": "learned", "opt": "learned", "llama": "rotary"}
KINDS |= {"modernbert": "rotary", "phi3": "rotary on a part of each head"}


def without_constants(name, **settings):
    """A model without biases and other constants among its embeddings."""
    decoder = name in zoo.DECODERS | zoo.OTHER_DECODERS
    model = zoo.model(name, "causal" if decoder else "sequence", attn_implementation="eager", **settings).double()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if path.endswith(("bias", "token_type_embeddings.weight")):
                parameter.zero_()
    return nbsal.load(model, tokenizer=zoo.tokenizer((zoo.ARCHITECTURES | zoo.OTHERS)[name][2]))


def unchanged(mode, softmax, args, kwargs):
    return mode._activation(softmax, args, {"dim": -1}, softmax(args[0], dim=-1))


@cases("name", KINDS)
def test_tokens_and_positions_have_all_relevance_of_a_model_without_biases(monkeypatch, name):
    """Without positions the tokens have it all; either way nothing is lost, if softmax hands on what it gets."""
    monkeypatch.setattr(GradientMode, "_softmax", unchanged)
    subject = without_constants(name).changed(ATTN_LRP)
    recorded = trace.record(subject, subject.encode(axioms.TEXTS), keep=[0])
    whole, apart = (recorded.hidden[0] * recorded.hidden_grad[0]).sum((1, 2)), recorded.apart()
    tokens = apart.tokens.sum(1)
    assert axioms.relative(whole, torch.ones(4)) < 1e-5 and axioms.relative(apart.output, torch.ones(4)) < 1e-9
    assert axioms.relative(tokens + apart.positions, torch.ones(4)) < 1e-5
    assert apart.positions.abs().max() > 0.02 and (tokens - whole).abs().max() > 0.02


@cases("name, zeroed", [("marian", "encoder"), ("marian", "decoder"), ("bart", "encoder")])
def test_tables_of_both_sides_are_told_apart(name, zeroed):
    """Sinusoidal ones of Marian, learned ones of BART: one whose positions are 0 has no share, the other has."""
    subject = writers.load(name)
    with torch.no_grad():
        getattr(subject.model.model, zeroed).embed_positions.weight.zero_()
    result = nbsal.answer(subject, writers.SOURCE, writers.REPLY, method="pa-lrp", progress=False)
    shares, absorbed = result.provenance["positions"], result.provenance["absorbed"]
    assert len(shares) == len(result.ids) and max(map(abs, shares)) > 1e-3
    assert axioms.relative(result.scores.sum(1) + shares + absorbed, torch.ones(len(shares))) < 1e-9
    earlier = range(result.reading.start, result.reading.start + len(shares) - 1)
    assert result.scores[-1, earlier].all(), "tokens of the reply have relevance too"


def test_rotary_positions_are_factors_of_queries_and_keys(monkeypatch):
    """Gradient times input of a Llama with fixed factors, in which each product with a cosine or sine counts half."""
    model, positions = zoo.model("llama", "causal").double(), []
    ours = nbsal.Explainer(nbsal.load(model, tokenizer=zoo.tokenizer("pieces")), "pa-lrp")(axioms.TEXTS[0], target=7)
    table = modeling_llama.LlamaRotaryEmbedding.forward

    def leaves(*args, **kwargs):
        positions.extend(each.detach().requires_grad_() for each in table(*args, **kwargs))
        return tuple(positions[-2:])

    def rotate(q, k, cos, sin):
        turned = [modeling_llama.rotate_half(x) for x in (q, k)]
        return tuple(half(x * cos[:, None]) + half(t * sin[:, None]) for x, t in zip((q, k), turned, strict=True))

    monkeypatch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", leaves)
    monkeypatch.setattr(test_attn_lrp, "apply_rotary_pos_emb", rotate)
    changed = test_attn_lrp.fixed_factors(model, monkeypatch)
    truth, value = test_attn_lrp.gradient_times_input(changed, ours.row.ids, 7)
    changed(torch.tensor([ours.row.ids])).logits[0, -1, 7].backward()
    share = sum((each * each.grad).sum().item() for each in positions if each.grad is not None) / value
    assert axioms.relative(ours.scores, truth) < 1e-4
    assert abs(ours.provenance["positions"] - share) < 1e-4 * abs(share) and abs(share) > 1e-3


def test_texts_of_a_batch_have_shares_of_their_own(load):
    explain = nbsal.Explainer(load("llama"), "pa-lrp")
    together = explain.map(axioms.TEXTS, progress=False)
    for text, saliency in zip(axioms.TEXTS, together, strict=True):
        for name in ("positions", "absorbed"):
            assert abs(saliency.provenance[name] - explain(text).provenance[name]) < 1e-9
