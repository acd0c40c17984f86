"""The checks of nbsal.testing on other kinds of model: sound methods pass there, and broken ones still fail."""

import pytest
import torch

import nbsal
from nbsal import testing
from nbsal.testing import tiny_models
from tests.testing.test_suite import (
    CountsPadding,
    MissesChange,
    MixesTexts,
    SaysFewerPasses,
    SaysSum,
    SaysZeroAtDecision,
    Sound,
)

SCALES = (1e6, 1e-6)  # of a model's outputs


def bert(dtype=torch.float64, **settings):
    """A tiny BERT of that precision and with those settings of its configuration."""
    model = tiny_models.build(tiny_models.ARCHITECTURES["bert"], "sequence", **settings).to(dtype)
    return nbsal.load(model, tokenizer=tiny_models.tokenizer("wordpiece"))


def scaled_bert(scale):
    """A tiny BERT in float32 with larger or smaller outputs."""
    subject = bert(torch.float32)
    with torch.no_grad():
        subject.model.classifier.weight *= scale
        subject.model.classifier.bias *= scale
    return subject


def similarity():
    """The similarity of a tiny BERT's states to those of a text."""
    model = tiny_models.build(tiny_models.ARCHITECTURES["bert"], "sequence").double().base_model
    return nbsal.load(model, tokenizer=tiny_models.tokenizer("wordpiece"), similar_to="A joy.", pooling="mean")


class MissesHalf(MissesChange):
    """Records half of the change, and no gap."""

    promise = frozenset({"signed", "about_target", "reports_gap"})

    def notes(self, trace):
        return [{"change": float(row.sum()) / 2, "gap": 0.0} for row in self.total(trace)]


def fails(method, subject, name):
    """Check that the method fails the named check on that model."""
    (result,) = testing.run(method, subject, only=[name])
    return result.outcome == "failed"


@pytest.mark.parametrize("method", [Sound(), nbsal.GradCAM(layer=1), nbsal.Occlusion()], ids=lambda m: m.name)
@pytest.mark.parametrize("load", [lambda: bert(num_labels=1), similarity], ids=["regression", "similarity"])
def test_a_model_with_one_target_has_no_other_to_compare(method, load):
    assert testing.check(method, load(), only=["promise"])


@pytest.mark.parametrize("head", ["token", "span"])
def test_the_deciding_position_is_that_of_the_target(head):
    subject = tiny_models.load("bert", head)
    assert testing.check("gae", subject, only=["promise"])
    assert fails(SaysZeroAtDecision(), subject, "promise")


@pytest.mark.parametrize("name", ["gae", "raw-attention", "rollout", "attention-cam", "lrp", "mask-lrp"])
def test_spans_are_checked_by_one_end(name):
    settings = {"mask": tiny_models.MASK} if name == "mask-lrp" else {}
    assert testing.check(name, tiny_models.load("bert", "span"), only=["promise", "cost"], **settings)


def test_broken_methods_fail_on_spans():
    subject = tiny_models.load("bert", "span")
    assert fails(SaysFewerPasses(), subject, "cost") and fails(SaysSum(), subject, "promise")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_rounds_more(dtype):
    subject = bert(dtype)
    for method in (nbsal.GradCAM(layer=1), "simple", "raw-attention"):
        assert testing.check(method, subject, only=["batch", "padding", "promise"])
    assert fails(MixesTexts(), subject, "batch") and fails(CountsPadding(), subject, "padding")
    assert fails(SaysSum(), subject, "promise")


def test_training_modes_that_differ_between_modules_are_restored():
    subject = bert()
    subject.model.base_model.encoder.train()
    modes = [module.training for module in subject.model.modules()]
    assert testing.check(nbsal.GradCAM(layer=1), subject, only=["state"])
    assert [module.training for module in subject.model.modules()] == modes


def test_generators_of_accelerators_are_not_seeded(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    testing.check(nbsal.GradCAM(layer=1), bert(), only=["repeat", "state"])
    assert not seeds


@pytest.mark.parametrize("scale", SCALES)
def test_gaps_are_judged_by_the_size_of_the_scores(scale):
    subject = scaled_bert(scale)
    assert testing.check(nbsal.Integrated(layer=1), subject, only=["promise"])
    assert fails(MissesHalf(), subject, "promise")
