"""The identity of a model: the same wherever it was loaded and whatever was explained, another after any change."""

import shutil

import pytest
import torch
from transformers import ByT5Tokenizer

import nbsal
from nbsal.model.identity import model_identity
from tests import zoo
from tests.cases import cases

TEXT = "The film is a warm and funny joy."


@pytest.mark.some(2)
@pytest.mark.parametrize("name", zoo.ARCHITECTURES)
def test_it_is_the_same_after_explaining_and_in_another_folder(load, checkpoints, tmp_path, name):
    subject = load(name, dtype="float32")
    before = model_identity(subject)
    for method in ("decoded-gradcam", "attcat", "occlusion", "lrp"):
        nbsal.Explainer(subject, method)(TEXT)
    nbsal.Explainer(subject, "gradcam")("joy " * 100)
    assert model_identity(subject) == before
    moved = shutil.copytree(zoo.save(checkpoints, name, "sequence"), tmp_path / "moved")
    assert model_identity(nbsal.load(moved)) == before


def test_it_is_the_same_in_memory_and_on_disk(tmp_path):
    model, tokenizer = zoo.model("bert", "sequence"), zoo.tokenizer("wordpiece")
    before = model_identity(nbsal.load(model, tokenizer=tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    after = model_identity(nbsal.load(tmp_path))
    assert {name: part for name, part in after.items() if name != "tokenizer"} == {
        name: part for name, part in before.items() if name != "tokenizer"
    }


def changed_shape(model):
    weight = model.classifier.weight
    weight.data = weight.data.reshape(weight.shape[::-1])


def changed_name(model):
    model.pooled = model.classifier
    del model.classifier


@cases(
    "change, differing",
    [
        (lambda model: model.double(), {"weights"}),
        (changed_shape, {"weights"}),
        (changed_name, {"weights", "modules"}),
        (lambda model: setattr(model.bert.encoder.layer[0].attention.output.LayerNorm, "eps", 0.1), {"modules"}),
        (lambda model: model.classifier.register_buffer("scale", torch.ones(3)), {"weights"}),
        (lambda model: model.classifier.register_buffer("scale", torch.ones(3), persistent=False), {"buffers"}),
        (lambda model: setattr(model.classifier, "scaling", {"adapter": 2.0}), {"modules"}),
        (lambda model: setattr(model.config, "type_vocab_size", 1), {"config"}),
        (lambda model: setattr(model.config, "new_entry", {"scale": 2}), {"config"}),
        (lambda model: model.requires_grad_(False).train(), set()),
        (lambda model: setattr(model.bert.encoder, "gradient_checkpointing", True), set()),
        (lambda model: setattr(model.config, "_name_or_path", "elsewhere"), set()),
    ],
)
def test_a_change_is_in_the_part_that_it_changes(change, differing):
    model, tokenizer = zoo.model("bert", "sequence"), zoo.tokenizer("wordpiece")
    subject = nbsal.Subject(model, tokenizer)
    before = model_identity(subject)
    change(model)
    after = model_identity(subject)
    assert {name for name in before if before[name] != after[name]} == differing


def test_a_slow_tokenizer_is_compared_by_its_vocabulary_and_settings():
    model = zoo.model("bert", "sequence")
    tokenizers = [
        ByT5Tokenizer(extra_ids=count, name_or_path=f"folder {number}") for number, count in enumerate((4, 4, 8))
    ]
    assert not tokenizers[0].is_fast
    first, same, other = (model_identity(nbsal.Subject(model, tokenizer))["tokenizer"] for tokenizer in tokenizers)
    assert first == same and first["settings"] != other["settings"] and first["model"] != other["model"]


def half(texts):
    return [[0.5, 0.5] for _ in texts]


def test_a_class_that_was_renamed_keeps_the_checksum():
    assert model_identity(nbsal.load(half))["modules"] == "blake2b:27b2fbacfa71905372d4e4ee0a8dfaee", "as runs have it"
