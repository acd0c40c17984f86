"""A run is only resumed with the same model, whatever differs; the error names what does."""

import json
import shutil

import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

import nbsal
from nbsal.corpus.folder.manifest import Manifest
from nbsal.corpus.folder.storage import Storage
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


def test_another_lm_head_is_refused_where_it_decodes(checkpoint, tmp_path):
    lms = [zoo.model("bert", "masked", seed) for seed in (1, 2)]
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
