"""Decoded saliency against slow replicas of Algorithm 1 and equation 6, in float64, on twelve architectures."""

import pytest
import torch
import transformers

import nbsal
from nbsal.methods import decoding
from nbsal.model import lm_head
from nbsal.support.errors import LanguageHeadError
from tests import replicas, zoo
from tests.axioms import relative
from tests.raising import refuses_part

TEXT = "The film is a warm and funny joy, the plot a bore. Who wrote it?"  # more tokens than a state has features
METHODS = {"gradcam": nbsal.GradCAM, "simple": nbsal.Simple, "gradxact": nbsal.GradientXActivation}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Process tiny vocabularies in several chunks, too."""
    monkeypatch.setattr(lm_head, "CHUNK", 16)
    monkeypatch.setattr(lm_head, "ROWS", 5)


@pytest.fixture(scope="module")
def case(load, checkpoints):
    """case(name, layer) -> subject, LM, ids, h_l and its gradient for the predicted class."""
    models = {}

    def build(name, layer):
        if name not in models:
            subject = load(name)
            kind = getattr(transformers, zoo.HEADS[zoo.lm_head(name)])
            path = zoo.save(checkpoints, name, zoo.lm_head(name), seed=1)
            models[name] = subject, kind.from_pretrained(path, dtype=torch.float64)
        subject, lm = models[name]
        encoded = subject.encode(TEXT)
        pick = lambda output: output.logits[0].max()  # noqa: E731
        states = replicas.hidden_and_gradient(name, subject.model, subject.inputs(encoded), layer, pick)
        return subject, lm, encoded[0].ids, *states

    return build


def check(case, name, layer, method="gradcam", **settings):
    subject, lm, ids, hidden, gradient = case(name, layer)
    ours = nbsal.Explainer(subject, nbsal.Decoded(METHODS[method](layer=layer), **settings))(TEXT).scores
    truth = replicas.decoded(name, lm, ids, method, hidden, gradient, **settings)
    assert relative(ours, truth) < 1e-10
    return float(truth.abs().max())


@pytest.mark.some(4)
@pytest.mark.parametrize("name", zoo.ARCHITECTURES)
@pytest.mark.parametrize("method", METHODS)
def test_undecoded_scores_are_the_formula(case, name, method):
    for layer in range(4):
        subject, _, _, hidden, gradient = case(name, layer)
        ours = nbsal.Explainer(subject, method, layer=layer)(TEXT).scores
        truth = replicas.undecoded(method, hidden, gradient)
        assert relative(ours, truth) < 1e-10


@pytest.mark.some(3)
@pytest.mark.parametrize("name", zoo.ARCHITECTURES)
@pytest.mark.parametrize("form", decoding.FORMS)
def test_decoded_gradcam_is_algorithm_1_and_equation_6(case, name, form):
    sizes = [check(case, name, layer, method, form=form) for layer in (0, 1, 2) for method in ("gradcam", "gradxact")]
    assert min(sizes[1::2]) > 0  # a ReLU may leave nothing; the signed scores may not


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("settings", [{"tau": 1}, {"tau": 3}, {"renormalise": True}, {"form": "per_token", "tau": 2}])
def test_options_are_those_of_the_replica(case, method, settings):
    if method == "simple" and settings.get("form") == "per_token":
        settings = {"tau": 2}  # the sum over a text comes before the weights: equation 6 has no such form
    check(case, "bert", 2, method, **settings)
    check(case, "gpt2", 1, method, **settings)


def test_only_small_tau_at_the_last_block_warns(reviews, recwarn):
    for settings in ({"layer": 6}, {"layer": 5, "tau": 1}, {}):
        nbsal.Explainer(reviews, "decoded-gradcam", **settings)
    assert not recwarn
    with pytest.warns(UserWarning):
        nbsal.Explainer(reviews, "decoded-gradcam", layer=6, tau=1)


def test_methods_on_one_trace_share_the_normalisers(reviews, monkeypatch):
    rows, normaliser = [], lm_head.LMHead.log_normaliser
    counted = lambda self, features, coarse=False: rows.append(len(features)) or normaliser(self, features, coarse)  # noqa: E731
    monkeypatch.setattr(lm_head.LMHead, "log_normaliser", counted)
    names = ["decoded-gradcam", "decoded-simple", "decoded-gradxact"]
    text = "A warm and funny film."
    many = nbsal.compare(reviews, names, text)
    assert sum(rows) == len(many["decoded-simple"][0].tokens)
    for name in names:
        # Logits near 15 in float32: their exponentials differ by some millionths where products run in other parts.
        assert relative(many[name][0].scores, nbsal.Explainer(reviews, name)(text).scores) < 5e-6


def test_decoding_needs_an_lm_head(load):
    with refuses_part("lm_head", LanguageHeadError):
        nbsal.Explainer(load("bert", decoding=False), "decoded-gradcam")
