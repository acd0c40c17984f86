"""Scores of a reply's tokens: exact, whatever path computes them, and unmoved by what comes later."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal import reply_trace
from nbsal.answers import running
from nbsal.answers.reading import with_reply
from nbsal.answers.running import Predictions
from nbsal.methods.perturbation import Perturbation
from nbsal.model.tokens import Encoded
from tests import axioms
from tests.answers import writers

PROMPT = "The film is a warm joy. The plot is a bore. Who wrote the book?"
LATE = ("gradcam", "simple", "gradxact")  # at the layer where most of them have something to say
METHODS = [
    "gae", "rollout", "raw-attention", "gradcam", "simple", "gradxact", "attn-lrp", "lrp", "partial-lrp", "attcat",
    "transformer-attribution", "attention-gradcam", "integrated", "decoded-gradcam", "random",
]  # fmt: skip


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load(name) for name in writers.MODELS}


def answer(subject, method, reply=" The company wrote it.", **settings):
    options = {"layer": 0} if method in LATE else {}
    explain = nbsal.Explainer(subject, method, **options)
    return explain, explain.reply(PROMPT, reply, progress=False, **settings)


@pytest.mark.parametrize("name", writers.MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_a_row_is_the_explanation_of_its_token_alone(subjects, name, method):
    explain, result = answer(subjects[name], method)
    predictions = Predictions(result.reading, result.number)
    for token in (0, 3):
        end = result.reading.start + token
        encoded = Encoded([result.reading.up_to(end)], 0)
        (alone,) = explain.encoded(encoded, [predictions.target(token)])
        assert axioms.relative(result.scores[token, :end], alone.scores) < 1e-7
        assert not result.scores[token, end:].any()


@pytest.mark.parametrize("name", writers.MODELS)
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


DRAWN = ("random", "lime", "smooth", "gradient-shap")  # these depend on random numbers too
HIDING = ("occlusion", "lime", "shapley", "kernel-shap", "ridge", "contextcite")


@pytest.mark.some(10)
@pytest.mark.parametrize(
    ("name", "method"),
    [("llama", method) for method in (*METHODS, *HIDING, *DRAWN[2:])]
    + [
        (name, method) for name in list(writers.MODELS)[1:] for method in ("gae", "gradxact", "lrp", "attn-lrp", "lime")
    ],
)
def test_a_later_token_changes_no_earlier_row(subjects, name, method):
    """But for rounding."""
    explain, result = answer(subjects[name], method)
    reading = result.reading
    other = with_reply(explain.subject, reading.prompt, (*reading.reply_ids[:-2], 7, 9))
    changed = explain.reply(PROMPT, other.reply_ids, progress=False)
    assert axioms.relative(changed.scores[:-2], result.scores[:-2]) < 1e-9 and result.scores[:-2].any()
    assert not np.array_equal(changed.scores[-1], result.scores[-1])


@pytest.mark.parametrize("name", writers.MODELS)
@pytest.mark.parametrize("method", ["gae", "gradxact"])
def test_chunks_do_not_matter(subjects, monkeypatch, name, method):
    _, result = answer(subjects[name], method)
    for chunk in (1, 3, 100):
        monkeypatch.setattr(reply_trace, "_chunk", lambda *_, size=chunk: size)
        _, other = answer(subjects[name], method)
        assert axioms.relative(other.scores, result.scores) < 1e-12


@pytest.mark.parametrize("name", writers.MODELS)
@pytest.mark.parametrize("method", ["gae", "gradxact", "attn-lrp"])
def test_a_batch_equals_its_single_texts(subjects, name, method):
    """The texts before each token differ in length, so they are padded."""
    explain, result = answer(subjects[name], method)
    predictions, reading, numbers = Predictions(result.reading, result.number), result.reading, (4, 0, 2)
    encoded = Encoded([reading.up_to(reading.start + token) for token in numbers], 0)
    batch = explain.encoded(encoded, [predictions.target(token) for token in numbers])
    for token, saliency in zip(numbers, batch, strict=True):
        assert axioms.relative(result.scores[token, : len(saliency.scores)], saliency.scores) < 1e-7


@pytest.mark.parametrize("name", writers.MODELS)
@pytest.mark.parametrize("layer", [0, 3])
def test_gradients_are_those_of_the_stock_model(subjects, name, layer):
    """Of each token's number by itself, also at the last block's output, where the head is passed once for all."""
    subject, states = subjects[name], []
    explain = nbsal.Explainer(subject, "gradxact", layer=layer)
    result = explain.reply(PROMPT, " The company wrote it.", number="logprob", progress=False)
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
        expected = (state * gradient).sum(-1)[0].detach()
        assert axioms.relative(result.scores[token], expected) < 1e-7
        assert layer == 0 or not gradient[0, np.arange(len(gradient[0])) != at - 1].any()


@pytest.mark.parametrize("method", LATE)
def test_gradients_of_all_tokens_take_one_forward(subjects, forwards, monkeypatch, method):
    monkeypatch.setattr(running, "SHARED", 2)  # of replies that are longer than their prompts
    answer(subjects["llama"], method)
    assert len(forwards) == 2, "one for the scores, one for the probabilities"


@pytest.mark.parametrize(("method", "expected"), [("gae", 2), ("rollout", 2), ("lrp", 2), ("attn-lrp", 3)])
def test_attention_and_relevance_take_one_forward(subjects, forwards, method, expected):
    answer(subjects["llama"], method)
    assert len(forwards) == expected, "rules other than the default need a second forward pass"


@pytest.mark.parametrize("method", ["gradxact", "gae", "attn-lrp"])
def test_a_long_reply_is_explained_in_shorter_texts(subjects, monkeypatch, method):
    explain = nbsal.Explainer(subjects["llama"], method)
    monkeypatch.setattr(running, "SHARED", 5)
    result = explain.reply("Who?", " The company wrote it. " * 4, progress=False)
    parts = list(Predictions(result.reading, result.number).shared())
    assert len(parts) == -(-len(result.ids) // 5) > 1 and len(parts[0][1]) == result.reading.start + 4
    monkeypatch.setattr(running, "SHARED", 1_000)
    whole = explain.reply("Who?", result.ids, progress=False)
    assert axioms.relative(result.scores, whole.scores) < 1e-7


TOLERANCES = [("gpt2", 1e-7), ("llama", 1e-6)]  # norms of Llama compute in float32


@pytest.mark.parametrize(("name", "tolerance"), TOLERANCES)
@pytest.mark.parametrize(
    "method", ["gradxact", "attn-lrp", "integrated", "occlusion", "shapley", "ridge", "gae", "lrp"]
)
def test_a_span_is_the_sum_of_its_rows_for_linear_methods(subjects, name, tolerance, method):
    explain, result = answer(subjects[name], method)
    assert result.linear == (method not in ("gae", "lrp"))
    tokens = result.tokens_of(slice(1, 4))
    span = result.of(slice(1, 4))
    summed = result.scores[tokens].sum(0)[: len(span.scores)]
    again = (
        result.running.score_sum(tokens)
        if not isinstance(explain.method, Perturbation)
        else result.scores[tokens].sum(0)
    )
    assert axioms.relative(span.scores, again[: len(span.scores)]) < tolerance
    assert (axioms.relative(span.scores, summed) < tolerance) == result.linear
    assert result.matrix("reply").attrs["sum"] == ("exact" if result.linear else "sum of rows, not one target")


@pytest.mark.parametrize(("name", "tolerance"), TOLERANCES)
@pytest.mark.parametrize("method", ["gradxact", "attn-lrp", "occlusion"])
def test_a_rival_is_the_difference_of_two_numbers(subjects, name, tolerance, method):
    explain, result = answer(subjects[name], method)
    rival = 9
    against = result.rather(rival, 2)
    other = with_reply(explain.subject, result.reading.prompt, (*result.reading.reply_ids[:2], rival))
    second = explain.reply(PROMPT, other.reply_ids, progress=False)
    size = len(against.scores)
    assert axioms.relative(against.scores, result.scores[2][:size] - second.scores[2][:size]) < tolerance
    assert " - " in against.target


def test_float32_is_close(subjects):
    _, result = answer(subjects["llama"], "gae")
    _, single = answer(writers.load(dtype=torch.float32), "gae")
    assert axioms.relative(single.scores, result.scores) < 1e-4


def test_the_model_is_left_as_it_was(subjects):
    subject = subjects["llama"]
    before = [(p.requires_grad, p._version) for p in subject.model.parameters()]
    kind, training = subject.model.config._attn_implementation, subject.model.training
    for method in ("gae", "attn-lrp", "occlusion"):
        answer(subject, method, reply=None, max_new_tokens=4)
    assert [(p.requires_grad, p._version) for p in subject.model.parameters()] == before
    assert (subject.model.config._attn_implementation, subject.model.training) == (kind, training)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in subject.model.modules())
