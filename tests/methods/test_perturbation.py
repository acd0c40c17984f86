"""Perturbation methods: exact on a bag of embeddings, and equal to captum where captum is correct."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from captum._utils.models.linear_model import SkLearnLinearModel
from captum.attr import LimeBase, Occlusion

import nbsal
from nbsal.methods import perturbation
from tests import axioms, bag, zoo

TEXT = axioms.TEXTS[0]
METHODS = {
    "occlusion": nbsal.Occlusion(),
    "lime": nbsal.LIME(300, ridge=0.0),
    "shapley": nbsal.Shapley(3),
    "shapley, plain orders": nbsal.Shapley(3, antithetic=False),
    "kernel-shap": nbsal.KernelShap(100),
    "contextcite": nbsal.ContextCite(200, alpha=0.0),
    "ridge": nbsal.Ridge(200, ridge=0.0),
}


@pytest.mark.parametrize("level", perturbation.LEVELS)
@pytest.mark.parametrize("way", ["remove", "mask", "pad"])
@pytest.mark.parametrize("name", METHODS)
def test_a_bag_is_explained_exactly(name, way, level):
    """Every token contributes a known number, minus that of its replacement; the tokens of a word share theirs."""
    subject = bag.subject()
    row = subject.encode(TEXT)[0]
    replacement = 0.0
    if way != "remove":
        filler = {"mask": subject.tokenizer.mask_token_id, "pad": 0}[way]
        replacement = bag.contributions(subject, replace(row, ids=(filler,)), 1).item()
    truth = np.where(row.special, 0.0, bag.contributions(subject, row, 1).numpy() - replacement)
    saliency = nbsal.Explainer(subject, replace(METHODS[name], way=way, level=level))(TEXT, target=1)
    if level == "word":
        for word in row.words:
            truth[list(word.tokens)] = truth[list(word.tokens)].mean()
    assert axioms.relative(saliency.scores, truth) < 1e-6
    if "shap" in name:
        assert abs(saliency.provenance["gap"]) < 1e-6 < abs(saliency.provenance["change"])
        assert f"{saliency.scores.sum():+.3g}" in " ".join(saliency.notes())


def value_at_original_positions(subject, row):
    """The target value of captum's perturbed ids, at the positions of the original ones."""
    inputs = subject.inputs(subject.encode(TEXT))
    first = zoo.FIRST_POSITION.get(subject.model.config.model_type, 0)
    inputs["position_ids"] = torch.arange(len(row))[None] + first
    label = subject.logits(inputs)[0].argmax()

    def value(ids):
        expanded = {name: tensor.expand(len(ids), -1) for name, tensor in inputs.items()}
        with torch.no_grad():
            return subject.logits(expanded | {"input_ids": ids.long()})[:, label]

    return value


def value_of_content(value, row):
    """The same for the ids of content tokens; special tokens are added around them."""
    whole = torch.tensor([row.ids])

    def inner(ids):
        many = whole.repeat(len(ids), 1)
        many[:, list(row.content)] = ids.long()
        return value(many)

    return inner


@pytest.fixture(params=["bert", "roberta"])
def captum_case(request, load):
    """A subject, a row, and what captum needs: content ids, their replacements, and the target as a function."""
    subject = load(request.param)
    row = subject.encode(TEXT)[0]
    ids = torch.tensor([[row.ids[i] for i in row.content]])
    base = torch.full_like(ids, subject.tokenizer.mask_token_id)
    return subject, row, ids, base, value_of_content(value_at_original_positions(subject, row), row)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_occlusion_is_captums(captum_case, window):
    subject, row, ids, base, value = captum_case
    truth = Occlusion(value).attribute(ids, sliding_window_shapes=(window,), baselines=base)[0]
    saliency = nbsal.Explainer(subject, nbsal.Occlusion(window, way="mask"))(TEXT)
    assert axioms.relative(saliency.scores[list(row.content)], truth) < 1e-6
    assert not saliency.scores[saliency.special].any()


def test_lime_is_captums(captum_case):
    """With our coalitions and our kernel in captum's loop, and scikit-learn's ridge regression."""
    subject, row, ids, base, value = captum_case
    method = nbsal.LIME(40, way="mask")
    table = torch.tensor(method.coalitions(row, [(i,) for i in row.content])).float()

    def coalitions(ids, **ignored):
        yield from (coalition[None] for coalition in table)

    def kernel(ids, perturbed, present, **ignored):
        cosine = torch.nn.functional.cosine_similarity(present, torch.ones_like(present)).nan_to_num()
        return torch.exp(-((1 - cosine) ** 2) / 0.25**2).sqrt()

    base_lime = LimeBase(
        value,
        SkLearnLinearModel("linear_model.Ridge", alpha=1.0),
        kernel,
        coalitions,
        True,
        lambda present, ids, **ignored: torch.where(present.bool(), ids, base),
        None,
    )
    truth = base_lime.attribute(ids, n_samples=40)[0]
    saliency = nbsal.Explainer(subject, method)(TEXT)
    assert axioms.relative(saliency.scores[list(row.content)], truth) < 1e-5  # scikit-learn solves in float32


def test_a_large_batch_in_groups_gives_the_same_scores(load, monkeypatch):
    explain = nbsal.Explainer(load("bert", dtype="float32"), nbsal.Shapley(3))
    whole = explain.map(axioms.TEXTS, progress=False)
    monkeypatch.setattr(perturbation, "CELLS", 300)
    for saliency, grouped in zip(whole, explain.map(axioms.TEXTS, progress=False), strict=True):
        assert axioms.relative(grouped.scores, saliency.scores) < 1e-5


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "method", [nbsal.Occlusion(2), nbsal.Shapley(2), nbsal.KernelShap(20)], ids=lambda method: method.name
)
def test_every_kind_of_target(load, method):
    pair, contrast = ("Who wrote it?", "The company wrote it."), nbsal.contrast(1, 2)
    bert = load("bert", dtype="float32")
    first, second = (nbsal.Explainer(bert, method)(TEXT, target=label).scores for label in (1, 2))
    assert axioms.relative(nbsal.Explainer(bert, method)(TEXT, target=contrast).scores, first - second) < 1e-4
    span = nbsal.Explainer(load("bert", "span", dtype="float32"), method)
    both = span(pair, target=(9, None)).scores + span(pair, target=(None, 11)).scores
    assert axioms.relative(span(pair, target=(9, 11)).scores, both) < 1e-4
    assert nbsal.Explainer(load("bert", "token", dtype="float32"), method)(TEXT, target=(3, 1)).scores.any()
    assert nbsal.Explainer(load("llama", "causal", dtype="float32"), method)(TEXT).scores.any()


def test_methods_on_one_trace_run_no_coalition_twice(load):
    subject = load("bert", dtype="float32")
    assert subject.pooling == "first"  # measured now, before the passes are counted
    calls = []
    hook = subject.model.register_forward_hook(lambda module, args, output: calls.append(len(output.logits)))
    n = len(subject.encode(TEXT)[0].content)
    nbsal.compare(subject, [nbsal.Occlusion(way="mask"), nbsal.Shapley(4, way="mask")], [TEXT], progress=False)
    assert n < sum(calls) < 1 + n + 4 * (n - 1)
    hook.remove()
