"""Modules of a user around one transformer, and encoder-decoders with a classification head."""

import copy

import pytest
import torch
from torch import nn

import nbsal
from tests import axioms, wrapped, zoo
from tests.raising import refuses, refuses_part

TEXT = wrapped.TEXTS[0]


class Pooled(nn.Module):
    """A classifier around an encoder, which averages positions."""

    def __init__(self, form="tensor", kind="bert"):
        super().__init__()
        torch.manual_seed(0)
        self.body = zoo.model(kind, "sequence").base_model
        self.head = nn.Linear(32, 3)
        self.form = form

    def forward(self, input_ids, attention_mask):
        states = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        logits = self.head((states * mask).sum(1) / mask.sum(1))
        answers = {"tensor": logits, "tuple": (logits, states), "dict": {"logits": logits}, "loss": {"scores": logits}}
        return answers[self.form]


class Tagger(Pooled):
    def forward(self, input_ids, attention_mask):
        return self.head(self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state)


class Flat(Pooled):
    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids, attention_mask).sum()


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = (zoo.model("bert", "sequence", seed).bert for seed in (0, 1))
        self.head = nn.Linear(32, 2)

    def forward(self, input_ids, attention_mask):
        states = [tower(input_ids=input_ids, attention_mask=attention_mask)[0][:, 0] for tower in (self.a, self.b)]
        return self.head(states[0] + states[1])


def loaded(module, kind="wordpiece", **options):
    return nbsal.load(module.eval(), tokenizer=zoo.tokenizer(kind), **options)


@pytest.mark.parametrize("form", ["tensor", "tuple", "dict", "loss"])
def test_logits_are_those_of_the_module(form):
    module = Pooled(form)
    subject = loaded(module, labels=["a", "b", "c"])
    truth = copy.deepcopy(module)
    truth.form = "tensor"
    for texts in (wrapped.TEXTS, wrapped.PAIRS, [wrapped.LONG]):
        encoded = subject.encode(texts)
        ids, mask = (torch.from_numpy(array) for array in (encoded.input_ids, encoded.attention_mask))
        assert torch.equal(axioms.logits(subject, texts), truth(ids, mask))
    assert (subject.task, subject.pooling, subject.labels) == ("sequence", "mean", ["a", "b", "c"])
    assert subject.transformer is module.body and subject.model.module is module


def test_a_head_of_tokens():
    subject = loaded(Tagger())
    assert subject.task == "token" and subject.pooling is None
    assert nbsal.Explainer(subject, "lrp")(TEXT, target=(3, 1)).target.startswith("LABEL_1 at ")


def test_another_shape_is_refused_unless_it_is_read_otherwise():
    with refuses_part("head"):
        loaded(Flat())
    subject = loaded(Flat(), read=lambda model, inputs: model.head(model.body(**inputs).last_hidden_state[:, 0]))
    assert subject.pooling == "first"
    scores = nbsal.Explainer(subject, "lrp")(TEXT).scores  # on a float64 copy, read in the same way
    assert scores.sum() == pytest.approx(1) and subject.double.dtype == torch.float64


def test_two_transformers_need_a_choice():
    with refuses_part("transformer"):
        loaded(Towers())
    with refuses("transformer"):
        loaded(Towers(), transformer="c")
    module = Towers()
    subject = loaded(module, transformer="b")
    assert subject.transformer is module.b and nbsal.Explainer(subject, "gradcam")(TEXT).scores.any()


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_an_encoder_decoder(name):
    """A classifier that reads the text in its encoder and again in its decoder."""
    model = zoo.model(name, "sequence")
    subject = loaded(model, zoo.OTHER_ENCODERS[name][2])
    for texts in (wrapped.TEXTS, wrapped.PAIRS, [wrapped.LONG]):
        inputs = subject.inputs(subject.encode(texts))
        with torch.no_grad():
            assert torch.equal(subject.logits(inputs), model(**inputs).logits)
    assert subject.depth == 3 and not subject.probed_pooling.last_layer_only
    for method in ("gradcam", "gradxact", "smooth", "occlusion", "shapley"):
        assert nbsal.Explainer(subject, method)(TEXT).scores.any()
    notes = nbsal.Explainer(subject, "integrated", baseline="pad", steps=100)(TEXT).provenance
    assert abs(notes["gap"]) < 1e-3 * abs(notes["change"])
    for method in ("raw-attention", "rollout", "gae", "lrp", "attn-lrp"):
        with refuses_part("decoder"):
            nbsal.Explainer(subject, method)
