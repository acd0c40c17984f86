"""Models of peft, in memory and in folders: read with their adapters, and followed when these change."""

import json

import numpy as np
import pytest
import torch

import nbsal
from nbsal.model.loading import adapters
from tests import axioms, kind_examples, wrapped, zoo
from tests.raising import refuses_part

TEXT = wrapped.TEXTS[0]
KINDS = {
    "LoRA": ("LoraConfig", {}),
    "DoRA": ("LoraConfig", {"use_dora": True}),
    "IA3": ("IA3Config", kind_examples.IA3),
    "AdaLoRA": ("AdaLoraConfig", {"total_step": 10}),
    "LoHa": ("LoHaConfig", {"init_lora_weights": None}),
}
RELEVANCE = ("lrp", "attn-lrp", "transformer-attribution")


def loaded(model):
    return nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))


def scores(subject, method, text=TEXT):
    return nbsal.Explainer(subject, method)(text).scores


def second_adapter(model):
    """The model with another adapter, which is not in use."""
    torch.manual_seed(9)
    settings = wrapped.peer("peft").LoraConfig(target_modules=["query"], r=2, init_lora_weights=False)
    model.add_adapter("other", settings)
    model.set_adapter("default")
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_wrapper(kind):
    name, settings = KINDS[kind]
    model = wrapped.adapted(name, **settings)
    subject = loaded(model)
    for texts in (wrapped.TEXTS, wrapped.PAIRS, [wrapped.LONG]):
        inputs = subject.inputs(subject.encode(texts))
        with torch.no_grad():
            assert torch.equal(subject.logits(inputs), model(**inputs).logits)
            with model.disable_adapter():
                assert torch.equal(subject.logits(inputs), model(**inputs).logits)
    assert subject.transformer is model.get_base_model() and not list(adapters.adapter_layers(subject.merged.model))


@pytest.mark.parametrize("method", RELEVANCE)
@pytest.mark.parametrize("kind", KINDS)
def test_relevance_is_that_of_the_merged_model(kind, method, tmp_path):
    name, settings = KINDS[kind]
    model = wrapped.adapted(name, **settings)
    ours = scores(loaded(model), method)
    assert list(adapters.adapter_layers(model.get_base_model()))  # the user's model is as it was
    model.merge_and_unload().save_pretrained(tmp_path)
    assert axioms.relative(ours, scores(nbsal.load(tmp_path, tokenizer=zoo.tokenizer("wordpiece")), method)) < 1e-9


@pytest.mark.parametrize("method", ["gradxact", "occlusion", *RELEVANCE])
def test_a_change_of_adapters_changes_the_next_explanation(method):
    model = second_adapter(wrapped.adapted())
    subject = loaded(model)

    def now():
        return scores(subject, method)[1:]  # the first position reads itself, whatever the adapter

    def fresh():
        return scores(loaded(model), method)[1:]

    before = now()
    model.set_adapter("other")
    switched = now()
    assert np.array_equal(switched, fresh()) and axioms.relative(switched, before) > 1e-3
    with model.disable_adapter():
        disabled = now()
        assert np.array_equal(disabled, fresh()) and axioms.relative(disabled, switched) > 1e-3
    model.set_adapter("default")
    model.merge_adapter()
    merged = now()
    assert np.array_equal(merged, fresh()) and axioms.relative(merged, before) < 1e-3
    with model.disable_adapter():  # peft takes a merged adapter out again in its next forward pass, to rounding
        unmerged = now()
        assert np.array_equal(unmerged, fresh())
        assert method == "attn-lrp" or axioms.relative(unmerged, disabled) < 1e-3


def adapter_folder(tmp_path, headless=False):
    """A LoRA adapter saved beside its base, and the model it was saved from."""
    peft = wrapped.peer("peft")
    base = tmp_path / "base"
    plain = zoo.model("bert", "sequence")
    plain.save_pretrained(base)
    zoo.tokenizer("wordpiece").save_pretrained(base)
    if headless:  # as a base that was pretrained for something else
        config = json.loads((base / "config.json").read_text())
        (base / "config.json").write_text(json.dumps(config | {"architectures": ["BertForMaskedLM"]}))
    torch.manual_seed(1)
    settings = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], r=2, init_lora_weights=False)
    model = peft.get_peft_model(type(plain).from_pretrained(base), settings)
    with torch.no_grad():
        model.base_model.model.classifier.modules_to_save["default"].weight.normal_()
    model.save_pretrained(tmp_path / "adapter")
    zoo.tokenizer("wordpiece").save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter", model.eval()


@pytest.mark.parametrize("headless", [False, True])
@pytest.mark.parametrize("place", ["absolute", "beside"])
def test_an_adapter_folder_loads_with_its_base(tmp_path, headless, place):
    folder, model = adapter_folder(tmp_path, headless)
    if place == "beside":
        config = json.loads((folder / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = "somewhere/base"
        (folder / "adapter_config.json").write_text(json.dumps(config))
    subject = nbsal.load(folder)
    inputs = subject.inputs(subject.encode(wrapped.TEXTS))
    with torch.no_grad():
        assert torch.equal(subject.logits(inputs), model(**inputs).logits)
    assert subject.name == str(folder)
    assert nbsal.load(folder, dtype="float64").dtype == torch.float64
    assert np.isfinite(scores(subject, "lrp")).all()


def test_an_adapter_that_is_a_pickle_is_not_opened(tmp_path):
    folder, model = adapter_folder(tmp_path)
    (folder / "adapter_model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "adapter_model.bin")
    with refuses_part("weights"):
        nbsal.load(folder)


def test_an_adapter_without_a_tokenizer_is_read_with_that_of_its_base(tmp_path):
    model = wrapped.adapted()
    model.peft_config["default"].base_model_name_or_path = str(zoo.save(tmp_path, "bert", "sequence"))
    model.save_pretrained(tmp_path / "adapter")
    with pytest.warns(UserWarning, match="tokenizer="):
        subject = nbsal.load(tmp_path / "adapter")
    assert subject.tokenizer.get_vocab() == zoo.tokenizer("wordpiece").get_vocab()
