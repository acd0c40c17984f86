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
    with refuses("model") as caught:
        nbsal.load(lambda texts: answer)
    assert " 1 text " in str(caught.value)


class Estimator:
    """A classifier of texts as scikit-learn has them; the class `Labels` only names the classes."""

    classes_ = np.array(["bad", "good"])

    def predict_proba(self, texts):
        return probabilities(texts)

    def predict(self, texts):
        return ["good" for _ in texts]


class Labels:
    classes_, predict = Estimator.classes_, Estimator.predict


class Network:
    """A model as Keras has them: an array of texts in, an array of probabilities out."""

    def predict(self, texts):
        assert isinstance(texts, np.ndarray)
        return probabilities(texts)

    def __call__(self, inputs):
        raise NotImplementedError


class Document:
    def __init__(self, text, names):
        self.cats = dict(zip(names, probabilities([text])[0], strict=True)) if names else {}


class Pipeline:
    """A pipeline as spaCy has them, which reads one text when it is called."""

    pipe_names = ("textcat",)

    def __init__(self, *names):
        self.names = names

    def pipe(self, texts):
        return (Document(text, self.names) for text in texts)

    def __call__(self, text):
        raise ValueError("expected a string")


def labelled(texts, names=("bad", "good"), best=None):
    """As a pipeline of transformers answers: the likeliest label first, or alone."""
    rows = [sorted(zip(names, row, strict=True), key=lambda pair: -pair[1]) for row in probabilities(texts)]
    rows = [[{"label": label, "score": score} for label, score in row][:best] for row in rows]
    return [row[0] for row in rows] if best else rows


OBJECTS = {
    "estimator": (Estimator(), {}, ["bad", "good"]),
    "its method": (Estimator().predict_proba, {}, ["bad", "good"]),
    "renamed": (Estimator(), {"labels": ["-", "+"]}, ["-", "+"]),
    "network": (Network(), {"labels": ["-", "+"]}, ["-", "+"]),
    "pipeline": (Pipeline("bad", "good"), {}, ["bad", "good"]),
    "all labels": (labelled, {"labels": {1: "good", 0: "bad"}}, ["bad", "good"]),
    "the best label": (lambda texts: labelled(texts, best=1), {"labels": ["bad", "good"]}, ["bad", "good"]),
}


@cases("name", OBJECTS)
def test_objects_that_predict(name):
    model, options, labels = OBJECTS[name]
    subject = nbsal.load(model, **options)
    assert subject.labels == labels
    for text in wrapped.TEXTS:
        saliency = nbsal.Explainer(subject)(text)
        assert np.abs(saliency.probabilities - probabilities([text])[0]).max() < 1e-12


def test_classes_without_names_are_asked_for():
    with pytest.warns(UserWarning, match="labels="):
        assert nbsal.load(Network()).labels == ["LABEL_0", "LABEL_1"]
    assert nbsal.load(labelled).labels[0] == "bad", "as the function names them"
    for labels in (None, ["worse", "other"], ["bad", "good", "none"]):
        with refuses("labels"):
            nbsal.load(lambda texts: labelled(texts, best=1), labels=labels)


@cases("model, part", [(Labels(), "predict_proba"), (Pipeline(), "textcat")])
def test_objects_that_tell_no_probabilities_are_refused(model, part):
    with refuses_part(part):
        nbsal.load(model)


def test_a_function_that_cannot_read_a_list_is_refused():
    for model in (lambda text: text.split(), torch.nn.LSTM(4, 4), Estimator):
        with refuses("model"):
            nbsal.load(model)


def test_a_function_that_decides_without_probabilities_gives_one_warning():
    subject = loaded(lambda texts: np.eye(2)[[int("warm" in text) for text in texts]])
    with pytest.warns(UserWarning, match="probability") as warned:
        nbsal.Explainer(subject, "occlusion")("A warm film.")
        nbsal.Explainer(subject, "occlusion")("A dull film.")
    assert len(warned) == 1
