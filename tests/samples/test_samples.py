"""Test the embedded models and texts, and how low-rank deltas are collected and merged."""

import json
import zlib
from importlib.resources import files

import numpy as np
import pytest
import torch
from safetensors.torch import save

import nbsal
from nbsal import samples
from nbsal.samples import base, low_rank, models, weight_files
from nbsal.support.errors import UnknownName, WeightsError
from tests.cases import cases
from tests.raising import refuses
from tests.training import corpora

WEIGHTS = files("nbsal.samples") / "weights"
PLANTED = [f"planted/{name}" for name in samples.planted.SHORTCUTS]
STORED = ("body", "notes", "reviews-small", *samples.KINDS, *PLANTED)


def test_all_weights_together_are_small():
    paths = [path for path in WEIGHTS.rglob("*") if path.is_file()]
    sizes = {path.relative_to(WEIGHTS).with_suffix("").as_posix(): path.stat().st_size for path in paths}
    assert set(sizes) == {*STORED}
    assert all(sizes.pop(name) < 300_000 for name in PLANTED) and sizes.pop("reviews-small") < 1_100_000
    assert sizes.pop("notes") < 6_000_000 and sum(sizes.values()) < 8_000_000


def test_all_weights_are_half_precision_or_rounded_and_finite():
    for name in STORED:
        for key, value in samples.delta(name).items():
            rounded = name == "reviews-small" and value.dtype == torch.uint8
            assert rounded or (value.dtype == torch.float16 and torch.isfinite(value).all()), (name, key)


def test_files_of_weights_hold_what_was_saved_with_like_bytes_together(tmp_path):
    torch.manual_seed(0)
    weights = {"a": torch.randn(3, 5).half(), "b": torch.randn(7).half(), "c": torch.arange(9, dtype=torch.uint8)}
    weight_files.save(weights, tmp_path / "x.safetensors")
    loaded = weight_files.load(tmp_path / "x.safetensors")
    assert loaded.keys() == weights.keys()
    assert all(loaded[name].dtype == weights[name].dtype and loaded[name].equal(weights[name]) for name in weights)
    large = {"a": 0.02 * torch.randn(400, 100).half()}
    weight_files.save(large, tmp_path / "x.safetensors")
    plain, apart = (len(zlib.compress(data)) for data in (save(large), (tmp_path / "x.safetensors").read_bytes()))
    assert apart < 0.95 * plain


@cases("name", ["demo/news", "demo/nli", "demo/reviews-small", "planted/word"])
def test_saved_configurations_name_the_classes_both_ways(name, tmp_path):
    samples.build(name).config.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["label2id"] == {label: int(number) for number, label in config["id2label"].items()} != {}


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "least"), [("reviews", 0.75), ("news", 0.8)])
def test_embedded_classifiers_predict_the_sample_texts(name, least):
    subject = nbsal.load(f"demo/{name}")
    rows = samples.texts(name)
    saliencies = nbsal.Explainer(subject, "gradcam").map([row["text"] for row in rows], progress=False)
    correct = [s.prediction == subject.labels[row["label"]] for s, row in zip(saliencies, rows, strict=True)]
    assert np.mean(correct) > least


def test_embedded_pairs_and_answers():
    subject = nbsal.load("demo/nli")
    rows = samples.texts("pairs")
    pairs = [(row["premise"], row["hypothesis"]) for row in rows]
    saliencies = nbsal.Explainer(subject, "decoded-gradcam").map(pairs, progress=False)
    correct = [s.prediction == subject.labels[row["label"]] for s, row in zip(saliencies, rows, strict=True)]
    assert np.mean(correct) > 0.6
    row = samples.texts("answers")[0]
    span = nbsal.Explainer(nbsal.load("demo/answers"), "decoded-gradcam")((row["question"], row["context"]))
    assert span.prediction in row["context"] and span.scores.any()


def test_the_lm_head_decodes_unmasked_tokens():
    subject = nbsal.load("demo/reviews")
    text = "The second half of the film is warm and beautifully played by its small cast."
    encoded = subject.encode(text)
    record = nbsal.trace.record(subject, encoded)
    ids, places = torch.tensor(encoded[0].ids), list(encoded[0].content)
    for layer in (1, 3, 5):
        probabilities = subject.lm_head.probabilities(record.hidden[layer][0, places], ids[places])
        assert (probabilities.argmax(-1) == torch.arange(len(places))).float().mean() > 0.8


def test_a_merged_delta_gives_the_logits_of_the_trained_model():
    torch.manual_seed(0)
    model = models.blank("SequenceClassification", num_labels=2).eval()
    low_rank.attach(model.bert, 4)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    ids = torch.tensor([[101, 2023, 3185, 102]])
    fresh = models.blank("SequenceClassification", num_labels=2).eval()
    with torch.no_grad():
        before, trained = fresh(input_ids=ids).logits, model(input_ids=ids).logits
        low_rank.merge(fresh, low_rank.collect(model))
        merged = fresh(input_ids=ids).logits
    assert (merged - trained).abs().max() < 0.02 * (before - trained).abs().max()


def test_the_mean_of_deltas_is_the_mean_of_their_products():
    torch.manual_seed(0)
    deltas = [{"x.A": torch.randn(r, 7), "x.B": torch.randn(5, r), "y": torch.randn(3)} for r in (1, 2, 2)]
    mean = low_rank.averaged(deltas, rank=5)
    product = sum(delta["x.B"] @ delta["x.A"] for delta in deltas) / 3
    assert torch.allclose(mean["x.B"].float() @ mean["x.A"].float(), product, atol=0.01)
    assert torch.allclose(mean["y"].float(), sum(delta["y"] for delta in deltas) / 3, atol=1e-3)
    assert low_rank.averaged(deltas, rank=1)["x.A"].shape == (1, 7)


def test_a_delta_of_another_body_is_refused():
    delta = {"bert.encoder.layer.99.output.dense.bias": torch.zeros(3)}
    with pytest.raises(WeightsError):
        low_rank.merge(models.blank("MaskedLM"), delta)


def test_batches_contain_every_example_once_and_a_limited_number_of_tokens():
    examples = [corpora.Example([1] * n, [0] * n, n) for n in (3, 9, 4, 9, 2, 7)]
    for seed in (None, 0, 1):
        batches = list(corpora.batches(examples, 18, seed))
        assert sorted(e.label for batch in batches for e in batch) == sorted(e.label for e in examples)
        assert all(len(batch) * max(len(e.ids) for e in batch) <= 18 for batch in batches)
    assert list(corpora.batches([], 18, None)) == []
    stacked = corpora.stack(examples[:2])
    assert stacked["attention_mask"].sum(-1).tolist() == [3, 9]


def test_base_weights_that_are_not_installed_have_no_path(monkeypatch):
    monkeypatch.setattr(base, "PACKAGE", "no-such-package")
    assert base.packaged("model.safetensors") is None


@cases("function", [samples.mask_file, samples.tokenizer, samples.build, samples.build_lm, samples.texts])
def test_samples_of_unknown_names_are_refused(function):
    for name in ("x", "planted/x", ""):
        with pytest.raises(UnknownName):
            function(name)
    with refuses("name"):
        function(5)


@cases(
    "function, argument",
    [
        (samples.planted.draw, "seed"),
        (samples.planted.audit_texts, "seed"),
        (samples.planted.decisive, "name"),
        (samples.planted.shortcut_of, "name"),
        (samples.planted.build, "weights"),
        (samples.delta, "name"),
    ],
)
def test_arguments_of_planted_models_are_checked(function, argument):
    with refuses(argument):
        function(1.5)
    with pytest.raises(WeightsError):
        samples.planted.build({"x": torch.ones(2)})
