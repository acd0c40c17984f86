"""Gradients along paths and around texts: exact on a bag of embeddings, equal to captum where captum is right."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from captum.attr import (
    GradientShap,
    LayerDeepLift,
    LayerGradientXActivation,
    LayerIntegratedGradients,
    Saliency,
)

import nbsal
from nbsal import trace
from nbsal.errors import InputError, UnknownName
from nbsal.methods import paths, rng, upper_layers
from nbsal.methods.upper_layers import UpperLayers
from nbsal.model.targets import Target
from tests import axioms, bag, zoo

TEXT = axioms.TEXTS[0]
METHODS = [
    nbsal.Integrated(steps=5),
    nbsal.Integrated(steps=5, baseline="pad"),
    nbsal.GradientShap(samples=5),
    nbsal.DeepLiftShap(),
    nbsal.Smooth(samples=3),
]
NAMES = {"ids": lambda method: f"{method.name} {getattr(method, 'baseline', '')}".strip()}


def exactly_the_worth(method):
    subject = bag.subject()
    row = subject.encode(TEXT)[0]
    worth = bag.contributions(subject, row, 1).numpy()
    pad = bag.contributions(subject, replace(row, ids=(0,)), 1).item()
    stand_in = {"zero": 0.0, "pad": pad, "both": pad / 2}
    base = getattr(method, "baseline", "both")
    if method.name == "deeplift-shap" or method.name == "integrated":
        truth = worth - stand_in[base]
    elif method.name == "gradient-shap":  # of five points three are on the way from zero
        truth = worth - pad * 2 / 5
    else:
        truth = np.full(len(row), 1 / len(row.content))
    found = nbsal.Explainer(subject, method)(TEXT, target=1)
    assert axioms.relative(found.scores, np.where(row.special, 0.0, truth)) < 1e-6
    return found


@pytest.mark.parametrize("method", METHODS, **NAMES)
def test_a_bag_is_explained_exactly(method):
    found = exactly_the_worth(method)
    if method.name != "smooth":
        assert abs(found.provenance["gap"]) < 1e-6 < abs(found.provenance["change"])


MUTANTS = {
    "special tokens move, too": (
        UpperLayers,
        "free",
        lambda self: torch.ones_like(self.states[..., :1], dtype=torch.bool),
    ),
    "the gradient is of another label": (Target, "value", lambda self, logits: logits[0]),
    "the way is not multiplied in": (UpperLayers, "baseline", lambda self, kind: self.states - 1),
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("method", [METHODS[0], METHODS[2], METHODS[3]], **NAMES)
def test_the_bag_catches(method, mutant, monkeypatch):
    monkeypatch.setattr(*MUTANTS[mutant])
    with pytest.raises(AssertionError):
        exactly_the_worth(method)


def test_integrated_gradients_complete(load):
    """On a model that is no bag, more steps close the gap."""
    gaps = [
        abs(nbsal.Explainer(load("bert"), nbsal.Integrated(steps=steps))(TEXT).provenance["gap"])
        for steps in (5, 25, 200)
    ]
    assert gaps[2] < 1e-6 and gaps[2] < gaps[1] < gaps[0]


def stock(subject, text=TEXT):
    """A forward of ids that keeps the original positions, its inputs and the baseline's ids."""
    row, inputs = subject.encode(text)[0], subject.inputs(subject.encode(text))
    first = zoo.FIRST_POSITION.get(subject.model.config.model_type, 0)
    inputs["position_ids"] = torch.arange(len(row))[None] + first
    ids = inputs["input_ids"]
    label = int(subject.logits(inputs)[0].argmax())

    def forward(ids):
        many = {name: tensor.expand(len(ids), -1) for name, tensor in inputs.items()}
        return subject.logits(many | {"input_ids": ids})[:, label]

    return forward, ids, torch.where(torch.tensor([row.special]), ids, 0)


def module(subject, layer):
    return subject.model.base_model.embeddings if layer == 0 else subject.blocks[layer - 1]


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_integrated_is_captums(load, architecture, layer):
    subject = load(architecture)
    forward, ids, base = stock(subject)
    lig = LayerIntegratedGradients(forward, module(subject, layer))
    truth = lig.attribute(ids, baselines=base, n_steps=25)[0].sum(-1)
    found = nbsal.Explainer(subject, nbsal.Integrated(layer=layer, steps=25, baseline="pad"))(TEXT)
    assert axioms.relative(found.scores, truth.detach()) < 1e-6


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_gradient_times_activation_is_captums(load, architecture, layer):
    subject = load(architecture)
    forward, ids, _ = stock(subject)
    truth = LayerGradientXActivation(forward, module(subject, layer)).attribute(ids)[0].sum(-1)
    found = nbsal.Explainer(subject, nbsal.GradientXActivation(layer=layer))(TEXT)
    assert axioms.relative(found.scores, truth.detach()) < 1e-6


def upper(subject, layer=0):
    """The model above a layer as a function of its states, and the states."""
    read = trace.record(subject, subject.encode(TEXT), needs=())
    part = UpperLayers(read, layer)
    return lambda states: part.values(states, torch.zeros(len(states), dtype=torch.long)), part.states


@pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already")
@pytest.mark.parametrize("layer", [0, 1, 3])
def test_simple_is_captums_signed_saliency(load, layer):
    subject = load("bert")
    value, states = upper(subject, layer)
    truth = Saliency(value).attribute(states, abs=False)[0].abs().sum(-1)
    found = nbsal.Explainer(subject, nbsal.Simple(layer=layer))(TEXT)
    assert axioms.relative(found.scores, truth / truth.sum()) < 1e-6


def test_gradient_shap_is_captums_on_embeddings(load, monkeypatch):
    """With our draws in place of captum's."""
    subject = load("bert")
    value, states = upper(subject)
    free = torch.tensor(subject.encode(TEXT)[0].special)[:, None]
    drawn = rng.text_rng(0, subject.encode(TEXT)[0]).random(6)
    monkeypatch.setattr(np.random, "uniform", lambda low, high, size: drawn)
    truth = GradientShap(value).attribute(states, baselines=states * free, n_samples=6, stdevs=0.0)[0].sum(-1)
    found = nbsal.Explainer(subject, nbsal.GradientShap(samples=6, baselines=("zero",)))(TEXT)
    assert axioms.relative(found.scores, truth) < 1e-6


@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_deeplift_is_captums_and_on_roberta_only_the_gradient(load, architecture):
    subject = load(architecture)
    forward, ids, base = stock(subject)

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = subject.model

        def forward(self, ids):
            return forward(ids.long())

    lift = LayerDeepLift(Wrapped(), subject.model.base_model.embeddings)
    truth = lift.attribute(ids.double(), baselines=base.double())[0].sum(-1)
    found = nbsal.Explainer(subject, nbsal.DeepLiftShap(baselines=("pad",)))(TEXT)
    assert axioms.relative(found.scores, truth.detach()) < 1e-6
    read = trace.record(subject, subject.encode(TEXT))
    way = read.hidden[0] - UpperLayers(read, 0).baseline("pad")
    plain = (read.hidden_grad[0] * way).sum(-1)[0]
    assert (axioms.relative(found.scores, plain) < 1e-6) is (architecture == "roberta")


def test_smooth_without_noise_is_simple(load):
    subject = load("bert")
    smooth = nbsal.Explainer(subject, nbsal.Smooth(noise=0.0))(TEXT)
    simple = np.where(smooth.special, 0.0, nbsal.Explainer(subject, nbsal.Simple(layer=0))(TEXT).scores)
    assert axioms.relative(smooth.scores, simple / simple.sum()) < 1e-9
    assert axioms.relative(nbsal.Explainer(subject, nbsal.Smooth(noise=0.1))(TEXT).scores, smooth.scores) > 1e-3
    above_it = nbsal.Explainer(subject, nbsal.Smooth(layer=2, noise=0.0))(TEXT).scores
    assert axioms.relative(above_it, nbsal.Explainer(subject, nbsal.Simple(layer=2))(TEXT).scores) < 1e-9


def test_smooth_is_the_mean_over_its_own_noise(load):
    """A loop over samples, each with the noise of its seed and text."""
    subject = load("bert")
    value, states = upper(subject, 1)
    draws = rng.text_rng(7, subject.encode(TEXT)[0])
    total = torch.zeros_like(states)
    for _ in range(4):
        noise = torch.tensor(draws.standard_normal(states.shape[1:])) * 0.05 * (states.max() - states.min())
        point = (states + noise).requires_grad_()
        total += torch.autograd.grad(value(point).sum(), point)[0]
    truth = total.abs().sum(-1)[0]
    found = nbsal.Explainer(subject, nbsal.Smooth(layer=1, samples=4, noise=0.05, seed=7))(TEXT)
    assert axioms.relative(found.scores, truth / truth.sum()) < 1e-9


@pytest.mark.parametrize("method", METHODS, **NAMES)
@pytest.mark.parametrize("architecture", ["bert", "roberta", "albert", "deberta-v2", "modernbert", "llama"])
def test_batches_padding_and_special_tokens(load, architecture, method):
    explain = nbsal.Explainer(load(architecture), method)
    axioms.batch_equals_singles(explain)
    axioms.padding_is_invisible(explain)
    found = explain(TEXT)
    assert not found.scores[found.special].any()
    assert np.count_nonzero(found.scores) > len(found.row.content) / 2


def test_the_axioms_catch_shared_noise(load, monkeypatch):
    stream = np.random.default_rng(0)
    monkeypatch.setattr(paths, "text_rng", lambda seed, row: stream)
    for method in (nbsal.Smooth(samples=2, noise=0.1), nbsal.GradientShap(samples=2)):
        with pytest.raises(AssertionError):
            axioms.batch_equals_singles(nbsal.Explainer(load("bert"), method))


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_states_put_back_change_nothing(load, architecture):
    """Running on from a layer's own states is the model itself; from others, it is not."""
    subject = load(architecture)
    for layer in range(subject.depth + 1):
        read = trace.record(subject, subject.encode(axioms.TEXTS), needs=())
        part = UpperLayers(read, layer)
        assert axioms.relative(part.plain(part.states), read.values) < 1e-12
        assert axioms.relative(part.plain(part.states * 2 + torch.rand_like(part.states)), read.values) > 1e-6


@pytest.mark.parametrize("architecture", ["bert", "albert", "gpt2"])
def test_any_layer_is_decoded(load, architecture):
    subject = load(architecture)
    for method in (nbsal.Integrated(steps=3), nbsal.Smooth(samples=2), nbsal.GradientShap(samples=2)):
        explainers = [
            nbsal.Explainer(subject, nbsal.Decoded(replace(method, layer=layer))) for layer in range(subject.depth + 1)
        ]
        axioms.every_layer_equals_single_layers(explainers)
        assert explainers[1](TEXT).method == f"decoded-{method.name}"
    decoded = nbsal.Explainer(subject, nbsal.Decoded(nbsal.Integrated(layer=1)))
    plain = nbsal.Explainer(subject, nbsal.Integrated(layer=1))
    assert decoded(TEXT).provenance["gap"] == pytest.approx(plain(TEXT).provenance["gap"], abs=1e-12)


def test_points_are_packed_and_cancelled(load, monkeypatch):
    subject, sizes = load("bert"), []
    hook = subject.model.register_forward_hook(lambda module, args, output: sizes.append(len(output.logits)))
    whole = nbsal.Explainer(subject, nbsal.Smooth(samples=6))(TEXT).scores
    assert sizes == [1, 6]
    monkeypatch.setattr(upper_layers, "TOKENS", 1)
    assert axioms.relative(nbsal.Explainer(subject, nbsal.Smooth(samples=6))(TEXT).scores, whole) < 1e-10
    assert sizes[2:] == [1] * 7
    hook.remove()


def test_windows_say_nothing_of_one_window(load):
    explain = nbsal.Explainer(load("bert"), nbsal.Integrated(steps=2), long="window")
    joined = explain("The film is a joy. " * 15)
    assert joined.provenance["windows"] > 1 and "gap" not in joined.provenance


def test_what_breaks_off_leaves_nothing_on_the_modules(load):
    """Captum's DeepLift keeps inputs on modules until its backward has run."""
    subject = load("bert")
    calls = []

    def breaking(module, args, output):
        calls.append(module)
        if len(calls) == 3:
            raise KeyboardInterrupt

    handle = subject.model.register_forward_hook(breaking)
    before = [sorted(vars(module)) for module in subject.model.modules()]
    with pytest.raises(KeyboardInterrupt):
        nbsal.Explainer(subject, "deeplift-shap")(TEXT)
    assert [sorted(vars(module)) for module in subject.model.modules()] == before
    assert all(not module._forward_hooks for module in subject.model.modules() if module is not subject.model)
    handle.remove()


def test_a_baseline_whose_turn_never_comes_counts_for_nothing(load):
    one, two = (nbsal.GradientShap(samples=1, baselines=kinds) for kinds in (("zero",), ("zero", "mask")))
    scores = nbsal.Explainer(load("bert"), one)(TEXT).scores
    assert scores.any() and axioms.relative(nbsal.Explainer(load("bert"), two)(TEXT).scores, scores) < 1e-12


def test_wrong_settings_are_named(load):
    subject = load("bert")
    with pytest.raises(UnknownName, match="zero, pad, mask"):
        nbsal.Explainer(subject, "integrated", baseline="noise")
    with pytest.raises(UnknownName, match="zero, pad, mask"):
        nbsal.Explainer(subject, "gradient-shap", baselines=("zero", "one"))
    with pytest.raises(InputError, match="baselines is a tuple"):
        nbsal.Explainer(subject, "deeplift-shap", baselines="zero")
    with pytest.raises(InputError, match="baselines is a tuple"):
        nbsal.Explainer(subject, "gradient-shap", baselines=2)
    with pytest.raises(InputError, match="steps must be at least 1"):
        nbsal.Explainer(subject, "integrated", steps=0)
    with pytest.raises(InputError, match="noise is a share"):
        nbsal.Explainer(subject, "smooth", noise=-1)
    with pytest.raises(InputError, match="noise must be a number, not 'much'"):
        nbsal.Explainer(subject, "smooth", noise="much")
    bare = nbsal.load(subject.model)
    bare.tokenizer = None
    with pytest.raises(InputError, match="no mask token"):
        nbsal.Explainer(bare, "integrated", baseline="mask")
