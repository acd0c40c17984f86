"""Attention methods against plain loops over heads and blocks of a recorded trace."""

import pytest
import torch

import nbsal
from nbsal import stream, trace
from nbsal.errors import ModelError
from nbsal.methods import alti
from tests import axioms

TEXT = axioms.TEXTS[0]


@pytest.fixture(scope="module")
def record(load):
    subject = load("bert")
    return trace.record(subject, subject.encode(TEXT), needs=trace.NEEDS)


def scores(load, name, **settings):
    return nbsal.Explainer(load("bert"), name, **settings)(TEXT).scores


def mean_head(maps):
    return sum(maps[0, head] for head in range(maps.shape[1])) / maps.shape[1]


def test_raw_attention(load, record):
    assert axioms.relative(scores(load, "raw-attention"), mean_head(record.attention[2])[0]) < 1e-12


def test_rollout(load, record):
    product = torch.eye(len(record.encoded[0])).double()
    for block in range(3):
        step = mean_head(record.attention[block]) + torch.eye(len(product)).double()
        product = (step / step.sum(-1, keepdim=True)) @ product
    assert axioms.relative(scores(load, "rollout"), product[0]) < 1e-12
    assert scores(load, "rollout").sum() == pytest.approx(1)


def test_attention_cam(load, record):
    truth = mean_head(record.attention_grad[2]).mean(0).clamp_min(0)
    assert axioms.relative(scores(load, "attention-cam"), truth) < 1e-12


def test_attcat(load, record):
    truth = sum(
        (record.hidden[b] * record.hidden_grad[b])[0].sum(-1) * mean_head(record.attention[b]).mean(0) for b in range(3)
    )
    assert axioms.relative(scores(load, "attcat"), truth) < 1e-12


def test_gae(load, record):
    product = torch.eye(len(record.encoded[0])).double()
    for block in range(3):
        evidence = mean_head((record.attention_grad[block] * record.attention[block]).clamp_min(0))
        product = product + evidence @ product
    truth = product[0].clone()
    truth[0] = 0
    assert axioms.relative(scores(load, "gae"), truth) < 1e-12


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra", "deberta-v2", "mpnet", "distilbert", "albert"])
def test_alti_reads_the_modules_of_the_stock_block(load, architecture, second):
    """The contributions of all positions add up to the output of the block."""

    subject = load(architecture)
    saliency = nbsal.Explainer(subject, "alti", second_norm=second)(TEXT)
    assert (saliency.scores >= 0).all() and saliency.scores.sum() == pytest.approx(1)
    parts, block = alti.PARTS[subject.model.config.model_type], subject.blocks[0]
    calls = {}
    hooks = [
        block.get_submodule(path).register_forward_hook(lambda m, a, o, path=path: calls.update({path: (a[0], o)}))
        for path in (parts.out, parts.norm, parts.second)
    ]
    last = 2 if architecture == "albert" else 0  # ALBERT calls one block three times, and hooks record the last call
    record = trace.record(subject, subject.encode(TEXT), needs={"attention"})
    for hook in hooks:
        hook.remove()
    x, attention = record.hidden[last][0], record.attention[last][0]
    values = block.get_submodule(parts.value)(x).unflatten(-1, (subject.heads, -1))
    mixed = torch.einsum("hij,jhd->ihd", attention, values).reshape(x.shape)
    assert axioms.relative(mixed.detach(), calls[parts.out][0].reshape(x.shape).detach()) < 1e-10
    states = calls[parts.norm][0][0]
    assert axioms.relative(calls[parts.out][1].reshape(x.shape).detach() + x, states.detach()) < 1e-10
    output = calls[parts.norm][1][0]
    again = parts.feed_forward(block, output) + output
    assert axioms.relative(again.detach(), calls[parts.second][0][0].detach()) < 1e-10
    assert alti._centred(x).mean(-1).abs().max() < 1e-12


def slow_alti(subject, text, second_norm):
    """ALTI with the vectors of all pairs of positions, and the maps of all blocks multiplied."""

    parts, record = alti.PARTS[subject.model.config.model_type], trace.record(subject, subject.encode(text))
    maps = trace.record(subject, subject.encode(text), needs={"attention"}).attention
    rolled_out = torch.eye(len(record.encoded[0])).double()
    for number in range(subject.depth):
        block, x, attention = subject.blocks[number % len(subject.blocks)], record.hidden[number][0], maps[number][0]
        value, out, norm, second = map(block.get_submodule, (parts.value, parts.out, parts.norm, parts.second))
        n, heads = len(x), len(attention)
        weight = out.weight.view(x.shape[-1], heads, -1)
        projected = torch.einsum("jhd,ohd->hjo", value(x).view(n, heads, -1), weight)
        sent = torch.einsum("hij,hjo->ijo", attention, projected)
        sent[range(n), range(n)] += x
        states = sent.sum(1) + out.bias
        normed = norm.weight * alti._centred(sent) / states.std(-1, unbiased=False)[:, None, None]
        output = norm(states)
        if second_norm:
            states = parts.feed_forward(block, output) + output
            normed = second.weight * alti._centred(normed) / states.std(-1, unbiased=False)[:, None, None]
            output = second(states)
        distance = (normed - output[:, None] + 1e-6).abs().sum(-1)
        shares = (output.abs().sum(-1)[:, None] - distance).relu()
        rolled_out = (shares / shares.sum(-1, keepdim=True)) @ rolled_out
    return rolled_out[0].detach()


@pytest.mark.parametrize("chunk", [1, 2**10, 2**20])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("architecture", ["bert", "distilbert", "albert"])
def test_alti_in_chunks_equals_all_pairs_at_once(load, monkeypatch, architecture, second, chunk):
    monkeypatch.setattr(alti, "CHUNK", chunk)
    subject = load(architecture)
    scores = nbsal.Explainer(subject, "alti", second_norm=second)(TEXT).scores
    assert axioms.relative(torch.from_numpy(scores), slow_alti(subject, TEXT, second)) < 1e-9


def test_alti_refuses_other_blocks(load):
    with pytest.raises(ModelError) as caught:
        nbsal.Explainer(load("gpt2"), "alti")
    assert caught.value.part == "post-norm blocks" and "bert" in str(caught.value)


def test_spans_add_both_ends(load):
    pair = ("Who wrote it?", "The company wrote it.")
    for name in ("gae", "attention-cam", "transformer-attribution", "raw-attention", "attcat"):
        explain = nbsal.Explainer(load("bert", "span"), name)
        per_end = explain(pair, target=(9, None)).scores + explain(pair, target=(None, 11)).scores
        assert axioms.relative(explain(pair, target=(9, 11)).scores, per_end) < 1e-10, name


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "distilbert", "electra"])
def test_every_family_explains_spans_tokens_and_next_tokens(load, architecture):
    names = ["gradcam", "gae", "rollout", "transformer-attribution", "lrp"]
    pair = ("Who wrote it?", "The company wrote it.")
    for name in names:
        assert nbsal.Explainer(load(architecture, "span"), name)(pair).scores.any()
        assert nbsal.Explainer(load(architecture, "token"), name)(TEXT, target=(3, 1)).scores.any()
        if architecture == "gpt2":
            assert nbsal.Explainer(load("gpt2", "causal"), name)(TEXT).scores.any()


@pytest.mark.parametrize("head", ["sequence", "span"])
@pytest.mark.parametrize("architecture", ["roberta", "bert"])
def test_published_variants_count_robertas_positions_from_zero(load, architecture, head):
    subject = load(architecture, head)
    text = ("Who wrote it?", "The film is a joy.") if head == "span" else "A warm and funny joy."
    inputs = subject.inputs(subject.encode(text))
    from_zero = inputs | {"position_ids": torch.arange(inputs["input_ids"].shape[1])[None]}
    for name, model_inputs in (("raw-attention@published", from_zero), ("raw-attention", inputs)):
        with torch.no_grad():
            logits = subject.logits(model_inputs)[0]
        probabilities = nbsal.Explainer(subject, name)(text).probabilities
        assert axioms.relative(probabilities, logits.softmax(0 if head == "span" else -1)) < 1e-12


@pytest.mark.parametrize("name", ["attcat@published", "lrp@published"])
@pytest.mark.parametrize("head", ["sequence", "span"])
def test_published_variants_give_gpt2_the_exact_gelu(load, name, head):
    subject, exact = load("gpt2", head), load("gpt2", head, activation_function="gelu")
    text = ("Who wrote it?", "The film is a joy.") if head == "span" else TEXT
    published, truth = (nbsal.Explainer(model, name)(text) for model in (subject, exact))
    assert axioms.relative(published.probabilities, truth.probabilities) < 1e-12
    assert axioms.relative(published.scores, truth.scores) < 1e-9
    plain = nbsal.Explainer(subject, name.partition("@")[0])(text)
    assert axioms.relative(plain.probabilities, truth.probabilities) > 1e-6, "the model itself was changed"
    weights = zip(
        nbsal.Explainer(subject, name).method_subject.model.parameters(), subject.model.parameters(), strict=True
    )
    assert all(published is weight for published, weight in weights)


@pytest.mark.parametrize("name", ["alti", "rollout", "gae"])
def test_scores_are_computed_once(load, monkeypatch, name):
    """They are also the tie-breaker, at no extra cost."""
    explain, traces = nbsal.Explainer(load("bert"), name), []
    scores = type(explain.method).scores
    monkeypatch.setattr(type(explain.method), "scores", lambda self, trace: traces.append(trace) or scores(self, trace))
    explain(TEXT)
    assert len(traces) == 1


@pytest.mark.parametrize("name", ["raw-attention", "rollout", "attention-cam", "attcat", "gae"])
@pytest.mark.parametrize("limit", [2**60, 0])
def test_decoders_in_half_precision_are_explained(load, monkeypatch, name, limit):
    """Some compute attention in float32."""
    monkeypatch.setattr(stream, "LIMIT", limit)
    whole = nbsal.Explainer(load("llama", "sequence"), name)(TEXT)
    half = nbsal.Explainer(load("llama", "sequence", dtype="bfloat16"), name)(TEXT)
    assert abs(half.scores).max() > 0 and axioms.relative(half.scores, whole.scores) < 0.1


def test_alti_in_half_precision_is_as_exact_as_its_states(reviews):
    half = nbsal.load("demo/reviews", dtype="bfloat16")
    texts = [row["text"] for row in nbsal.samples.texts("reviews")[:8]]
    scores = [nbsal.compare(subject, ["alti"], texts, progress=False)["alti"] for subject in (reviews, half)]
    errors = [axioms.relative(b.scores, a.scores) for a, b in zip(*scores, strict=True)]
    assert sum(errors) / len(errors) < 0.06
