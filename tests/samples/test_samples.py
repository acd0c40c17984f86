"""Test the embedded models and texts, and how low-rank deltas are collected and merged."""

from collections import Counter
from importlib.resources import files

import numpy as np
import pytest
import torch

import nbsal
from nbsal import samples
from nbsal.errors import UnknownName, WeightsError
from nbsal.samples import base, idf, low_rank, models
from nbsal.samples.training import corpora
from nbsal.samples.training.idf import count
from tests.raising import refuses

WEIGHTS = files("nbsal.samples") / "weights"


def test_all_weights_together_are_small():
    sizes = {path.name: path.stat().st_size for path in WEIGHTS.iterdir()}
    assert set(sizes) == {f"{name}.safetensors" for name in ("body", "notes", *samples.KINDS)}
    assert sizes.pop("notes.safetensors") < 6_000_000 and sum(sizes.values()) < 8_000_000


def test_all_weights_are_half_precision_and_finite():
    for name in ("body", "notes", *samples.KINDS):
        for key, value in samples.delta(name).items():
            assert value.dtype == torch.float16 and torch.isfinite(value).all(), (name, key)


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


def test_numbers_and_kinds_of_sample_texts():
    reviews, news = samples.texts("reviews"), samples.texts("news")
    assert Counter(row["label"] for row in reviews) == {0: 80, 1: 80}
    assert {"plain", "negation", "irony", "contrast"} == {row["kind"] for row in reviews}
    assert Counter(row["label"] for row in news) == dict.fromkeys(range(4), 40)
    assert len({row["text"] for row in reviews + news}) == 320
    assert len(samples.texts("pairs")) == len(samples.texts("answers")) == 40
    for row in samples.texts("answers"):
        assert row["context"][row["start"] :].startswith(row["answer"])
    with refuses("name", UnknownName) as caught:
        samples.texts("poems")
    assert caught.value.valid == ("reviews", "news", "pairs", "answers", "notes")
    with refuses("model", UnknownName) as caught:
        samples.build("demo/poems")
    assert caught.value.valid == tuple(f"demo/{name}" for name in ("reviews", "news", "nli", "answers", "notes"))


def test_idf_counts_texts_not_tokens():
    assert count(["the film the film", "the end"]) == {"the": 2, "film": 1, "end": 1}
    table = idf.load()
    assert min(table.values()) > 0 and table["the"] == min(table[t] for t in ("the", "film", "war", "lobster"))


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


def test_only_low_rank_factors_and_the_head_are_trained():
    model = models.blank("SequenceClassification", num_labels=2)
    low_rank.attach(model.bert, 4)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(name.endswith((".A", ".B")) for name in trained if name.startswith("bert."))
    assert set(low_rank.collect(model)) == trained


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


def test_benchmark_rows_need_a_folder(monkeypatch):
    monkeypatch.delenv("NBSAL_DATA", raising=False)
    with refuses(None) as caught:
        corpora.rows("sst2", "train")
    assert "NBSAL_DATA" in str(caught.value)


def test_the_tokenizer_is_uncased_wordpiece_and_does_not_truncate():
    tokenizer = base.tokenizer()
    assert tokenizer.tokenize("Unquestionably GOOD") == ["un", "##quest", "##ion", "##ably", "good"]
    assert len(tokenizer("good " * 300, verbose=False)["input_ids"]) == 302


@pytest.mark.parametrize("name", ["reviews", "notes"])
def test_loading_does_not_advance_the_random_generator(name):
    before = torch.get_rng_state()
    nbsal.load(f"demo/{name}")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", sorted({*samples.KINDS.values(), "MaskedLM"}))
def test_an_unfilled_model_with_weights_equals_an_initialised_one(kind):
    blank, unfilled = models.blank(kind), models.unfilled(kind)
    assert any(parameter.isnan().any() for parameter in unfilled.parameters())
    unfilled.load_state_dict(blank.state_dict())
    assert blank.config.to_dict() == unfilled.config.to_dict()
    for part in ("named_parameters", "named_buffers"):
        expected, loaded = dict(getattr(blank, part)()), dict(getattr(unfilled, part)())
        assert expected.keys() == loaded.keys()
        assert all(torch.equal(expected[name], loaded[name]) for name in expected)


def test_embedded_models_take_the_base_weights_as_they_are(monkeypatch):
    """Neither initialised nor copied; what the base lacks is NaN until it is filled, and tied where it should be."""
    weights = base.weights()
    monkeypatch.setattr(base, "weights", lambda: weights)
    for kind in ("SequenceClassification", "MaskedLM"):
        model = models.unfilled(kind)
        body = dict(model.bert.named_parameters())
        assert all(parameter.data_ptr() == weights[name].data_ptr() for name, parameter in body.items())
        head = [tensor for name, tensor in model.named_parameters() if not name.startswith("bert.")]
        assert head and all(tensor.isnan().all() for tensor in head)
        assert not any(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert model.cls.predictions.decoder.bias is model.cls.predictions.bias
