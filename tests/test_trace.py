"""A trace records what the stock model computed, and its true gradients."""

import copy

import pytest
import torch
import transformers

import nbsal
from nbsal.model.running import attention_maps
from nbsal.model.running.attention_maps import AttentionRecorder
from nbsal.passes import trace
from nbsal.support.errors import ModelError, UnknownName
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses

EAGER_64 = ("bert", "roberta", "electra", "albert", "xlm-roberta", "gpt2", "mpnet", "deberta-v2")


@cases("architecture", zoo.ARCHITECTURES)
def test_recorded_attention_equals_the_models_output(load, architecture):
    # Some models round their softmax to float32 (and overflow there), even in float64; the trace does not.
    exact = architecture in EAGER_64
    limit = 1e-12 if exact else 1e-5
    subject = load(architecture, dtype="float64" if exact else "float32")
    encoded = subject.encode(axioms.TEXTS)
    recorded = trace.record(subject, encoded, needs=["attention", "attention_grad"])
    plain = copy.deepcopy(subject.model)
    if architecture not in ("mpnet", "deberta-v2"):
        plain.set_attn_implementation("eager")
    with torch.no_grad():
        truth = plain(**subject.inputs(encoded), output_attentions=True)
    assert axioms.relative(recorded.logits, truth.logits) < limit
    for block, attention in enumerate(truth.attentions):
        assert axioms.relative(recorded.attention[block], attention) < limit
        rows = recorded.attention[block].sum(-1)
        assert axioms.relative(rows, torch.ones_like(rows)) < limit


@pytest.mark.some(4)
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_attention_gradients_are_true_gradients(load, architecture, monkeypatch):
    """The logit changes by the gradient when one attention probability is changed."""
    subject = load(architecture)
    encoded = subject.encode(axioms.TEXTS[0])
    recorded = trace.record(subject, encoded, [1], needs=["attention", "attention_grad"])
    query, block, head, key, step = subject.pooled_positions(encoded)[0], 1, 2, 3, 1e-3
    original = AttentionRecorder.on_weights

    def value(change):
        def with_change(self, weights):
            if len(self.maps) == block:
                weights = weights.clone()
                weights[0, head, query, key] += change
            return original(self, weights)

        monkeypatch.setattr(AttentionRecorder, "on_weights", with_change)
        return float(trace.record(subject, encoded, [1], needs=["attention"]).values[0])

    slope = (value(step) - value(-step)) / (2 * step)
    # The step is large because Llama and related models always compute their norms in float32.
    assert abs(slope) > 1e-3
    assert abs(slope - float(recorded.attention_grad[block][0, head, query, key])) < 1e-3 * max(1, abs(slope))


@cases("architecture", ["bert", "modernbert", "gpt2", "llama"])
def test_the_last_layer_is_the_blocks_output_before_any_norm(load, architecture):
    subject = load(architecture)
    encoded = subject.encode(axioms.TEXTS[0])
    outputs = []
    handle = subject.blocks[-1].register_forward_hook(lambda module, args, output: outputs.append(output))
    recorded = trace.record(subject, encoded)
    handle.remove()
    assert torch.equal(recorded.hidden[subject.depth], outputs[0].detach())


def test_only_requested_layers_are_kept(load):
    subject = load("bert")
    recorded = trace.record(subject, subject.encode("A joy."), keep=[2])
    assert list(recorded.hidden) == list(recorded.hidden_grad) == [2]
    assert not recorded.attention and not recorded.attention_grad
    assert not recorded.hidden[2].requires_grad and recorded.hidden[2].grad_fn is None


def test_a_trace_without_attention_maps_is_refused(load, monkeypatch):
    subject = load("bert")
    monkeypatch.setattr(attention_maps, "SOFTMAX_FUNCTIONS", ())
    with pytest.raises(ModelError) as caught:
        trace.record(subject, subject.encode("A joy."), needs=["attention"])
    assert caught.value.part == "attention maps"


@cases("architecture", zoo.ARCHITECTURES)
def test_heads_are_off_in_fused_attention_as_in_eager(load, architecture):
    subject = load(architecture)
    encoded, off = subject.encode(axioms.TEXTS), torch.rand(subject.depth, subject.heads) < 0.5
    usual = subject.model.config._attn_implementation
    whole = trace.record(subject, encoded, needs=()).decisions
    fused = trace.decide_without_heads(subject, encoded, [None] * len(encoded), off)
    assert subject.model.config._attn_implementation == usual
    subject.model.set_attn_implementation("eager")
    eager = trace.decide_without_heads(subject, encoded, [None] * len(encoded), off)
    for one, same, other in zip(fused, eager, whole, strict=True):
        assert torch.allclose(one.probabilities, same.probabilities, rtol=0, atol=1e-12)
        assert not torch.allclose(one.probabilities, other.probabilities, rtol=0, atol=1e-6)


def test_an_unknown_need_is_refused(load):
    with refuses("needs", UnknownName) as caught:
        trace.record(load("bert"), load("bert").encode("A joy."), needs=["weights"])
    assert caught.value.valid == tuple(trace.NEEDS)


def test_gradients_at_padding_are_zero(load):
    subject = load("bert")
    recorded = trace.record(subject, subject.encode(axioms.TEXTS))
    for i, row in enumerate(recorded.encoded):
        assert all(not gradient[i, len(row) :].any() for gradient in recorded.hidden_grad.values())
        assert recorded.hidden_grad[0][i, : len(row)].any()


def test_models_that_cannot_mask_padding_run_one_text_at_a_time(load):
    """FNet takes no mask; XLNet's mean and last position include padding."""
    sizes = {"vocab_size": 60, "num_labels": 2}
    fourier = zoo.SIZES | {"max_position_embeddings": 16, "tpu_short_seq_length": 16}
    fnet = transformers.FNetConfig(**sizes, **fourier)
    assert nbsal.load(transformers.FNetForSequenceClassification(fnet).eval()).unbatchable
    for summary in ("last", "mean", "first"):
        torch.manual_seed(0)
        small = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 16, "pad_token_id": 1}
        config = transformers.XLNetConfig(**sizes, **small, summary_type=summary)
        subject = nbsal.load(transformers.XLNetForSequenceClassification(config).eval())
        assert subject.pooling == summary and subject.unbatchable == (summary != "first")
    with pytest.raises(ModelError) as caught:  # it puts positions before texts
        nbsal.Explainer(subject, "gradxact").ids([5, 6, 7, 8, 9])
    assert caught.value.part == "hidden states" and nbsal.Explainer(subject, "raw-attention").ids([5, 6, 7, 8, 9])
    for name in zoo.ENCODERS:
        assert not load(name).unbatchable, name


@pytest.mark.parametrize("name", ["lrp@published", "transformer-attribution@published"])
def test_published_spans_spread_relevance_over_their_text_only(load, name):
    """As published, the relevance of a span's end is spread evenly over all positions, but not over padding."""
    pairs = [("Who wrote the book?", text) for text in axioms.TEXTS]
    explain = nbsal.Explainer(load("bert", "span"), name)
    for pair, saliency in zip(pairs, axioms.explain_batched(explain, pairs), strict=True):
        assert axioms.relative(saliency.scores, explain(pair).scores) < 1e-6
