"""PA-LRP (Bakish et al. 2025): relevance of tokens, and the sizes of that of their positions, in every block."""

import torch
from transformers.models.llama import modeling_llama

import nbsal
from nbsal.passes import trace
from nbsal.passes.changed_gradients import ATTN_LRP, GradientMode
from nbsal.passes.positions import record_separately
from tests import axioms, zoo
from tests.answers import writers
from tests.cases import cases
from tests.lrp import test_attn_lrp
from tests.lrp.test_attn_lrp import half
from tests.raising import refuses

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
    """With their signs, which scores do not keep, nothing is lost, if softmax hands on what it gets."""
    monkeypatch.setattr(GradientMode, "_softmax", unchanged)
    subject = without_constants(name).with_gradients(ATTN_LRP)
    encoded = subject.encode(axioms.TEXTS)
    recorded = trace.record(subject, encoded, keep=[0])
    whole = (recorded.hidden[0] * recorded.hidden_grad[0]).sum((1, 2))
    graph, size = record_separately(subject, encoded), axioms.relative
    values = [each.target.value(row) for each, row in zip(recorded.decisions, graph.logits, strict=True)]
    tensors = [*graph.tokens, *graph.positions[0]]
    gradients = torch.autograd.grad(torch.stack(values).sum(), tensors, retain_graph=True)
    tokens, *positions = [(each.detach() * grad).sum((1, 2)) for each, grad in zip(tensors, gradients, strict=True)]
    assert size(whole, recorded.values) < 1e-5 and size(tokens + sum(positions), recorded.values) < 1e-5
    assert len(positions) == (2 * subject.depth if "rotary" in KINDS[name] else 1)
    assert size(tokens, recorded.values) > 0.02 and recorded.separate()[1].min() >= 0


@cases("name, zeroed", [("marian", "encoder"), ("marian", "decoder"), ("bart", "encoder")])
def test_each_side_has_its_own_positions(name, zeroed):
    """Sinusoidal ones of Marian, learned ones of BART: those that are 0 have no relevance, the others have."""
    subject = writers.load(name)
    with torch.no_grad():
        getattr(subject.model.model, zeroed).embed_positions.weight.zero_()
    explain = nbsal.Explainer(subject, "pa-lrp")
    result = explain.reply(writers.SOURCE, writers.REPLY, progress=False)
    record = trace.record(explain.method_subject, nbsal.Encoded([result.reading.row], 0), [None], needs=())
    positions, start = record.separate()[1][0], result.reading.prompt.source_size
    first, second = positions[:start].any(), positions[start:].any()
    assert (bool(first), bool(second)) == ((False, True) if zeroed == "encoder" else (True, False))
    assert len(result.provenance["positions"]) == len(result.ids) and min(result.provenance["positions"]) > 0
    earlier = range(result.reading.start, result.reading.start + len(result.ids) - 1)
    assert result.scores[-1, earlier].all(), "tokens of the reply have relevance too"


def test_rotary_positions_are_factors_of_queries_and_keys(monkeypatch):
    """As in the authors' program: in a Llama with fixed factors, in which each product with a cosine or sine counts
    half, the sizes of relevance at the cosines and sines of each block are added to that of the token."""
    model, positions = zoo.model("llama", "causal").double(), []
    ours = nbsal.Explainer(nbsal.load(model, tokenizer=zoo.tokenizer("pieces")), "pa-lrp")(axioms.TEXTS[0], target=7)

    def rotate(q, k, cos, sin):
        positions.extend([cos.detach().requires_grad_(), sin.detach().requires_grad_()])
        cos, sin = positions[-2:]
        turned = [modeling_llama.rotate_half(x) for x in (q, k)]
        return tuple(half(x * cos[:, None]) + half(t * sin[:, None]) for x, t in zip((q, k), turned, strict=True))

    monkeypatch.setattr(test_attn_lrp, "apply_rotary_pos_emb", rotate)
    changed = test_attn_lrp.fixed_factors(model, monkeypatch)
    truth, _ = test_attn_lrp.gradient_times_input(changed, ours.row.ids, 7)
    positions.clear()
    changed(torch.tensor([ours.row.ids])).logits[0, -1, 7].backward()
    sizes = sum((each * each.grad).detach().sum(-1)[0].abs() for each in positions)
    assert len(positions) == 2 * len(changed.model.layers)
    assert axioms.relative(ours.scores, truth + sizes) < 1e-5
    assert abs(ours.provenance["positions"] - float(sizes.sum())) < 1e-5


def test_sizes_have_no_difference(load):
    with refuses("target"):
        nbsal.Explainer(load("llama"), "pa-lrp")(axioms.TEXTS[0], target=nbsal.contrast(0, 1))


def test_texts_of_a_batch_have_sizes_of_their_own(load):
    explain = nbsal.Explainer(load("llama"), "pa-lrp")
    together = explain.map(axioms.TEXTS, progress=False)
    for text, saliency in zip(axioms.TEXTS, together, strict=True):
        alone = explain(text)
        assert abs(saliency.provenance["positions"] - alone.provenance["positions"]) < 1e-9
        assert axioms.relative(saliency.scores, alone.scores) < 1e-9
