"""What an answer costs, and what it leaves behind: passes counted, memory halved, the model as it was after any end."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain.scoring import running
from nbsal.passes import reply_stream, reply_trace
from nbsal.support.errors import Cancelled, OutOfMemory
from tests import axioms
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE
from tests.cases import cases

METHODS = ("gae", "gradxact", "attn-lrp", "integrated", "occlusion")
LONG = REPLY * 3


@pytest.fixture(scope="module")
def subjects():
    return {name: writers.load(name) for name in ("llama", "bart", "gemma2")}


@pytest.fixture
def backwards(monkeypatch):
    """A list that grows by the number of gradients of each backward pass."""
    counts, grad = [], torch.autograd.grad

    def counted(outputs, inputs, grad_outputs=None, **options):
        if not torch._C._len_torch_function_stack():  # where a mode is active, PyTorch calls it again without
            counts.append(len(grad_outputs[0]) if options.get("is_grads_batched") else 1)
        return grad(outputs, inputs, grad_outputs, **options)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    return counts


def explain(subject, method, reply=REPLY, asked=SOURCE, progress=False, **settings):
    return nbsal.answer(subject, asked, reply, method=method, progress=progress, check=False, **settings)


@pytest.mark.parametrize("name", ["llama", "bart"])
@pytest.mark.parametrize("method", ["gae", "gradxact"])
def test_gradients_take_one_forward_and_a_backward_for_each_chunk(subjects, forwards, backwards, name, method):
    result = explain(subjects[name], method, LONG, 2 * SOURCE)
    count = len(result.ids)
    assert count > 2 * reply_stream.MOST and len(forwards) == 2, "one for the scores, one for the probabilities"
    # Once for all tokens: the head and the last block in two parts, after those of one token that tell whether it may.
    shared, blocks = (5, subjects[name].depth) if name == "llama" else (1, 1)
    assert len(backwards) == shared + blocks * -(-count // reply_stream.MOST), "then chunks of them, block by block"
    assert sum(backwards) == shared + blocks * count
    forwards.clear()
    backwards.clear()
    result.of(slice(0, 9))
    expected = (0, 0) if result.linear else (1, 1)
    assert (len(forwards), len(backwards)) == expected, "a part of the reply is one target"


def test_every_layer_of_a_span_takes_one_forward_and_one_backward(subjects, forwards, backwards):
    span = explain(subjects["llama"], "gradxact").of(slice(1, 4))
    forwards.clear()
    backwards.clear()
    span.every_layer()
    assert len(forwards) == len(backwards) == 1


PASSES = {"gradcam": 1, "simple": 1, "gradxact": 1, "rollout": 1, "raw-attention": 1, "lrp": 1, "attn-lrp": 1}


@cases("name, method", [("llama", method) for method in PASSES] + [("bart", "rollout"), ("bart", "lrp")])
def test_all_tokens_take_one_forward(subjects, forwards, backwards, monkeypatch, name, method):
    """And one for the probabilities."""
    monkeypatch.setattr(running, "SHARED", 2)  # of replies that are longer than their prompts
    forwards.clear()
    backwards.clear()
    result = explain(subjects[name], method)
    assert len(forwards) == PASSES[method] + 1
    assert method != "lrp" or len(backwards) == len(result.ids)
    assert method not in ("rollout", "raw-attention") or not backwards


@pytest.mark.parametrize("name", ["llama", "bart"])
@pytest.mark.parametrize("method", ["gae", "gradxact", "integrated", "occlusion", "attention-cam"])
def test_a_chunk_too_large_for_memory_is_halved(subjects, monkeypatch, name, method):
    """With the same scores, down to single tokens; if one does not fit either, the error says what to do."""
    subject = subjects[name]
    expected = explain(subject, method)
    grad, logits, limit = torch.autograd.grad, nbsal.Subject.logits, 3

    def tight_grad(outputs, inputs, grad_outputs=None, **options):
        if options.get("is_grads_batched") and len(grad_outputs[0]) > limit:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return grad(outputs, inputs, grad_outputs, **options)

    def tight_logits(self, inputs):
        if len(inputs.get("input_ids", inputs.get("inputs_embeds"))) > limit:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return logits(self, inputs)

    monkeypatch.setattr(torch.autograd, "grad", tight_grad)
    monkeypatch.setattr(nbsal.Subject, "logits", tight_logits)
    steps = []
    with pytest.warns(UserWarning, match="memory"):
        result = explain(subject, method, expected.ids, progress=lambda *at: steps.append(at))
    assert axioms.relative(result.scores, expected.scores) < 1e-9
    assert steps[-1] == (len(result.ids),) * 2 and steps == sorted(steps)
    limit = 0
    with pytest.raises(OutOfMemory):
        explain(subject, method, expected.ids)


def state(subject):
    """Everything that an explanation changes for its time."""
    model = subject.model
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    return (
        [(p.requires_grad, p._version, p.grad) for p in model.parameters()],
        [m.training for m in model.modules()],
        [len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._backward_hooks) for m in model.modules()],
        ["forward" in vars(m) for m in model.modules()],
        [config.to_dict() | {"attention": config._attn_implementation} for config in configs.values()],
        model.generation_config.to_dict(),
        torch.is_grad_enabled(),
        torch.get_rng_state().tolist(),
        torch._C._len_torch_function_stack(),
    )


CASES = [(name, method) for name in ("llama", "bart") for method in METHODS] + [("llama", "decoded-gradcam")]
CASES += [("gemma2", "gae"), ("gemma2", "occlusion")]


@contextmanager
def struck(block, at, error):
    """An error at one of the calls of a block; the block itself has no hook, whose removal would be tested too."""
    kind, forward, calls = type(block), type(block).forward, []

    def run(self, *args, **settings):
        calls.extend([1] * (self is block))
        if self is block and len(calls) == at:
            raise error("struck")
        return forward(self, *args, **settings)

    kind.forward = run
    try:
        yield calls
    finally:
        kind.forward = forward


@pytest.mark.some(5)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(("name", "method"), CASES)
def test_an_error_or_an_interrupt_leaves_the_model_as_it_was(subjects, name, method, error):
    """Wherever in the model it strikes."""
    subject = subjects[name]
    expected, block, before = explain(subject, method), subject.blocks[1], state(subject)
    with struck(block, 0, error) as calls:
        explain(subject, method)
    for at in sorted({1, 2, (len(calls) + 1) // 2, len(calls)} & set(range(1, len(calls) + 1))):
        with struck(block, at, error), pytest.raises(error, match="struck"):
            explain(subject, method)
        assert state(subject) == before
    assert np.array_equal(explain(subject, method).scores, expected.scores)


@cases("name, method", CASES)
def test_a_cancelled_call_leaves_the_model_as_it_was(subjects, monkeypatch, name, method):
    subject, cancel = subjects[name], threading.Event()
    monkeypatch.setattr(reply_trace, "_chunk", lambda *_: 2)
    monkeypatch.setattr(running, "SHARED", 2)
    before = state(subject)
    with pytest.raises(Cancelled):
        explain(subject, method, LONG, batch_size=2, cancel=cancel, progress=lambda done, _: done >= 1 and cancel.set())
    assert cancel.is_set() and state(subject) == before
    settings = {"max_new_tokens": 4, "on_token": lambda text: 1 / 0, "do_sample": True, "seed": 3}
    with pytest.raises(ZeroDivisionError):
        explain(subject, method, None, **settings)
    assert state(subject) == before


@cases("method", ["gae", "gradxact", "attn-lrp", "integrated", "occlusion"])
def test_a_model_in_training_is_explained_without_dropout_and_left_in_training(method):
    subject = writers.load("bart")
    settings = {"do_sample": True, "temperature": 1.5, "seed": 4, "max_new_tokens": 6}
    expected = explain(subject, method, None, **settings)
    subject.model.train()
    before = state(subject)
    result = explain(subject, method, None, **settings)
    assert result.ids == expected.ids and np.array_equal(result.scores, expected.scores)
    assert state(subject) == before and subject.model.training
