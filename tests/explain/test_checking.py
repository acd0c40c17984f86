"""Measured values are those of the literally masked model, whatever the task, and stay within the budget."""

import numpy as np
import pytest
import torch

import nbsal
from nbsal.ablation.engine import Ablation
from nbsal.explain import checking
from nbsal.explain.checking import HiddenWords, words_of
from nbsal.explain.sentences.decision_facts import MATTERS, MOST_AGAINST, MOST_DRAWS, MOST_FOR, MOST_NAMED
from nbsal.methods.default import FOR_DECISIONS
from nbsal.support.errors import InputError
from nbsal.support.progress import Meter
from tests.ablation.runs import logits_of
from tests.raising import refuses

TEXT = "The opening sentence is a beauty; the four hundred pages that follow are a swamp."
PAIR = ("Who ran home?", "The old dog ran home and slept.")


def hidden(saliency, numbers):
    """A coalition without some words."""
    coalition = np.ones((1, len(saliency.row)), dtype=bool)
    coalition[0, [i for number in numbers for i in saliency.words[number].tokens]] = False
    return coalition


def test_the_values_are_those_of_literal_masking(small):
    explain = nbsal.Explainer(small, "decoded-gradcam")
    saliency = explain(TEXT, check=True)
    check, ablation = saliency.check, Ablation(small)
    label = small.labels.index(saliency.target)

    def value(words):
        (logits,) = logits_of(small, [saliency.row], [hidden(saliency, words)], ablation=ablation)
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
    check = checking.check(words_of(saliency, Ablation(small), "remove"), passes, meter)
    assert steps[-1] <= passes and len(check.random) >= 1
    assert len(check.candidates) <= MOST_FOR + MOST_AGAINST and len(check.random) <= MOST_DRAWS


@pytest.fixture
def runs(monkeypatch):
    """The sets of words that were hidden, by what hides them."""
    sets, hide = [], HiddenWords.hide
    monkeypatch.setattr(
        HiddenWords, "hide", lambda words, given, meter: sets.extend(map(tuple, given)) or hide(words, given, meter)
    )
    return sets


@pytest.mark.parametrize("text", [TEXT, "The four hundred pages that follow are a swamp.", "A joy.", "Good."])
def test_every_set_that_was_hidden_is_counted_and_named_sets_are_minimal(small, monkeypatch, runs, text):
    monkeypatch.setattr(checking, "random_words", lambda *given: [])
    for method in ("gradxact", "decoded-gradcam"):
        runs.clear()
        saliency = nbsal.Explainer(small, method)(text, check=True)
        check, ablation = saliency.check, Ablation(small)
        assert check.tried == len({tuple(sorted(numbers)) for numbers in runs})
        label = small.labels.index(saliency.target)

        def value(words, saliency=saliency, ablation=ablation, label=label):
            (logits,) = logits_of(small, [saliency.row], [hidden(saliency, words)], ablation=ablation)
            return float(logits[0].double().softmax(-1)[label])

        words = [check.candidates[number].words for number in check.named]
        without = value([place for places in words for place in places])
        assert check.together.value == pytest.approx(without, abs=1e-6)
        for left_in in words if len(words) > 1 else ():
            rest = value([place for places in words if places != left_in for place in places])
            assert rest - without > MATTERS or (without < 0.5 < rest)


def test_random_draws_differ(small):
    check = nbsal.Explainer(small, "gradxact")("A warm film.", check=True).check
    assert check.drawn + 2 == 4 and len(check.random) == 1, "there are two other words"


@pytest.mark.parametrize("method", ["gradxact", "decoded-gradcam", "random"])
@pytest.mark.parametrize("text", [TEXT, "It is the plot, and it is thin.", "The dull, dull film."])
def test_a_first_check_takes_three_passes_and_names_what_was_hidden(small, monkeypatch, runs, method, text):
    saliency, ablation = nbsal.Explainer(small, method)(text), Ablation(small)
    monkeypatch.delattr(checking.trace, "record")
    check = checking.first_check(words_of(saliency, ablation, "remove", recorded=False), Meter(None))
    assert check.first and ablation.forwards == len(runs) == checking.FIRST
    named = tuple(sorted(place for number in check.named for place in check.candidates[number].words))
    assert named in runs and len(check.named) <= MOST_NAMED
    assert check.whole.value == pytest.approx(saliency.confidence) and check.tried == 2
    statement = saliency.with_check(check).statement()
    tested = {saliency.words[place].text for places in runs[:2] for place in places}
    assert {words for kind, words in statement.sentence if kind in ("for", "against")} <= tested
    if check.state == "supported":
        assert check.effect(check.together) > check.effect(check.random[0])


@pytest.mark.parametrize("text", [TEXT, "It is the plot, and it is thin.", "The dull, dull film.", "A swamp."])
def test_the_first_check_is_part_of_the_whole_one(small, text):
    explain, ablation = nbsal.Explainer(small, "gradxact"), Ablation(small)
    for target in (None, *small.labels, nbsal.contrast("positive", "negative")):
        saliency = explain(text, target)
        words = words_of(saliency, ablation, "remove", target)
        first = checking.first_check(words_of(saliency, ablation, "remove", target, recorded=False), Meter(None))
        whole = checking.check(words, 40, Meter(None))
        alone = dict(zip((word.words for word in whole.candidates), whole.alone, strict=True))
        if first.named:
            assert first.alone[0].value == pytest.approx(alone[first.candidates[0].words].value, abs=1e-6)
        assert first.whole.value == pytest.approx(whole.whole.value, abs=1e-5) and first.raises == whole.raises


def test_words_are_hidden_as_the_method_hides_them():
    remove, mask, text = (nbsal.Occlusion(way=way) for way in ("remove", "mask", "text"))
    assert (checking.way_of(mask), checking.way_of(mask, mask)) == ("mask", "mask")
    assert {checking.way_of(*methods) for methods in ((remove, mask), (text,), (nbsal.Random(),))} == {"remove"}


@pytest.mark.parametrize("text", ["Nobody laughed.", "A mess of a film.", "The acting is dreadful."])
def test_a_method_that_hiding_supports_comes_to_the_rescue(small, text):
    rescued = nbsal.Explainer(small, "random").rescue(text)
    tried = [nbsal.Explainer(small, name)(text, check=True) for name in FOR_DECISIONS]
    supported = [saliency for saliency in tried if saliency.check.state == "supported"]
    best = max(tried, key=lambda saliency: saliency.check.effect(saliency.check.together))
    assert (rescued.method, rescued.check) == ((supported or [best])[0].method, (supported or [best])[0].check)


def test_the_own_method_is_no_rescue_unless_it_is_the_only_one(small):
    own = nbsal.Explainer(small, FOR_DECISIONS[0])
    assert own.rescue("Nobody laughed.", "positive").method != FOR_DECISIONS[0]

    def ask(batch):
        return [[0.9, 0.1] if "warm" in text else [0.2, 0.8] for text in batch]

    box = nbsal.Explainer(nbsal.load(ask, labels=["good", "bad"]), "occlusion")
    assert box.rescue("A warm film.").method == "occlusion", "nothing else can explain a function"


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
        (logits,) = logits_of(subject, [row], [hidden(saliency, check.candidates[0].words)])
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
