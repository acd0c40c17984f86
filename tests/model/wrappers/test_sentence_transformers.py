"""Models of sentence-transformers and SetFit: logits are those of `predict`, `encode` and `predict_proba`."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import nbsal
from nbsal.model.identity import model_identity
from tests import axioms, wrapped
from tests.raising import refuses, refuses_part

REFERENCE = "A dull bore."
POOLINGS = {
    "mean": "mean", "cls": "first", "max": "max", "lasttoken": "last", "weightedmean": "weighted",
    "mean_sqrt_len_tokens": "mean", ("cls", "mean"): "mixed",
}  # fmt: skip


def logits(subject, texts):
    return axioms.logits(subject, texts).numpy()


@pytest.mark.parametrize("types", [True, False])
@pytest.mark.parametrize("labels", [1, 3])
def test_scores_of_a_cross_encoder(tmp_path, labels, types):
    encoder = wrapped.cross_encoder(tmp_path, labels, types)
    encoder.max_seq_length = 30
    subject = nbsal.load(encoder)
    assert subject.max_length == 30 and subject.activation == ("none" if labels == 1 else "softmax")
    identity = torch.nn.Identity()
    for texts in (wrapped.PAIRS, wrapped.PAIRS[:1], [(wrapped.TEXTS[0], wrapped.LONG)]):
        truth = encoder.predict(texts, activation_fn=identity).reshape(len(texts), labels)
        assert np.abs(logits(subject, texts) - truth).max() < 1e-5
    saliency = nbsal.Explainer(subject, "lrp")(wrapped.PAIRS[0])
    assert saliency.scores.sum() == pytest.approx(1)
    if labels == 1:  # the score before the activation, which is a sigmoid
        truth = encoder.predict(wrapped.PAIRS[:1], activation_fn=identity)
        assert saliency.provenance["values"] == pytest.approx(truth.tolist(), abs=1e-5)
        assert saliency.target == "score before Sigmoid" and saliency.target in saliency.caption()


@pytest.mark.parametrize("false_token", [True, False])
def test_a_reranker_from_a_causal_model(tmp_path, false_token):
    encoder = wrapped.causal_reranker(tmp_path, false_token)
    subject = nbsal.load(encoder)
    assert subject.labels == ["score before Sigmoid"] and subject.pooling == "last"
    for texts in (wrapped.PAIRS, wrapped.PAIRS[:1]):
        truth = encoder.predict(texts, activation_fn=torch.nn.Identity())
        assert np.abs(logits(subject, texts)[:, 0] - truth).max() < 1e-5
    for method in ("gradxact", "gae", "lrp", "occlusion"):  # Grad-CAM of so small a Llama is rounding noise
        axioms.batch_equals_singles(nbsal.Explainer(subject, method), wrapped.PAIRS)


@pytest.mark.some(4)
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_similarity_is_that_of_the_library(tmp_path, pooling, normalize):
    model = wrapped.sentence_transformer(tmp_path, pooling, normalize)
    subject = nbsal.load(model, similar_to=REFERENCE)
    assert subject.pooling == POOLINGS[pooling] and subject.labels == ["similarity"]
    texts = [*wrapped.TEXTS, wrapped.LONG]
    truth = model.similarity(model.encode(texts), model.encode([REFERENCE])).numpy()
    assert np.abs(logits(subject, texts) - truth).max() < 1e-6
    for text, value in zip(texts, truth, strict=True):
        assert np.abs(logits(subject, [text]) - value).max() < 1e-6
    for method in ("raw-attention", "lrp"):
        assert nbsal.Explainer(subject, method)(texts[0]).scores.sum() == pytest.approx(1, abs=1e-4)


SETTINGS = {
    "prompt": {"prompts": {"query": "the book and the film: "}, "default_prompt_name": "query"},
    "truncated": {"truncate_dim": 8},
    "dot": {"similarity_fn_name": "dot"},
    "euclidean": {"similarity_fn_name": "euclidean"},
    "manhattan": {"similarity_fn_name": "manhattan"},
}


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_library_does_to_texts_and_embeddings(tmp_path, name, include_prompt):
    model = wrapped.sentence_transformer(tmp_path)
    model = type(model)(str(tmp_path / "st"), device="cpu", **SETTINGS[name])
    model.set_pooling_include_prompt(include_prompt)
    model.max_seq_length = 40
    subject = nbsal.load(model, similar_to=REFERENCE)
    texts = [*wrapped.TEXTS, wrapped.LONG]
    truth = model.similarity(model.encode(texts), model.encode([REFERENCE])).numpy()
    assert np.abs(logits(subject, texts) - truth).max() < 1e-5 * max(1, np.abs(truth).max())
    row = subject.encode(texts[0])[0]
    words = [row.text[start:end].lower() for start, end in (row.offsets[i] for i in row.content)]
    assert all(word in texts[0].lower() for word in words) and "".join(words) == texts[0].lower().replace(" ", "")
    assert (name == "prompt") == (len(row) > len(row.content) + 2)  # the prompt is never ranked
    assert np.isfinite(nbsal.Explainer(subject, "gradcam", long="window")(wrapped.LONG).scores).all()


def test_an_embedding_model_needs_a_reference(tmp_path):
    model = wrapped.sentence_transformer(tmp_path)
    for argument in (model, tmp_path / "st"):
        with refuses("similar_to"):
            nbsal.load(argument)


def test_folders_of_the_library(tmp_path):
    model = wrapped.sentence_transformer(tmp_path)
    subject = nbsal.load(tmp_path / "st", similar_to=REFERENCE)
    assert np.array_equal(
        logits(subject, wrapped.TEXTS), logits(nbsal.load(model, similar_to=REFERENCE), wrapped.TEXTS)
    )
    assert nbsal.load(tmp_path / "st", similar_to=REFERENCE, dtype="float64").double.dtype == torch.float64
    encoder = wrapped.cross_encoder(tmp_path)
    encoder.save(str(tmp_path / "ce"))
    truth = encoder.predict(wrapped.PAIRS, activation_fn=torch.nn.Identity())
    assert np.abs(logits(nbsal.load(tmp_path / "ce"), wrapped.PAIRS)[:, 0] - truth).max() < 1e-5


def test_a_folder_with_a_pickle_or_code_is_not_loaded(tmp_path):
    folder = tmp_path / "st"
    weights = wrapped.sentence_transformer(tmp_path).state_dict()
    for path in folder.rglob("model.safetensors"):
        path.unlink()
        torch.save(weights, path.with_name("pytorch_model.bin"))
    with refuses_part("weights"):
        nbsal.load(folder, similar_to=REFERENCE)
    modules = json.loads((folder / "modules.json").read_text())
    for kind, path in (("os.path.join", ""), ("sentence_transformers.models.Pooling", "../..")):
        (folder / "modules.json").write_text(json.dumps([modules[0] | {"type": kind, "path": path}]))
        with refuses_part("modules.json"):
            nbsal.load(folder, similar_to=REFERENCE)


HEADS = [("torch", 2), ("torch", 3), ("logistic", 2), ("logistic", 3), ("multi-output", 3), ("one-vs-rest", 3)]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("kind", "classes"), HEADS)
def test_probabilities_of_setfit(tmp_path, kind, classes, normalize):
    model = wrapped.setfit(tmp_path, kind, classes, normalize)
    subject = nbsal.load(model)
    texts = [*wrapped.TEXTS, wrapped.LONG]
    truth = np.asarray(model.predict_proba(texts))
    truth = truth[..., 1] if truth.ndim == 3 else truth
    saliencies = nbsal.Explainer(subject, "gradxact").map(texts, progress=False)
    assert np.abs(np.stack([saliency.probabilities for saliency in saliencies]) - truth).max() < 1e-5
    assert subject.labels == [f"class {i}" for i in range(classes)]
    assert [s.prediction for s in saliencies] == [subject.labels[i] for i in truth.argmax(1)]


def test_a_corpus_and_its_workers_read_texts_in_the_same_way(tmp_path):
    model = wrapped.sentence_transformer(tmp_path)
    model = type(model)(str(tmp_path / "st"), device="cpu", **SETTINGS["prompt"])
    explain = nbsal.Explainer(nbsal.load(model, similar_to=REFERENCE), "gradxact")
    corpus = nbsal.corpus.explain(explain, wrapped.TEXTS, tmp_path / "out", progress=False, dtype="float32")
    for i, text in enumerate(wrapped.TEXTS):
        assert np.abs(corpus.saliency(i).scores - explain(text).scores).max() < 1e-5
    shortened = nbsal.load(model, similar_to=REFERENCE)
    shortened.usage = replace(shortened.usage, longest=12)
    assert model_identity(shortened)["tokenizer"] != model_identity(explain.subject)["tokenizer"]
