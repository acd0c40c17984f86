"""Methods on both sides of encoder-decoders: exact, whatever path computes them, and unmoved by what comes later."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from transformers.models.t5 import modeling_t5

import nbsal
from nbsal import reply_trace
from nbsal.answers import running
from nbsal.answers.reading import with_reply
from nbsal.errors import ModelError
from nbsal.methods import catalogue, crossing
from nbsal.methods.perturbation import Perturbation
from nbsal.model import architecture, sides
from nbsal.model.tokens import Encoded
from tests import axioms
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE, answer, values_of
from tests.raising import refuses

NAMES = ("t5", "bart", "marian")
ONE_PASS = ("gae", "gae@chefer", "rollout", "raw-attention", "gradcam", "gradxact", "simple")
RELEVANCE = ("attn-lrp", "lrp", "partial-lrp", "transformer-attribution")
SLOW = ("attention-cam", "attention-gradcam", "integrated", "smooth", "gradient-shap", "deeplift-shap", "random")
METHODS = (*ONE_PASS, *RELEVANCE, *SLOW)
HIDING = ("occlusion", "lime", "shapley", "kernel-shap", "contextcite", "ridge")
TWO_STACKS = ("attcat", "alti", "mask-lrp", "decoded-gradcam", "decoded-simple", "decoded-gradxact")  # read one only


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load_sides(name) for name in writers.ENCODER_DECODERS}


@pytest.mark.some(6)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_a_row_is_the_explanation_of_its_token_alone(subjects, name, method):
    explain, result = answer(subjects[name], method)
    predictions = running.Predictions(result.reading, result.number)
    for token in (0, 3):
        end = result.reading.start + token
        encoded = Encoded([result.reading.up_to(end)], 0)
        (alone,) = explain.encoded(encoded, [predictions.target(token)])
        assert axioms.relative(result.scores[token, :end], alone.scores) < 1e-7
        assert not result.scores[token, end:].any()


@pytest.mark.some(8)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", [*METHODS, *HIDING])
def test_a_later_token_changes_no_earlier_row(subjects, name, method):
    """But for rounding."""
    explain, result = answer(subjects[name], method)
    other = with_reply(explain.subject, result.reading.prompt, (*result.reading.reply_ids[:-2], 7, 9))
    changed = explain.reply(SOURCE, other.reply_ids, progress=False)
    assert axioms.relative(changed.scores[:-2], result.scores[:-2]) < 1e-9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp"])
def test_a_batch_equals_its_single_texts(subjects, name, method):
    """Replies of different lengths are padded."""
    explain, result = answer(subjects[name], method)
    predictions, reading = running.Predictions(result.reading, result.number), result.reading
    numbers = (4, 0, 2)
    encoded = Encoded([reading.up_to(reading.start + token) for token in numbers], 0)
    for token, saliency in zip(
        numbers, explain.encoded(encoded, [predictions.target(t) for t in numbers]), strict=True
    ):
        assert axioms.relative(saliency.scores, result.scores[token, : len(saliency.scores)]) < 1e-7
    other = explain.reply("A joy.", REPLY, progress=False).reading
    with refuses("encoded"):
        explain.encoded(Encoded([reading.row, other.row], 0), [predictions.target(0)] * 2)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["gae", "gradxact"])
def test_chunks_do_not_matter(subjects, monkeypatch, name, method):
    _, result = answer(subjects[name], method)
    for chunk in (1, 3, 100):
        monkeypatch.setattr(reply_trace, "_chunk", lambda *_, size=chunk: size)
        assert axioms.relative(answer(subjects[name], method)[1].scores, result.scores) < 1e-12


@pytest.mark.parametrize("method", ["gradxact", "gae", "rollout", "lrp"])
def test_all_tokens_take_one_forward(subjects, forwards, method):
    answer(subjects["t5"], method)
    assert len(forwards) == 2, "one for the scores, one for the probabilities"


@contextmanager
def inputs_of(*modules):
    """The hidden states that some blocks read."""
    states = {}

    def before(module, args, kwargs):
        states[module] = args[0] if args else kwargs["hidden_states"]

    handles = [module.register_forward_pre_hook(before, with_kwargs=True) for module in modules]
    yield states
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", [0, 2])
def test_gradients_are_those_of_the_encoder_and_of_the_decoders_input(subjects, name, layer):
    subject = subjects[name]
    result = answer(subject, "gradxact", options={"layer": layer}, number="logprob")[1]
    blocks = subject.blocks[layer], architecture.blocks(subject.model, sides.REPLY)[0]
    with inputs_of(*blocks) as states:
        values, _ = values_of(subject.model, torch.tensor([result.reading.row.ids]), result.reading)
    for token, value in enumerate(values):
        parts = [states[block] for block in blocks]
        gradients = torch.autograd.grad(value, parts, retain_graph=True)
        expected = torch.cat([(part * gradient).sum(-1)[0] for part, gradient in zip(parts, gradients, strict=True)])
        assert axioms.relative(result.scores[token, : len(expected)], expected.detach()) < 1e-7


def naive_maps(subject, reading, token):
    """Positive gradient times attention of every map, averaged over heads: encoder, decoder's own, crossing."""
    model, ids = subject.model, torch.tensor([reading.row.ids])
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    values, output = values_of(model, ids, reading, output_attentions=True)
    model.set_attn_implementation(before)
    kinds = output.encoder_attentions, output.decoder_attentions, output.cross_attentions
    return [
        [(a * torch.autograd.grad(values[token], a, retain_graph=True)[0]).relu().mean(1)[0].detach() for a in maps]
        for maps in kinds
    ]


def naive_gae(encoder, own, cross, published):
    """The whole matrices of relevance, [decoder's position, position of both sides]."""
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
    rows_added = (relevance - torch.eye(len(relevance))).tolist()
    return torch.tensor(
        [[x / sum(row) if sum(row) else 0.0 for x in row] for row in rows_added], dtype=torch.float64
    ) + torch.eye(len(relevance))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["gae", "gae@chefer"])
def test_gae_is_the_product_of_whole_matrices(subjects, name, method):
    result = answer(subjects[name], method, number="logprob")[1]
    for token in range(len(result.ids)):
        at = result.reading.position(token)
        row = naive_gae(*naive_maps(subjects[name], result.reading, token), "@" in method)[at]
        row[result.reading.prompt.source_size + at] = 0
        assert axioms.relative(result.scores[token, : len(row)], row) < 1e-7


def test_methods_on_attention_follow_what_crosses(subjects):
    """On maps that are written by hand: one block a side, one query, two positions of the source."""
    encoder, own, cross = torch.tensor([[[0.25, 0.75], [1.0, 0.0]]]), torch.ones(1, 1, 1), torch.tensor([[[0.5, 0.5]]])
    maps = crossing.Maps([encoder], [own], [cross])
    followed = crossing.follow(torch.ones(1, 1, 1), maps, share=0.5)
    assert followed[0, 0].tolist() == pytest.approx([0.125 + 0.15625, 0.125 + 0.09375, 0.5])
    summed = crossing.follow(torch.ones(1, 1, 1), maps)
    assert summed[0, 0].tolist() == pytest.approx([0.5 + 0.625, 0.5 + 0.375, 2.0])
    for method in ("rollout", "raw-attention", "lrp"):
        assert answer(subjects["bart"], method)[1].scores.sum(1) == pytest.approx(1.0, abs=1e-6)


def test_maps_are_told_apart_by_the_order_of_calls(subjects):
    subject = subjects["t5"]
    reading = answer(subject, "random")[1].reading
    record = nbsal.trace.record(
        subject, Encoded([reading.row], 0), [running.Predictions(reading, "logit").target(0)], needs={"attention"}
    )
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


@pytest.mark.parametrize("name", writers.ODD)
def test_states_in_another_layout_are_refused(name):
    """Rather than read at wrong positions; hiding asks nothing of the layout."""
    subject = writers.load_sides(name, torch.float32)
    for method in ("gradxact", "integrated"):
        with pytest.raises(ModelError) as caught:
            answer(subject, method)
        assert caught.value.part == "hidden states"
    assert answer(subject, "occlusion")[1].scores.any()


def test_a_source_one_longer_than_the_reply_has_no_sink(subjects):
    """Attention with one key more than queries is taken for a sink elsewhere."""
    subject = subjects["bart"]
    size = len(answer(subject, "random")[1].reading.prompt.ids) - 2
    reply = [30 + i for i in range(size - 3)]
    result = answer(subject, "raw-attention", reply)[1]
    assert result.reading.prompt.source_size == len(result.ids) + 3
    assert result.scores.sum(1) == pytest.approx(1.0)


def half(x):
    return x / 2 + (x / 2).detach()


@pytest.fixture
def by_hand(monkeypatch):
    """A T5 whose gradient is relevance: norms and gates as constants, products with half a gradient for each factor."""

    def attend(module, query, key, value, mask, scaling=1.0, dropout=0.0, position_bias=None, **_):
        scores = half(query) @ half(key).mT * scaling
        scores = scores * ((scores + position_bias) / scores).detach()  # the position bias is passed by
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
        expected = torch.cat(parts) / value  # relevance begins with 1, input x gradient with the logit
        assert axioms.relative(result.scores[token, : len(expected)], expected.detach()) < 1e-5


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", catalogue.names())
def test_every_method_answers_or_says_why_not(subjects, name, method):
    try:
        explain, result = answer(subjects[name], method)
    except ModelError as error:
        assert error.part == ("lm_head" if method.startswith("decoded-") else "stacks")
        assert "@" in method or method in TWO_STACKS
        return
    assert method in (*METHODS, *HIDING) and method not in TWO_STACKS
    assert result.method == explain.method.name == method
    assert result.scores.shape == (len(result.ids), len(result.reading.row)) and np.isfinite(result.scores).all()
    assert result.scores[:, : result.reading.prompt.source_size].any(), "the source has a part in it"


@pytest.mark.parametrize("method", ["gradxact", "attn-lrp", "integrated", "occlusion", "shapley", "gae", "lrp"])
def test_a_span_is_the_sum_of_its_rows_for_linear_methods(subjects, method):
    explain, result = answer(subjects["bart"], method)
    assert result.linear == (method not in ("gae", "lrp"))
    span, tokens = result.of(slice(1, 4)), result.tokens_of(slice(1, 4))
    summed = result.scores[tokens].sum(0)[: len(span.scores)]
    if not isinstance(explain.method, Perturbation):
        again = result.running.score_sum(tokens)[: len(span.scores)]
        assert axioms.relative(span.scores, again) < 1e-7
    assert (axioms.relative(span.scores, summed) < 1e-7) == result.linear


@pytest.mark.parametrize("method", ["gradxact", "attn-lrp", "occlusion"])
def test_a_rival_is_the_difference_of_two_numbers(subjects, method):
    _, result = answer(subjects["marian"], method)
    against = result.rather(9, 2)
    second = answer(subjects["marian"], method, (*result.ids[:2], 9))[1]
    size = len(against.scores)
    assert axioms.relative(against.scores, result.scores[2][:size] - second.scores[2][:size]) < 1e-7


def test_integrated_gradients_begin_without_source_and_reply(subjects):
    explain, result = answer(subjects["bart"], "integrated", options={"layer": 1, "baseline": "zero"}, number="logit")
    token, reading = 2, result.reading
    blocks = subjects["bart"].blocks[1], architecture.blocks(subjects["bart"].model, sides.REPLY)[0]
    row = reading.up_to(reading.start + token)
    changes = [
        slice(0, reading.prompt.source_size),
        [i - reading.prompt.source_size for i in row.content if i >= reading.start],
    ]

    def remove(module, args):
        hidden = args[0].clone()
        hidden[:, changes[blocks.index(module)]] = 0
        return (hidden, *args[1:])

    ids = torch.tensor([(*row.ids, result.ids[token])])
    with torch.no_grad():
        full, _ = values_of(subjects["bart"].model, ids, reading, "logit")
        handles = [block.register_forward_pre_hook(remove) for block in blocks]
        empty, _ = values_of(subjects["bart"].model, ids, reading, "logit")
        for handle in handles:
            handle.remove()
    (saliency,) = explain.encoded(Encoded([row], 0), [running.Predictions(reading, "logit").target(token)])
    assert saliency.provenance["change"] == pytest.approx(float(full[-1] - empty[-1]), abs=1e-9)
    assert saliency.scores.sum() == pytest.approx(result.scores[token].sum())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp", "occlusion"])
def test_float32_is_close(subjects, name, method):
    single = answer(writers.load_sides(name, torch.float32), method)[1]
    assert axioms.relative(single.scores, answer(subjects[name], method)[1].scores) < 1e-3
