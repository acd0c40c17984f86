"""Functions from texts to probabilities: explained by hiding words, and refused by methods that look inside."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.methods import catalogue
from tests import wrapped
from tests.cases import cases
from tests.raising import refuses, refuses_part

WEIGHTS = {"warm": 1.5, "funny": 1.0, "joy": 2.0, "dull": -2.0, "bore": -1.5}
ASKED = [
    name
    for name in catalogue.names()
    if catalogue.create(name).family == "perturbation" and "@" not in name and name != "random"
]


def evidence(text):
    words = " ".join(text) if isinstance(text, tuple) else text
    return sum(WEIGHTS.get(word.strip(".,").lower(), 0.0) for word in words.split())


def probabilities(texts):
    """Two classes whose log-odds are the sum of the weights of the words."""
    positive = 1 / (1 + np.exp(-np.array([evidence(text) for text in texts])))
    return np.stack([1 - positive, positive], axis=1)


def loaded(function=probabilities, **options):
    return nbsal.load(function, labels=["negative", "positive"], **options)


def test_predictions_are_those_of_the_function():
    subject = loaded()
    assert subject.labels == ["negative", "positive"] and subject.task == "sequence"
    for text in [*wrapped.TEXTS, *wrapped.PAIRS, wrapped.LONG]:
        saliency = nbsal.Explainer(subject, "occlusion")(text)
        truth = probabilities([text])[0]
        assert np.abs(saliency.probabilities - truth).max() < 1e-12
        assert saliency.prediction == subject.labels[int(truth.argmax())]


def test_the_function_reads_the_text_without_the_hidden_words():
    read = []
    explain = nbsal.Explainer(
        loaded(lambda texts: read.extend(texts) or torch.tensor(probabilities(texts))), "occlusion"
    )
    explain("A warm,  funny joy.")
    assert {"A warm,  funny joy.", "A,  funny joy.", "warm,  funny joy.", "A warm,  funny."} <= set(read)
    explain(("A joy.", "A bore."))
    assert ("A.", "A bore.") in read and ("A joy.", "A.") in read


@pytest.mark.parametrize("name", ASKED)
def test_scores_are_the_weights_of_the_words(name):
    explain = nbsal.Explainer(loaded(), name)
    saliency = explain("A warm and funny joy.", target=nbsal.contrast("positive", "negative"))
    scores = {saliency.tokens[i]: saliency.scores[i] for i in saliency.row.content}
    assert scores["joy"] > scores["warm"] > scores["funny"] > scores["and"]
    if name in ("occlusion", "shapley"):
        assert [scores[word] for word in ("joy", "warm", "and")] == pytest.approx([2.0, 1.5, 0.0], abs=1e-6)


@cases("name", ["gradcam", "integrated", "gae", "rollout", "lrp", "attn-lrp"])
def test_methods_that_look_inside_are_refused(name):
    with refuses_part("model"):
        nbsal.Explainer(loaded(), name)


def test_a_score():
    subject = nbsal.load(lambda texts: [evidence(text) for text in texts])
    saliency = nbsal.Explainer(subject, "occlusion")("A warm joy.")
    assert not saliency.probabilities.size and saliency.provenance["values"] == [3.5]


@cases("answer", [None, "positive", [], [[]], [[0.5, float("nan")]], [[2.0, -1.0]], [[0.1], [0.9]]])
def test_what_is_no_table_of_probabilities_is_refused(answer):
    with refuses("model"):
        nbsal.load(lambda texts: answer)
