"""The checks of nbsal.testing: sound methods pass, and for each check a broken method fails that check and says why."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import nbsal
from nbsal import testing
from nbsal.methods.base import Method
from nbsal.methods.cost import Cost
from nbsal.support.errors import WeightsError
from nbsal.testing import CHECKS, __main__, suite, tiny_models
from nbsal.testing.promises import at_layer_0
from tests.cases import cases
from tests.raising import refuses


@pytest.fixture(scope="module")
def bert():
    return tiny_models.load("bert")


TARGET = frozenset({"signed", "about_target"})


@dataclass(frozen=True)
class Sound(Method):
    """Gradient times hidden states at the embeddings."""

    name, family, paper, needs = "sound", "gradient", "-", frozenset({"hidden", "hidden_grad"})
    cost, promise = Cost(1, backwards=1), TARGET

    def layers(self, depth):
        return {0}

    def scores(self, trace):
        return (trace.hidden[0] * trace.hidden_grad[0]).sum(-1)


def broken(change=lambda trace, scores: scores, before=lambda trace: None, **attributes):
    """A method that calls `before(trace)`, has the scores `change(trace, scores)`, and has these attributes."""

    def scores(self, trace):
        before(trace)
        return change(trace, Sound.scores(self, trace))

    return type("Broken", (Sound,), {"scores": scores} | attributes)()


def mix_pairs(trace, scores):
    return scores * (2 if len(trace.encoded[0].parts) == 2 and len(trace.encoded) > 1 else 1)


def mix_scripts(trace, scores):
    odd = len(trace.encoded) > 1 and not all(row.parts[0].isascii() for row in trace.encoded)
    return scores * (2 if odd else 1)


def draw_unseeded(trace, scores):
    state = torch.get_rng_state()
    noise = torch.rand_like(scores)
    torch.set_rng_state(state)
    return scores * noise


def call_model(trace):
    with torch.no_grad():
        trace.subject.model(**trace.subject.inputs(trace.encoded))


MIXES_TEXTS = broken(lambda trace, scores: scores / abs(scores).max())
COUNTS_PADDING = broken(lambda trace, scores: scores / trace.encoded.longest)
SAYS_SUM = broken(promise=TARGET | {"sums_to_1"})
SAYS_ZERO_AT_DECISION = broken(promise=TARGET | {"zero_at_decision"})
SAYS_FEWER_PASSES = broken(cost=Cost(1))


class SwallowsErrors(Sound):
    def total(self, trace):
        try:
            return super().total(trace)
        except BaseException:
            return trace.hidden[0].sum(-1)


class MissesChange(Sound):
    promise = TARGET | {"reports_gap", "sums_to_change"}

    def notes(self, trace):
        return [{"change": 0.0, "gap": float(row.sum())} for row in self.total(trace)]


class MissesGap(MissesChange):
    def notes(self, trace):
        return [{"change": float(row.sum()) - 1, "gap": 0.0} for row in self.total(trace)]


@dataclass(frozen=True)
class SeedWithoutPromise(Sound):
    seed: int = 0


class IgnoresSeed(SeedWithoutPromise):
    promise = TARGET | {"seeded"}


BROKEN = [
    ("scores", broken(lambda trace, scores: scores / 0)),
    ("scores", broken(lambda trace, scores: 0 * scores, promise=frozenset({"nonnegative", "not_about_target"}))),
    ("batch", MIXES_TEXTS),
    ("batch", broken(mix_pairs)),
    ("batch", broken(mix_scripts)),
    ("padding", COUNTS_PADDING),
    ("state", broken(before=lambda trace: trace.subject.model.eval())),
    ("state", broken(before=lambda trace: trace.subject.blocks[0].register_forward_hook(lambda *_: None))),
    ("state", broken(before=lambda trace: torch.manual_seed(0))),
    ("state", broken(before=lambda trace: trace.subject.model.requires_grad_(False))),
    ("state", broken(before=lambda trace: next(trace.subject.model.parameters()).data.mul_(1.5))),
    ("state", SwallowsErrors()),
    ("promise", broken(promise=frozenset({"nonnegative", "about_target"}))),
    ("promise", SAYS_SUM),
    ("promise", broken(lambda trace, scores: trace.hidden[0].sum(-1))),
    ("promise", MissesChange()),
    ("promise", MissesGap()),
    ("promise", SAYS_ZERO_AT_DECISION),
    ("promise", broken(promise=TARGET | {"zero_at_special_in_layer_0"})),
    ("cost", SAYS_FEWER_PASSES),
    ("cost", broken(cost=Cost(1, backwards=1, relevance=1))),
    ("cost", broken(before=lambda trace: trace.subject.logits(trace.subject.inputs(trace.encoded)))),
    ("cost", broken(before=call_model)),
    ("repeat", broken(draw_unseeded)),
    ("repeat", broken(lambda trace, scores: scores * np.random.default_rng().random())),
    ("repeat", broken(lambda trace, scores: scores * random.Random(id(trace)).random())),
    ("seed", broken(promise=TARGET | {"seeded"})),
    ("seed", SeedWithoutPromise()),
    ("seed", IgnoresSeed()),
]


def test_a_sound_method_passes_every_check(bert):
    assert [result.check for result in testing.check(Sound(), bert) if result.outcome == "passed"] == list(CHECKS)
    assert {name for name, _ in BROKEN} == set(CHECKS)


@pytest.mark.filterwarnings("ignore")
@cases("name, method", BROKEN)
def test_a_broken_method_fails_its_check(name, method):
    with pytest.raises(AssertionError) as caught:
        testing.check(method, tiny_models.load("bert"), only=[name])
    assert str(caught.value).startswith(f"{name} on tiny bert: ")


@pytest.mark.parametrize(
    ("name", "only"), [("random", ["scores", "seed"]), pytest.param("decoded-gradcam", None, marks=pytest.mark.full)]
)
def test_methods_of_the_catalogue_pass(name, only):
    results = testing.check(name, only=only)
    assert {result.subject for result in results} == {"tiny bert", "tiny roberta", "tiny llama", "demo/reviews"}


def test_a_method_that_refuses_a_model_is_skipped_there(bert):
    name, llama = "raw-attention@published", tiny_models.load("llama")
    results = testing.run(name, [bert, llama], only=["batch"])
    assert [(result.subject, result.outcome) for result in results] == [
        ("tiny bert", "passed"),
        ("tiny llama", "skipped"),
    ]
    with pytest.raises(AssertionError):
        testing.check(name, llama)  # which explains nothing
    with pytest.raises(AssertionError) as caught:
        testing.check(broken(lambda trace, scores: trace.hidden[9]), bert)
    assert "KeyError: 9" in str(caught.value)


@cases(
    "call, argument",
    [
        (lambda: testing.check("gradcam", 42), "subjects"),
        (lambda: testing.check("gradcam", []), "subjects"),
        (lambda: testing.check("gradcam", [3]), "subjects"),
        (lambda: testing.check("gradcam", only=[]), "only"),
        (lambda: tiny_models.load("no-model"), "name"),
    ],
)
def test_what_cannot_be_is_refused(call, argument):
    with refuses(argument):
        call()
    with refuses("only") as caught:
        testing.run("gradcam", tiny_models.load("bert"), only=["batches"])
    assert caught.value.valid == tuple(CHECKS)


@cases(
    "method, subject, check",
    [(nbsal.GradCAM(layer=1), "demo/notes", "padding")]
    + [(name, None, "promise") for name in ("integrated", "decoded-simple", "attcat")],
)
def test_models_may_be_named_and_properties_hold(bert, method, subject, check):
    (result,) = testing.check(method, subject or bert, only=[check])
    assert result.outcome == "passed"


def test_the_checks_leave_random_generators_as_they_are(bert):
    def generators():
        return torch.get_rng_state().sum(), str(np.random.get_state()), random.getstate()

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
        raise WeightsError("none")

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
