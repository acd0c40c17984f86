"""Explanations block by block equal those from whole maps, keep few maps at a time, and leave everything as it was."""

import threading
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.batches import explain_batch
from nbsal.heads import HeadMask
from nbsal.methods import catalogue
from nbsal.model.running import fused_attention
from nbsal.model.running.fused_attention import FusedAttention
from nbsal.passes import plan, stream, trace
from nbsal.support.errors import Cancelled, ModelError
from nbsal.support.progress import Meter
from nbsal.testing.state import snapshot
from tests import axioms, zoo
from tests.cases import cases

MASK = HeadMask.from_array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]])
BY_BLOCK = [name for name in catalogue.names() if catalogue.create(name).by_block]
ONE_OF_A_KIND = ("rollout", "gae", "attcat", "lrp", "attn-lrp", "mask-lrp")  # no gradient, one, all, rules, a filter


def explainer(subject, name, **settings):
    return nbsal.Explainer(subject, name, **settings | ({"mask": MASK} if name.startswith("mask-lrp") else {}))


def check_equal(monkeypatch, explain, texts, limit=1e-9):
    """The scores of a batch from whole maps are those computed block by block."""
    results = []
    for elements in (2**60, 0):
        monkeypatch.setattr(plan, "LIMIT", elements)
        batch = explain_batch({"": explain}, explain.subject.encode(texts), [None] * len(texts))
        results.append([saliency.scores for saliency in batch[""]])
    assert max(map(axioms.relative, *results)) < limit


@pytest.mark.some(2)
@pytest.mark.filterwarnings("ignore:attention-gradcam")
@pytest.mark.parametrize(
    ("architecture", "dtype"), [*((name, "float64") for name in zoo.ARCHITECTURES), ("bert", "float32")]
)
def test_streamed_scores_equal_whole_ones(load, architecture, dtype, monkeypatch):
    subject = load(architecture, dtype=dtype)
    monkeypatch.setattr(fused_attention, "CHUNK", 500)  # a few queries at a time
    for name in BY_BLOCK:
        try:
            explain = explainer(subject, name)
        except ModelError:  # ALTI reads the inside of blocks
            continue
        check_equal(monkeypatch, explain, axioms.TEXTS, 1e-9 if dtype == "float64" else 1e-5)
        if "relevance" not in explain.method.needs:  # without padding, the first forward pass has fused attention
            for limit in (2**30, 0):  # with the graphs of that pass, and with those of blocks that run again
                monkeypatch.setattr(stream, "GRAPHS", limit)
                check_equal(monkeypatch, explain, axioms.TEXTS[:1], 1e-11 if dtype == "float64" else 1e-5)


@cases("architecture, names", [("gpt-oss", ["rollout", "gae"]), ("bloom", ["gae", "lrp"])])
def test_further_architectures(checkpoints, architecture, names, monkeypatch):
    """One has a sink, a column of its attention maps that is no position; one adds positions to the scores."""
    subject = zoo.load(checkpoints, architecture, "causal")
    for name in names:
        check_equal(monkeypatch, explainer(subject, name), axioms.TEXTS, 1e-12 if architecture == "bloom" else 1e-5)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
@pytest.mark.parametrize(("architecture", "head"), [("bert", "span"), ("bert", "token"), ("gpt2", "causal")])
def test_other_targets(load, architecture, head, name, monkeypatch):
    texts = [("Who wrote the book?", text) for text in axioms.TEXTS] if head == "span" else axioms.TEXTS
    explain = explainer(load(architecture, head), name)
    check_equal(monkeypatch, explain, texts)
    assert explain(texts[0]).scores.any()


@pytest.mark.parametrize("name", ["rollout", "gae", "attcat"])
def test_heads_that_read_all_positions(load, name, monkeypatch):
    """GAE follows every deciding position apart, to leave out its own entry."""
    check_equal(monkeypatch, explainer(load("modernbert", classifier_pooling="mean"), name), axioms.TEXTS)


@contextmanager
def counted(subject):
    """Collect the runs of all blocks."""
    runs = []
    handles = [block.register_forward_hook(lambda *_: runs.append(1)) for block in subject.blocks]
    yield runs
    for handle in handles:
        handle.remove()


def test_attribution_from_a_later_block(load, monkeypatch):
    explain = explainer(load("bert"), "transformer-attribution", start_layer=2)
    check_equal(monkeypatch, explain, axioms.TEXTS)


def test_what_a_user_hooked_to_a_block_acts_once(load):
    subject = load("bert")
    handle = subject.blocks[1].register_forward_pre_hook(lambda module, args: (args[0] * 1.5, *args[1:]))
    after = subject.blocks[1].register_forward_hook(lambda module, args, output: output * 1.5)
    try:
        recorded = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs={"attention"}, stream=True)
        with torch.no_grad():
            plain = subject.model(**subject.inputs(recorded.encoded), output_hidden_states=True)
        inputs = [block["hidden"] for block in recorded.blocks("attention")]
        assert axioms.relative(recorded.logits, plain.logits) < 1e-12
        assert axioms.relative(inputs[0], plain.hidden_states[2]) < 1e-12
    finally:
        handle.remove()
        after.remove()


@cases("name, limit, size", [("rollout", "LIMIT", 10**6), ("gae", "LONG", 2), ("lrp", "LIMIT", 10**6)])
def test_only_short_texts_are_held_whole(small, name, limit, size, monkeypatch):
    streamed, record = [], trace.record_now
    monkeypatch.setattr(trace, "record_now", lambda *a: streamed.append(a[-1]) or record(*a))
    explain = nbsal.Explainer(small, name)
    explain("A joy.")
    monkeypatch.setattr(plan, limit, size)
    explain("A joy. " * 60)
    assert streamed == [False, True]


def test_a_block_is_freed_when_the_next_is_requested(load):
    subject, needs = load("bert"), ("attention", "attention_grad")
    recorded = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs=needs, stream=True)
    references = []
    for block in recorded.blocks(*needs):
        assert all(reference() is None for reference in references)
        references = [weakref.ref(block[name]) for name in needs]
    assert references


@pytest.mark.some(3)
@pytest.mark.parametrize("name", ONE_OF_A_KIND)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_block_that_fails_when_it_runs_again_leaves_the_model_as_it_was(load, name, error, monkeypatch):
    monkeypatch.setattr(plan, "LIMIT", 0)
    subject = load("bert")
    subject.model.train()
    explain, encoded = explainer(subject, name), subject.encode(axioms.TEXTS)  # with padding, every block runs again
    run = lambda: explain_batch({"": explain}, encoded, [None] * len(encoded))[""]  # noqa: E731
    truth, calls = run(), []

    def fail(module, args, output):
        calls.append(module)
        if len(calls) == 2:
            raise error

    handle = subject.blocks[1].register_forward_hook(fail)
    before = snapshot(subject)
    with pytest.raises(error):
        run()
    assert snapshot(subject) == before
    handle.remove()
    assert all(np.array_equal(now.scores, first.scores) for now, first in zip(run(), truth, strict=True))


@pytest.mark.parametrize("name", ["raw-attention", "rollout", "attention-cam", "attcat", "gae"])
@pytest.mark.parametrize("graphs", [2**30, 0])
def test_no_block_runs_again_for_means_over_heads(load, name, graphs, monkeypatch):
    monkeypatch.setattr(plan, "LIMIT", 0)
    monkeypatch.setattr(stream, "GRAPHS", graphs)
    subject = load("bert")
    explain = explainer(subject, name)
    explain(axioms.TEXTS[0])  # measures the pooling
    with counted(subject) as runs:
        explain(axioms.TEXTS[0])
    again = {"attention-cam": 1, "attcat": subject.depth, "gae": subject.depth}.get(name, 0)
    assert len(runs) == subject.depth + (again if graphs == 0 else 0)


def test_methods_of_one_call_share_the_forward_pass(small, forwards, monkeypatch):
    """A graph serves one method, and is made anew for the next."""
    monkeypatch.setattr(plan, "LIMIT", 0)
    for names in (["transformer-attribution", "lrp", "partial-lrp"], ["gae", "attcat"]):
        before = len(forwards)
        together = nbsal.compare(small, names, "A warm and funny film.")
        assert len(forwards) == before + 1
        for name in names:
            alone = nbsal.Explainer(small, name)("A warm and funny film.")
            assert axioms.relative(together[name][0].scores, alone.scores) < 1e-6


def test_a_stream_is_cancelled_between_blocks(load):
    subject, cancel, blocks = load("bert"), threading.Event(), 0
    recorded = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs={"attention"}, stream=True)
    recorded.meter = Meter(1, cancel=cancel)
    with pytest.raises(Cancelled):
        for _ in recorded.blocks("attention"):
            blocks += 1
            cancel.set()
    assert blocks == 1


def test_attention_that_a_block_does_not_compute_is_refused(load, monkeypatch):
    subject = load("bert")
    monkeypatch.setattr(stream.LatestAttention, "on_weights", lambda self, weights: weights)
    recorded = trace.record(subject, subject.encode(axioms.TEXTS), needs={"attention"}, stream=True)  # with padding
    with pytest.raises(ModelError) as caught:
        next(recorded.blocks("attention"))
    assert caught.value.part == "attention maps"


def test_the_first_forward_pass_has_fused_attention_and_for_relevance_our_own(load, monkeypatch):
    subject, calls = load("bert"), []
    fused = torch.nn.functional.scaled_dot_product_attention
    count = lambda *args, **settings: calls.append(1) or fused(*args, **settings)  # noqa: E731
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", count)
    encoded, before = subject.encode("A joy."), snapshot(subject)
    recorded = trace.record(subject, encoded, needs={"attention"}, stream=True)
    assert len(calls) == subject.depth and snapshot(subject) == before
    assert len(list(recorded.blocks("attention"))) == len(calls) == subject.depth
    mix, mixed = FusedAttention.mix, []
    monkeypatch.setattr(FusedAttention, "mix", lambda self: mixed.append(1) or mix(self))
    trace.record(subject, encoded, needs={"relevance"}, stream=True)
    assert len(mixed) == subject.depth
