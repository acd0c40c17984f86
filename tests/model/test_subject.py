"""Subjects of every architecture and head, from saved checkpoints, and models that cannot be loaded."""

import copy
import shutil

import pytest
import torch
import transformers

import nbsal
from nbsal.samples import base
from nbsal.support.errors import LanguageHeadError, UnknownName, WeightsError
from tests import zoo
from tests.cases import cases
from tests.raising import refuses, refuses_part

TEXT = "The film is a warm and funny joy."


@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_every_architecture_at_every_layer(load, architecture):
    subject = load(architecture, dtype="float32")
    assert (subject.depth, subject.heads, subject.task) == (3, 4, "sequence")
    for name in ("gradcam", "simple", "gradxact", "decoded-gradcam"):
        saliency = nbsal.Explainer(subject, name).every_layer(TEXT)
        assert saliency.scores.shape == (4, len(saliency.tokens))
        assert torch.isfinite(torch.tensor(saliency.scores)).all()


@pytest.mark.parametrize("head", ["span", "token"])
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_every_head(load, architecture, head):
    subject = load(architecture, head)
    assert subject.task == head
    text = ("Who wrote the book?", "The company wrote it.") if head == "span" else TEXT
    assert abs(nbsal.Explainer(subject, "gradxact", layer=1)(text).scores).max() > 0
    assert nbsal.Explainer(subject, "decoded-gradcam", layer=1)(text).provenance["lm"]


@cases("architecture", zoo.DECODERS)
def test_causal_models_decode_with_their_lm_head(load, architecture):
    subject = load(architecture, "causal")
    assert subject.task == "next-token" and subject.lm_head.source == "its own LM head"
    assert nbsal.Explainer(subject, "decoded-gradcam")(TEXT).scores.any()


def test_double_is_a_cached_float64_copy(load):
    subject = load("bert", dtype="float32")
    assert subject.double is subject.double and subject.double.dtype == torch.float64
    assert subject.dtype == torch.float32
    exact = nbsal.Explainer(subject.double, "decoded-gradcam")(TEXT).scores
    assert abs(exact - nbsal.Explainer(subject, "decoded-gradcam")(TEXT).scores).max() < 1e-5 * abs(exact).max()


@pytest.mark.parametrize("dtype", ["float64", "model"])
def test_explanations_follow_changed_weights(load, dtype):
    """After training, explanations are those of the trained model."""
    subject = load("bert", dtype="float32")
    explain = nbsal.Explainer(subject, "lrp", dtype=dtype)
    before = explain(TEXT).scores
    with torch.no_grad():
        for parameter in subject.model.base_model.encoder.layer[1].parameters():
            parameter.mul_(-0.5)
    fresh = nbsal.Explainer(nbsal.load(subject.model, tokenizer=subject.tokenizer), "lrp", dtype=dtype)(TEXT)
    now = explain(TEXT)
    assert abs(now.scores - fresh.scores).max() == 0 and (now.probabilities == fresh.probabilities).all()
    assert abs(now.scores - before).max() > 1e-3


def test_max_length_excludes_positions_up_to_the_padding_id(load):
    assert load("roberta").max_length == 63  # the padding id is 0 here; RoBERTa's is 1, which leaves 512 of 514
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.IBertConfig(vocab_size=60, max_position_embeddings=20, pad_token_id=1, **sizes)
    # The position table of I-BERT has no num_embeddings.
    assert nbsal.load(transformers.IBertForSequenceClassification(config)).max_length == 18


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "llama"])
def test_half_precision_on_the_cpu_is_noted(checkpoints, architecture, dtype):
    subject = nbsal.load(zoo.save(checkpoints, architecture, "sequence"), dtype=dtype, device="cpu")
    exact = nbsal.load(zoo.save(checkpoints, architecture, "sequence"), device="cpu")
    assert subject.pooling == exact.pooling
    for method in ("gradcam", "integrated", "occlusion", "gae"):
        saliency = nbsal.Explainer(subject, method)(TEXT)
        assert saliency.provenance["precision"] and saliency.scores.shape
        assert "precision" not in nbsal.Explainer(exact, method)(TEXT).provenance
    double = nbsal.load(copy.deepcopy(subject.model).double(), tokenizer=subject.tokenizer)
    truth = nbsal.Explainer(double, "lrp")(TEXT).scores
    relevance = nbsal.Explainer(subject, "lrp")(TEXT)
    assert abs(relevance.scores - truth).max() < 1e-6 * abs(truth).max()
    assert "precision" not in relevance.provenance
    with refuses("dtype"):
        nbsal.Explainer(subject, "lrp", dtype="model")


REFUSED = {
    "T5ForSequenceClassification": (
        # Without decoder_start_token_id, it cannot read a text a second time.
        transformers.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2),
        "head",
    ),
    "PerceiverForSequenceClassification": (
        transformers.PerceiverConfig(
            vocab_size=60,
            d_model=16,
            d_latents=16,
            num_latents=4,
            num_self_attends_per_block=1,
            num_self_attention_heads=2,
            num_cross_attention_heads=2,
            max_position_embeddings=16,
        ),
        "hidden_size",
    ),
    "CanineForSequenceClassification": (
        transformers.CanineConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=64,
            upsampling_kernel_size=4,
        ),
        "vocab_size",
    ),
    "FunnelForSequenceClassification": (
        transformers.FunnelConfig(vocab_size=60, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=16),
        "hidden states",
    ),
}


@cases("kind", REFUSED)
def test_unsupported_architectures_are_refused(kind):
    config, part = REFUSED[kind]
    torch.manual_seed(0)
    with refuses_part(part):
        nbsal.Explainer(nbsal.load(getattr(transformers, kind)(config).eval()), "gradcam").ids([5, 6, 7])


def test_a_wrong_number_of_blocks_is_refused():
    model = zoo.model("bert", "sequence")
    model.config.num_hidden_layers = 7
    with refuses_part("blocks"):
        nbsal.load(model)


def test_the_tokenizer_of_another_model_is_refused(checkpoints):
    path = zoo.save(checkpoints, "bert", "sequence")
    with refuses_part("tokenizer"):
        nbsal.load(path, tokenizer=zoo.tokenizer("bytes"))
    with refuses_part("tokenizer"):
        nbsal.load(path, tokenizer=zoo.tokenizer("pieces"))  # fewer tokens, with other ids
    with refuses_part("tokenizer"):
        nbsal.load(zoo.model("bert", "sequence"), tokenizer=zoo.tokenizer("bytes"))


def test_a_classifier_passed_as_lm_is_refused(checkpoints):
    path = zoo.save(checkpoints, "bert", "sequence")
    for lm in (path, zoo.model("bert", "sequence")):
        with refuses_part("lm_head", LanguageHeadError):
            nbsal.load(path, lm=lm)


def test_an_lm_without_head_weights_is_refused(checkpoints, tmp_path):
    from safetensors.torch import load_file, save_file

    path = shutil.copytree(zoo.save(checkpoints, "bert", "masked", seed=1), tmp_path / "copy")
    weights = {name: value for name, value in load_file(path / "model.safetensors").items() if "transform" not in name}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with refuses_part("cls.predictions.transform.LayerNorm.bias", LanguageHeadError):
        nbsal.load(zoo.save(checkpoints, "bert", "sequence"), lm=path)


def test_the_lm_head_of_another_model_is_refused(checkpoints):
    path = zoo.save(checkpoints, "bert", "sequence")
    with refuses_part("vocabulary", LanguageHeadError):
        nbsal.load(path, lm=zoo.save(checkpoints, "roberta", "masked", seed=1))
    wide = zoo.save(checkpoints, "bert", "masked", hidden_size=48)
    with refuses_part("width", LanguageHeadError):
        nbsal.load(path, lm=wide)


def test_an_lm_with_other_token_ids_is_refused(checkpoints, tmp_path):
    path = zoo.save(checkpoints, "bert", "sequence")
    zoo.model("bert", "masked").save_pretrained(tmp_path)
    size = len(zoo.tokenizer("wordpiece"))
    vocabulary = dict.fromkeys(zoo.SPECIAL) | {f"w{i}": None for i in range(size - len(zoo.SPECIAL))}
    transformers.BertTokenizer(vocab={word: i for i, word in enumerate(vocabulary)}).save_pretrained(tmp_path)
    with refuses_part("vocabulary", LanguageHeadError):
        nbsal.load(path, lm=tmp_path)


@pytest.mark.parametrize("source", ["x" * 300, "~nobody_x/model"])
def test_names_that_cannot_be_folders_are_refused(checkpoints, source):
    with refuses_part("checkpoint"):
        nbsal.load(source)
    with refuses_part("checkpoint"):
        nbsal.load(zoo.save(checkpoints, "bert", "sequence"), lm=source)
    with refuses("tokenizer"):
        nbsal.load(zoo.save(checkpoints, "bert", "sequence"), tokenizer=source)


def test_tied_embeddings_decode_on_request(checkpoints):
    subject = nbsal.load(zoo.save(checkpoints, "bert", "sequence"), lm="tied")
    assert subject.lm_head.source == "tied"
    hidden = torch.randn(3, subject.width)
    truth = (hidden @ subject.model.get_input_embeddings().weight.T).softmax(-1)[:, [4, 9]]
    assert torch.allclose(subject.lm_head.probabilities(hidden, torch.tensor([4, 9])), truth, atol=1e-6)
    assert nbsal.Explainer(subject, "decoded-gradcam")(TEXT).scores.any()
    for narrow in ("electra", "albert"):
        with refuses_part("input embeddings", LanguageHeadError):
            nbsal.load(zoo.save(checkpoints, narrow, "sequence"), lm="tied")


def test_invalid_names_and_devices():
    with pytest.raises(UnknownName) as caught:
        nbsal.load("demo/revues")
    assert caught.value.valid == ("demo/reviews", "demo/news", "demo/nli", "demo/answers", "demo/notes")
    with refuses("dtype", UnknownName) as caught:
        nbsal.load("demo/reviews", dtype="float8")
    assert caught.value.valid == ("float32", "float64", "bfloat16", "float16")
    with refuses("device"):
        nbsal.load(zoo.model("bert", "sequence"), device="meta")


def test_base_weights_with_another_digest_are_refused(monkeypatch):
    monkeypatch.setitem(base.DIGESTS, "model.safetensors", "0" * 64)
    with pytest.raises(WeightsError):
        nbsal.load("demo/reviews")


def test_missing_base_weights_are_refused(monkeypatch):
    monkeypatch.setattr(base, "packaged", lambda name: None)
    monkeypatch.setattr(base, "cached", lambda name: None)
    with pytest.raises(WeightsError, match=r"nbsal\[demo\]"):
        nbsal.load("demo/reviews")


def test_tokenizers_and_devices(checkpoints):
    path = zoo.save(checkpoints, "bert", "sequence")
    for value in ("no/such", 42):
        with refuses("tokenizer"):
            nbsal.load(path, tokenizer=value)
    named = nbsal.load(zoo.model("bert", "sequence"), tokenizer=path)
    assert named.encode(TEXT).tokens == nbsal.load(path).encode(TEXT).tokens
    with refuses("device"):
        nbsal.load(path, device="gpu")
    assert nbsal.load(zoo.model("bert", "sequence"), device="cpu").device.type == "cpu"


def test_causality_is_detected_where_no_module_declares_it():
    config = transformers.BloomConfig(vocab_size=200, hidden_size=32, n_layer=2, n_head=4, num_labels=3, pad_token_id=3)
    torch.manual_seed(0)
    subject = nbsal.load(transformers.BloomForSequenceClassification(config).eval())
    assert subject.pooling == "last"
    scores = nbsal.Explainer(subject, "simple", layer=2).ids([5, 6, 7, 8]).scores
    assert scores.nonzero()[0].tolist() == [3]
