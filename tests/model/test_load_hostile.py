"""Hostile and damaged checkpoint folders: an error of nbsal that names the part, at once, and no code is run."""

import json
import math
import pickle
import random
import resource
import shutil
import time
from importlib.util import find_spec
from itertools import product

import pytest
import torch
from safetensors.torch import load_file, save_file

import nbsal
from nbsal.model.running.checks import is_finite
from nbsal.support.errors import InputError, ModelError, NbsalError
from tests import zoo
from tests.cases import cases
from tests.raising import refuses

CODE = "from pathlib import Path\nPath({!r}).touch()\nclass C: pass\nclass M(C): pass\ndef generate(*a, **k): pass\n"


class Touch:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return eval, (f"open({self.path!r}, 'w').close()",)


def configure(**changes):
    """Change entries of config.json; Ellipsis removes one."""

    def change(folder):
        config = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))

    return change


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def tokenizer(**settings):
    return write("tokenizer_config.json", json.dumps(settings))


def remove(*names):
    def change(folder):
        for path in list(folder.iterdir()):
            if not names or path.name in names:
                path.unlink()

    return change


def weights(edit):
    """Change the tensors."""

    def change(folder):
        tensors = load_file(folder / "model.safetensors")
        edit(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def pickled(name):
    def change(folder):
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(pickle.dumps(Touch(folder.parent / "ran-pickle")))

    return change


def index(shard, content=None):
    """Replace the weights by an index with that shard, which lies there if it is outside the folder."""

    def change(folder):
        name = shard.format(folder.parent)
        (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
        shutil.copy(folder.parent / "outside.safetensors", folder / "inside.safetensors")
        stored = {"metadata": {}, "weight_map": dict.fromkeys(load_file(folder / "inside.safetensors"), name)}
        (folder / "model.safetensors.index.json").write_text(json.dumps(stored) if content is None else content)

    return change


def code(**changes):
    """Code in the folder that creates a file when it is run, and a configuration that asks for it."""

    def change(folder):
        for name in ("code.py", "modeling_evil.py", "custom_generate/generate.py", "__init__.py", "conftest.py"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(CODE.format(str(folder.parent / "ran-code")))
        configure(**changes)(folder)

    return change


def several(*changes):
    return lambda folder: [change(folder) for change in changes]


def drop(*names):
    return weights(lambda tensors: [tensors.pop(name) for name in names])


def fill(name, value):
    return weights(lambda tensors: tensors[name].fill_(value))


def reshape(name, *shape):
    return weights(lambda tensors: tensors.update({name: torch.zeros(shape)}))


def rewrite_ids(folder):
    """Give a common letter an id beyond the model's embeddings."""
    stored = json.loads((folder / "tokenizer.json").read_text())
    stored["model"]["vocab"]["a"] = 10_000
    (folder / "tokenizer.json").write_text(json.dumps(stored))


AUTO = {"AutoConfig": "code.C", "AutoModelForSequenceClassification": "code.M", "AutoModel": "code.M"}
POSITIONS = "bert.embeddings.position_embeddings.weight"
DEEP = "[" * 100_000
# What each does to a checkpoint, and the argument or the part that its error names.
HOSTILE = {
    "empty": (remove(), "checkpoint"),
    "no config": (remove("config.json"), "checkpoint"),
    "config is a folder": (several(remove("config.json"), lambda f: (f / "config.json").mkdir()), "checkpoint"),
    "config is no JSON": (write("config.json", "model"), "checkpoint"),
    "config is deep": (write("config.json", DEEP), "checkpoint"),
    "config has repeated names": (write("config.json", '{"model_type": "bert", "model_type": "gpt2"}'), "checkpoint"),
    "no model_type": (configure(model_type=...), "checkpoint"),
    "model_type is a list": (configure(model_type=["bert"]), "checkpoint"),
    "unknown model_type": (configure(model_type="evil"), "checkpoint"),
    "no architectures": (configure(architectures=None), "architecture"),
    "architectures is text": (configure(architectures="BertForSequenceClassification"), "architecture"),
    "architectures is a number": (configure(architectures=5), "architecture"),
    "architecture is a list": (configure(architectures=[["x"]]), "architecture"),
    "architecture is a function": (configure(architectures=["pipeline"]), "architecture"),
    "architecture is an auto class": (configure(architectures=["AutoModel"]), "architecture"),
    "architecture is private": (configure(architectures=["__class__"]), "architecture"),
    "architecture is for images": (configure(architectures=["ViTForImageClassification"]), "architecture"),
    "sizes are text": (configure(hidden_size="32"), "checkpoint"),
    "size is negative": (configure(hidden_size=-32), "checkpoint"),
    "no heads": (configure(num_attention_heads=0), "checkpoint"),
    "NaN in config": (configure(layer_norm_eps=float("nan")), "layer_norm_eps"),
    "a billion layers": (configure(num_hidden_layers=10**9), "num_hidden_layers"),
    "fewer layers than weights": (
        configure(num_hidden_layers=2), "bert.encoder.layer.2.attention.output.LayerNorm.bias"
    ),
    "no layers": (configure(num_hidden_layers=0), "blocks"),
    "a billion labels": (configure(num_labels=10**9, id2label=..., label2id=...), "num_labels"),
    "a trillion tokens": (configure(vocab_size=10**12), "weights"),
    "huge numbers": (configure(hidden_size=10**30), "hidden_size"),
    "huge and missing positions": (several(configure(max_position_embeddings=10**9), drop(POSITIONS)), "weights"),
    "huge inner size": (configure(intermediate_size=10**9), "weights"),
    "vocabulary too small": (configure(vocab_size=10), "checkpoint"),
    "labels are a list": (configure(id2label=["a", "b", "c"]), "checkpoint"),
    "labels without numbers": (configure(id2label={"x": "a", "y": "b", "z": "c"}), "checkpoint"),
    "labels are the same": (configure(id2label={"0": "a", "1": "a", "2": "a"}), "id2label"),
    "unknown activation": (configure(hidden_act="evil"), "checkpoint"),
    "dtype is no dtype": (configure(dtype="os"), "checkpoint"),
    "code of a hub id for attention": (configure(attn_implementation="evil/kernel"), "attn_implementation"),
    "the same under another name": (configure(_attn_implementation="evil/kernel@v1"), "_attn_implementation"),
    "remote code": (code(auto_map=AUTO, model_type="evil"), "checkpoint"),
    "remote code as architecture": (code(auto_map=AUTO, architectures=["code.M"]), "architecture"),
    "no weights": (remove("model.safetensors"), "checkpoint"),
    "only a pickle": (pickled("pytorch_model.bin"), "weights"),
    "a pickle under the name of weights": (
        several(pickled("x.bin"), lambda f: (f / "x.bin").rename(f / "model.safetensors")), "checkpoint"
    ),
    "weights are a folder": (
        several(remove("model.safetensors"), lambda f: (f / "model.safetensors").mkdir()), "checkpoint"
    ),
    "weights have a huge header": (write("model.safetensors", b"\xff" * 7 + b"\x7f" + b"{}"), "checkpoint"),
    "weights elsewhere": (configure(transformers_weights="../outside.safetensors"), "weights"),
    "a pickle as weights": (several(pickled("x.bin"), configure(transformers_weights="x.bin")), "checkpoint"),
    "shard in the parent": (index("../outside.safetensors"), "weights"),
    "shard at a path": (index("{}/outside.safetensors"), "weights"),
    "shard with a backslash": (index("..\\outside.safetensors"), "weights"),
    "shard through a folder": (index("sub/../../outside.safetensors"), "weights"),
    "shard that is missing": (index("other.safetensors"), "checkpoint"),
    "shard that is a pickle": (several(index("x.bin"), write("x.bin", pickle.dumps([1]))), "checkpoint"),
    "shards are numbers": (index("", json.dumps({"weight_map": {"a": 5}})), "weights"),
    "no shards": (index("", "{}"), "model.safetensors.index.json"),
    "index is deep": (index("", DEEP), "checkpoint"),
    "an adapter": (several(remove(), write("adapter_config.json", '{"base_model_name_or_path": "../x"}')), "adapter"),
    "an adapter beside a model": (write("adapter_config.json", '{"base_model_name_or_path": "../x"}'), "adapter"),
    "classifier is missing": (drop("classifier.weight", "classifier.bias"), "classifier.bias"),
    "a tensor is missing": (drop("bert.encoder.layer.0.output.dense.bias"), "bert.encoder.layer.0.output.dense.bias"),
    "classifier of another shape": (reshape("classifier.weight", 5, 32), "checkpoint"),
    "scalar in place of a matrix": (reshape("classifier.weight"), "checkpoint"),
    "NaN in a weight": (fill("classifier.weight", float("nan")), "classifier.weight"),
    "infinity in a weight": (fill("classifier.bias", float("inf")), "classifier.bias"),
    "tokenizer is no JSON": (write("tokenizer.json", "{"), "tokenizer"),
    "tokenizer is deep": (write("tokenizer.json", DEEP), "tokenizer"),
    "tokenizer settings are a list": (write("tokenizer_config.json", "[]"), "tokenizer"),
    "tokenizer is a model": (several(pickled("x.bin"), lambda f: shutil.copy(f / "x.bin", f / "pytorch_model.bin"),
                             lambda f: zoo.model("bert", "sequence").save_pretrained(f),
                             tokenizer(tokenizer_class="BertModel")), "tokenizer"),
    "tokenizer is a function": (tokenizer(tokenizer_class="pipeline"), "tokenizer"),
    "ids that the model lacks": (rewrite_ids, "tokenizer"),
    "tokenizer is a number": (tokenizer(tokenizer_class=5), "tokenizer"),
    "tokenizer reads less than nothing": (tokenizer(model_max_length=-5), "tokenizer"),
    "tokenizer with remote code": (
        several(code(), tokenizer(tokenizer_class="X", auto_map={"AutoTokenizer": ["code.C", None]})), "tokenizer"
    ),
}  # fmt: skip


@pytest.fixture
def folder(checkpoints, tmp_path):
    return shutil.copytree(zoo.save(checkpoints, "bert", "sequence"), tmp_path / "model")


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture(autouse=True)
def no_code_is_run(tmp_path, monkeypatch):
    """Whoever asks whether code may be run hears yes; it is not run."""
    monkeypatch.setattr("builtins.input", lambda *args: "y")
    yield
    assert not list(tmp_path.glob("ran-*"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_folders_are_refused(folder, name):
    change, part = HOSTILE[name]
    change(folder)
    start, memory = time.process_time(), peak()
    with pytest.raises((InputError, ModelError)) as caught:
        nbsal.load(folder)
    if part == "adapter" and find_spec("peft") is None:
        part = "peft"  # which would have to read it
    assert part in (getattr(caught.value, "part", None), getattr(caught.value, "argument", None)), caught.value
    assert str(caught.value) and len(str(caught.value)) < 1000
    assert time.process_time() - start < 20 and peak() - memory < 300_000_000


def test_a_file_is_refused(folder):
    with refuses("model"):
        nbsal.load(folder / "model.safetensors")


@cases("value, dtype", product([math.nan, math.inf, -math.inf], [torch.float64, torch.float16, torch.float8_e5m2]))
def test_one_value_that_is_no_number_is_found(value, dtype):
    tensor = torch.zeros(3, 5)
    tensor[1, 2] = value
    assert not is_finite(tensor.to(dtype))


LMS = ["empty", "config is deep", "sizes are text", "a billion layers", "a trillion tokens", "huge inner size",
       "code of a hub id for attention", "only a pickle", "shard in the parent", "an adapter", "remote code",
       "index is deep", "tokenizer is deep", "architectures is a number"]  # fmt: skip


@cases("name", LMS)
def test_hostile_folders_are_refused_as_lm(folder, checkpoints, tmp_path, name):
    lm = shutil.copytree(zoo.save(checkpoints, "bert", "masked", seed=1), tmp_path / "lm")
    HOSTILE[name][0](lm)
    with pytest.raises(ModelError):
        nbsal.load(folder, lm=lm)


@cases("name", [name for name in HOSTILE if name.startswith("tokenizer")])
def test_a_damaged_tokenizer_can_be_replaced(folder, checkpoints, name):
    good = zoo.tokenizer("wordpiece")
    HOSTILE[name][0](folder)
    subject = nbsal.load(folder, tokenizer=good)
    assert nbsal.Explainer(subject, "gradcam")("A joy.").scores.any()
    with refuses("tokenizer"):
        nbsal.load(zoo.model("bert", "sequence"), tokenizer=folder)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_damaged_bytes_raise_no_other_error(folder, name):
    data, pick, refused = (folder / name).read_bytes(), random.Random(0), 0
    for number in range(50):
        flipped = bytearray(data)
        for _ in range(pick.choice([1, 4])):
            flipped[pick.randrange(min(len(data), 8000))] ^= 1 << pick.randrange(8)
        (folder / name).write_bytes(flipped if number % 4 else data[: pick.randrange(len(data))])
        try:
            nbsal.Explainer(nbsal.load(folder), "gradcam")("A joy.")
        except NbsalError as error:
            refused += bool(str(error))
    assert refused
