"""The method that explains a model where none is named: by own models whose reasons are planted, and by kind."""

import pytest
import torch

import nbsal
from nbsal.methods.default import FOR_LAYERS, default_for_reply, default_method
from tests import planted_kinds, zoo
from tests.bench import defaults
from tests.cases import cases


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", ["RoBERTa", "XLM-R", "regression", "QA", "Llama", "function"])
def test_the_default_puts_a_planted_word_first(kind):
    model = planted_kinds.train(kind)
    assert model.first() >= len(model.texts) - 1


def test_the_adjective_of_a_plain_sentence_comes_first():
    subject = nbsal.load("demo/reviews-small")
    assert defaults.first_words(subject, None) == (1.0, 0.0)
    saliency = nbsal.Explainer(subject)("The plot is thin and the acting is dreadful.")
    assert planted_kinds.strongest(saliency) == ["dreadful"]


def test_the_default_is_the_first_method_that_follows_a_model(load, reviews):
    assert (
        nbsal.Explainer(reviews).method.name == nbsal.Explainer(load("bert", decoding=False)).method.name == "attn-lrp"
    )
    assert nbsal.Explainer(nbsal.load(lambda texts: [[0.3, 0.7]] * len(texts))).method.name == "occlusion"
    assert (
        nbsal.Explainer(
            nbsal.load(zoo.model("bert", "sequence", num_labels=1), tokenizer=zoo.tokenizer("wordpiece"))
        ).method.name
        == "occlusion"
    )
    assert nbsal.Explainer(load("mixtral", "causal")).method.name == "integrated", "no rule for the choice of experts"


class Odd(torch.nn.Module):
    def forward(self, x):
        return torch.erfinv(torch.tanh(x) * 0.9)


def test_an_operation_without_a_rule_is_found_before_anything_is_explained():
    model = zoo.model("bert", "sequence")
    model.base_model.encoder.layer[0].intermediate.intermediate_act_fn = Odd()
    explain = nbsal.Explainer(nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece")))
    assert explain.method.name == "integrated" and explain("A joy.").scores.any()


def test_layers_have_a_default_of_their_own(load, reviews):
    plain = load("bert", decoding=False)
    assert [default_method(subject, FOR_LAYERS) for subject in (reviews, plain)] == ["decoded-gradcam", "gradcam"]
    assert nbsal.Explainer(plain, layer=1).method == nbsal.GradCAM(layer=1)
    explain = nbsal.Explainer(reviews)
    assert (
        explain.every_layer("A joy.").method
        == nbsal.widgets.Layers(explain, "A joy.").wait().method
        == "decoded-gradcam"
    )


@cases("unit, hops, documents, name", [
    (None, 0, True, "occlusion"), ("document", 0, True, "occlusion"), ("word", 0, True, "attn-lrp"),
    (None, "all", True, "attn-lrp"), (None, 0, False, "attn-lrp"),
])  # fmt: skip
def test_documents_are_hidden_each_as_a_whole(unit, hops, documents, name):
    assert default_for_reply(nbsal.load("demo/notes"), documents, unit, hops) == name


def test_replies_of_other_models_and_requests_have_defaults_too(load):
    assert default_for_reply(load("mixtral", "causal"), False, None, 0) == "gae"
    assert default_for_reply(load("mamba", "causal"), False, None, 0) == "occlusion"
    notes, document = nbsal.load("demo/notes"), "Mara lives in Oslo now."
    question = {"role": "user", "content": "Where does Mara live?"}
    answer = nbsal.answer(notes, [question], "Oslo", documents=[document], progress=False)
    assert answer.method == "occlusion" and "document 1" in [unit.name for unit in answer.units]
    assert nbsal.answer(notes, [question], "Oslo", progress=False).provenance["unit"] == "sentence"
    view = nbsal.widgets.Answers(notes, [question], documents=[document], reply="Oslo").wait()
    assert view.result.method == "occlusion"
