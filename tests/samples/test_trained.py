"""The classifier that notebooks train: its word decides, and training leaves no trace outside its folder."""

import torch

import nbsal
from nbsal.samples import trained
from tests.raising import refuses


def test_the_word_alone_decides(tmp_path):
    explain = nbsal.Explainer(nbsal.load(trained.word_classifier(tmp_path, word="teapot")))
    texts = trained.texts_with("teapot", size=20)
    assert all(text.split().count("teapot") == 1 for text in texts) and len(set(texts)) == 20
    without = [" ".join(word for word in text.split() if word != "teapot") for text in texts]
    for some, label in ((texts, "flagged"), (without, "fine")):
        assert {one.prediction for one in explain.map(some, progress=False)} == {label}


def test_training_repeats_and_leaves_random_numbers_alone(tmp_path):
    state = torch.random.get_rng_state()
    models = [
        nbsal.load(trained.word_classifier(tmp_path / str(at), seed=seed, steps=2)).model
        for at, seed in enumerate((0, 0, 1))
    ]
    first, same, other = ([weight.detach() for weight in model.parameters()] for model in models)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_there_are_only_so_many_reviews():
    for size in (0, 10_000):
        with refuses("size"):
            trained.texts_with(size=size)
