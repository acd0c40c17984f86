"""Pipelines of transformers: predictions are theirs, with their truncation and the function that they apply."""

import numpy as np
import pytest
import transformers

import nbsal
from nbsal.model.text.token_text import token_text
from nbsal.support.errors import InputError
from tests import axioms, wrapped, zoo
from tests.raising import refuses, refuses_part


def truths(result):
    """The score of each label, however deep the pipeline nests them."""
    return {entry["label"]: entry["score"] for entry in (result[0] if isinstance(result[0], list) else result)}


def pipeline(task, head, name="bert", labels=3, **settings):
    model = zoo.model(name, head, num_labels=labels)
    return transformers.pipeline(task, model=model, tokenizer=zoo.tokenizer(zoo.ARCHITECTURES[name][2]), **settings)


FUNCTIONS = {
    "softmax": {},
    "sigmoid": {"function_to_apply": "sigmoid"},
    "none": {"function_to_apply": "none"},
    "one label": {"labels": 1},
}


@pytest.mark.parametrize("cut", [{}, {"truncation": True, "max_length": 12}])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_predictions_are_those_of_the_pipeline(function, cut):
    pipe = pipeline("text-classification", "sequence", top_k=None, **FUNCTIONS[function], **cut)
    subject = nbsal.load(pipe)
    for text in [*wrapped.TEXTS, *wrapped.PAIRS, *([wrapped.LONG] if cut else [])]:
        pair = {"text": text[0], "text_pair": text[1]} if isinstance(text, tuple) else text
        saliency = nbsal.Explainer(subject, "gradcam")(text)
        values = saliency.provenance["values"] if function == "none" else saliency.probabilities
        truth = truths(pipe(pair))
        assert values == pytest.approx([truth[label] for label in subject.labels], abs=1e-5)
        assert function == "none" or saliency.prediction == max(truth, key=truth.get)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_masked_tokens_are_those_of_the_pipeline(name):
    pipe = pipeline("fill-mask", "masked", name, top_k=3)
    subject, text = nbsal.load(pipe), "The film is a [MASK] joy."
    assert subject.task == "masked" and "LM head" in repr(subject)
    best = pipe(text)
    first, second = (token_text(pipe.tokenizer.convert_ids_to_tokens(e["token"]), name == "roberta") for e in best[:2])
    for method in ("gradcam", "gae", "lrp", "occlusion", "decoded-gradcam"):
        saliency = nbsal.Explainer(subject, method)(text)
        position = subject.encode(text).tokens.index("[MASK]")
        assert saliency.prediction == first
        assert saliency.probabilities.max() == pytest.approx(best[0]["score"], abs=1e-5)
        assert saliency.provenance["target"] == saliency.target and position in range(len(saliency.tokens))
    contrast = nbsal.Explainer(subject, "gradxact")(text, target=nbsal.contrast(best[0]["token"], best[1]["token"]))
    parts = [nbsal.Explainer(subject, "gradxact")(text, target=entry["token"]).scores for entry in best[:2]]
    assert second in contrast.target and axioms.relative(contrast.scores, parts[0] - parts[1]) < 1e-4
    (joy,) = (word for word in saliency.words if word.text == "joy")
    check = nbsal.Explainer(subject, "gradxact")(text, (joy.tokens[0], best[0]["token"]), check=True).check
    assert check.candidates and "joy" not in {word.text for word in check.candidates}, "what is explained there stays"


@pytest.mark.parametrize("text", ["A joy.", "A [MASK] and [MASK]."])
def test_a_text_without_one_mask_is_refused(text):
    subject = nbsal.load(pipeline("fill-mask", "masked"))
    with refuses("target"):
        nbsal.Explainer(subject, "gradcam")(text)
    assert np.isfinite(nbsal.Explainer(subject, "gradcam")(text, target=(2, None)).scores).all()


LABELS = ["film", "company", "final"]


def entailment(name="bert", entails=2, **settings):
    """A zero-shot pipeline around a tiny model, one of whose outputs is entailment."""
    names = ["contradiction", "neutral", "other"]
    names[entails] = "entailment"
    model = zoo.model(name, "sequence", id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})
    kind = zoo.tokenizer(zoo.ARCHITECTURES[name][2])
    return transformers.pipeline("zero-shot-classification", model=model, tokenizer=kind, **settings)


@pytest.mark.parametrize("entails", [0, 2])
@pytest.mark.parametrize(
    "settings", [{}, {"multi_label": True}, {"hypothesis_template": "The joy of the {}."}], ids=str
)
def test_zero_shot_scores_are_those_of_the_pipeline(settings, entails):
    pipe = entailment(entails=entails, candidate_labels=LABELS, **settings)
    subject = nbsal.load(pipe)
    for text in [*wrapped.TEXTS, wrapped.LONG]:
        result = pipe(text)
        saliency = nbsal.Explainer(subject, "gradxact")(text)
        truth = dict(zip(result["labels"], result["scores"], strict=True))
        assert saliency.probabilities == pytest.approx([truth[label] for label in LABELS], abs=1e-6)
        assert saliency.prediction == saliency.target == result["labels"][0]


@pytest.mark.some(2)
@pytest.mark.parametrize("method", ["lrp", "gradxact", "occlusion", "integrated", "gae"])
def test_zero_shot_labels_are_explained_by_their_hypotheses(method):
    pipe = entailment(candidate_labels=LABELS)
    plain = nbsal.load(pipe.model, tokenizer=pipe.tokenizer)
    explain = nbsal.Explainer(nbsal.load(pipe), method)
    for label in LABELS:
        ours = explain(wrapped.TEXTS[0], target=label)
        pair = (wrapped.TEXTS[0], f"This example is {label}.")
        truth = nbsal.Explainer(plain, method)(pair, target="entailment")
        assert ours.target == label and ours.text == pair and np.array_equal(ours.scores, truth.scores)
    every = explain.map(wrapped.TEXTS, progress=False)
    for text, saliency in zip(wrapped.TEXTS, every, strict=True):
        assert axioms.relative(saliency.scores, explain(text).scores) < 1e-5


def test_bad_zero_shot_labels_are_refused():
    with refuses("labels"):
        nbsal.load(entailment())
    subject = nbsal.load(entailment(), labels=LABELS)
    assert subject.labels == LABELS
    explain = nbsal.Explainer(subject, "gradcam")
    for target in ("weather", nbsal.contrast("film", "final")):
        with refuses("target"):
            explain(wrapped.TEXTS[0], target=target)
    with refuses_part("id2label"):
        nbsal.load(pipeline("zero-shot-classification", "sequence"), labels=LABELS)
    with pytest.raises(InputError):
        nbsal.evaluation.games(explain, wrapped.TEXTS, progress=False)


def test_other_pipelines_are_refused():
    pipe = pipeline("feature-extraction", "sequence")
    with refuses_part("pipeline"):
        nbsal.load(pipe)
