"""The files of a live page, the copy of the model that they stand for, and what cannot be a live page."""

import copy
import hashlib
import json

import numpy as np
import pytest
import torch
from tokenizers.processors import ByteLevel

import nbsal
from nbsal import live
from nbsal.live.parts import parts_of
from nbsal.live.tokenizer import tokenizer_tables
from nbsal.support.errors import FileError, InputError, ModelError, UnknownName
from nbsal.widgets import Compare, Heads, Highlight, Layers
from nbsal.widgets.page.live_page import describe, with_runnable_method
from tests.test_rounding import replica

TEXT = "A warm and funny film."


@pytest.fixture(scope="module")
def written(small, tmp_path_factory):
    return live.export(small, tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="module")
def tiny(load):
    return load("bert", dtype="float32")


def test_files_are_as_the_manifest_says_and_stand_for_the_rounded_copy(small, written):
    manifest = json.loads((written / "manifest.json").read_text())
    for name, file in manifest["files"].items():
        content = (written / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    assert sum(path.stat().st_size for path in written.iterdir()) < 1_200_000
    weights, parts = (written / "model.bin").read_bytes(), parts_of(live.rounded(small))
    assert manifest["tensors"].keys() == parts.keys()
    for name in ("0.query.weight", "2.outer.weight", "positions", "pooler.weight", "classifier.weight", "norm.bias"):
        tensor, expected = manifest["tensors"][name], parts[name].tensor.numpy().ravel()
        data = weights[tensor["at"] :][: 4 * expected.size]
        values = (
            np.frombuffer(data, "<f4")
            if tensor["bits"] == 32
            else replica(data[: expected.size * 17 // 16], expected.size, 8)
        )
        assert np.array_equal(values, expected)
    assert manifest["tensors"]["decoder.weight"]["at"] == manifest["tensors"]["tokens"]["at"]
    assert (manifest["labels"], manifest["name"]) == (small.labels, "a small 8-bit copy of demo/reviews-small")


def test_the_copy_is_a_model_of_its_own(tiny, small):
    before = tiny.version
    rounded, tied = live.rounded(tiny), live.rounded(small)
    assert tiny.version == before and rounded.name == f"a small 8-bit copy of {tiny.name}"
    assert torch.equal(tied.lm_head.weight, tied.model.get_input_embeddings().weight)
    explained = [nbsal.Explainer(each, "gradxact", layer=1)(TEXT) for each in (tiny, rounded)]
    difference = np.abs(explained[0].scores - explained[1].scores).max() / explained[0].largest
    assert explained[0].prediction == explained[1].prediction and 1e-4 < difference < 0.5
    assert explained[1].provenance["model"] == rounded.name


def test_a_copy_keeps_its_folder_until_the_model_changes(tiny, tmp_path):
    first = live.export(tiny, tmp_path)
    assert live.export(tiny, tmp_path) == first
    changed = nbsal.live.rounded(tiny)
    assert live.export(changed, tmp_path) != first


def test_an_lm_head_of_its_own_has_its_own_weights(load, tmp_path):
    subject = load("bert", dtype="float32")
    tensors = json.loads((live.export(subject, tmp_path) / "manifest.json").read_text())["tensors"]
    assert tensors["decoder.weight"]["at"] != tensors["tokens"]["at"]
    plain = load("bert", dtype="float32", decoding=False)
    assert not [name for name in parts_of(plain) if name.startswith(("decoder", "transform"))]


@pytest.mark.parametrize("name", ["roberta", "gpt2", "distilbert"])
def test_other_architectures_are_refused(load, name, tmp_path):
    for call in (live.rounded, lambda subject: live.export(subject, tmp_path)):
        with pytest.raises(ModelError) as caught:
            call(load(name, dtype="float32"))
        assert caught.value.part == "model"


def test_other_heads_and_tokenizers_are_refused(tiny, small, tmp_path):
    several = copy.deepcopy(tiny)
    several.model.config.problem_type = "multi_label_classification"
    for subject in (nbsal.load("demo/answers"), several):
        with pytest.raises(ModelError) as caught:
            live.export(subject, tmp_path)
        assert caught.value.part == "model"
    cased = type(small.tokenizer)(vocab=small.tokenizer.get_vocab(), do_lower_case=False)
    with pytest.raises(ModelError) as caught:
        live.export(nbsal.load(small.model, tokenizer=cased, lm="tied"), tmp_path)
    assert caught.value.part == "lm_head"
    with pytest.raises(ModelError) as caught:
        live.export(nbsal.load(small.model, tokenizer=cased), tmp_path)
    assert caught.value.part == "tokenizer"


def test_added_tokens_that_are_normalised_other_structures_and_gaps_in_the_ids_are_refused(small):
    plain = tokenizer_tables(small.tokenizer)
    assert plain["added"]["[SEP]"] == plain["separator"] and plain["vocabulary"][plain["first"]] == "[CLS]"
    added = copy.deepcopy(small.tokenizer)
    added.add_tokens(["spoiler"])
    vocabulary = dict(small.tokenizer.get_vocab())
    del vocabulary["film"]
    bare = copy.deepcopy(small.tokenizer)
    bare.backend_tokenizer.post_processor = ByteLevel()
    for tokenizer in (added, bare, type(small.tokenizer)(vocab=vocabulary, do_lower_case=True)):
        with pytest.raises(ModelError) as caught:
            tokenizer_tables(tokenizer)
        assert caught.value.part == "tokenizer"


def test_pages_name_the_copy_and_lie_beside_its_files(small, tmp_path):
    view = Highlight(nbsal.Explainer(small, "gradcam", layer=2), text=TEXT, check=False).wait()
    page = view.to_html(tmp_path / "my page#1.html", live=True).read_text(encoding="utf-8")
    assert "/my%20page%231.html" in page
    (folder,) = (tmp_path / "nbsal-live").iterdir()
    assert f"nbsal-live/{folder.name}" in page
    assert "nbsal-live" not in view.to_html(interactive=True)
    with pytest.raises(FileError):
        view.to_html(tmp_path / "nowhere" / "page.html")


def test_a_page_says_that_another_method_explains_in_place_of_one_that_it_cannot_run(small, tmp_path):
    view = Highlight(nbsal.Explainer(small), text=TEXT, target="negative", check=False).wait()
    shown = with_runnable_method(view)
    assert (shown.method, shown.target, shown.text) == ("decoded-gradcam", "negative", TEXT)
    page = view.to_html(tmp_path / "page.html", live=True).read_text(encoding="utf-8")
    assert describe(shown, tmp_path, "page.html", view)["instead"] in page and view.method == "attn-lrp"
    assert describe(shown, tmp_path, "page.html", shown)["instead"] == ""


def refuse(view, tmp_path):
    with pytest.raises(InputError) as caught:
        view.wait().to_html(tmp_path / "page.html", live=True)
    assert not list(tmp_path.iterdir())
    return caught.value


def test_what_the_page_would_not_follow_is_refused(tiny, load, tmp_path):
    def shown(method="gradcam", view=Highlight, **settings):
        return view(nbsal.Explainer(tiny, method, **settings), text="a b", check=False)

    assert isinstance(refuse(shown("attcat", Compare), tmp_path), UnknownName)
    assert refuse(shown(nbsal.Decoded(nbsal.GradCAM(), form="per_token")), tmp_path).argument == "method"
    assert refuse(shown(long="window"), tmp_path).argument == "long"
    assert refuse(Highlight(nbsal.Explainer(tiny, "gradcam")("a b")), tmp_path).argument == "live"
    assert refuse(shown(view=Heads), tmp_path).argument == "live"
    other = nbsal.Explainer(load("bert", dtype="float32"), "gradcam")
    assert refuse(Compare(nbsal.Explainer(tiny, "gradcam"), other, text="a b"), tmp_path).argument == "other"
    assert Layers(nbsal.Explainer(tiny, "gradcam"), text="a b").wait().to_html(tmp_path / "a.html", live=True)
