"""Replies block by block: few maps at a time, refused before anything runs where they do not fit, and by size."""

import copy
import weakref

import numpy as np
import pytest
import torch
from transformers import GenerationMixin

import nbsal
from nbsal.explain.replies import default_for_rows
from nbsal.explain.reply import read, size_of
from nbsal.explain.reply_settings import ReplySettings
from nbsal.methods.default import ReplySize, default_for_reply
from nbsal.model.running import memory
from nbsal.model.running.attention_maps import AttentionRecorder
from nbsal.passes import reply_memory, reply_trace, stream
from nbsal.passes.reply_stream import ReplyStream
from nbsal.support.errors import OutOfMemory
from tests import axioms
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE
from tests.cases import cases


@pytest.fixture(scope="module")
def subject():
    return writers.load("llama")


@pytest.fixture
def limit(monkeypatch):
    """limit(bytes) says how much memory there is."""
    monkeypatch.setattr(memory, "SMALL", 0)
    return lambda size: monkeypatch.setattr(memory, "available", lambda device: size)


def scores(subject, method):
    return nbsal.answer(subject, SOURCE, REPLY, method=method, progress=False, check=False).scores


def tokens_of(subject, prompt):
    return len(nbsal.answer(subject, prompt, REPLY, method="random", progress=False, check=False).reading.prompt.ids)


@cases("method", ["gae", "gradxact", "attn-lrp", "attcat", "gim", "ifr", "gradcam"])
def test_rows_are_the_same_whether_graphs_are_kept_or_blocks_run_again(subject, monkeypatch, method):
    kept = scores(subject, method)
    monkeypatch.setattr(stream, "GRAPHS", 0)
    for together in (1, 3, 64):
        monkeypatch.setattr(reply_trace, "TOGETHER", together)
        assert axioms.relative(scores(subject, method), kept) < 1e-9


@cases("name, method", [("llama", "gae"), ("llama", "gradxact"), ("gpt2", "attn-lrp"), ("qwen3", "gae")])
def test_rows_by_block_are_those_of_whole_maps(monkeypatch, name, method):
    subject = writers.load(name)
    by_block = scores(subject, method)
    monkeypatch.setattr(reply_trace, "_reads_whole_maps", lambda job: True)
    assert axioms.relative(by_block, scores(subject, method)) < 1e-9


def test_no_map_of_all_heads_is_held_where_attention_is_fused(subject, monkeypatch):
    maps, on_weights = [], AttentionRecorder.on_weights
    monkeypatch.setattr(AttentionRecorder, "on_weights", lambda self, x: maps.append(x) or on_weights(self, x))
    assert scores(subject, "gae").any() and not maps


@cases("method", ["gradxact", "attn-lrp", "gim"])
def test_gradients_of_other_layers_are_dropped(subject, monkeypatch, method):
    gradients, alive, blocks = [], [], ReplyStream.blocks

    def watched(self, decisions, selection):
        for block in blocks(self, decisions, selection):
            gradients.append(weakref.ref(block["hidden_grad"]))
            alive.append(sum(each() is not None for each in gradients))
            yield block

    monkeypatch.setattr(ReplyStream, "blocks", watched)
    assert scores(subject, method).any() and subject.depth > 2
    assert max(alive) == 2, "that of a block and of the one above it"


def test_blocks_that_run_again_serve_many_predictions(subject, monkeypatch):
    monkeypatch.setattr(stream, "GRAPHS", 0)
    runs = []
    handles = [block.register_forward_hook(lambda *_: runs.append(1)) for block in subject.blocks]
    scores(subject, "attn-lrp")
    [handle.remove() for handle in handles]
    assert len(runs) == 3 * subject.depth, "for the probabilities, for the inputs of blocks, and once again for all"


@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp", "lrp", "integrated", "attention-cam"])
def test_what_does_not_fit_is_refused_before_anything_runs(subject, limit, forwards, method):
    """With the name of a method that fits, which then runs."""
    reading = nbsal.answer(subject, SOURCE, REPLY, method="random", progress=False, check=False).reading
    hiding, sizes = nbsal.Explainer(subject, "occlusion").method, reply_memory.sizes_of(subject)
    limit(reply_memory.needed(hiding, sizes, len(reading.row), len(reading.reply_ids)))
    before = len(forwards)
    with pytest.raises(OutOfMemory) as caught:
        scores(subject, method)
    assert len(forwards) == before and caught.value.fitting[0] in str(caught.value)
    assert scores(subject, caught.value.fitting[0]).any()


def test_the_default_follows_from_size_alone(subject, limit):
    choose = lambda tokens, reply, sentences=3, hops=0: default_for_reply(  # noqa: E731
        subject, False, None, hops, ReplySize(tokens, reply, sentences)
    )
    assert choose(100, 20) == choose(500, 100, sentences=200) == choose(500, 200, hops="all") == "attn-lrp"
    assert choose(500, 100) == "occlusion", "hiding three sentences is quicker"
    unwritten = ReplySize(500, 100, sentences=3, written=False)
    assert default_for_reply(subject, False, None, 0, unwritten) == "attn-lrp", "it may be shorter"
    limit(10**6)
    assert choose(100_000, 20) == "occlusion"
    answer = nbsal.answer(subject, SOURCE, list(range(10, 60)), progress=False, check=False)
    assert answer.method == "occlusion"


def test_the_longest_row_decides_for_all_rows(subject, limit):
    choose = lambda *rows: default_for_rows(subject, rows, ReplySettings.parse(subject.tokenizer, {}))  # noqa: E731
    short, long = {"asked": SOURCE, "reply": REPLY}, {"asked": SOURCE * 20, "reply": REPLY}
    size = lambda row: size_of(read(subject, row["asked"], row["reply"], ReplySettings())[0])  # noqa: E731
    attn_lrp, sizes = nbsal.Explainer(subject, "attn-lrp").method, reply_memory.sizes_of(subject)
    limit(reply_memory.needed(attn_lrp, sizes, size(short).tokens, size(short).reply))
    assert choose(short, 3, None) == "attn-lrp" and choose(short, long, short) == choose(long) == "occlusion"
    assert choose(SOURCE * 20) == "occlusion", "whose reply is not written"
    assert choose({"asked": SOURCE, "reply": list(range(10, 60))}) == "occlusion", "hiding sentences is quicker"


def test_a_view_chooses_by_size_once_the_reply_is_written(subject, limit):
    hiding = nbsal.Explainer(subject, "occlusion").method
    views = [nbsal.widgets.Answers(subject, SOURCE, list(range(10, 60))).wait()]
    limit(reply_memory.needed(hiding, reply_memory.sizes_of(subject), tokens_of(subject, SOURCE) + 3, 3))
    views.append(nbsal.widgets.Answers(subject, SOURCE, max_new_tokens=3).wait())
    for view in views:
        answer = view.result
        assert view.method == answer.method == "occlusion"
        view.request()
        assert view.wait().result is answer, "explained once"
    view.method = "contextcite"
    assert view.wait().result.method == view.method == "contextcite"


def test_a_reply_whose_scores_do_not_fit_is_not_written(subject, limit, monkeypatch):
    calls, generate = [], GenerationMixin.generate
    monkeypatch.setattr(GenerationMixin, "generate", lambda *args, **kw: calls.append(1) or generate(*args, **kw))
    gae, size = nbsal.Explainer(subject, "gae"), tokens_of(subject, SOURCE) + 9
    limit(reply_memory.needed(gae.method, reply_memory.sizes_of(subject), size, 9))
    for explain, asked in ((gae.reply, SOURCE), (gae.replies, [SOURCE, SOURCE])):
        for most in ({}, {"max_new_tokens": 10}):
            with pytest.raises(OutOfMemory):
                explain(asked, progress=False, **most)
    assert not calls
    assert gae.reply(SOURCE, progress=False, check=False, max_new_tokens=9).scores.any() and calls


def test_half_precision_is_converted_to_float32_block_by_block():
    half = writers.load("llama", torch.bfloat16)
    explain = nbsal.Explainer(half, "attn-lrp")
    assert explain.method_subject.dtype == torch.float32
    exact = nbsal.load(copy.deepcopy(half.model).double(), tokenizer=half.tokenizer)
    assert axioms.relative(scores(half, "attn-lrp"), scores(exact, "attn-lrp")) < 1e-5
    assert half.model.dtype == torch.bfloat16 and np.isfinite(scores(half, "gim")).all()


def test_an_estimate_grows_with_the_text_and_never_with_the_maps_of_all_blocks(subject):
    gae = nbsal.Explainer(subject, "gae").method
    seven = reply_memory.Sizes(blocks=32, width=4096, inner=11_008, heads=32, vocabulary=32_000, itemsize=2)
    short, long = (reply_memory.needed(gae, seven, tokens, 8) for tokens in (1000, 4000))
    assert short < long < 32 * 32 * 4000**2 * 2 / 4
    ifr, hiding = (nbsal.Explainer(subject, name).method for name in ("ifr", "occlusion"))
    assert reply_memory.needed(hiding, seven, 4000, 8) < reply_memory.needed(ifr, seven, 4000, 8)
