"""Path methods and SmoothGrad: exact on a bag of embeddings, and equal to captum where captum is correct."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from captum.attr import LayerDeepLift, LayerIntegratedGradients

import nbsal
from nbsal.methods import paths, rng, upper_layers
from nbsal.methods.upper_layers import UpperLayers
from nbsal.model.running.architecture import blocks
from nbsal.passes import trace
from nbsal.testing.passes import cost_is_true
from tests import axioms, bag, zoo
from tests.raising import refuses

TEXT = axioms.TEXTS[0]
METHODS = [
    nbsal.Integrated(steps=5, baseline="zero"),
    nbsal.Integrated(steps=5, baseline="pad"),
    nbsal.GradientShap(samples=5),
    nbsal.DeepLiftShap(),
    nbsal.Smooth(samples=3),
]
NAMES = {"ids": lambda method: f"{method.name} {getattr(method, 'baseline', '')}".strip()}


@pytest.mark.parametrize("method", METHODS, **NAMES)
def test_a_bag_is_explained_exactly(method):
    """Every token contributes a known number, minus that of the baseline."""
    subject = bag.subject()
    row = subject.encode(TEXT)[0]
    contributions = bag.contributions(subject, row, 1).numpy()
    pad = bag.contributions(subject, replace(row, ids=(0,)), 1).item()
    baselines = {"zero": 0.0, "pad": pad, "both": pad / 2}
    if method.name == "deeplift-shap" or method.name == "integrated":
        truth = contributions - baselines[getattr(method, "baseline", "both")]
    elif method.name == "gradient-shap":  # two of five points are on the path from padding
        truth = contributions - pad * 2 / 5
    else:
        truth = np.full(len(row), 1 / len(row.content))
    saliency = nbsal.Explainer(subject, method)(TEXT, target=1)
    assert axioms.relative(saliency.scores, np.where(row.special, 0.0, truth)) < 1e-6
    if method.name != "smooth":
        assert abs(saliency.provenance["gap"]) < 1e-6 < abs(saliency.provenance["change"])


def stock(subject, text=TEXT):
    """A forward pass of ids that keeps the original positions, its inputs and the baseline's ids."""
    row, inputs = subject.encode(text)[0], subject.inputs(subject.encode(text))
    first = zoo.FIRST_POSITION.get(subject.model.config.model_type, 0)
    inputs["position_ids"] = torch.arange(len(row))[None] + first
    ids = inputs["input_ids"]
    label = int(subject.logits(inputs)[0].argmax())

    def forward(ids):
        expanded = {name: tensor.expand(len(ids), -1) for name, tensor in inputs.items()}
        return subject.logits(expanded | {"input_ids": ids})[:, label]

    return forward, ids, torch.where(torch.tensor([row.special]), ids, 0)


def module(subject, layer):
    return subject.twin.base_model.embeddings if layer == 0 else blocks(subject.twin)[layer - 1]


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_integrated_is_captums(load, architecture, layer):
    subject = load(architecture)
    forward, ids, base = stock(subject)
    lig = LayerIntegratedGradients(forward, module(subject, layer))
    truth = lig.attribute(ids, baselines=base, n_steps=25)[0].sum(-1)
    saliency = nbsal.Explainer(subject, nbsal.Integrated(layer=layer, steps=25, baseline="pad"))(TEXT)
    assert axioms.relative(saliency.scores, truth.detach()) < 1e-6


def upper(subject, layer=0):
    """The model above a layer as a function of its states, and the states."""
    record = trace.record(subject, subject.encode(TEXT), needs=())
    part = UpperLayers(record, layer)
    return lambda states: part.values(states, torch.zeros(len(states), dtype=torch.long)), part.states


@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")
@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_deeplift_is_captums_and_on_roberta_the_gradient(load, architecture):
    subject = load(architecture)
    forward, ids, base = stock(subject)

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = subject.twin

        def forward(self, ids):
            return forward(ids.long())

    lift = LayerDeepLift(Wrapped(), subject.twin.base_model.embeddings)
    truth = lift.attribute(ids.double(), baselines=base.double())[0].sum(-1)
    saliency = nbsal.Explainer(subject, nbsal.DeepLiftShap(baselines=("pad",)))(TEXT)
    assert axioms.relative(saliency.scores, truth.detach()) < 1e-6
    record = trace.record(subject, subject.encode(TEXT))
    difference = record.hidden[0] - UpperLayers(record, 0).baseline("pad")
    plain = (record.hidden_grad[0] * difference).sum(-1)[0]
    assert (axioms.relative(saliency.scores, plain) < 1e-6) is (architecture == "roberta")


def test_smooth_is_the_mean_over_noisy_copies(load):
    """A loop over samples, each with the noise of its seed and text."""
    subject = load("bert")
    value, states = upper(subject, 1)
    generators = rng.text_rng(7, subject.encode(TEXT)[0]).spawn(4)
    total = torch.zeros_like(states)
    for generator in generators:
        noise = torch.tensor(generator.standard_normal(states.shape[1:])) * 0.05 * (states.max() - states.min())
        point = (states + noise).requires_grad_()
        total += torch.autograd.grad(value(point).sum(), point)[0]
    truth = total.abs().sum(-1)[0]
    saliency = nbsal.Explainer(subject, nbsal.Smooth(layer=1, samples=4, noise=0.05, seed=7))(TEXT)
    assert axioms.relative(saliency.scores, truth / truth.sum()) < 1e-9


@pytest.mark.some(2)
@pytest.mark.parametrize("architecture", ["albert", "bert", "gpt2"])
def test_any_layer_is_decoded(load, architecture):
    subject = load(architecture)
    for method in (nbsal.Integrated(steps=3), nbsal.Smooth(samples=2), nbsal.GradientShap(samples=2)):
        explainers = [
            nbsal.Explainer(subject, nbsal.Decoded(replace(method, layer=layer))) for layer in range(subject.depth + 1)
        ]
        axioms.every_layer_is_exact(explainers)
        assert explainers[1](TEXT).method == f"decoded-{method.name}"
    decoded = nbsal.Explainer(subject, nbsal.Decoded(nbsal.Integrated(layer=1)))
    plain = nbsal.Explainer(subject, nbsal.Integrated(layer=1))
    assert decoded(TEXT).provenance["gap"] == pytest.approx(plain(TEXT).provenance["gap"], abs=1e-12)


def test_points_are_batched(load, monkeypatch):
    subject, sizes = load("bert"), []
    assert subject.pooling == "first"  # measured now, before the passes are counted
    hook = subject.model.register_forward_hook(lambda module, args, output: sizes.append(len(output.logits)))
    whole = nbsal.Explainer(subject, nbsal.Smooth(samples=6))(TEXT).scores
    assert sizes == [1, 6]
    monkeypatch.setattr(upper_layers, "TOKENS", 1)
    assert axioms.relative(nbsal.Explainer(subject, nbsal.Smooth(samples=6))(TEXT).scores, whole) < 1e-10
    assert sizes[2:] == [1] * 7
    hook.remove()


def test_an_interrupted_method_leaves_nothing_on_the_modules(load):
    """Captum's DeepLift keeps inputs on modules until its backward has run."""
    subject = load("bert")
    calls = []

    def interrupt(module, args, output):
        calls.append(module)
        if len(calls) == 3:
            raise KeyboardInterrupt

    handle = subject.model.register_forward_hook(interrupt)
    before = [sorted(vars(module)) for module in subject.model.modules()]
    with pytest.raises(KeyboardInterrupt):
        nbsal.Explainer(subject, "deeplift-shap")(TEXT)
    assert [sorted(vars(module)) for module in subject.model.modules()] == before
    assert all(not module._forward_hooks for module in subject.model.modules() if module is not subject.model)
    handle.remove()


def test_a_baseline_without_its_token_is_refused(load):
    subject = nbsal.load(load("bert").model)
    subject.tokenizer = None
    with refuses("baseline"):
        nbsal.Explainer(subject, "integrated", baseline="mask")


def at_tolerance(subject, texts, tolerance, **settings):
    method = nbsal.Integrated(steps=2, tolerance=tolerance, **settings)
    return nbsal.Explainer(subject, method).map(texts, progress=False)


@pytest.mark.some(1)
@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("baseline", ["zero", "mask", "mean"])
def test_points_are_added_until_the_gap_is_small(load, layer, baseline):
    """Each text then has the scores of its number of points, whatever texts are beside it; half as many are too few."""
    numbers, texts = set(), axioms.TEXTS[:3]
    for tolerance in (0.3, 1e-3):
        results = at_tolerance(load("bert"), texts, tolerance, layer=layer, baseline=baseline)
        for text, saliency in zip(texts, results, strict=True):
            points = saliency.provenance["points"]
            numbers.add(points)
            for steps in {points, max(2, points // 2)}:
                method = nbsal.Integrated(steps=steps, layer=layer, baseline=baseline)
                alone = nbsal.Explainer(load("bert"), method)(text)
                gap, change = alone.provenance["gap"], alone.provenance["change"]
                stops = abs(gap) <= tolerance * abs(change) or steps == paths.MOST
                assert stops is (steps == points)
                assert (axioms.relative(saliency.scores, alone.scores) < 1e-9) is (steps == points)
            assert saliency.provenance["gap"] == pytest.approx(
                saliency.scores.sum() - saliency.provenance["change"], abs=1e-9
            )
    assert max(numbers) > 2


def test_only_texts_that_need_more_points_run_again(load):
    """And by default nothing is added, nor said of points."""
    subject, sizes = load("bert"), []
    plain = nbsal.Explainer(subject, nbsal.Integrated(steps=2))(TEXT)
    assert "points" not in plain.provenance and plain.provenance["parameters"]["tolerance"] is None
    hook = subject.model.register_forward_hook(lambda module, args, output: sizes.append(len(output.logits)))
    results = at_tolerance(subject, axioms.TEXTS, 0.05)
    hook.remove()
    points = [saliency.provenance["points"] for saliency in results]
    attempts = [sum(2**i for i in range(1, int(np.log2(count)) + 1)) for count in points]
    assert sum(sizes) == 2 * len(points) + sum(attempts) and len(set(points)) > 1


def test_copies_of_one_text_run_together_where_padding_has_an_effect():
    """FNet takes no mask, so its texts run alone; captum's DeepLift needs a text beside its baseline."""
    sizes = zoo.SIZES | {"vocab_size": 400, "pad_token_id": 0, "num_labels": 3}
    torch.manual_seed(0)
    model = transformers.FNetForSequenceClassification(transformers.FNetConfig(**sizes)).eval()
    subject = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))
    assert subject.unbatchable
    lift = nbsal.Explainer(subject, "deeplift-shap", baselines=("zero",))(TEXT)
    gradient = nbsal.Explainer(subject, "gradxact", layer=lift.provenance["parameters"]["layer"])(TEXT)
    assert np.corrcoef(lift.scores, gradient.scores)[0, 1] > 0.9
    together = nbsal.Explainer(subject, "integrated", steps=8)(TEXT)
    subject.model.config.pad_token_id = None  # it would then refuse several texts
    assert np.abs(nbsal.Explainer(subject, "integrated", steps=8)(TEXT).scores - together.scores).max() < 1e-6


def test_baselines_of_tokens_cost_a_pass_more(load):
    explain = nbsal.Explainer(load("bert"), "deeplift-shap", baselines=("zero", "pad", "mask"))
    cost_is_true(explain)
    assert explain.method.sizes(explain.subject.encode(TEXT)[0])["token baselines"] == 2


def test_a_notable_gap_says_how_to_close_it(load):
    notes = [nbsal.Explainer(load("bert"), "integrated", steps=steps)(TEXT).notes()[-1] for steps in (1, 40)]
    adapted = nbsal.Explainer(load("bert"), "integrated", steps=1, tolerance=1e9)(TEXT)
    assert ["tolerance=" in note for note in notes] == [True, False] and "tolerance=" not in adapted.notes()[-1]


@pytest.mark.parametrize("method", [nbsal.Integrated(steps=4), nbsal.Integrated(steps=2, tolerance=1e-9)])
def test_points_of_a_path_have_no_padding(load, monkeypatch, method):
    subject, values, sizes = load("bert"), UpperLayers.values, []

    def watch(upper, states, texts):
        if states.requires_grad:
            sizes.extend((states.shape[1], len(upper.trace.encoded[text])) for text in texts.tolist())
        return values(upper, states, texts)

    monkeypatch.setattr(UpperLayers, "values", watch)
    explain, texts = nbsal.Explainer(subject, method), [axioms.TEXTS[0], "A joy.", axioms.TEXTS[0], "Not a joy at all."]
    together = explain.map(texts, batch_size=4, progress=False)
    assert len({size for size, _ in sizes}) == 3 and all(size == length for size, length in sizes)
    for one, text in zip(together, texts, strict=True):
        assert axioms.relative(one.scores, explain(text).scores) < 1e-10
