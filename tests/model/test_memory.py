"""A run that needs more memory than there is ends before any work, with the numbers and the way out."""

import re

import pytest
import torch

import nbsal
from nbsal.model.running import memory
from nbsal.model.running.layers import forward_mode
from nbsal.passes import plan
from nbsal.support.errors import OutOfMemory
from tests import axioms

TEXT = axioms.TEXTS[2]
STREAMED = ("rollout", "gae", "lrp", "attn-lrp", "transformer-attribution")
WHOLE = ("raw-attention@published", "lrp@published", "gradcam", "occlusion", "shapley")


pytestmark = pytest.mark.filterwarnings("ignore:.*halves:UserWarning")


@pytest.fixture
def limit(monkeypatch):
    """limit(bytes) says how much memory there is."""
    monkeypatch.setattr(memory, "SMALL", 0)
    return lambda size: monkeypatch.setattr(memory, "available", lambda device: size)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("method", [*STREAMED, *WHOLE])
def test_what_does_not_fit_is_refused_before_the_work(load, limit, monkeypatch, forwards, method, streamed):
    subject = load("bert")
    subject.pooling  # noqa: B018 - measured by forward passes of its own
    monkeypatch.setattr(plan, "LIMIT", 0 if streamed else 2**60)
    explain = nbsal.Explainer(subject, method)
    limit(1000)
    before = len(forwards)
    with pytest.raises(OutOfMemory) as caught:
        explain(TEXT)
    assert 'long="window"' in str(caught.value) and len(re.findall(r"[\d.]+ GB", str(caught.value))) == 2
    assert len(forwards) - before <= 1  # under rules of their own, methods first run the model for the target
    limit(10**9)
    assert explain(TEXT).scores.any()


def test_the_estimate_grows_with_the_square_of_the_length(load, limit):
    subject = load("bert")
    short, long = (subject.encode("joy " * count) for count in (10, 40))
    size = 8 * subject.heads * long.longest**2
    limit(size * 6)
    memory.check_fits(subject, short, maps=7)
    memory.check_fits(subject, long, maps=6)
    with pytest.raises(OutOfMemory):
        memory.check_fits(subject, long, maps=7)
    with pytest.raises(OutOfMemory):
        memory.check_fits(subject, subject.encode(["joy " * 40] * 2), maps=6)


def test_a_stream_of_means_needs_the_maps_of_one_head(load, limit, monkeypatch, forwards):
    """Fused attention leaves means over heads to be computed; maps themselves, and eager attention, take all heads."""
    subject = load("bert")
    assert subject.model.config._attn_implementation == "sdpa"
    text, pooling = " ".join([TEXT] * 2), subject.pooling
    length = len(subject.encode(text)[0])
    monkeypatch.setattr(plan, "LIMIT", 0)
    states = memory.STREAMED_STATES * subject.depth * length * subject.width
    limit(8 * max(memory.SUMMARY_MAPS * length**2, states))
    assert pooling and nbsal.Explainer(subject, "gae")(text).scores.any()
    limit(8 * states)
    with pytest.raises(OutOfMemory):
        nbsal.Explainer(subject, "alti")(text)
    subject.model.set_attn_implementation("eager")
    limit(8 * max(memory.SUMMARY_MAPS * length**2, states))
    before = len(forwards)
    with pytest.raises(OutOfMemory):
        nbsal.Explainer(subject, "gae")(text)
    assert len(forwards) == before


def test_a_forward_pass_needs_maps_only_if_attention_is_eager(load, limit):
    subject, text = load("bert"), "joy " * 50
    length = len(subject.encode(text)[0])
    explain = nbsal.Explainer(subject, "occlusion")
    limit(8 * length * subject.width * memory.FORWARD_STATES)
    assert explain(text).scores.any()
    subject.model.set_attn_implementation("eager")
    limit(8 * length * (subject.width * memory.FORWARD_STATES + subject.heads * length))
    with pytest.raises(OutOfMemory):
        explain(text)


def test_a_batch_that_does_not_fit_is_halved(load, limit):
    subject = load("bert")
    explain = nbsal.Explainer(subject, "gae")
    truth = [explain(text).scores for text in (TEXT, TEXT)]
    limit(8 * subject.heads * len(subject.encode(TEXT)[0]) ** 2 * memory.WHOLE_MAPS * subject.depth * 2)
    with pytest.warns(UserWarning, match="halves"):
        batch = explain.map([TEXT] * 8, progress=False)
    assert all(axioms.relative(saliency.scores, truth[0]) < 1e-10 for saliency in batch)


def test_available_memory_is_that_of_the_machine():
    free = memory.available(torch.device("cpu"))
    assert free is None or 10**7 < free < 10**14
    assert memory.available(torch.device("meta")) is None


def test_an_allocator_that_fails_while_a_model_runs_is_named():
    with pytest.raises(OutOfMemory, match="Explain a shorter text"), forward_mode(True):
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        raise torch.OutOfMemoryError("CUDA out of memory.")
    with torch.inference_mode(), forward_mode(gradients=False):
        assert not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
