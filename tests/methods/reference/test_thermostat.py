"""ThermoStat's explainers against captum called as ThermoStat calls it, each text padded to the model's length."""

import numpy as np
import pytest
import sklearn.linear_model
import torch
from captum._utils.models.linear_model import SkLearnLinearModel
from captum.attr import (
    LayerDeepLiftShap,
    LayerGradientShap,
    LayerGradientXActivation,
    LayerIntegratedGradients,
    LimeBase,
    Occlusion,
    ShapleyValueSampling,
)

import nbsal
from nbsal.methods import catalogue, rng
from nbsal.methods.reference import thermostat
from nbsal.passes import trace
from tests import axioms

TEXT = axioms.TEXTS[0]


class Case:
    """ThermoStat's data of a text: ids padded to the full length, additional arguments and the baseline."""

    def __init__(self, subject):
        self.subject, self.row = subject, subject.encode(TEXT)[0]
        size, tokenizer = min(512, subject.max_length), subject.tokenizer
        batch = tokenizer(TEXT, padding="max_length", max_length=size, return_special_tokens_mask=True)
        self.ids = torch.tensor([batch["input_ids"]])
        special = torch.tensor([batch["special_tokens_mask"]])
        self.arguments = (torch.tensor([batch["attention_mask"]]),)
        self.baseline = self.ids * special + tokenizer.pad_token_id * (1 - special)
        self.target = int(self.forward(self.ids, *self.arguments).argmax())
        self.embeddings = subject.model.base_model.embeddings

    def forward(self, ids, mask):
        return self.subject.model(input_ids=ids.long(), attention_mask=mask.long())[0]

    @property
    def options(self):
        return {"target": self.target, "additional_forward_args": self.arguments}

    def compare(self, name, truth, below=1e-6, **settings):
        truth = truth[0] if truth.ndim == 2 else truth[0].sum(-1)
        saliency = nbsal.Explainer(self.subject, name, **settings)(TEXT)
        assert axioms.relative(saliency.scores, truth.detach()[: len(self.row)]) < below


FULL = [pytest.param(name, marks=pytest.mark.full) for name in ("bert", "electra", "albert")]


@pytest.fixture(params=["roberta", *FULL])
def case(request, load):
    return Case(load(request.param))


def test_gradient_times_activation(case):
    method = LayerGradientXActivation(case.forward, case.embeddings)
    case.compare("gradxact@thermostat", method.attribute(case.ids, **case.options))


def test_integrated(case):
    method = LayerIntegratedGradients(case.forward, case.embeddings)
    truth = method.attribute(case.ids, baselines=case.baseline, n_steps=25, internal_batch_size=1, **case.options)
    case.compare("integrated@thermostat", truth)


def test_occlusion(case):
    truth = Occlusion(case.forward).attribute(case.ids, sliding_window_shapes=(3,), **case.options)
    case.compare("occlusion@thermostat", truth)
    assert truth[0, 0] != 0


def test_shapley(case):
    """With our permutations of the players as captum's permutations of all positions."""
    content = [i for i, special in enumerate(case.row.special) if not special]
    generator, players = rng.text_rng(0, case.row), [None, *content]
    orders = [[players[p] for p in generator.permutation(len(players))] for _ in range(3)]
    fixed = [i for i in range(case.ids.shape[1]) if i not in content]
    method = ShapleyValueSampling(case.forward)
    method.permutation_generator = lambda features, samples: [
        [place for player in order for place in (fixed if player is None else [player])] for order in orders
    ]
    truth = method.attribute(case.ids, baselines=case.baseline, n_samples=3, **case.options)
    case.compare("shapley@thermostat", truth, samples=3)


def test_lime(case):
    """With our perturbed ids in captum's loop, which uses scikit-learn in float32, and directly in float64."""
    method = catalogue.create("lime@thermostat")
    program = thermostat.CaptumModel(trace.record(case.subject, case.subject.encode(TEXT), needs=()), 0)
    samples = case.ids.repeat(25, 1)
    samples[:, : len(case.row)] = method.perturbed(program)
    assert 0.1 < (samples != case.ids).sum() / (25 * len(case.row.content)) < 0.5

    def perturbed(ids, **ignored):
        yield from (sample[None] for sample in samples)

    def similarity(ids, other, interpretable, **ignored):
        return torch.sum(ids[0] == other[0]) / len(ids[0])

    ridge = SkLearnLinearModel("linear_model.Ridge")
    lime = LimeBase(case.forward, ridge, similarity, perturbed, False, None, lambda sample, ids, **ignored: sample)
    case.compare("lime@thermostat", lime.attribute(case.ids, n_samples=25, **case.options), below=1e-2)
    with torch.no_grad():
        values = case.forward(samples, case.arguments[0].expand(25, -1))[:, case.target]
    exact = sklearn.linear_model.Ridge().fit(samples, values, sample_weight=(samples == case.ids).double().mean(1))
    case.compare("lime@thermostat", torch.tensor(exact.coef_)[None], below=1e-6)


def test_gradient_shap(case, monkeypatch):
    """With our random numbers in place of captum's; token ids are interpolated, so that other tokens are read."""
    fractions, seen = rng.text_rng(0, case.row).random(5), []
    monkeypatch.setattr(np.random, "uniform", lambda low, high, size: fractions)
    hook = case.embeddings.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append((args or [kwargs["input_ids"]])[0]), with_kwargs=True
    )
    method = LayerGradientShap(case.forward, case.embeddings)
    truth = method.attribute(case.ids, baselines=case.baseline, n_samples=5, **case.options)
    hook.remove()
    expected = torch.cat((case.ids, case.baseline)).unique()
    assert not torch.isin(torch.cat(seen), expected).all()
    case.compare("gradient-shap@thermostat", truth)


@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")
def test_deeplift_shap(case):
    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = case.subject.model

        def forward(self, ids, mask):
            return case.forward(ids, mask)

    method = LayerDeepLiftShap(Wrapped(), case.embeddings)
    baselines = torch.stack((torch.zeros_like(case.ids[0]), case.baseline[0])).float()
    truth = method.attribute(case.ids.float(), baselines=baselines, **case.options)
    case.compare("deeplift-shap@thermostat", truth)
