"""A run is only resumed with the same model, whatever differs; the error names what does."""

import json
import shutil

import pytest
import torch
from tokenizers import normalizers, processors
from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

import nbsal
from nbsal import corpus
from nbsal.corpus.manifest import Manifest
from nbsal.corpus.storage import Storage
from tests import zoo
from tests.corpus.kills import files
from tests.corpus.test_run import run
from tests.raising import refuses

TEXTS = ["A warm and funny film.", "A dull bore."] * 5
NAME = "the model"


@pytest.fixture
def checkpoint(checkpoints, tmp_path):
    """A copy of a saved model, which a test may change."""
    return shutil.copytree(zoo.save(checkpoints, "bert", "sequence"), tmp_path / "checkpoint")


def explainer(checkpoint, method="gradcam", lm=None, **config):
    """An explainer of a saved model with changed settings, always under the same name."""
    settings = AutoConfig.from_pretrained(checkpoint, **config)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, config=settings)
    subject = nbsal.load(model, tokenizer=AutoTokenizer.from_pretrained(checkpoint), lm=lm)
    subject.name = NAME
    return nbsal.Explainer(subject, method)


def check_refused(started, resumed, out, argument):
    """The error, after a check that it is about the argument and that nothing was written."""
    run(started, TEXTS, out)
    before = files(out)
    with refuses(argument) as caught:
        run(resumed, TEXTS, out)
    assert files(out) == before
    run(started, TEXTS, out)
    assert files(out) == before
    return str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"num_attention_heads": 2},
        {"hidden_act": "relu"},
        {"layer_norm_eps": 1e-5},
        {"pad_token_id": 1},
        {"problem_type": "multi_label_classification"},
    ],
    ids=lambda entry: next(iter(entry)),
)
def test_another_configuration_is_refused(checkpoint, tmp_path, entry):
    error = check_refused(explainer(checkpoint), explainer(checkpoint, **entry), tmp_path / "out", "config")
    assert f"config.{next(iter(entry))}" in error


def test_another_rope_theta_is_refused(checkpoints, tmp_path):
    path, out = zoo.save(checkpoints, "qwen3", "causal"), tmp_path / "out"
    run(nbsal.Explainer(nbsal.load(path), "gradcam"), TEXTS, out)
    settings = json.loads((path / "config.json").read_text())
    settings["rope_parameters"]["rope_theta"] = 500.0
    changed = shutil.copytree(path, tmp_path / "changed")
    (changed / "config.json").write_text(json.dumps(settings))
    subject = nbsal.load(changed)
    subject.name = str(path)
    with refuses("config") as caught:
        run(nbsal.Explainer(subject, "gradcam"), TEXTS, out)
    assert "rope_theta" in str(caught.value)


def cased(tokenizer):
    tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)


def without_template(tokenizer):
    ids = [("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id)]
    template = processors.TemplateProcessing(single="[CLS] $A", pair="[CLS] $A $B", special_tokens=ids)
    tokenizer.backend_tokenizer.post_processor = template


def shorter(tokenizer):
    tokenizer.model_max_length = 16


def cut_at_the_left(tokenizer):
    tokenizer.truncation_side = "left"


@pytest.mark.parametrize(
    ("change", "entry"),
    [
        (cased, "normalizer"),
        (without_template, "post_processor"),
        (shorter, "model_max_length"),
        (cut_at_the_left, "truncation_side"),
    ],
)
def test_another_tokenizer_is_refused(checkpoint, tmp_path, change, entry):
    changed = explainer(checkpoint)
    change(changed.subject.tokenizer)
    subject = nbsal.Subject(changed.subject.model, changed.subject.tokenizer, name=NAME)
    resumed = nbsal.Explainer(subject, "gradcam")
    error = check_refused(explainer(checkpoint), resumed, tmp_path / "out", "tokenizer")
    assert f"tokenizer.{entry}" in error


def test_another_lm_head_is_refused_where_it_decodes(checkpoint, tmp_path):
    lms = [zoo.model("bert", "masked", seed) for seed in (1, 2)]
    assert {type(lm) for lm in lms} == {AutoModelForMaskedLM.from_config(lms[0].config).__class__}
    started, resumed = (explainer(checkpoint, "decoded-gradcam", lm) for lm in lms)
    check_refused(started, resumed, tmp_path / "decoded", "lm_head")
    started, resumed = (explainer(checkpoint, "gradcam", lm) for lm in lms)
    run(started, TEXTS, tmp_path / "plain")
    assert run(resumed, TEXTS, tmp_path / "plain").complete


def test_a_model_that_was_changed_in_memory_is_refused(checkpoint, tmp_path):
    replaced = explainer(checkpoint)
    replaced.subject.blocks[1].intermediate.intermediate_act_fn = torch.nn.ReLU()
    check_refused(explainer(checkpoint), replaced, tmp_path / "activation", "modules")
    rescaled = explainer(checkpoint)
    rescaled.subject.blocks[1].attention.self.scaling *= 2
    check_refused(explainer(checkpoint), rescaled, tmp_path / "scaling", "modules")
    buffered = explainer(checkpoint)
    buffered.subject.model.bert.embeddings.position_ids[0, 3] = 5
    check_refused(explainer(checkpoint), buffered, tmp_path / "buffer", "buffers")
    reshaped = explainer(checkpoint)
    query = reshaped.subject.blocks[0].attention.self.query
    query.weight.data[0, 0] += 1e-6
    check_refused(explainer(checkpoint), reshaped, tmp_path / "weights", "weights")


def test_other_labels_and_settings_are_refused(checkpoint, tmp_path):
    started = explainer(checkpoint)
    labels = nbsal.load(started.subject.model, tokenizer=started.subject.tokenizer, labels=["a", "b", "c"])
    labels.name = NAME
    check_refused(started, nbsal.Explainer(labels, "gradcam"), tmp_path / "labels", "labels")
    windows = nbsal.Explainer(started.subject, "gradcam", long="window")
    error = check_refused(started, windows, tmp_path / "windows", "methods")
    assert "methods.gradcam.long" in error


def test_a_head_mask_with_the_same_bytes_in_another_part_is_refused(checkpoint, tmp_path):
    subject = explainer(checkpoint).subject
    heads = torch.eye(3, 4).numpy()
    unnamed = nbsal.heads.HeadMask.from_array(heads)
    syntactic = nbsal.heads.HeadMask(positional=0 * heads, relations={"obj": heads})
    started, resumed = (nbsal.Explainer(subject, "mask-lrp", mask=mask) for mask in (unnamed, syntactic))
    run(started, TEXTS[:2], tmp_path / "out")
    with refuses("masks"):
        run(resumed, TEXTS[:2], tmp_path / "out")


def test_what_does_not_change_scores_may_differ(checkpoint, tmp_path):
    """The folder, the model's mode, settings for outputs and generation, and a tokenizer that was used before."""
    started = explainer(checkpoint)
    run(started, TEXTS, tmp_path / "out")
    before = files(tmp_path / "out")
    moved = shutil.copytree(checkpoint, tmp_path / "moved")
    resumed = explainer(moved, use_cache=False, output_hidden_states=True, architectures=["Other"])
    resumed.subject.model.train()
    resumed("film " * 100)  # truncation leaves a state in the tokenizer
    resumed.subject.model.requires_grad_(False)
    assert run(resumed, TEXTS, tmp_path / "out").complete
    assert files(tmp_path / "out") == before
    assert resumed.subject.model.training


@pytest.mark.parametrize(("version", "same"), [("2.999.0", True), ("3.0.0", False)])
def test_only_another_major_version_of_a_library_is_refused(checkpoint, tmp_path, version, same):
    started, out = explainer(checkpoint), tmp_path / "out"
    run(started, TEXTS, out)
    manifest = Manifest.read(Storage(out))
    assert manifest.plan.versions["torch"].startswith("2.")
    manifest.plan.versions["torch"] = version
    manifest.write(Storage(out))
    if same:
        assert run(started, TEXTS, out).complete
    else:
        with refuses("versions") as caught:
            run(started, TEXTS, out)
        assert "versions.torch" in str(caught.value)


def test_games_with_another_model_are_refused(checkpoint, tmp_path):
    explained = run(explainer(checkpoint), TEXTS, tmp_path / "out")
    assert corpus.open(tmp_path / "out").games(explainer(checkpoint).subject, random=0, progress=False).explainers
    with refuses("subject"):
        explained.games(explainer(checkpoint, hidden_act="relu").subject, random=0, progress=False)
