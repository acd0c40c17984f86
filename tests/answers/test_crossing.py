"""Methods on both sides of encoder-decoders, each against the stock model or against maps that are written by hand."""

import pytest
import torch
from transformers.models.t5 import modeling_t5

import nbsal
from nbsal.explain.scoring import running
from nbsal.methods import crossing
from nbsal.model import encoder_decoder
from nbsal.model.running import architecture
from nbsal.model.text.tokens import Encoded
from nbsal.support.errors import ModelError
from tests import axioms
from tests.answers import writers
from tests.answers.writers import REPLY, answer, values_of
from tests.cases import cases
from tests.raising import refuses

NAMES = ("t5", "bart", "marian")


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", [0, 2])
def test_gradients_are_those_of_the_encoder_and_of_the_decoders_input(subjects, name, layer):
    subject, states = subjects[name], {}
    result = answer(subject, "gradxact", options={"layer": layer}, number="logprob")[1]
    blocks = subject.blocks[layer], architecture.blocks(subject.model, encoder_decoder.REPLY)[0]
    handles = [block.register_forward_pre_hook(lambda each, args: states.update({each: args[0]})) for block in blocks]
    values, _ = values_of(subject.model, torch.tensor([result.reading.row.ids]), result.reading)
    for handle in handles:
        handle.remove()
    parts = [states[block] for block in blocks]
    for token, value in enumerate(values):
        gradients = torch.autograd.grad(value, parts, retain_graph=True)
        expected = torch.cat([(part * gradient).sum(-1)[0] for part, gradient in zip(parts, gradients, strict=True)])
        assert axioms.relative(result.scores[token, : len(expected)], expected.detach()) < 1e-7


def naive_gae(subject, reading, token, published):
    """The whole matrices of relevance, [decoder's position, position of both sides], from eager attention."""
    model = subject.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    values, output = values_of(model, torch.tensor([reading.row.ids]), reading, output_attentions=True)
    model.set_attn_implementation(before)
    kinds = output.encoder_attentions, output.decoder_attentions, output.cross_attentions
    encoder, own, cross = [
        [(a * torch.autograd.grad(values[token], a, retain_graph=True)[0]).relu().mean(1)[0].detach() for a in maps]
        for maps in kinds
    ]
    source, reply = torch.eye(len(encoder[0])).double(), torch.eye(len(own[0])).double()
    crossed = torch.zeros(len(own[0]), len(encoder[0])).double()
    for attention in encoder:
        source = source + attention @ source
    for attention, crossing_map in zip(own, cross, strict=True):
        crossed, reply = crossed + attention @ crossed, reply + attention @ reply
        left, right = (normalised(reply).T, normalised(source)) if published else (torch.eye(len(reply)), source)
        crossed = crossed + left.double() @ crossing_map @ right
    return torch.cat([crossed, reply], 1)


def normalised(relevance):
    """Rule 10's matrices: rows of what was added to the identity sum to 1, and the identity is added again."""
    added = relevance - torch.eye(len(relevance))
    sums = added.sum(1, keepdim=True)
    return torch.where(sums == 0, 0.0, added / sums) + torch.eye(len(relevance))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["gae", "gae@chefer"])
def test_gae_is_the_product_of_whole_matrices(subjects, name, method):
    result = answer(subjects[name], method, number="logprob")[1]
    for token in range(len(result.ids)):
        at = result.reading.position(token)
        row = naive_gae(subjects[name], result.reading, token, "@" in method)[at]
        row[result.reading.prompt.source_size + at] = 0
        assert axioms.relative(result.scores[token, : len(row)], row) < 1e-7


def test_methods_on_attention_follow_what_crosses(subjects):
    """On maps that are written by hand: one block a side, one query, two positions of the source."""
    encoder, own, cross = torch.tensor([[[0.25, 0.75], [1.0, 0.0]]]), torch.ones(1, 1, 1), torch.tensor([[[0.5, 0.5]]])
    maps = crossing.EncoderDecoderMaps([encoder], [own], [cross])
    followed = crossing.follow(torch.ones(1, 1, 1), maps, share=0.5)
    assert followed[0, 0].tolist() == pytest.approx([0.125 + 0.15625, 0.125 + 0.09375, 0.5])
    summed = crossing.follow(torch.ones(1, 1, 1), maps)
    assert summed[0, 0].tolist() == pytest.approx([0.5 + 0.625, 0.5 + 0.375, 2.0])
    for method in ("rollout", "raw-attention", "lrp"):
        assert answer(subjects["bart"], method)[1].scores.sum(1) == pytest.approx(1.0, abs=1e-6)


def test_maps_are_told_apart_by_the_order_of_calls(subjects):
    subject = subjects["t5"]
    reading = answer(subject, "random")[1].reading
    target = running.Predictions(reading, "logit").target(0)
    record = nbsal.trace.record(subject, Encoded([reading.row], 0), [target], needs={"attention"})
    maps, size = crossing.maps_of(record, record.attention), reading.prompt.source_size
    decoder = len(reading.row) - size
    shapes = [[tuple(each.shape[2:]) for each in kind] for kind in (maps.source, maps.own, maps.cross)]
    assert shapes == [[(size, size)] * 3, [(decoder, decoder)] * 2, [(decoder, size)] * 2]
    subject.model.decoder.block[1].layer[1].forward = lambda hidden, **_: (hidden, None, None)  # without crossing
    try:
        with pytest.raises(ModelError) as caught:
            answer(subject, "gae")
        assert caught.value.part == "attention maps"
    finally:
        del subject.model.decoder.block[1].layer[1].forward


@cases("name", writers.ODD)
def test_states_in_another_layout_are_refused(name):
    """Rather than read at wrong positions; hiding asks nothing of the layout."""
    subject = writers.load(name, torch.float32)
    for method in ("gradxact", "integrated"):
        with pytest.raises(ModelError) as caught:
            answer(subject, method)
        assert caught.value.part == "hidden states"
    assert answer(subject, "occlusion")[1].scores.any()


def test_a_source_one_longer_than_the_reply_has_no_sink(subjects):
    """Attention with one key more than queries is taken for a sink elsewhere."""
    subject = subjects["bart"]
    size = len(answer(subject, "random")[1].reading.prompt.ids) - 2
    result = answer(subject, "raw-attention", [30 + i for i in range(size - 3)])[1]
    assert result.reading.prompt.source_size == len(result.ids) + 3
    assert result.scores.sum(1) == pytest.approx(1.0)


def half(x):
    return x / 2 + (x / 2).detach()


@pytest.fixture
def by_hand(monkeypatch):
    """A T5 whose gradient is relevance: norms and gates as constants, products with half a gradient for each factor."""

    def attend(module, query, key, value, mask, scaling=1.0, dropout=0.0, position_bias=None, **_):
        scores = half(query) @ half(key).mT * scaling + position_bias
        if mask is not None:
            scores = scores + mask[..., : key.shape[-2]]
        weights = scores.softmax(-1)
        return (half(weights) @ half(value)).transpose(1, 2).contiguous(), weights

    def norm(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).detach()

    def gate(self, x):
        linear = self.wi_0(x)
        return self.wo(half(linear * (self.act(linear) / linear).detach()) * half(self.wi_1(x)))

    monkeypatch.setattr(modeling_t5, "eager_attention_forward", attend)
    monkeypatch.setattr(modeling_t5.T5LayerNorm, "forward", norm)
    monkeypatch.setattr(modeling_t5.T5DenseGatedActDense, "forward", gate)


def test_attn_lrp_is_input_x_gradient_of_a_model_changed_by_hand(subjects, request):
    subject = subjects["t5"]
    result = answer(subject, "attn-lrp", number="logit")[1]
    request.getfixturevalue("by_hand")
    model, reading = subject.model, result.reading
    ids, size = torch.tensor([reading.row.ids]), reading.prompt.source_size
    table = model.get_input_embeddings()
    embedded = [table(part).detach().requires_grad_() for part in (ids[:, :size], ids[:, size:-1])]
    model.set_attn_implementation("eager")
    logits = model(inputs_embeds=embedded[0], decoder_inputs_embeds=embedded[1], use_cache=False).logits[0]
    model.set_attn_implementation("sdpa")
    for token, index in enumerate(result.ids):
        value = logits[reading.position(token), index]
        gradients = torch.autograd.grad(value, embedded, retain_graph=True)
        parts = [(e * g).sum(-1)[0] for e, g in zip(embedded, gradients, strict=True)]
        expected = torch.cat(parts)
        assert axioms.relative(result.scores[token, : len(expected)], expected.detach()) < 1e-5


def test_texts_with_other_sources_are_not_batched(subjects):
    explain, result = answer(subjects["bart"], "gae")
    other = explain.reply("A joy.", REPLY, progress=False).reading
    target = running.Predictions(result.reading, result.number).target(0)
    with refuses("encoded"):
        explain.explain_encoded(Encoded([result.reading.row, other.row], 0), [target] * 2)
