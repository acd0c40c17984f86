"""Explanations follow every change to the model, also where they run on a copy of it or come from a cache.

The float64 copy has the scores of a whole copy, and shares the weights of blocks.
"""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import nbsal
from nbsal import evaluation
from nbsal.ablation.engine import Ablation
from nbsal.evaluation.cache import Cache
from nbsal.heads import HeadMask
from nbsal.methods import alti
from nbsal.model.running.version import tensors_version
from nbsal.support.errors import InputError
from tests import axioms, zoo
from tests.ablation.runs import logits_of
from tests.axioms import TEXTS
from tests.raising import refuses_part

MASK = HeadMask.from_array(np.eye(3, 4))
RELEVANCE = ("lrp", "transformer-attribution", "mask-lrp@published")


class Steer:
    """A hook with a setting."""

    strength = 0.5

    def __call__(self, module, args, output):
        return output * self.strength


class Half(nn.Module):
    def forward(self, weight):
        return weight * 0.5


STEER = Steer()


def output(model):
    return model.bert.encoder.layer[1].output


def in_place(model):
    with torch.no_grad():
        output(model).dense.weight.mul_(0.5)


def numpy_write(model):
    weight = output(model).dense.weight.detach().numpy()
    np.multiply(weight, 0.9, out=weight)


CHANGES = {
    "weights": in_place,
    "weights through .data": lambda model: output(model).dense.weight.data.mul_(0.5),
    "replaced .data": lambda model: setattr(output(model).dense.weight, "data", output(model).dense.weight.data * 0.7),
    "weights through numpy": numpy_write,
    "one number of a small weight": lambda model: output(model).LayerNorm.weight.data[1:2].add_(1),
    "half of the rows": lambda model: output(model).dense.weight.data[16:].zero_(),
    "a buffer": lambda model: model.bert.embeddings.position_ids.add_(1),
    "a hook": lambda model: output(model).dense.register_forward_hook(STEER),
    "a hook that reads": lambda model: output(model).dense.register_forward_pre_hook(lambda m, args: args[0] * 0.3),
    "no hook": lambda model: output(model).dense._forward_pre_hooks.clear(),
    "a float": lambda model: setattr(output(model).LayerNorm, "eps", 0.5),
    "an activation": lambda model: setattr(model.bert.encoder.layer[1].intermediate, "intermediate_act_fn", nn.ReLU()),
    "a parametrization": lambda model: nn.utils.parametrize.register_parametrization(
        output(model).dense, "weight", Half()
    ),
    "no parametrization": lambda model: nn.utils.parametrize.remove_parametrizations(
        output(model).dense, "weight", leave_parametrized=False
    ),
    "a module": lambda model: setattr(output(model), "dense", nn.Linear(48, 32)),
    "the order of blocks": lambda model: model.bert.encoder.layer.insert(0, model.bert.encoder.layer.pop(1)),
}


def loaded(model):
    return nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm="tied")


def explainer(subject, name):
    return nbsal.Explainer(subject, name, **({"mask": MASK} if name.startswith("mask-lrp") else {}))


def games(subject, cache):
    return evaluation.games(explainer(subject, "gradcam"), TEXTS[:2], random=0, progress=False, cache=cache).frame


@pytest.mark.full
def test_relevance_and_caches_follow_every_change():
    torch.manual_seed(0)
    subject = loaded(zoo.model("bert", "sequence").float())
    explainers, cache = {name: explainer(subject, name) for name in RELEVANCE}, Cache()
    ablation, row = Ablation(subject), subject.encode(TEXTS[0])[0]
    coalitions = [np.eye(len(row))]
    before = explainers["lrp"](TEXTS[0]).scores
    games(subject, cache), logits_of(subject, [row], coalitions, ablation=ablation)
    for change, apply in CHANGES.items():
        apply(subject.model)
        fresh = loaded(subject.model)
        for name, explain in explainers.items():
            assert np.array_equal(explain(TEXTS[0]).scores, explainer(fresh, name)(TEXTS[0]).scores), (change, name)
        now = explainers["lrp"](TEXTS[0]).scores
        assert change == "no parametrization" or not np.array_equal(now, before), change
        before = now
        assert games(subject, cache).equals(games(fresh, Cache())), change
        ours = logits_of(subject, [row], coalitions, ablation=ablation)
        assert torch.equal(ours[0], logits_of(fresh, [row], coalitions)[0]), change


def test_published_gpt2_follows_a_replaced_module(load):
    subject = load("gpt2", dtype="float32")
    explain = explainer(subject, "lrp@published")
    before = explain(TEXTS[0]).scores
    subject.model.transformer.h[1].ln_2.eps = 0.5
    now = explain(TEXTS[0]).scores
    fresh = nbsal.load(subject.model, tokenizer=subject.tokenizer)
    assert not np.array_equal(now, before) and np.array_equal(now, explainer(fresh, "lrp@published")(TEXTS[0]).scores)


def test_the_lm_head_of_the_copy_follows_its_model():
    subject = loaded(zoo.model("bert", "sequence").float())
    lm = zoo.model("bert", "masked").float()
    subject = nbsal.load(subject.model, tokenizer=subject.tokenizer, lm=lm)
    before = nbsal.Explainer(subject.double, "decoded-gradcam")(TEXTS[0]).scores
    lm.cls.predictions.bias.data.copy_(torch.randn(lm.config.vocab_size))
    assert not np.array_equal(nbsal.Explainer(subject.double, "decoded-gradcam")(TEXTS[0]).scores, before)


def test_a_forward_that_no_copy_can_follow_is_refused():
    subject = loaded(zoo.model("bert", "sequence").float())
    original = output(subject.model).forward
    output(subject.model).forward = lambda *args: original(*args) * 0.5
    with refuses_part("forward"):
        explainer(subject, "lrp")(TEXTS[0])
    assert np.isfinite(nbsal.Explainer(subject, "lrp", dtype="model")(TEXTS[0]).scores).all()


def test_a_weight_in_the_place_of_another_is_another():
    first = torch.zeros(3)
    before = tensors_version([first])
    assert before == tensors_version([first]) and before != tensors_version([torch.zeros(3)])
    assert before != tensors_version([first.view(3)])


def whole_copy(subject):
    return nbsal.load(copy.deepcopy(subject.model).double(), tokenizer=subject.tokenizer)


@pytest.mark.some(2)
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_scores_are_those_of_a_whole_copy(load, architecture):
    subject = load(architecture, dtype="float32", decoding=False)
    truth = whole_copy(subject)
    for name in ("gradxact", "gae", "lrp", "attn-lrp", "occlusion", "alti", "ifr", "decompx"):
        if name in ("alti", "decompx") and architecture not in alti.PARTS:
            continue
        ours, theirs = (nbsal.Explainer(s, name)(TEXTS[0]) for s in (subject.double, truth))
        assert ours.scores.dtype == theirs.scores.dtype and axioms.relative(ours.scores, theirs.scores) < 1e-12, name


def test_a_block_that_fails_gets_its_own_weights_back(load):
    subject = load("bert", dtype="float32")
    truth, fails = nbsal.Explainer(subject.double, "gradxact")(TEXTS[0]).scores, [InputError("", argument="x")]

    def fail(module, args):
        if fails:
            raise fails.pop()

    handle = subject.double.blocks[1].attention.register_forward_pre_hook(fail)
    with pytest.raises(InputError):
        nbsal.Explainer(subject.double, "gradxact")(TEXTS[0])
    handle.remove()
    assert np.array_equal(nbsal.Explainer(subject.double, "gradxact")(TEXTS[0]).scores, truth)
    weights = {weight.dtype for block in subject.double.blocks for weight in block.parameters()}
    assert weights == {torch.float32}, "converted only while it runs"
