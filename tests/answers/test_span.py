"""Parts of a reply at every layer: each layer is the answer of that layer, from one forward pass."""

import pytest

import nbsal
from nbsal.widgets import Layers
from tests import axioms
from tests.answers import writers
from tests.answers.writers import REPLY, SOURCE
from tests.raising import refuses

SPAN = slice(1, 4)


@pytest.fixture(scope="module")
def subjects():
    return {"llama": writers.load(), "t5": writers.load_sides("t5")}


def answer(subject, method="gradxact", **options):
    return nbsal.Explainer(subject, method, **options).reply(SOURCE, REPLY, progress=False)


@pytest.mark.parametrize("name", ["llama", "t5"])
@pytest.mark.parametrize("method", ["gradxact", "gradcam"])
def test_every_layer_of_a_span_is_the_span_at_that_layer(subjects, name, method):
    subject = subjects[name]
    span = answer(subject, method, layer=1).of(SPAN)
    layers = span.every_layer()
    assert layers.scores.shape == (subject.depth + 1, len(span.row))
    for layer in range(subject.depth + 1):
        expected = answer(subject, method, layer=layer).of(SPAN)
        assert axioms.relative(layers.at(layer).scores, expected.scores) < 1e-6
    assert (layers.target, layers.prediction, layers.text) == (span.target, span.prediction, span.text)
    assert repr(span).startswith("Saliency(") and len(repr(span)) < 300
    assert layers.probabilities == span.probabilities and layers.provenance["parameters"]["layer"] == "every"


def test_every_layer_of_a_rival_is_that_difference(subjects):
    at_layer = answer(subjects["llama"], layer=2).rather(9, 2)
    assert axioms.relative(at_layer.every_layer().scores[2], at_layer.scores) < 1e-6


def test_every_layer_takes_one_forward_and_one_backward(subjects, forwards, monkeypatch):
    import torch

    span = answer(subjects["llama"]).of(SPAN)
    backwards, grad = [], torch.autograd.grad

    def counted(*args, **options):
        if not torch._C._len_torch_function_stack():  # where a mode is active, PyTorch calls it again without
            backwards.append(1)
        return grad(*args, **options)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    forwards.clear()
    span.every_layer()
    assert len(forwards) == len(backwards) == 1


def test_the_layers_view_shows_a_span(subjects):
    span = answer(subjects["llama"], layer=1).of(SPAN)
    view = Layers(span).wait()
    assert (view.result.scores == span.every_layer().scores).all() and view.layer == view.chosen == 1
    assert view.result.target == span.target and view.result.target in view.to_html()
    assert Layers(span, layer=2).wait().chosen == 2


def test_spans_without_layers_are_refused(subjects, tmp_path):
    with refuses("method"):
        Layers(answer(subjects["llama"], "gae").of(SPAN))
    span = answer(subjects["llama"]).of(SPAN)
    span.save(tmp_path / "span.json")
    loaded = type(span).load(tmp_path / "span.json")
    assert (loaded.scores == span.scores).all()
    with refuses("span"):
        Layers(loaded)


RIVAL = "the film is dull ."


@pytest.mark.parametrize("name", ["llama", "t5"])
@pytest.mark.parametrize("method", ["gradxact", "gae", "occlusion"])
def test_another_reply_is_the_difference_of_both(subjects, name, method):
    result, other = answer(subjects[name], method), nbsal.Explainer(subjects[name], method).reply(SOURCE, RIVAL)
    against = result.rather(RIVAL)
    start = result.reading.start
    whole = [one.running.score_sum(one.reading.content)[:start] for one in (result, other)]
    assert axioms.relative(against.scores, whole[0] - whole[1]) < 1e-6
    assert len(against.row) == start and " - " in against.target
    with refuses("span"):
        against.every_layer()


def test_another_reply_is_checked(subjects):
    result = answer(subjects["llama"])
    for rival in (9, "", "the film " * 500):
        with refuses("token" if rival else "reply"):
            result.rather(rival)
