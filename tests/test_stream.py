"""Explanations block by block equal those from whole maps, keep few maps at a time, and leave everything as it was."""

import threading
import weakref

import numpy as np
import pytest
import torch
import transformers

import nbsal
from nbsal import stream, trace
from nbsal.errors import Cancelled, ModelError
from nbsal.explainer import explain_batch
from nbsal.heads import HeadMask
from nbsal.methods import catalogue
from nbsal.progress import Meter
from nbsal.testing.state import snapshot
from tests import axioms, zoo
from tests.bench.memory import measure_alone

MASK = HeadMask.from_array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 0, 1]])
BY_BLOCK = [name for name in catalogue.names() if catalogue.create(name).by_block]
ONE_OF_A_KIND = ("rollout", "gae", "attcat", "lrp", "attn-lrp", "mask-lrp")  # no gradient, one, all, rules, a filter


def explainer(subject, name, **settings):
    return nbsal.Explainer(subject, name, **settings | ({"mask": MASK} if name.startswith("mask-lrp") else {}))


def both_ways(monkeypatch, explain, texts, targets=None):
    """The scores of some texts in a batch: from whole maps, and block by block."""
    results = []
    for limit in (2**60, 0):
        monkeypatch.setattr(stream, "LIMIT", limit)
        batch = explain_batch({"": explain}, explain.subject.encode(texts), targets or [None] * len(texts))
        results.append([saliency.scores for saliency in batch[""]])
    return results


def check_equal(monkeypatch, explain, texts, limit=1e-12):
    whole, streamed = both_ways(monkeypatch, explain, texts)
    assert max(map(axioms.relative, streamed, whole)) < limit


def test_methods_that_read_attention_or_relevance_are_streamed():
    reading = {"attention", "relevance"}
    others = {name for name in catalogue.names() if catalogue.create(name).family in reading} - set(BY_BLOCK)
    assert len(BY_BLOCK) >= 12 and all("@" in name for name in others)


@pytest.mark.some(5)
@pytest.mark.filterwarnings("ignore:attention-gradcam")
@pytest.mark.parametrize(
    ("architecture", "dtype"),
    [(name, "float64") for name in zoo.ARCHITECTURES]
    + [("bert", "float32")]
    + [pytest.param(name, "float32", marks=pytest.mark.full) for name in zoo.ARCHITECTURES if name != "bert"],
)
def test_streamed_scores_equal_whole_ones(load, architecture, dtype, monkeypatch):
    subject = load(architecture, dtype=dtype)
    for name in BY_BLOCK:
        try:
            explain = explainer(subject, name)
        except ModelError:  # ALTI reads the inside of blocks
            continue
        check_equal(monkeypatch, explain, axioms.TEXTS, 1e-12 if dtype == "float64" else 1e-6)
        if "relevance" not in explain.method.needs:  # without padding, the first forward pass has fused attention
            for limit in (2**30, 0):  # with the graphs of that pass, and with those of blocks that run again
                monkeypatch.setattr(stream, "GRAPHS", limit)
                check_equal(monkeypatch, explain, axioms.TEXTS[:1], 1e-11 if dtype == "float64" else 1e-5)


@pytest.mark.parametrize(("architecture", "names"), [("gpt-oss", ["rollout", "gae"]), ("bloom", ["gae", "lrp"])])
def test_further_architectures(checkpoints, architecture, names, monkeypatch):
    """One has a sink, a column of its attention maps that is no position; one adds positions to the scores."""
    subject = zoo.load(checkpoints, architecture, "causal")
    for name in names:
        limit = 1e-12 if subject.dtype == torch.float64 else 1e-5
        check_equal(monkeypatch, explainer(subject, name), axioms.TEXTS, limit)


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


def test_attribution_from_a_later_block(load, monkeypatch):
    explain = explainer(load("bert"), "transformer-attribution", start_layer=2)
    check_equal(monkeypatch, explain, axioms.TEXTS)
    runs = []
    subject = explain.method_subject
    handles = [block.register_forward_hook(lambda *_: runs.append(1)) for block in subject.blocks]
    explain(axioms.TEXTS[0])
    for handle in handles:
        handle.remove()
    assert len(runs) == subject.depth + 1  # a forward pass, and the last block again


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


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_only_short_texts_are_held_whole(reviews, name, monkeypatch):
    streamed, record = [], trace.record
    monkeypatch.setattr(trace, "record", lambda *a: streamed.append(a[-1]) or record(*a))
    explain = nbsal.Explainer(reviews, name)
    explain("A joy.")
    monkeypatch.setattr(stream, "LIMIT", 10**6)
    explain("A joy. " * 60)
    assert streamed == [False, True]


class Alive:
    """Counts the attention maps that are alive at once, of the size [batch, head, query, key]."""

    def __init__(self, elements):
        self.elements, self.sizes, self.most = elements, {}, 0

    def __enter__(self):
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        outer = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                result = func(*args, **kwargs or {})
                for tensor in tree_leaves(result):
                    if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                        outer.add(tensor)
                return result

        self.mode = Mode()
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.mode.__exit__(*error)

    def add(self, tensor):
        storage = tensor.untyped_storage()
        key, count = storage._cdata, storage.nbytes() // tensor.element_size() / self.elements
        if count >= 0.5 and key not in self.sizes:
            self.sizes[key] = count
            weakref.finalize(storage, self.sizes.pop, key, None)
            self.most = max(self.most, sum(self.sizes.values()))


@pytest.mark.some(3)
@pytest.mark.parametrize("depth", [4, 12])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(("name", "most"), [("rollout", 5), ("gae", 6), ("lrp", 7), ("transformer-attribution", 8)])
def test_the_number_of_maps_does_not_grow_with_the_depth(name, most, attention, depth, monkeypatch):
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": depth}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=60, max_position_embeddings=400, **sizes)
    model = transformers.BertForSequenceClassification(config).eval()
    model.set_attn_implementation(attention)
    explain = nbsal.Explainer(nbsal.load(model), name)
    ids = list(range(5, 55)) * 8
    explain.ids(ids[:9])
    counts = []
    for limit in (2**60, 0):
        monkeypatch.setattr(stream, "LIMIT", limit)
        with Alive(2 * len(ids) ** 2) as alive:
            explain.ids(ids)
        counts.append(alive.most)
    assert counts[1] <= most and counts[0] > depth


@pytest.mark.full
@pytest.mark.parametrize(("name", "most"), [("rollout", 9), ("gae", 8), ("lrp", 9), ("transformer-attribution", 9)])
def test_peak_memory_at_2048_tokens(name, most):
    """In maps of the method's precision, measured from outside, in a process of its own."""
    growth, _, dtype = measure_alone(name, 2048)
    assert growth * 1e9 < most * 2 * 2048**2 * (8 if dtype == "float64" else 4)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_block_that_fails_when_it_runs_again_leaves_the_model_as_it_was(load, name, error, monkeypatch):
    monkeypatch.setattr(stream, "LIMIT", 0)
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
    monkeypatch.setattr(stream, "LIMIT", 0)
    monkeypatch.setattr(stream, "GRAPHS", graphs)
    subject, runs = load("bert"), []
    explain = explainer(subject, name)
    explain(axioms.TEXTS[0])  # measures the pooling
    handles = [block.register_forward_hook(lambda *_: runs.append(1)) for block in subject.blocks]
    explain(axioms.TEXTS[0])
    for handle in handles:
        handle.remove()
    again = {"attention-cam": 1, "attcat": subject.depth, "gae": subject.depth}.get(name, 0)
    assert len(runs) == subject.depth + (again if graphs == 0 else 0)


def test_a_graph_serves_one_method_and_is_made_anew_for_the_next(reviews, monkeypatch):
    monkeypatch.setattr(stream, "LIMIT", 0)
    together = nbsal.compare(reviews, ["gae", "attcat"], "A joy.")
    for name in ("gae", "attcat"):
        assert axioms.relative(together[name][0].scores, nbsal.Explainer(reviews, name)("A joy.").scores) < 1e-6


def test_a_stream_is_cancelled_between_blocks(load):
    subject, cancel, blocks = load("bert"), threading.Event(), 0
    recorded = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs={"attention"}, stream=True)
    recorded.meter = Meter(1, cancel=cancel)
    with pytest.raises(Cancelled):
        for _ in recorded.blocks("attention"):
            blocks += 1
            cancel.set()
    assert blocks == 1


def test_methods_of_one_call_share_the_forward_pass(reviews, forwards, monkeypatch):
    monkeypatch.setattr(stream, "LIMIT", 0)
    names = ["transformer-attribution", "lrp", "partial-lrp"]
    together = nbsal.compare(reviews, names, "A warm and funny film.")
    assert len(forwards) == 1
    for name in names:
        alone = nbsal.Explainer(reviews, name)("A warm and funny film.")
        assert axioms.relative(together[name][0].scores, alone.scores) < 1e-12


def test_a_block_is_freed_when_the_next_is_requested(load):
    subject, needs = load("bert"), ("attention", "attention_grad")
    recorded = trace.record(subject, subject.encode(axioms.TEXTS[0]), needs=needs, stream=True)
    references = []
    for block in recorded.blocks(*needs):
        assert all(reference() is None for reference in references)
        references = [weakref.ref(block[name]) for name in needs]
    assert references


def test_attention_that_a_block_does_not_compute_is_refused(load, monkeypatch):
    subject = load("bert")
    monkeypatch.setattr(stream.LatestAttention, "on_weights", lambda self, weights: weights)
    recorded = trace.record(subject, subject.encode("A joy."), needs={"attention"}, stream=True)
    with pytest.raises(ModelError) as caught:
        next(recorded.blocks("attention"))
    assert caught.value.part == "attention maps"


def test_the_first_forward_pass_has_fused_attention_unless_relevance_follows(load, monkeypatch):
    subject, calls = load("bert"), []
    fused = torch.nn.functional.scaled_dot_product_attention
    count = lambda *args, **settings: calls.append(1) or fused(*args, **settings)  # noqa: E731
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", count)
    encoded, before = subject.encode("A joy."), snapshot(subject)
    recorded = trace.record(subject, encoded, needs={"attention"}, stream=True)
    assert len(calls) == subject.depth and snapshot(subject) == before
    assert len(list(recorded.blocks("attention"))) == len(calls) == subject.depth
    trace.record(subject, encoded, needs={"relevance"}, stream=True)
    assert len(calls) == subject.depth
