"""The checks of nbsal.testing: sound methods pass, and for each check a broken method fails that check and says why."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import nbsal
from nbsal import testing
from nbsal.errors import UnknownName
from nbsal.methods.base import Method
from nbsal.methods.cost import Cost
from nbsal.testing import CHECKS, __main__, suite, tiny_models
from nbsal.testing.promises import at_layer_0
from tests.cases import cases
from tests.raising import refuses


@pytest.fixture(scope="module")
def bert():
    return tiny_models.load("bert")


@dataclass(frozen=True)
class Sound(Method):
    """Gradient times hidden states at the embeddings."""

    name, family, paper, needs = "sound", "gradient", "-", frozenset({"hidden", "hidden_grad"})
    cost, promise = Cost(1, backwards=1), frozenset({"signed", "about_target"})

    def layers(self, depth):
        return {0}

    def scores(self, trace):
        return (trace.hidden[0] * trace.hidden_grad[0]).sum(-1)


class NotFinite(Sound):
    def scores(self, trace):
        return super().scores(trace) / 0


class Empty(Sound):
    promise = frozenset({"nonnegative", "not_about_target"})

    def scores(self, trace):
        return 0 * super().scores(trace)


class MixesTexts(Sound):
    def scores(self, trace):
        scores = super().scores(trace)
        return scores / abs(scores).max()


class CountsPadding(Sound):
    def scores(self, trace):
        return super().scores(trace) / trace.encoded.longest


class Crashes(Sound):
    def scores(self, trace):
        return trace.hidden[9]


class LeavesEval(Sound):
    def scores(self, trace):
        trace.subject.model.eval()
        return super().scores(trace)


class LeavesHook(Sound):
    def scores(self, trace):
        trace.subject.blocks[0].register_forward_hook(lambda *_: None)
        return super().scores(trace)


class SeedsGlobally(Sound):
    def scores(self, trace):
        torch.manual_seed(0)
        return super().scores(trace)


class FreezesOnce(Sound):
    def scores(self, trace):
        trace.subject.model.requires_grad_(False)
        return super().scores(trace)


class EditsWeights(Sound):
    def scores(self, trace):
        next(trace.subject.model.parameters()).data.mul_(1.5)
        return super().scores(trace)


class MixesPairs(Sound):
    def scores(self, trace):
        scores, first = super().scores(trace), len(trace.encoded[0].parts)
        return scores * 2 if first == 2 and len(trace.encoded) > 1 else scores


class MixesScripts(Sound):
    def scores(self, trace):
        odd = len(trace.encoded) > 1 and not all(row.parts[0].isascii() for row in trace.encoded)
        return super().scores(trace) * (2 if odd else 1)


class SwallowsErrors(Sound):
    def total(self, trace):
        try:
            return super().total(trace)
        except BaseException:
            return trace.hidden[0].sum(-1)


class SaysUnsigned(Sound):
    promise = frozenset({"nonnegative", "about_target"})


class SaysSum(Sound):
    promise = frozenset({"signed", "about_target", "sums_to_1"})


class SaysTarget(Sound):
    promise = frozenset({"signed", "about_target"})

    def scores(self, trace):
        return trace.hidden[0].sum(-1)


class MissesChange(Sound):
    promise = frozenset({"signed", "about_target", "reports_gap", "sums_to_change"})

    def notes(self, trace):
        return [{"change": 0.0, "gap": float(row.sum())} for row in self.total(trace)]


class MissesGap(MissesChange):
    def notes(self, trace):
        return [{"change": float(row.sum()) - 1, "gap": 0.0} for row in self.total(trace)]


class SaysZeroAtDecision(Sound):
    promise = frozenset({"signed", "about_target", "zero_at_decision"})


class SaysZeroInLayer0(Sound):
    promise = frozenset({"signed", "about_target", "zero_at_special_in_layer_0"})


class SaysFewerPasses(Sound):
    cost = Cost(1)


class SaysRelevance(Sound):
    cost = Cost(1, backwards=1, relevance=1)


class RunsAgain(Sound):
    def scores(self, trace):
        trace.subject.logits(trace.subject.inputs(trace.encoded))
        return super().scores(trace)


class CallsTheModel(Sound):
    def scores(self, trace):
        with torch.no_grad():
            trace.subject.model(**trace.subject.inputs(trace.encoded))
        return super().scores(trace)


class Unseeded(Sound):
    def scores(self, trace):
        scores = super().scores(trace)
        state = torch.get_rng_state()
        noise = torch.rand_like(scores)
        torch.set_rng_state(state)
        return scores * noise


class UnseededNumpy(Sound):
    def scores(self, trace):
        return super().scores(trace) * np.random.default_rng().random()


class Remembers(Sound):
    def scores(self, trace):
        return super().scores(trace) * random.Random(id(trace)).random()


class SaysSeeded(Sound):
    promise = frozenset({"signed", "about_target", "seeded"})


@dataclass(frozen=True)
class SeedWithoutPromise(Sound):
    seed: int = 0


@dataclass(frozen=True)
class IgnoresSeed(SaysSeeded):
    seed: int = 0


MUTANTS = [
    (NotFinite, "scores"),
    (Empty, "scores"),
    (MixesTexts, "batch"),
    (CountsPadding, "padding"),
    (LeavesEval, "state"),
    (LeavesHook, "state"),
    (SeedsGlobally, "state"),
    (FreezesOnce, "state"),
    (EditsWeights, "state"),
    (MixesPairs, "batch"),
    (MixesScripts, "batch"),
    (SwallowsErrors, "state"),
    (SaysUnsigned, "promise"),
    (SaysSum, "promise"),
    (SaysTarget, "promise"),
    (MissesChange, "promise"),
    (MissesGap, "promise"),
    (SaysZeroAtDecision, "promise"),
    (SaysZeroInLayer0, "promise"),
    (SaysFewerPasses, "cost"),
    (SaysRelevance, "cost"),
    (RunsAgain, "cost"),
    (CallsTheModel, "cost"),
    (Unseeded, "repeat"),
    (UnseededNumpy, "repeat"),
    (Remembers, "repeat"),
    (SaysSeeded, "seed"),
    (SeedWithoutPromise, "seed"),
    (IgnoresSeed, "seed"),
]


def test_each_check_has_a_mutant():
    assert {name for _, name in MUTANTS} == set(CHECKS)


def test_a_sound_method_passes_every_check(bert):
    assert [result.check for result in testing.check(Sound(), bert) if result.outcome == "passed"] == list(CHECKS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("mutant", "name"), MUTANTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_method_fails_its_check(mutant, name):
    with pytest.raises(AssertionError) as caught:
        testing.check(mutant(), tiny_models.load("bert"), only=[name])
    assert str(caught.value).startswith(f"{name} on tiny bert: ")


@pytest.mark.parametrize(
    "name",
    [
        "random",
        "decoded-gradcam",
        "rollout",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("lrp", "mask-lrp")),
    ],
)
def test_methods_of_the_catalogue_pass(name):
    results = testing.check(name)
    assert {result.subject for result in results} == {"tiny bert", "tiny roberta", "tiny llama", "demo/reviews"}


def test_a_method_that_crashes_fails(bert):
    with pytest.raises(AssertionError) as caught:
        testing.check(Crashes(), bert)
    assert "KeyError: 9" in str(caught.value)


def test_a_method_that_refuses_a_model_is_skipped_there(bert):
    results = testing.run("raw-attention@published", [bert, tiny_models.load("llama")], only=["batch"])
    assert [(result.subject, result.outcome) for result in results] == [
        ("tiny bert", "passed"),
        ("tiny llama", "skipped"),
    ]


def test_a_method_that_explains_nothing_does_not_pass():
    with pytest.raises(AssertionError):
        testing.check("raw-attention@published", tiny_models.load("llama"))


def test_unknown_checks_are_refused(bert):
    with refuses("only") as caught:
        testing.run("gradcam", bert, only=["batches"])
    assert caught.value.valid == tuple(CHECKS)


@pytest.mark.parametrize("head", ["token", "span"])
def test_labels_of_tokens_and_spans_are_explained(head):
    assert testing.check(Sound(), tiny_models.load("bert", head), only=["scores", "batch", "promise"])


def test_models_may_be_named_and_must_be_models():
    assert testing.check(nbsal.GradCAM(layer=1), "demo/notes", only=["padding"])
    for subjects in (42, [], [3]):
        with refuses("subjects"):
            testing.check("gradcam", subjects)
    with refuses("only"):
        testing.check("gradcam", only=[])


@pytest.mark.parametrize("name", ["integrated", "decoded-simple", "attcat"])
def test_properties_of_single_explanations_hold(bert, name):
    assert [result.outcome for result in testing.check(name, bert, only=["promise"])] == ["passed"]


@pytest.fixture
def generators():
    return lambda: (torch.get_rng_state().sum(), str(np.random.get_state()), random.getstate())


def test_the_checks_leave_random_generators_as_they_are(bert, generators):
    before = generators()
    tiny_models.load("roberta")
    testing.check("random", bert)
    assert generators() == before


def test_the_program_prints_a_table_and_exits_with_1_on_failure(monkeypatch, capsys, tmp_path, bert):
    monkeypatch.setattr(__main__, "default_subjects", lambda: [bert])
    assert __main__.main(["gradcam", "--only", "batch"]) == 0
    assert "tiny bert  batch  passed" in capsys.readouterr().out
    monkeypatch.setattr(nbsal.GradCAM, "cost", Cost(2))
    assert __main__.main(["gradcam", "--only", "cost"]) == 1
    assert "FAILED" in capsys.readouterr().out
    folder = tmp_path / "model"
    bert.model.save_pretrained(folder)
    bert.tokenizer.save_pretrained(folder)
    assert __main__.main(["simple", "--model", str(folder), "--only", "padding"]) == 0
    assert str(folder) in capsys.readouterr().out
    assert __main__.main(["no-such-method"]) == 2


def test_without_base_weights_the_tiny_models_remain(monkeypatch):
    def raise_error():
        raise nbsal.errors.WeightsError("none")

    load = nbsal.load
    monkeypatch.setattr(
        nbsal, "load", lambda model, **s: raise_error() if model == "demo/reviews" else load(model, **s)
    )
    assert len(suite.default_subjects()) == 3


@cases("method", ["decoded-gradxact", "gradxact", "rollout"])
def test_properties_of_layer_0_are_checked_there(bert, method):
    explain = at_layer_0(nbsal.Explainer(bert, method))
    inner = getattr(explain.method, "method", explain.method)
    assert getattr(inner, "layer", 0) == 0 and explain.method.name == method


def test_unknown_tiny_models_are_refused():
    with refuses("name", UnknownName):
        tiny_models.load("no-model")
