"""Models without a head: the similarity of their pooled states to those of a reference text is explained."""

import torch
import transformers
from torch.nn import functional

import nbsal
from nbsal.support.errors import UnknownName
from tests import axioms, wrapped, zoo
from tests.cases import cases
from tests.raising import refuses, refuses_part

REFERENCE = "A dull bore."
TEXTS = [*wrapped.TEXTS, wrapped.LONG]


def body(name):
    return zoo.model(name, "sequence").base_model


def pool(states, pooling):
    return {"mean": states.mean(0), "first": states[0], "last": states[-1]}[pooling]


def embed(subject, text, pooling):
    """The embedding of one text, without padding."""
    with torch.no_grad():
        inputs = subject.tokenizer(text, truncation=True, max_length=subject.max_length, return_tensors="pt")
        return pool(subject.transformer(**inputs).last_hidden_state[0], pooling)


@cases("name, pooling", [("bert", "mean"), ("bert", "first"), ("gpt2", "last"), ("llama", "mean"), ("roberta", "last")])
def test_logits_are_the_similarities_of_the_pooled_states(name, pooling):
    model, tokenizer = body(name), zoo.tokenizer(zoo.ARCHITECTURES[name][2])
    subject = nbsal.load(model, tokenizer=tokenizer, similar_to=REFERENCE, pooling=pooling)
    reference = embed(subject, REFERENCE, pooling)
    truth = [functional.cosine_similarity(embed(subject, text, pooling), reference, dim=0) for text in TEXTS]
    assert torch.allclose(axioms.logits(subject, TEXTS)[:, 0], torch.stack(truth), atol=1e-5)
    assert subject.labels == ["similarity"] and subject.transformer is model
    assert subject.pooling == pooling


def test_a_folder_without_a_head(tmp_path):
    folder = wrapped.body(tmp_path)
    subject = nbsal.load(folder, similar_to=REFERENCE)
    model = transformers.AutoModel.from_pretrained(folder)
    truth = nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), similar_to=REFERENCE, pooling="mean")
    scores = [nbsal.Explainer(each, "gradxact")(TEXTS[0]).scores for each in (subject, truth)]
    assert axioms.relative(*scores) < 1e-6
    with refuses_part("head"):
        nbsal.load(folder)


def test_a_body_needs_a_text_a_tokenizer_and_a_pooling():
    with refuses_part("head"):
        nbsal.load(body("bert"), tokenizer=zoo.tokenizer("wordpiece"))
    with refuses("tokenizer"):
        nbsal.load(body("bert"), similar_to=REFERENCE)
    tokenizer = zoo.tokenizer("wordpiece")
    with refuses("pooling", UnknownName):
        nbsal.load(body("bert"), tokenizer=tokenizer, similar_to=REFERENCE, pooling="max")
    with refuses("pooling"):
        nbsal.load(body("bert"), tokenizer=tokenizer, pooling="mean")
