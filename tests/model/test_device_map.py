"""Models that accelerate distributes: explained like plain ones on one device, refused where weights are elsewhere."""

import pytest
import torch
import transformers

import nbsal
from nbsal.support.errors import ModelError
from tests import axioms, wrapped, zoo

accelerate = wrapped.peer("accelerate")
METHODS = ("gradcam", "gae", "lrp", "transformer-attribution", "occlusion")
ON_DISK = {
    "bert.embeddings": "cpu", "bert.encoder.layer.0": "cpu", "bert.encoder.layer.1": "disk",
    "bert.encoder.layer.2": "disk", "bert.pooler": "cpu", "classifier": "cpu",
}  # fmt: skip


def read(folder, **options):
    return transformers.BertForSequenceClassification.from_pretrained(folder, **options).eval()


def subject_of(model):
    return nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))


DISTRIBUTED = {
    "auto": lambda folder: read(folder, device_map="auto"),
    "dict": lambda folder: read(folder, device_map={"": "cpu"}),
    "hooks": lambda folder: accelerate.dispatch_model(read(folder), {"": "cpu"}, force_hooks=True),
}


@pytest.mark.skipif(torch.cuda.is_available(), reason="accelerate would use the GPU")
@pytest.mark.parametrize("kind", DISTRIBUTED)
def test_a_model_on_one_device_is_explained_like_a_plain_one(tmp_path, kind):
    zoo.model("bert", "sequence").save_pretrained(tmp_path)
    model = DISTRIBUTED[kind](tmp_path)
    subject, plain = subject_of(model), subject_of(read(tmp_path))
    assert kind != "hooks" or "forward" in vars(model.bert)  # which accelerate replaced
    inputs = plain.inputs(plain.encode(wrapped.TEXTS))
    with torch.no_grad():
        assert torch.equal(subject.logits(inputs), plain.logits(inputs))
    for method in METHODS:
        scores = [nbsal.Explainer(each, method)(wrapped.TEXTS[0]).scores for each in (subject, plain)]
        assert axioms.relative(*scores) < 1e-6
    with torch.no_grad():  # the float64 copy of relevance follows the model
        model.classifier.weight.mul_(torch.linspace(-1, 2, 32))
    truth = subject_of(read(tmp_path))
    with torch.no_grad():
        truth.model.classifier.weight.copy_(model.classifier.weight)
    scores = [nbsal.Explainer(each, "lrp")(wrapped.TEXTS[0]).scores for each in (subject, truth)]
    assert axioms.relative(*scores) < 1e-6


def test_offloaded_weights_are_refused(tmp_path):
    zoo.model("bert", "sequence").save_pretrained(tmp_path / "model")
    models = [
        read(tmp_path / "model", device_map=ON_DISK, offload_folder=tmp_path / "offload"),
        accelerate.cpu_offload(read(tmp_path / "model"), torch.device("cpu")),
    ]
    for model in models:
        with pytest.raises(ModelError) as caught:
            subject_of(model)
        assert "meta device" in str(caught.value) and caught.value.part
