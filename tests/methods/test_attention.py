"""Attention methods against loops over heads and blocks, on a trace of their own."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal import trace
from nbsal.errors import ModelError
from tests import axioms

TEXT = axioms.TEXTS[0]


@pytest.fixture(scope="module")
def read(load):
    subject = load("bert")
    return trace.record(subject, subject.encode(TEXT), needs=trace.NEEDS)


def scores(load, name, **settings):
    return nbsal.Explainer(load("bert"), name, **settings)(TEXT).scores


def mean_head(maps):
    return sum(maps[0, head] for head in range(maps.shape[1])) / maps.shape[1]


def test_raw_attention(load, read):
    assert axioms.relative(scores(load, "raw-attention"), mean_head(read.attention[2])[0]) < 1e-12


def test_rollout(load, read):
    joined = torch.eye(len(read.encoded[0])).double()
    for block in range(3):
        step = mean_head(read.attention[block]) + torch.eye(len(joined)).double()
        joined = (step / step.sum(-1, keepdim=True)) @ joined
    assert axioms.relative(scores(load, "rollout"), joined[0]) < 1e-12
    assert scores(load, "rollout").sum() == pytest.approx(1)


def test_attention_cam(load, read):
    truth = mean_head(read.attention_grad[2]).mean(0).clamp_min(0)
    assert axioms.relative(scores(load, "attention-cam"), truth) < 1e-12


def test_attcat(load, read):
    truth = sum(
        (read.hidden[b] * read.hidden_grad[b])[0].sum(-1) * mean_head(read.attention[b]).mean(0) for b in range(3)
    )
    assert axioms.relative(scores(load, "attcat"), truth) < 1e-12


def test_gae(load, read):
    joined = torch.eye(len(read.encoded[0])).double()
    for block in range(3):
        evidence = mean_head((read.attention_grad[block] * read.attention[block]).clamp_min(0))
        joined = joined + evidence @ joined
    truth = joined[0].clone()
    truth[0] = 0
    assert axioms.relative(scores(load, "gae"), truth) < 1e-12


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra", "deberta-v2", "mpnet", "distilbert", "albert"])
def test_alti_sees_the_blocks_own_output(load, architecture, second):
    """What all positions contribute adds up to the block's output: the parts are those of the stock block."""
    from nbsal.methods.alti import PARTS, _centred

    subject = load(architecture)
    found = nbsal.Explainer(subject, "alti", second_norm=second)(TEXT)
    assert (found.scores >= 0).all() and found.scores.sum() == pytest.approx(1)
    parts, block = PARTS[subject.model.config.model_type], subject.blocks[0]
    heard = {}
    hooks = [
        block.get_submodule(path).register_forward_hook(lambda m, a, o, path=path: heard.update({path: (a[0], o)}))
        for path in (parts.out, parts.norm, parts.second)
    ]
    last = 2 if architecture == "albert" else 0  # ALBERT calls one block three times; what was heard is the last call
    read = trace.record(subject, subject.encode(TEXT), needs={"attention"})
    for hook in hooks:
        hook.remove()
    x, attention = read.hidden[last][0], read.attention[last][0]
    values = block.get_submodule(parts.value)(x).unflatten(-1, (subject.heads, -1))
    mixed = torch.einsum("hij,jhd->ihd", attention, values).reshape(x.shape)
    assert axioms.relative(mixed.detach(), heard[parts.out][0].reshape(x.shape).detach()) < 1e-10
    states = heard[parts.norm][0][0]
    assert axioms.relative(heard[parts.out][1].reshape(x.shape).detach() + x, states.detach()) < 1e-10
    output = heard[parts.norm][1][0]
    again = parts.feed_forward(block, output) + output
    assert axioms.relative(again.detach(), heard[parts.second][0][0].detach()) < 1e-10
    assert _centred(x).mean(-1).abs().max() < 1e-12


def test_alti_names_what_it_reads(load):
    with pytest.raises(ModelError, match="bert, roberta"):
        nbsal.Explainer(load("gpt2"), "alti")


@pytest.mark.parametrize(
    "name", ["raw-attention", "rollout", "attention-cam", "attention-gradcam", "attcat", "gae", "alti"]
)
@pytest.mark.parametrize("architecture", ["bert", "distilbert", "deberta-v2", "gpt2", "llama", "modernbert"])
def test_batches_and_padding(load, architecture, name):
    if name == "alti" and architecture not in ("bert", "distilbert", "deberta-v2"):
        with pytest.raises(ModelError):
            nbsal.Explainer(load(architecture), name)
        return
    explain = nbsal.Explainer(load(architecture), name)
    with np.errstate(all="ignore"):
        axioms.batch_equals_singles(explain)
        axioms.padding_is_invisible(explain)


def test_spans_add_both_ends(load):
    pair = ("Who wrote it?", "The company wrote it.")
    for name in ("gae", "attention-cam", "transformer-attribution", "raw-attention", "attcat"):
        explain = nbsal.Explainer(load("bert", "span"), name)
        apart = explain(pair, target=(9, None)).scores + explain(pair, target=(None, 11)).scores
        assert axioms.relative(explain(pair, target=(9, 11)).scores, apart) < 1e-10, name


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
    counted = inputs | {"position_ids": torch.arange(inputs["input_ids"].shape[1])[None]}
    for name, given in (("raw-attention@published", counted), ("raw-attention", inputs)):
        with torch.no_grad():
            logits = subject.logits(given)[0]
        probabilities = nbsal.Explainer(subject, name)(text).probabilities
        assert axioms.relative(probabilities, logits.softmax(0 if head == "span" else -1)) < 1e-12


@pytest.mark.parametrize("name", ["attcat@published", "lrp@published"])
@pytest.mark.parametrize("head", ["sequence", "span"])
def test_published_variants_give_gpt2_the_exact_gelu(load, name, head):
    subject, exact = load("gpt2", head), load("gpt2", head, activation_function="gelu")
    text = ("Who wrote it?", "The film is a joy.") if head == "span" else TEXT
    published, truth = (nbsal.Explainer(one, name)(text) for one in (subject, exact))
    assert axioms.relative(published.probabilities, truth.probabilities) < 1e-12
    assert axioms.relative(published.scores, truth.scores) < 1e-9
    own = nbsal.Explainer(subject, name.partition("@")[0])(text)
    assert axioms.relative(own.probabilities, truth.probabilities) > 1e-6, "the model itself was changed"
    weights = zip(
        nbsal.Explainer(subject, name).method_subject.model.parameters(), subject.model.parameters(), strict=True
    )
    assert all(one is other for one, other in weights)


@pytest.mark.parametrize("name", ["alti", "rollout", "gae"])
def test_scores_are_worked_out_once(load, monkeypatch, name):
    """They also order tokens of equal score, which costs nothing more."""
    explain, worked = nbsal.Explainer(load("bert"), name), []
    own = type(explain.method).scores
    monkeypatch.setattr(type(explain.method), "scores", lambda self, read: worked.append(read) or own(self, read))
    explain(TEXT)
    assert len(worked) == 1
