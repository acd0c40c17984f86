"""Subjects of every architecture and head, from saved checkpoints, and models that cannot be loaded."""

import copy
import json
import shutil
import warnings

import pytest
import torch
import transformers

import nbsal
from nbsal.samples import base, embedded
from nbsal.support.errors import LanguageHeadError, UnknownName, WeightsError
from tests import axioms, zoo
from tests.cases import cases
from tests.raising import refuses, refuses_part

TEXT = "The film is a warm and funny joy."
NO_FOLDERS = ("x" * 300, "~nobody_x/model")  # names that cannot be those of folders


@pytest.mark.some(4)
@pytest.mark.parametrize("head", ["sequence", "span", "token"])
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_every_head(load, architecture, head):
    subject = load(architecture, head)
    assert (subject.depth, subject.heads, subject.task) == (3, 4, head)
    text = ("Who wrote the book?", "The company wrote it.") if head == "span" else TEXT
    assert abs(nbsal.Explainer(subject, "gradxact", layer=1)(text).scores).max() > 0
    assert nbsal.Explainer(subject, "decoded-gradcam", layer=1)(text).provenance["lm"]


@cases("architecture", zoo.DECODERS)
def test_causal_models_decode_with_their_lm_head(load, architecture):
    subject = load(architecture, "causal")
    assert subject.task == "next-token" and subject.lm_head.source == "its own LM head"
    assert nbsal.Explainer(subject, "decoded-gradcam")(TEXT).scores.any()


@pytest.mark.parametrize("dtype", ["float64", "model"])
def test_explanations_follow_changed_weights(load, dtype):
    """After training, explanations are those of the trained model."""
    subject = load("bert", dtype="float32")
    explain = nbsal.Explainer(subject, "lrp", dtype=dtype)
    before = explain(TEXT).scores
    axioms.change_weights(subject.model)
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


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "llama"])
def test_half_precision_on_the_cpu_is_noted(checkpoints, architecture, dtype):
    subject = nbsal.load(zoo.save(checkpoints, architecture, "sequence"), dtype=dtype, device="cpu")
    exact = nbsal.load(zoo.save(checkpoints, architecture, "sequence"), device="cpu")
    assert subject.pooling == exact.pooling
    for method in ("gradcam", "occlusion", "gae"):
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


def test_a_wrong_number_of_blocks_is_refused():
    model = zoo.model("bert", "sequence")
    model.config.num_hidden_layers = 7
    with refuses_part("blocks"):
        nbsal.load(model)


def without_tokenizer(folder, base):
    """A folder with the weights of another one, which it names as its base if that is not None."""
    zoo.model("bert", "sequence").save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"_name_or_path": base}))
    return folder


def test_a_checkpoint_without_a_tokenizer_is_read_with_that_of_its_base(checkpoints, tmp_path):
    base = zoo.save(checkpoints, "bert", "sequence")
    step = without_tokenizer(tmp_path / "run" / "checkpoint-3", None)
    assert nbsal.load(step).tokenizer is None
    zoo.tokenizer("wordpiece").save_pretrained(tmp_path / "run")
    for folder in (step, without_tokenizer(tmp_path / "named", str(base))):
        with pytest.warns(UserWarning, match="tokenizer="):
            assert nbsal.Explainer(nbsal.load(folder), "gradxact")(TEXT).scores.any()
    folder = without_tokenizer(tmp_path / "unknown", "no/such-base")
    assert nbsal.load(folder).tokenizer is None
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert nbsal.load(step, tokenizer=base).tokenizer is not None


def test_tokenizers(checkpoints):
    path = zoo.save(checkpoints, "bert", "sequence")
    for model, tokenizer in ((path, "bytes"), (path, "pieces"), (zoo.model("bert", "sequence"), "bytes")):
        with refuses_part("tokenizer"):
            nbsal.load(model, tokenizer=zoo.tokenizer(tokenizer))
    for value in ("no/such", 42, *NO_FOLDERS):
        with refuses("tokenizer"):
            nbsal.load(path, tokenizer=value)
    named = nbsal.load(zoo.model("bert", "sequence"), path)
    assert named.encode(TEXT).tokens == nbsal.load(path).encode(TEXT).tokens


def test_names_and_devices_that_cannot_be_are_refused(checkpoints, tmp_path):
    path = zoo.save(checkpoints, "bert", "sequence")
    for source in NO_FOLDERS:
        with refuses_part("checkpoint"):
            nbsal.load(source)
        with refuses_part("checkpoint"):
            nbsal.load(path, lm=source)
    ways_out = {"m.onnx": "function", "m.PT": "pass the model", "m.safetensors": "folder"}
    for name, way_out in ways_out.items():
        (tmp_path / name).touch()
        with refuses("model") as caught:
            nbsal.load(tmp_path / name)
        assert way_out in str(caught.value)
    with refuses_part("checkpoint") as caught:
        nbsal.load("http://localhost:8000/v1")
    assert "nbsal.Endpoint" in str(caught.value)
    for name, meant in (("demo/review", "demo/reviews"), ("planted/wrd", "planted/word")):
        with refuses("model", UnknownName) as caught:
            nbsal.load(name)
        assert caught.value.suggestion == meant and set(embedded.ENCODERS) < set(caught.value.valid)
    with refuses("dtype", UnknownName) as caught:
        nbsal.load(path, dtype="float8")
    assert caught.value.valid == ("float32", "float64", "bfloat16", "float16")
    for model, device in ((zoo.model("bert", "sequence"), "meta"), (path, "gpu")):
        with refuses("device"):
            nbsal.load(model, device=device)


def test_an_lm_head_of_another_model_is_refused(checkpoints, tmp_path):
    path, size = zoo.save(checkpoints, "bert", "sequence"), len(zoo.tokenizer("wordpiece"))
    zoo.model("bert", "masked").save_pretrained(tmp_path)
    vocabulary = [*zoo.SPECIAL, *(f"w{i}" for i in range(size - len(zoo.SPECIAL)))]
    other_ids = transformers.BertTokenizer(vocab={word: i for i, word in enumerate(vocabulary)})
    other_ids.save_pretrained(tmp_path)
    wrong = [
        (path, "lm_head"),  # a classifier
        (zoo.model("bert", "sequence"), "lm_head"),
        (zoo.save(checkpoints, "roberta", "masked", seed=1), "vocabulary"),
        (tmp_path, "vocabulary"),
        (zoo.save(checkpoints, "bert", "masked", hidden_size=48), "width"),
    ]
    for lm, part in wrong:
        with refuses_part(part, LanguageHeadError):
            nbsal.load(path, lm=lm)
    with refuses("lm"):
        nbsal.load(path, lm="demo/news")


def test_missing_and_damaged_base_weights_are_refused(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(base.DIGESTS, "model.safetensors", "0" * 64)
        with pytest.raises(WeightsError):
            nbsal.load("demo/reviews")
    monkeypatch.setattr(base, "packaged", lambda name: None)
    monkeypatch.setattr(base, "cached", lambda name: None)
    with pytest.raises(WeightsError, match=r"nbsal\[demo\]"):
        nbsal.load("demo/reviews")


def test_an_lm_without_head_weights_is_refused(checkpoints, tmp_path):
    from safetensors.torch import load_file, save_file

    path = shutil.copytree(zoo.save(checkpoints, "bert", "masked", seed=1), tmp_path / "copy")
    weights = {name: value for name, value in load_file(path / "model.safetensors").items() if "transform" not in name}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    with refuses_part("cls.predictions.transform.LayerNorm.bias", LanguageHeadError):
        nbsal.load(zoo.save(checkpoints, "bert", "sequence"), lm=path)


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


def test_causality_is_detected_where_no_module_declares_it():
    config = transformers.BloomConfig(vocab_size=200, hidden_size=32, n_layer=2, n_head=4, num_labels=3, pad_token_id=3)
    torch.manual_seed(0)
    subject = nbsal.load(transformers.BloomForSequenceClassification(config).eval())
    assert subject.pooling == "last"
    scores = nbsal.Explainer(subject, "simple", layer=2).ids([5, 6, 7, 8]).scores
    assert scores.nonzero()[0].tolist() == [3]
