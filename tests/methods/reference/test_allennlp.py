"""AllenNLP Interpret's three methods against loops that follow its program, one text at a time."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.methods import rng
from tests import axioms
from tests.raising import refuses

TEXT = axioms.TEXTS[0]


def gradient(subject, text, words):
    """d loss / d word embeddings of the label that the model predicts."""
    inputs = subject.inputs(subject.encode(text))
    del inputs["input_ids"]
    words = words.detach()[None].requires_grad_(True)
    logits = subject.model(inputs_embeds=words, **inputs).logits
    label = subject.model(**subject.inputs(subject.encode(text))).logits.argmax(-1)
    (gradients,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, label), words)
    return gradients[0].numpy()


def normalised(rows):
    sums = np.sum(rows, axis=1)
    return np.abs(sums) / np.linalg.norm(sums, ord=1)


def simple(subject, text, words):
    output = words[None].squeeze(0)  # [token, feature]; the program then takes [0] to undo a batch axis that is gone
    return normalised(gradient(subject, text, words) * output[0].numpy())


def smooth(subject, text, words):
    draws, total = rng.text_rng(0, subject.encode(text)[0]), 0
    for _ in range(10):
        noise = torch.tensor(draws.standard_normal(words.shape)) * (0.01 * (words.max() - words.min()))
        total = total + gradient(subject, text, words + noise)
    return normalised(total / 10)


def integrated(subject, text, words):
    steps = np.linspace(0, 1.0, num=10, endpoint=False)
    mean = sum(gradient(subject, text, words * alpha) for alpha in steps) / 10
    return normalised(mean * words.numpy())


REPLICAS = {"simple@allennlp": simple, "smooth@allennlp": smooth, "integrated@allennlp": integrated}
CASES = [
    ("smooth@allennlp", "llama"),
    *(("integrated@allennlp", architecture) for architecture in ("bert", "roberta", "gpt2", "llama")),
    *(("simple@allennlp", architecture) for architecture in ("bert", "roberta", "gpt2", "llama")),
]


@pytest.mark.some(3)
@pytest.mark.parametrize(("name", "architecture"), CASES)
def test_it_is_the_program(load, name, architecture):
    subject = load(architecture)
    for text in axioms.TEXTS[:2]:
        words = subject.model.get_input_embeddings()(torch.tensor(subject.encode(text)[0].ids)).detach()
        scores = nbsal.Explainer(subject, name)(text).scores
        assert axioms.relative(scores, REPLICAS[name](subject, text, words)) < 1e-9
        assert scores.sum() == pytest.approx(1)


def test_every_task_has_a_loss(load):
    pair = ("Who wrote it?", "The company wrote it.")
    assert nbsal.Explainer(load("bert", "span"), "integrated@allennlp")(pair).scores.any()
    assert nbsal.Explainer(load("bert", "token"), "integrated@allennlp")(TEXT).scores.any()
    assert nbsal.Explainer(load("gpt2", "causal"), "integrated@allennlp")(TEXT).scores.any()
    with refuses("method"):
        nbsal.Explainer(load("bert", num_labels=1), "simple@allennlp")
