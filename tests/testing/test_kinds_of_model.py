"""The checks of nbsal.testing on other kinds of model: sound methods pass there, and broken ones still fail."""

import pytest
import torch

import nbsal
from nbsal import testing
from nbsal.testing import tiny_models
from tests.cases import cases
from tests.testing.test_suite import (
    COUNTS_PADDING,
    MIXES_TEXTS,
    SAYS_FEWER_PASSES,
    SAYS_SUM,
    SAYS_ZERO_AT_DECISION,
    MissesChange,
    Sound,
)  # fmt: skip


def bert(dtype=torch.float64, **settings):
    """A tiny BERT of that precision and with those settings of its configuration."""
    model = tiny_models.build(tiny_models.ARCHITECTURES["bert"], "sequence", **settings).to(dtype)
    return nbsal.load(model, tokenizer=tiny_models.tokenizer("wordpiece"))


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


@cases("load", [lambda: bert(num_labels=1), similarity])
def test_a_model_with_one_target_has_no_other_to_compare(load):
    for method in (Sound(), nbsal.GradCAM(layer=1), nbsal.Occlusion()):
        assert testing.check(method, load(), only=["promise"])


@cases("head", ["token", "span"])
def test_the_deciding_position_is_that_of_the_target(head):
    subject = tiny_models.load("bert", head)
    assert testing.check(Sound(), subject, only=["scores", "batch", "promise"])
    assert testing.check("gae", subject, only=["promise"])
    assert fails(SAYS_ZERO_AT_DECISION, subject, "promise")


def test_spans_are_checked_by_one_end():
    subject = tiny_models.load("bert", "span")
    for name in ("gae", "raw-attention", "rollout", "attention-cam", "lrp", "mask-lrp"):
        settings = {"mask": tiny_models.MASK} if name == "mask-lrp" else {}
        assert testing.check(name, subject, only=["promise", "cost"], **settings)
    assert fails(SAYS_FEWER_PASSES, subject, "cost") and fails(SAYS_SUM, subject, "promise")


@pytest.mark.full
@cases("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_more(dtype):
    subject = bert(dtype)
    for method in (nbsal.GradCAM(layer=1), "simple", "raw-attention"):
        assert testing.check(method, subject, only=["batch", "padding", "promise"])
    assert fails(MIXES_TEXTS, subject, "batch") and fails(COUNTS_PADDING, subject, "padding")
    assert fails(SAYS_SUM, subject, "promise")


def test_training_modes_that_differ_are_restored_and_accelerators_not_seeded(monkeypatch):
    subject, seeds = bert(), []
    subject.model.base_model.encoder.train()
    modes = [module.training for module in subject.model.modules()]
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    assert testing.check(nbsal.GradCAM(layer=1), subject, only=["repeat", "state"])
    assert [module.training for module in subject.model.modules()] == modes and not seeds


@cases("scale", [1e6, 1e-6])  # of the model's outputs
def test_gaps_are_judged_by_the_size_of_the_scores(scale):
    subject = bert(torch.float32)
    with torch.no_grad():
        subject.model.classifier.weight *= scale
        subject.model.classifier.bias *= scale
    assert testing.check(nbsal.Integrated(layer=1), subject, only=["promise"])
    assert fails(MissesHalf(), subject, "promise")
