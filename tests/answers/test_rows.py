"""Scores of a reply's tokens: exact, whatever path computes them, and unmoved by what comes later."""

from itertools import cycle

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.prompt.prompts import with_reply
from nbsal.explain.scoring import running
from nbsal.explain.scoring.running import Predictions
from nbsal.methods.base import Method
from nbsal.methods.facts import Facts
from nbsal.methods.perturbation import Perturbation
from nbsal.model.running import fused_attention
from nbsal.model.running.attention_maps import AttentionRecorder
from nbsal.model.text.tokens import Encoded
from nbsal.passes import reply_trace
from tests import axioms
from tests.answers import writers
from tests.answers.writers import SOURCE

DECODERS = tuple(writers.MODELS)
SIDES = ("t5", "bart", "marian")
LATE = ("gradcam", "simple", "gradxact")  # at the layer where most of them have something to say
BOTH = (
    "gae", "gae@chefer", "rollout", "raw-attention", "gradcam", "simple", "gradxact", "attn-lrp", "lrp", "partial-lrp",
    "transformer-attribution", "attention-cam", "integrated", "attention-gradcam", "random", "gim",
)  # fmt: skip
DECODING = ("attcat", "decoded-gradcam", "pa-lrp")  # of decoders alone, or of some encoder-decoders
HIDING = ("occlusion", "lime", "shapley", "kernel-shap", "contextcite", "ridge")
DRAWN = ("smooth", "gradient-shap", "deeplift-shap")


def cells(*methods):
    """Each method with one decoder, and with one encoder-decoder if it reads them."""
    causal = zip(cycle(DECODERS), methods, strict=False)
    return [*causal, *zip(cycle(SIDES), [method for method in methods if method not in DECODING], strict=False)]


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load(name) for name in (*DECODERS, *SIDES)}


def answer(subject, method, *args, **settings):
    return writers.answer(subject, method, *args, options={"layer": 0} if method in LATE else None, **settings)


def check_row(explain, result, token):
    """That the row of a token is the explanation of the text before it."""
    end = result.reading.start + token
    encoded = Encoded([result.reading.up_to(end)], 0)
    (alone,) = explain.explain_encoded(encoded, [Predictions(result.reading, result.number).target(token)])
    assert axioms.relative(result.scores[token, :end], alone.scores) < 2e-7  # some compute their norms in float32
    assert not result.scores[token, end:].any()
    return alone


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("method", ["attcat", "rollout", "ifr"])
def test_attention_is_read_without_whole_maps_where_it_is_fused(subjects, monkeypatch, name, method):
    explain = nbsal.Explainer(subjects[name], method)
    on_weights, maps = AttentionRecorder.on_weights, []
    monkeypatch.setattr(AttentionRecorder, "on_weights", lambda self, x: maps.append(x) or on_weights(self, x))
    result = explain.reply(SOURCE, writers.REPLY, progress=False)
    assert bool(maps) == (name == "gemma2"), "only its attention is not fused"
    for token in (0, 3):
        check_row(explain, result, token)


@pytest.mark.parametrize("method", ["attcat", "ifr"])
def test_whole_maps_are_read_where_fused_attention_is_not_readable(subjects, monkeypatch, method):
    explain = nbsal.Explainer(subjects["llama"], method)
    readable = explain.reply(SOURCE, writers.REPLY, progress=False).scores
    monkeypatch.setattr(fused_attention, "fused_call", lambda *args, **options: None)
    assert axioms.relative(explain.reply(SOURCE, writers.REPLY, progress=False).scores, readable) < 2e-7


@pytest.mark.some(12)
@pytest.mark.parametrize(("name", "method"), cells(*BOTH, *DECODING))
def test_a_row_is_the_explanation_of_its_token_alone(subjects, name, method):
    explain, result = answer(subjects[name], method)
    assert result.method == method and result.scores[:, : result.reading.prompt.source_size or None].any()
    for token in (0, 3):
        check_row(explain, result, token)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("method", ["gae", "lrp", "attn-lrp", "gradxact", "integrated", "decoded-gradcam"])
def test_a_row_is_the_explanation_of_ids_with_that_target(subjects, name, method):
    """Of the text up to it, and of the whole text too, unless a method looks at what follows."""
    explain, result = answer(subjects[name], method, number="logit")
    ids = list(result.reading.row.ids)
    for token in range(len(result.ids)):
        at = result.reading.start + token
        target = (at - 1, ids[at])
        assert axioms.relative(result.scores[token, :at], explain.ids(ids[:at], target=target).scores) < 1e-7
        if method in ("gae", "lrp", "attn-lrp", "gradxact"):
            assert axioms.relative(result.scores[token], explain.ids(ids, target=target).scores) < 1e-7


@pytest.mark.some(8)
@pytest.mark.parametrize(("name", "method"), cells(*BOTH, *DECODING, *HIDING, *DRAWN))
def test_a_later_token_changes_no_earlier_row(subjects, name, method):
    """But for rounding."""
    explain, result = answer(subjects[name], method)
    other = with_reply(explain.subject, result.reading.prompt, (*result.reading.reply_ids[:-2], 7, 9))
    changed = explain.reply(SOURCE, other.reply_ids, progress=False)
    assert axioms.relative(changed.scores[:-2], result.scores[:-2]) < 1e-9
    last = np.stack([changed.scores[-1], result.scores[-1]])  # zero if a method drops it, as evidence against
    assert not last.any() or not np.array_equal(*last)


@pytest.mark.parametrize("name", [*DECODERS, *SIDES])
@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp"])
def test_neither_chunks_nor_batches_matter(subjects, monkeypatch, name, method):
    """The texts before each token differ in length, so they are padded."""
    explain, result = answer(subjects[name], method)
    predictions, reading, numbers = Predictions(result.reading, result.number), result.reading, (4, 0, 2)
    encoded = Encoded([reading.up_to(reading.start + token) for token in numbers], 0)
    batch = explain.explain_encoded(encoded, [predictions.target(token) for token in numbers])
    for token, saliency in zip(numbers, batch, strict=True):
        assert axioms.relative(result.scores[token, : len(saliency.scores)], saliency.scores) < 1e-7
    for chunk in (1, 3, 100):
        monkeypatch.setattr(reply_trace, "_chunk", lambda *_, size=chunk: size)
        assert axioms.relative(answer(subjects[name], method)[1].scores, result.scores) < 1e-9


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("layer", [0, 3])
def test_gradients_are_those_of_the_stock_model(subjects, name, layer):
    """Of each token's number by itself, also at the last block's output, where the head is passed once for all."""
    subject, states = subjects[name], []
    result = writers.answer(subject, "gradxact", options={"layer": layer}, number="logprob")[1]
    handles = [
        subject.blocks[0].register_forward_pre_hook(lambda _, args: states.append(args[0])),
        subject.blocks[-1].register_forward_hook(
            lambda _, __, output: states.append(output if isinstance(output, torch.Tensor) else output[0])
        ),
    ]
    logits = subject.model(torch.tensor([result.reading.row.ids]), use_cache=False).logits[0]
    for handle in handles:
        handle.remove()
    state = states[0 if layer == 0 else -1]
    for token, index in enumerate(result.ids):
        at = result.reading.start + token
        (gradient,) = torch.autograd.grad(logits[at - 1].log_softmax(-1)[index], state, retain_graph=True)
        limit = 2e-6 if name == "gemma2" else 1e-7  # its own softmax rounds to float32
        assert axioms.relative(result.scores[token], (state * gradient).sum(-1)[0].detach()) < limit
        assert layer == 0 or not gradient[0, np.arange(len(gradient[0])) != at - 1].any()


@pytest.mark.parametrize("method", ["gradxact", "gae", "attn-lrp"])
def test_a_long_reply_is_explained_in_shorter_texts(subjects, monkeypatch, method):
    explain = nbsal.Explainer(subjects["llama"], method)
    monkeypatch.setattr(running, "SHARED", 5)
    result = explain.reply("Who?", " The company wrote it. " * 4, progress=False)
    parts = list(Predictions(result.reading, result.number).texts("pass"))
    assert len(parts) == -(-len(result.ids) // 5) > 1 and len(parts[0][1][0]) == result.reading.start + 4
    monkeypatch.setattr(running, "SHARED", 1_000)
    whole = explain.reply("Who?", result.ids, progress=False)
    assert axioms.relative(result.scores, whole.scores) < 1e-7


class Ones(Method):
    """A method of another package, which fills padding too."""

    name, family, needs, promise, facts = "ones", "baseline", frozenset[str](), frozenset[str](), Facts("Ones")

    def scores(self, trace):
        return torch.ones(len(trace.encoded), trace.encoded.longest)

    def parameters(self):
        return {}


def test_scores_of_padding_are_left_out(subjects):
    result = answer(subjects["llama"], Ones())[1]
    start = result.reading.start
    assert [row.sum() for row in result.scores] == [start + token for token in range(len(result.ids))]


TOLERANCE = 1e-6  # norms of Llama compute in float32


@pytest.mark.parametrize("name", ["gpt2", "llama", "bart"])
@pytest.mark.parametrize(
    "method", ["gradxact", "attn-lrp", "integrated", "occlusion", "shapley", "ridge", "gae", "lrp"]
)
def test_a_span_is_the_sum_of_its_rows_for_linear_methods(subjects, name, method):
    explain, result = answer(subjects[name], method)
    assert result.linear == (method not in ("gae", "lrp"))
    span, tokens = result.of(slice(1, 4)), result.tokens_of(slice(1, 4))
    summed = result.scores[tokens].sum(0)[: len(span.scores)]
    if not isinstance(explain.method, Perturbation):
        again = result.running.score_sum(tokens)[: len(span.scores)]
        assert axioms.relative(span.scores, again) < TOLERANCE
    assert (axioms.relative(span.scores, summed) < TOLERANCE) == result.linear
    assert (result.matrix("reply").attrs["sum"] == "exact") == result.linear


@pytest.mark.parametrize("name", ["gpt2", "llama", "marian"])
@pytest.mark.parametrize("method", ["gradxact", "attn-lrp", "occlusion"])
def test_a_rival_is_the_difference_of_two_numbers(subjects, name, method):
    result = answer(subjects[name], method)[1]
    against = result.rather(9, 2)
    second = answer(subjects[name], method, (*result.ids[:2], 9))[1]
    size = len(against.scores)
    assert axioms.relative(against.scores, result.scores[2][:size] - second.scores[2][:size]) < TOLERANCE


@pytest.mark.parametrize("name", ["llama", *SIDES])
@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp", "occlusion"])
def test_float32_is_close(subjects, name, method):
    loaded = writers.load(name, torch.float32)
    assert axioms.relative(answer(loaded, method)[1].scores, answer(subjects[name], method)[1].scores) < 1e-3
