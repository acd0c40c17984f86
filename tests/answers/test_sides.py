"""Replies of encoder-decoders: exact on both sides, whatever path computes them, and read as the models read them."""

import itertools
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import transformers
from transformers.models.t5 import modeling_t5

import nbsal
from nbsal import reply_trace
from nbsal.answers import rows
from nbsal.answers.hiding import Hiding
from nbsal.answers.reading import with_reply
from nbsal.errors import InputError, ModelError, NbsalError
from nbsal.methods import catalogue, crossing
from nbsal.methods.perturbation import Perturbation
from nbsal.model import sides
from nbsal.model.tokens import Encoded
from tests import axioms
from tests.answers import writers
from tests.raising import refuses

SOURCE = "The film is a warm joy. The plot is a bore. Who wrote the book?"
REPLY = " The company wrote it."
NAMES = ("t5", "bart", "marian")
ONE_PASS = ("gae", "gae@chefer", "rollout", "raw-attention", "gradcam", "gradxact", "simple")
RELEVANCE = ("attn-lrp", "lrp", "partial-lrp", "transformer-attribution")
SLOW = ("attention-cam", "attention-gradcam", "integrated", "smooth", "gradient-shap", "deeplift-shap", "random")
METHODS = (*ONE_PASS, *RELEVANCE, *SLOW)
HIDING = ("occlusion", "lime", "shapley")
TWO_STACKS = ("attcat", "alti", "mask-lrp", "decoded-gradcam", "decoded-simple", "decoded-gradxact")  # read one only


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load_sides(name) for name in writers.ENCODER_DECODERS}


def answer(subject, method, reply=REPLY, options=None, **settings):
    explain = nbsal.Explainer(subject, method, **options or {})
    return explain, explain.reply(SOURCE, reply, progress=False, **settings)


def values_of(model, ids, reading, number="logprob", **options):
    """The numbers of the reply's tokens, by the stock model alone."""
    size = reading.prompt.encoded
    output = model(input_ids=ids[:, :size], decoder_input_ids=ids[:, size:-1], use_cache=False, **options)
    logits = output.logits[0, reading.start - size - 1 :]
    outcomes = logits.log_softmax(-1) if number == "logprob" else logits
    return outcomes.gather(1, ids[0, reading.start :, None])[:, 0], output


@pytest.mark.parametrize("name", writers.ENCODER_DECODERS)
def test_both_sides_are_read_as_the_model_reads_them(subjects, name):
    subject = subjects[name]
    model, config = subject.model, subject.model.generation_config
    result = answer(subject, "random")[1]
    prompt = result.reading.prompt
    assert list(prompt.ids[: prompt.encoded]) == subject.tokenizer(SOURCE)["input_ids"]
    begins = [config.decoder_start_token_id, config.forced_bos_token_id]
    assert list(prompt.ids[prompt.encoded :]) == [index for index in begins if index is not None]
    assert {prompt.owners[i] for i in range(prompt.encoded, len(prompt.ids))} == {-1}, "of the template"
    assert list(result.ids) == subject.tokenizer(REPLY, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        values, _ = values_of(model, torch.tensor([result.reading.row.ids]), result.reading)
    assert result.statistics.logprob == pytest.approx(values.numpy(), abs=1e-12)
    assert subject.task == "reply" and subject.depth == 3 and sides.depth(model, sides.REPLY) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_is_written_equals_the_same_reply_passed(subjects, name):
    subject = subjects[name]
    settings = {"do_sample": True, "temperature": 1.5, "top_k": 0, "seed": 1, "max_new_tokens": 9}
    written = answer(subject, "gradxact", reply=None, **settings)[1]
    assert written.provenance["reply"] == "generated" and len(written.ids) > 3
    passed = answer(subject, "gradxact", written.ids)[1]
    assert np.array_equal(written.scores, passed.scores)
    assert written.tokens().drop(columns="drawn").equals(passed.tokens().drop(columns="drawn"))
    assert written.tokens()["drawn"].notna().all()
    start = list(written.reading.prompt.ids[written.reading.prompt.encoded :])
    ids = torch.tensor([written.reading.prompt.ids[: written.reading.prompt.encoded]])
    torch.manual_seed(1)
    output = subject.model.generate(
        ids,
        do_sample=True,
        temperature=1.5,
        top_k=0,
        max_new_tokens=9,
        output_logits=True,
        return_dict_in_generate=True,
    )
    assert output.sequences[0].tolist() == [*start, *written.ids]
    raw = torch.stack(output.logits)[-len(written.ids) :, 0].log_softmax(-1)
    chosen = raw.gather(1, torch.tensor(written.ids)[:, None])[:, 0]
    assert written.statistics.logprob == pytest.approx(chosen.numpy(), abs=1e-5)
    for whole in (output.sequences[0], output.sequences[0, 1:] if len(start) > 1 else output.sequences[0]):
        assert answer(subject, "random", whole)[1].ids == written.ids, "what generate returns is a reply as it is"


def test_text_is_passed_on_without_the_language(subjects):
    pieces = []
    settings = {"do_sample": True, "temperature": 1.5, "seed": 2, "max_new_tokens": 8}
    result = answer(subjects["mbart"], "random", reply=None, on_token=pieces.append, **settings)[1]
    assert len(pieces) > 2 and result.text.startswith("".join(pieces))


def test_a_language_is_forced_by_a_setting(subjects):
    result = answer(subjects["marian"], "gae", forced_bos_token_id=4)[1]
    prompt = result.reading.prompt
    assert prompt.tokens[prompt.encoded :] == ("<pad>", "<|im_end|>")
    assert result.provenance["reply begins with"] == ["<pad>", "<|im_end|>"]
    frame = result.matrix()
    assert "template" in frame and len(frame) == len(result.ids)
    assert result.scores.shape == (len(result.ids), prompt.encoded + 2 + len(result.ids))
    with refuses("decoder_start_token_id"):
        answer(subjects["marian"], "gae", forced_bos_token_id=4000)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_a_row_is_the_explanation_of_its_token_alone(subjects, name, method):
    explain, result = answer(subjects[name], method)
    predictions = rows.Predictions(result.reading, result.number)
    for token in (0, 3):
        end = result.reading.start + token
        encoded = Encoded([result.reading.up_to(end)], 0)
        (alone,) = explain.encoded(encoded, [predictions.target(token)])
        assert axioms.relative(result.scores[token, :end], alone.scores) < 1e-7
        assert not result.scores[token, end:].any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", [method for method in METHODS if method != "random"])
def test_a_later_token_changes_no_earlier_row(subjects, name, method):
    explain, result = answer(subjects[name], method)
    other = with_reply(explain.subject, result.reading.prompt, (*result.reading.reply_ids[:-1], 7))
    changed = explain.reply(SOURCE, other.reply_ids, progress=False)
    assert axioms.relative(changed.scores[:-1], result.scores[:-1]) < 1e-7


@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp"])
def test_a_batch_equals_its_single_texts(subjects, method):
    """Replies of different lengths are padded."""
    explain, result = answer(subjects["bart"], method)
    predictions, reading = rows.Predictions(result.reading, result.number), result.reading
    numbers = (4, 0, 2)
    encoded = Encoded([reading.up_to(reading.start + token) for token in numbers], 0)
    for token, saliency in zip(
        numbers, explain.encoded(encoded, [predictions.target(t) for t in numbers]), strict=True
    ):
        assert axioms.relative(saliency.scores, result.scores[token, : len(saliency.scores)]) < 1e-7
    other = explain.reply("A joy.", REPLY, progress=False).reading
    with refuses("encoded"):
        explain.encoded(Encoded([reading.row, other.row], 0), [predictions.target(0)] * 2)


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("method", ["gae", "gradxact"])
def test_chunks_do_not_matter(subjects, monkeypatch, method, chunk):
    _, result = answer(subjects["bart"], method)
    monkeypatch.setattr(reply_trace, "_chunk", lambda *_: chunk)
    assert axioms.relative(answer(subjects["bart"], method)[1].scores, result.scores) < 1e-12


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
    blocks = subject.blocks[layer], nbsal.model.architecture.blocks(subject.model, sides.REPLY)[0]
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
        row[result.reading.prompt.encoded + at] = 0
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
        subject, Encoded([reading.row], 0), [rows.Predictions(reading, "logit").target(0)], needs={"attention"}
    )
    maps, size = crossing.maps_of(record, record.attention), reading.prompt.encoded
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
    assert result.reading.prompt.encoded == len(result.ids) + 3
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
    ids, size = torch.tensor([reading.row.ids]), reading.prompt.encoded
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
def test_hidden_units_are_masked_in_the_encoder(subjects, name):
    subject = subjects[name]
    result = answer(subject, "random")[1]
    reading, units = result.reading, result.reading.units("sentence")
    hiding = Hiding(subject, reading, units)
    subsets = np.array(list(itertools.product([True, False], repeat=len(units))))
    ids, size = torch.tensor([reading.row.ids]), reading.prompt.encoded
    for subset, values in zip(subsets, hiding.values(subsets), strict=True):
        mask = torch.ones(1, size)
        for unit, stays in zip(units, subset, strict=True):
            mask[0, list(unit.tokens)] = float(stays)
        with torch.no_grad():
            expected, _ = values_of(subject.model, ids, reading, attention_mask=mask)
        assert values == pytest.approx(expected.numpy(), abs=1e-7)
    assert hiding.way == "masked in place" and hiding.forwards == len(subsets)
    assert hiding.values(subsets).shape == (8, len(result.ids)) and hiding.forwards == len(subsets)


def test_a_source_without_end_keeps_one_token(subjects):
    subject = nbsal.load(subjects["t5"].model, tokenizer=writers.tokenizer(None))
    reading = answer(subject, "random")[1].reading
    values = Hiding(subject, reading, reading.units("sentence")).values([[False] * 3])
    mask = torch.zeros(1, reading.prompt.encoded)
    mask[0, 0] = 1
    with torch.no_grad():
        expected, _ = values_of(subject.model, torch.tensor([reading.row.ids]), reading, attention_mask=mask)
    assert values[0] == pytest.approx(expected.numpy(), abs=1e-7)


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
    assert result.scores[:, : result.reading.prompt.encoded].any(), "the source has a part in it"


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
    explain, result = answer(subjects["bart"], "integrated", options={"layer": 1}, number="logit")
    token, reading = 2, result.reading
    blocks = subjects["bart"].blocks[1], nbsal.model.architecture.blocks(subjects["bart"].model, sides.REPLY)[0]
    row = reading.up_to(reading.start + token)
    changes = [
        slice(0, reading.prompt.encoded),
        [i - reading.prompt.encoded for i in row.content if i >= reading.start],
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
    (saliency,) = explain.encoded(Encoded([row], 0), [rows.Predictions(reading, "logit").target(token)])
    assert saliency.provenance["change"] == pytest.approx(float(full[-1] - empty[-1]), abs=1e-9)
    assert saliency.scores.sum() == pytest.approx(result.scores[token].sum())


@pytest.mark.parametrize("name", writers.ENCODER_DECODERS)
def test_the_last_layer_of_the_decoder_says_what_the_model_says(subjects, name):
    result = answer(subjects[name], "random")[1]
    frame = result.lens(k=3)
    assert set(frame["layer"]) == {0, 1, 2}
    last = frame[frame["layer"] == 2]
    assert last["logprob"].to_numpy() == pytest.approx(result.statistics.logprob, abs=1e-6)
    assert last["rank"].tolist() == result.statistics.rank.tolist()
    with refuses("layers", nbsal.errors.UnknownName):
        result.lens([3])


def test_documents_stand_before_the_source(subjects):
    documents = {"Notes": "Ann wrote the book.", "Prices": "Prices fell on Monday."}
    explain = nbsal.Explainer(subjects["t5"], "occlusion")
    result = explain.reply(SOURCE, REPLY, documents=documents, unit="document", progress=False)
    assert [unit.name for unit in result.units] == ["prompt", "document 1, Notes", "document 2, Prices"]
    assert result.provenance["documents"] == "before the question"
    placed = explain.reply("Read {documents} now.", REPLY, documents=documents, unit="document", progress=False)
    assert placed.provenance["documents"] == "at the placeholder"
    for level in ("token", "word", "sentence", "document"):
        held = [token for unit in result.reading.units(level) for token in unit.tokens]
        assert sorted(held) == [i for i, owner in enumerate(result.reading.prompt.owners) if owner >= 0]
        frame = result.matrix("reply", level)
        assert frame.to_numpy().sum() == pytest.approx(result.scores.sum())


def test_an_answer_is_judged_saved_and_shown(subjects, tmp_path):
    result = answer(subjects["bart"], "shapley")[1]
    judged = result.judge(random=6, subsets=10)
    assert judged.drop >= judged.random_drops.mean() and judged.rank_correlation > 0.5
    assert len(result.sources(2, "reply")) == 2 and "Saliency" in repr(result.of(0))
    result.save(tmp_path / "answer.json")
    loaded = nbsal.Answer.load(tmp_path / "answer.json")
    assert np.array_equal(loaded.scores, result.scores) and loaded.reading == result.reading
    assert loaded.matrix("token", "word").equals(result.matrix("token", "word"))
    assert loaded.to_html() == result.to_html()


def test_messages_need_a_template(subjects):
    messages = [{"role": "user", "content": SOURCE}]
    with refuses("template"):
        nbsal.answer(subjects["t5"], messages, REPLY, progress=False)
    subject = nbsal.load(subjects["t5"].model, tokenizer=writers.tokenizer("chatml"))
    result = nbsal.answer(subject, messages, REPLY, progress=False)
    assert result.reading.prompt.names == ("user message 1",)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"reply": " a" * 600}, "asked"),
        ({"asked": "a " * 600}, "asked"),
        ({"reply": [2]}, "reply"),
        ({"reply": [1000]}, "reply"),
        ({"reply": [0]}, "reply"),
        ({"reply": None, "max_new_tokens": 512}, "max_new_tokens"),
        ({"unit": "lines"}, "unit"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(subjects, settings, argument):
    with pytest.raises(InputError) as caught:
        nbsal.answer(subjects["t5"], **{"asked": SOURCE, "reply": REPLY, "progress": False} | settings)
    assert caught.value.argument == argument


def test_an_lm_head_of_another_model_is_refused(subjects):
    for lm in ("tied", subjects["t5"].model):
        with refuses("lm"):
            nbsal.load(subjects["t5"].model, tokenizer=subjects["t5"].tokenizer, lm=lm)


def test_texts_without_a_reply_are_refused(subjects):
    explain = nbsal.Explainer(subjects["t5"], "gradxact")
    calls = (
        lambda: explain(SOURCE),
        lambda: explain.map([SOURCE], progress=False),
        lambda: explain.ids([5, 6]),
        lambda: explain.every_layer(SOURCE),
        lambda: nbsal.compare(subjects["t5"], ["gradxact"], [SOURCE]),
    )
    for call in calls:
        with pytest.raises(ModelError) as caught:
            call()
        assert caught.value.part == "task" and "nbsal.answer" in str(caught.value)
    with pytest.raises(ModelError):
        nbsal.Explainer(subjects["t5"], "transformer-attribution", start_layer=1)


VISION_AND_SPEECH = {
    "WhisperForConditionalGeneration": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60}
    | {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 0, "bos_token_id": 1}
    | {"eos_token_id": 2, "decoder_start_token_id": 1},
    "Speech2TextForConditionalGeneration": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60},
    "Pix2StructForConditionalGeneration": {},
}


@pytest.mark.parametrize("name", VISION_AND_SPEECH)
def test_images_and_speech_are_refused(name):
    model_class = getattr(transformers, name)
    with torch.device("meta"):
        model = model_class(model_class.config_class(**VISION_AND_SPEECH[name]))
    with pytest.raises(ModelError) as caught:
        nbsal.load(model)
    assert caught.value.part == "input"


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_loaded(subjects, tmp_path, name):
    subject = subjects[name]
    subject.model.save_pretrained(tmp_path)
    subject.tokenizer.save_pretrained(tmp_path)
    loaded = nbsal.load(tmp_path, dtype="float64")
    assert loaded.task == "reply"
    ours, theirs = (answer(each, "gae")[1] for each in (subject, loaded))
    assert ours.reading == theirs.reading and np.array_equal(ours.scores, theirs.scores)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp", "occlusion"])
def test_float32_is_close(subjects, name, method):
    single = answer(writers.load_sides(name, torch.float32), method)[1]
    assert axioms.relative(single.scores, answer(subjects[name], method)[1].scores) < 1e-3


def test_the_model_is_left_as_it_was(subjects):
    subject = subjects["bart"]
    model = subject.model.train()

    def state():
        parameters = [(p.requires_grad, p._version) for p in model.parameters()]
        hooks = [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]
        parts = (model, model.get_encoder(), model.get_decoder())
        return parameters, hooks, [(m.config._attn_implementation, m.training) for m in parts]

    before = state()
    for method in ("gae", "attn-lrp", "occlusion", "integrated", "gradxact"):
        answer(subject, method, reply=None, max_new_tokens=4, do_sample=True, temperature=2.0, seed=1)[1].lens()
        assert state() == before
    with pytest.raises(NbsalError):
        answer(subject, "gae", [10**6])
    assert state() == before
    model.eval()
