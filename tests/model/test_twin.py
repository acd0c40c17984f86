"""Explanations run a twin: other threads that use the model get what an idle model says, and explanations are right."""

import copy
import gc
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import nbsal
from nbsal.methods import alti, catalogue
from nbsal.methods.reference.published import FirstRow
from nbsal.model.running.twin import OWN_BUFFER, twin_of
from nbsal.support.errors import ModelError
from nbsal.testing.state import snapshot
from tests import axioms, matrix, wrapped, zoo

TEXT = axioms.TEXTS[0]


def loaded(model):
    return nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"))


@contextmanager
def beside(work):
    """Repeat work in another thread; yields the list of its results, errors among them."""
    results, stop = [], threading.Event()

    def repeat():
        while not stop.is_set():
            try:
                results.append(work())
            except Exception as error:
                results.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield results
    finally:
        stop.set()
        thread.join()


def suits(architecture, method):
    decomposes = method.name in ("alti", "decompx")
    return not (decomposes and architecture not in alti.PARTS) and not isinstance(method, FirstRow)


def check_beside_calls(subject, method, count):
    """As many calls of the model while it is explained give the bits of an idle one, and the scores are those too."""
    inputs = subject.inputs(subject.encode(axioms.TEXTS))

    def call():
        with torch.no_grad():
            return subject.model(**inputs).logits

    explain = nbsal.Explainer(subject, method)
    idle, alone = call(), explain(TEXT).scores
    with beside(call) as results:
        while len(results) < count:
            assert explain(TEXT).scores.tobytes() == alone.tobytes()
    assert all(isinstance(result, torch.Tensor) and torch.equal(result, idle) for result in results)


@pytest.mark.parametrize("name", ["attn-lrp", "integrated", "lrp", "deeplift-shap"])
def test_calls_and_explanations_at_the_same_time_are_those_of_an_idle_model(load, name):
    check_beside_calls(load("bert"), matrix.method(name), 20)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:attention-gradcam")
@pytest.mark.parametrize("name", catalogue.names())
def test_calls_during_every_method(load, name):
    method = matrix.method(name)
    check_beside_calls(load("bert" if suits("bert", method) else "roberta"), method, 300)


def test_training_at_the_same_time_takes_the_same_steps():
    def steps(explained):
        subject = loaded(zoo.model("bert", "sequence", hidden_dropout_prob=0.1).float().train())
        model, inputs = subject.model, subject.inputs(subject.encode(axioms.TEXTS))
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.01), []

        def train():
            torch.manual_seed(1)
            for _ in range(60):
                loss = model(**inputs, labels=torch.zeros(len(axioms.TEXTS), dtype=torch.long)).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())

        if not explained:
            train()
            return losses
        explain, thread = nbsal.Explainer(subject, "attn-lrp"), threading.Thread(target=train)
        thread.start()
        while thread.is_alive():
            try:
                explain(TEXT)
            except ModelError as error:
                assert error.part == "weights"
        return losses

    assert steps(explained=True) == steps(explained=False)


def test_the_twin_has_the_models_memory_and_nothing_else_of_it():
    model = zoo.model("bert", "sequence").train()
    model.register_buffer("large", torch.zeros(OWN_BUFFER))
    twin = twin_of(model).module
    for own, shared in zip(model.parameters(), twin.parameters(), strict=True):
        assert own.data_ptr() == shared.data_ptr() and own.requires_grad and not shared.requires_grad
    assert twin.large.data_ptr() == model.large.data_ptr()
    assert model.training and not twin.training and twin.config is not model.config
    assert not set(model.modules()) & set(twin.modules())


CHANGES = {
    "in place": lambda model: model.classifier.weight.data.mul_(2),
    "replaced": lambda model: setattr(model.classifier.weight, "data", torch.randn_like(model.classifier.weight)),
    "loaded": lambda model: model.load_state_dict(zoo.model("bert", "sequence", seed=5).state_dict()),
    "a new module": lambda model: setattr(model, "classifier", torch.nn.Linear(32, 3).to(model.dtype)),
    "a hook": lambda model: model.classifier.register_forward_hook(lambda module, args, output: 2 * output),
    "a flag": lambda model: setattr(model.bert.encoder.layer[0].attention.output.LayerNorm, "eps", 0.5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_next_explanation_is_of_the_changed_model(change):
    model = zoo.model("bert", "sequence")
    subject = loaded(model)
    for method in ("gradxact", "occlusion", "lrp"):
        nbsal.Explainer(subject, method)(TEXT)
    CHANGES[change](model)
    other = loaded(copy.deepcopy(model))  # which has a twin of its own
    for method in ("gradxact", "occlusion", "lrp"):
        ours, fresh = (nbsal.Explainer(each, method)(TEXT).scores for each in (subject, other))
        assert np.array_equal(ours, fresh)


def inference(model):
    with torch.inference_mode():
        return copy.deepcopy(model)


WRAPPED = {
    "compiled": torch.compile,
    "weights of inference": inference,
    "parametrized": lambda model: torch.nn.utils.parametrizations.weight_norm(model.classifier) and model,
    "a tensor with a graph": lambda model: setattr(model, "extra", model.classifier.weight * 2) or model,
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_other_kinds_of_models_have_twins_with_the_same_scores(kind):
    wrapped_model, plain = WRAPPED[kind](zoo.model("bert", "sequence")), loaded(zoo.model("bert", "sequence"))
    subject = loaded(wrapped_model)
    for method in ("gradxact", "occlusion", "lrp"):
        ours, truth = (nbsal.Explainer(each, method)(TEXT).scores for each in (subject, plain))
        assert axioms.relative(ours, truth) < 1e-5
    assert subject.twin is not subject.model


class Counting(torch.nn.Module):
    """A module around a model that writes to a buffer whenever it runs."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, **inputs):
        self.calls += 1
        return self.model(**inputs).logits


def test_a_buffer_that_a_forward_pass_writes_to_is_its_own():
    module = Counting(zoo.model("bert", "sequence"))
    nbsal.Explainer(loaded(module), "occlusion")(TEXT)
    assert module.calls == 0


class Closing(torch.nn.Module):
    """A module whose forward pass is a function that has the model in its closure."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.call = lambda inputs: model(**inputs)

    def forward(self, **inputs):
        return self.call(inputs).logits


class Locked(Closing):
    """A module that cannot be copied."""

    def __init__(self, model):
        super().__init__(model)
        self.call = None
        self.lock = threading.Lock()

    def forward(self, **inputs):
        with self.lock:
            return self.model(**inputs).logits


@pytest.mark.parametrize("kind", [Closing, Locked])
def test_a_model_that_cannot_be_copied_is_run_directly_and_left_as_it_was(kind):
    plain = zoo.model("bert", "sequence")
    with pytest.warns(UserWarning, match="cannot be copied"):
        subject = loaded(kind(copy.deepcopy(plain)).train())
        saliency = nbsal.Explainer(subject, "gradxact")(TEXT)
    assert saliency.provenance["model run"] and subject.twin is subject.model
    assert np.array_equal(saliency.scores, nbsal.Explainer(loaded(plain), "gradxact")(TEXT).scores)
    before = snapshot(subject)
    with pytest.raises(ModelError) as refused:
        nbsal.Explainer(subject, "lrp")(TEXT)
    assert refused.value.part in ("copy", "forward") and snapshot(subject) == before
    assert all(module.training for module in subject.model.modules())


def test_hooks_are_shared_and_methods_of_modules_are_copied():
    model, seen = zoo.model("bert", "sequence"), []

    class Recorder:
        def see(self, module, args, output):
            seen.append(module)

    model.classifier.register_forward_hook(Recorder().see)
    nbsal.Explainer(loaded(model), "gradxact")(TEXT)
    assert seen and model.classifier not in seen


def test_a_model_is_freed_with_its_subject():
    model = zoo.model("bert", "sequence")
    subject = loaded(model)
    nbsal.Explainer(subject, "lrp")(TEXT)
    reference = torch.utils.weak.weakref.ref(model)
    del model, subject
    gc.collect()
    assert reference() is None


def test_an_adapter_that_the_next_pass_takes_out_stays_in_the_users_weights():
    model = wrapped.adapted()
    model.merge_adapter()
    subject = loaded(model)
    before = snapshot(subject)
    with model.disable_adapter():
        nbsal.Explainer(subject, "occlusion")(TEXT)
    assert snapshot(subject) == before
