"""Measured values are those of the literally masked model, whatever the task, and stay within the budget."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.explain import checking
from nbsal.explain.decision_facts import MOST_AGAINST, MOST_FOR
from nbsal.model.running.masking import MaskedModel
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from tests.raising import refuses

TEXT = "The opening sentence is a beauty; the four hundred pages that follow are a swamp."
PAIR = ("Who ran home?", "The old dog ran home and slept.")


def hidden(saliency, numbers):
    """A coalition without some words."""
    coalition = np.ones((1, len(saliency.row)), dtype=bool)
    coalition[0, [i for number in numbers for i in saliency.words[number].tokens]] = False
    return coalition


def test_the_values_are_those_of_the_masked_model(small):
    explain = nbsal.Explainer(small, "decoded-gradcam")
    saliency = explain(TEXT, check=True)
    check, masked_model = saliency.check, MaskedModel(small)
    label = small.labels.index(saliency.target)

    def value(words):
        (logits,) = masked_model.logits([saliency.row], [hidden(saliency, words)])
        return float(logits[0].double().softmax(-1)[label])

    assert check.whole.value == pytest.approx(float(saliency.probabilities[label]), abs=1e-6)
    expected = [value(word.words) for word in check.candidates]
    assert [outcome.value for outcome in check.alone] == pytest.approx(expected, abs=1e-6)
    together = [number for k in check.named for number in check.candidates[k].words]
    assert check.together.value == pytest.approx(value(together), abs=1e-6)
    assert (check.state, check.together.prediction) == ("supported", "negative")
    assert explain.check(saliency).check == check, "random words are the same whenever the text is the same"


def test_every_target_is_checked_if_that_is_asked(small):
    by_target = nbsal.Explainer(small, "gradxact")(TEXT, target="all", check=True)
    values = [saliency.check.whole.value for saliency in by_target.values()]
    assert list(by_target) == small.labels and sum(values) == pytest.approx(1)


@pytest.mark.parametrize("passes", [4, 9, 16, 40])
def test_a_check_keeps_its_budget(small, monkeypatch, passes):
    steps, saliency = [], nbsal.Explainer(small, "gradxact")(TEXT)
    meter = Meter(passes, lambda done, total: steps.append(done))
    check = checking.check(saliency, MaskedModel(small), None, passes, meter)
    assert steps[-1] <= passes and len(check.random) >= 1
    assert len(check.candidates) <= min(MOST_FOR + MOST_AGAINST, (passes - 1) // 2)


def test_a_check_that_would_take_long_is_left_out(small):
    saliency = nbsal.Explainer(small, "gradxact")(TEXT)
    with pytest.raises(checking.TooSlow) as slow:
        checking.check(saliency, MaskedModel(small), None, 16, Meter(None), most_seconds=0.0)
    assert slow.value.seconds > 0


@pytest.mark.parametrize(
    ("model", "settings", "text"),
    [
        ("bert", {"num_labels": 1}, "The film is a joy."),
        ("demo/answers", {}, PAIR),
        ("demo/nli", {}, ("A dog runs.", "An animal moves.")),
        ("gpt2", {}, "The film is a"),
    ],
)
def test_every_task_can_be_checked(load, model, settings, text):
    subject = nbsal.load(model) if model.startswith("demo/") else load(model, **settings)
    saliency = nbsal.Explainer(subject, "gradxact")(text, check=True)
    check, row = saliency.check, saliency.row
    with torch.no_grad():
        (logits,) = MaskedModel(subject).logits([row], [hidden(saliency, check.candidates[0].words)])
    if check.probable:
        assert 0 <= check.whole.value <= 1 and check.whole.prediction == saliency.prediction
    else:
        assert check.alone[0].value == pytest.approx(float(logits[0, 0]), rel=1e-4)
    assert saliency.statement().state != "unchecked"


def test_what_cannot_be_checked_is_refused(small):
    explain = nbsal.Explainer(small, "gradxact", long="window")
    with refuses("check"):
        explain(TEXT, check=2)
    with refuses("target"):
        explain.check(explain(TEXT, target="negative"))
    with pytest.raises(InputError):
        explain("A long text. " * 300, check=True)


def test_a_saved_explanation_keeps_its_check(small, tmp_path):
    layers = nbsal.Explainer(small, "gradcam").every_layer("A joy.")
    check = nbsal.Explainer(small, "gradcam", layer=3).check(layers.at(3)).check
    layers.with_check(check, 3).save(tmp_path / "layers.json")
    loaded = nbsal.LayerSaliency.load(tmp_path / "layers.json")
    assert loaded.checks == {3: check} and loaded.at(3).check == check and loaded.at(2).check is None


def test_each_of_several_labels_is_decided_by_itself():
    def ask(texts):
        return [[0.9 if "warm" in text else 0.3, 0.95, 0.1] for text in texts]

    explain = nbsal.Explainer(nbsal.load(ask, labels=["joy", "love", "fear"]))
    saliency = explain("A warm and funny film.", "joy", check=True)
    assert (saliency.prediction, saliency.contrary) == ("love", False)
    outcomes = (saliency.check.whole, saliency.check.together)
    assert [outcome.prediction for outcome in outcomes] == ["joy", "not joy"] and saliency.check.state == "supported"
    finding = saliency.facts()
    assert (finding.prediction, *finding.also[0]) == ("joy", "love", pytest.approx(0.95)) and len(finding.also) == 1
    assert finding.probability == pytest.approx(0.9)
    assert explain("A warm and funny film.", "fear").contrary and explain("A film.", "joy").contrary
