"""Trace: what is recorded is what the stock model computed, gradients included."""

import copy

import pytest
import torch
import transformers

import nbsal
from nbsal import trace
from nbsal.errors import ModelError
from tests import axioms, zoo

EAGER_64 = ("bert", "roberta", "electra", "albert", "xlm-roberta", "gpt2", "mpnet", "deberta-v2")


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_attention_is_the_models_own(load, architecture):
    # Some models round their softmax to float32 even in float64 (and overflow there); the trace does not.
    exact = architecture in EAGER_64
    limit = 1e-12 if exact else 1e-5
    subject = load(architecture, dtype="float64" if exact else "float32")
    encoded = subject.encode(axioms.TEXTS)
    read = trace.record(subject, encoded, needs=["attention", "attention_grad"])
    plain = copy.deepcopy(subject.model)
    if architecture not in ("mpnet", "deberta-v2"):
        plain.set_attn_implementation("eager")
    with torch.no_grad():
        truth = plain(**subject.inputs(encoded), output_attentions=True)
    assert axioms.relative(read.logits, truth.logits) < limit
    for block, attention in enumerate(truth.attentions):
        assert axioms.relative(read.attention[block], attention) < limit
        rows = read.attention[block].sum(-1)
        assert axioms.relative(rows, torch.ones_like(rows)) < limit


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_attention_gradients_are_true_gradients(load, architecture, monkeypatch):
    """Nudge one attention probability and watch the logit move by its gradient."""
    subject = load(architecture)
    encoded = subject.encode(axioms.TEXTS[0])
    read = trace.record(subject, encoded, [1], needs=["attention", "attention_grad"])
    query, block, head, key, step = subject.pooled_positions(encoded)[0], 1, 2, 3, 1e-3
    plain = trace._Attention.__torch_function__

    def value(nudge):
        def nudging(self, func, types, args=(), kwargs=None):
            before = len(self.seen)
            found = plain(self, func, types, args, kwargs)
            if len(self.seen) > before and before == block:
                found = found.clone()
                found[0, head, query, key] += nudge
            return found

        monkeypatch.setattr(trace._Attention, "__torch_function__", nudging)
        return float(trace.record(subject, encoded, [1], needs=["attention"]).values[0])

    slope = (value(step) - value(-step)) / (2 * step)
    # The step is wide because Llama and its kin compute their norms in float32, whatever the model's precision.
    assert abs(slope) > 1e-3
    assert abs(slope - float(read.attention_grad[block][0, head, query, key])) < 1e-3 * max(1, abs(slope))


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "gpt2", "llama"])
def test_the_last_layer_is_the_blocks_output_before_any_norm(load, architecture):
    subject = load(architecture)
    encoded = subject.encode(axioms.TEXTS[0])
    heard = []
    handle = subject.blocks[-1].register_forward_hook(lambda module, args, output: heard.append(output))
    read = trace.record(subject, encoded)
    handle.remove()
    assert torch.equal(read.hidden[subject.depth], heard[0].detach())


def test_only_what_is_kept_is_held(load):
    subject = load("bert")
    read = trace.record(subject, subject.encode("A joy."), keep=[2])
    assert list(read.hidden) == list(read.hidden_grad) == [2]
    assert not read.attention and not read.attention_grad
    assert not read.hidden[2].requires_grad and read.hidden[2].grad_fn is None


def test_silent_nothing_is_refused(load, monkeypatch):
    subject = load("bert")
    monkeypatch.setattr(trace, "_SOFTMAX", ())
    with pytest.raises(ModelError, match="0 of 3 attention"):
        trace.record(subject, subject.encode("A joy."), needs=["attention"])


def test_gradients_at_padding_are_zero(load):
    subject = load("bert")
    read = trace.record(subject, subject.encode(axioms.TEXTS))
    for i, row in enumerate(read.encoded):
        assert all(not gradient[i, len(row) :].any() for gradient in read.hidden_grad.values())
        assert read.hidden_grad[0][i, : len(row)].any()


def fnet():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "max_position_embeddings": 16}
    config = transformers.FNetConfig(vocab_size=60, num_labels=2, tpu_short_seq_length=16, **sizes)
    config.num_attention_heads = 1
    torch.manual_seed(0)
    return transformers.FNetForSequenceClassification(config).eval()


def test_a_model_without_attention_probabilities_is_refused():
    subject = nbsal.load(fnet())
    with pytest.raises(ModelError, match="0 of 2 attention"):
        nbsal.Explainer(subject, "rollout").ids([5, 6, 7])


LARGE = {"vocab_size": 60, "num_labels": 2, "pad_token_id": 1}
XLNET = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 16}
OTHERWISE = {
    # positions before texts; padded to whole windows, and maps of windows
    "XLNet": (LARGE | XLNET | {"summary_type": "first"}, "gradxact", "raw-attention"),
    "Longformer": (
        LARGE | zoo.SIZES | {"attention_window": 4, "max_position_embeddings": 40},
        "raw-attention",
        "gradxact",
    ),
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_what_lies_otherwise_is_refused_and_the_rest_is_explained(kind):
    sizes, refused, works = OTHERWISE[kind]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes)
    subject = nbsal.load(getattr(transformers, f"{kind}ForSequenceClassification")(config).eval())
    with pytest.raises(ModelError, match=f"of {kind}ForSequenceClassification do not lie text by text"):
        nbsal.Explainer(subject, refused).ids([5, 6, 7, 8, 9])
    for name in (works, "occlusion"):
        assert nbsal.Explainer(subject, name).ids([5, 6, 7, 8, 9]).scores.shape == (5,)


def test_models_that_see_padding_are_read_text_by_text(load):
    """FNet knows no mask; XLNet's mean, and its last position, take padding in."""
    assert nbsal.load(fnet()).unbatchable
    for summary in ("last", "mean", "first"):
        torch.manual_seed(0)
        config = transformers.XLNetConfig(**LARGE, **XLNET, summary_type=summary)
        subject = nbsal.load(transformers.XLNetForSequenceClassification(config).eval())
        assert subject.pooling == summary and subject.unbatchable == (summary != "first")
    for name in zoo.ENCODERS:
        assert not load(name).unbatchable, name


@pytest.mark.parametrize("name", ["lrp@published", "transformer-attribution@published"])
def test_published_spans_spread_their_relevance_over_their_own_text(load, name):
    """As published, a span's end goes to all positions in equal parts; those of padding are not the text's."""
    pairs = [("Who wrote the book?", text) for text in axioms.TEXTS]
    explain = nbsal.Explainer(load("bert", "span"), name)
    for pair, one in zip(pairs, axioms.explain_batched(explain, pairs), strict=True):
        assert axioms.relative(one.scores, explain(pair).scores) < 1e-6
