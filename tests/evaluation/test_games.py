"""The games against slow reference implementations on many architectures and in closed form, and their cache."""

from dataclasses import dataclass, field
from threading import Event

import numpy as np
import pytest

import nbsal
from nbsal.evaluation import Cache, at_layers, best_layer, games
from nbsal.evaluation._games import hidden_at
from nbsal.support.errors import Cancelled, InputError, UnknownName
from tests import axioms, zoo
from tests.evaluation import naive, toys
from tests.raising import refuses

TENTHS = [step / 10 for step in range(11)]
LONG = " ".join(axioms.TEXTS)  # beyond the tiny ModernBERT's local window


def areas(results, name):
    return results.auc().set_index("explainer").loc[[name], "auc"].tolist()


def check_against_naive(explain, labels, texts=axioms.TEXTS):
    results = games({"ours": explain}, texts, labels, fractions=TENTHS, random=0, progress=False)
    truth = naive.games(explain.subject, [explain(t) for t in texts], labels or [None] * len(texts), TENTHS)
    assert np.allclose(areas(results, "ours"), truth, atol=1e-12)


@pytest.mark.some(3)
@pytest.mark.parametrize("labels", [None, [0, 1, 2, 0]], ids=["predictions", "labels"])
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_games_equal_one_forward_pass_per_fraction(load, architecture, labels):
    explain = nbsal.Explainer(load(architecture, decoding=False), "gradcam")
    check_against_naive(explain, labels, [*axioms.TEXTS[:3], LONG])


def test_curves_in_closed_form():
    """One word decides: hidden first, the prediction changes at once; revealed first, it is right at once."""
    subject = toys.word_sum_subject({"end": 1.0, "the": -0.1})
    good, bad = toys.fixed_scores(subject, end=2, a=1), toys.fixed_scores(subject, end=-1)
    text, count = "a and the end", 4
    assert len(subject.encode(text)[0].content) == count
    points = [k / count for k in range(count + 1)]
    frame = games({"good": good, "bad": bad}, [text], [1], fractions=points, random=0, progress=False).frame
    curve = {key: part["accuracy"].tolist() for key, part in frame.groupby(["explainer", "game"])}
    # Without "end" the sum is not above 0, and the first class is predicted.
    assert curve["good", "revealing"] == [0.0] + [1.0] * count
    assert curve["good", "hiding"] == [1.0] + [0.0] * count
    assert curve["bad", "revealing"] == [0.0] * count + [1.0]
    assert curve["bad", "hiding"] == [1.0] * count + [0.0]


def test_fractions_can_be_relative_to_the_whole_sequence(small):
    row = small.encode("A warm and funny film.")[0]
    order, points = list(row.content), [0.0, 0.5, 1.0]
    content, sequence = (hidden_at(row, order, points, length) for length in ("content", "sequence"))
    assert list(map(len, content)) == [6, 3, 0, 0, 3, 6]
    assert list(map(len, sequence)) == [6, 2, 0, 0, 4, 6]


def test_the_random_baseline_is_the_mean_of_its_runs(load):
    subject = load("bert", decoding=False)
    explain = nbsal.Explainer(subject, "gradcam")
    results = games({"ours": explain}, axioms.TEXTS, random=4, progress=False)
    runs = {f"r{seed}": nbsal.Explainer(subject, "random", seed=seed) for seed in range(4)}
    separate = games(runs, axioms.TEXTS, random=0, progress=False).auc().groupby("game", sort=False)["auc"]
    assert np.allclose(areas(results, "random"), separate.mean())
    spread = results.spread().set_index("game")
    assert spread["runs"].tolist() == [4, 4]
    assert np.allclose(spread["sd"], separate.std())


def test_two_models_can_be_compared(load):
    subjects = {name: load(name, decoding=False) for name in ("bert", "roberta")}
    explainers = {name: nbsal.Explainer(subject, "gradcam") for name, subject in subjects.items()}
    results = games(explainers, axioms.TEXTS, random=2, progress=False)
    alone = games({"roberta": explainers["roberta"]}, axioms.TEXTS, random=0, progress=False)
    assert areas(results, "roberta") == areas(alone, "roberta")
    assert results.explainers[2:] == [f"random, {subject.name}" for subject in subjects.values()]


def test_the_best_layer_has_the_largest_gap(load):
    explain = nbsal.Explainer(load("bert", decoding=False), "gradxact")
    assert list(at_layers(explain)) == [0, 1, 2, 3]
    area = games({str(at): e for at, e in at_layers(explain).items()}, axioms.TEXTS, random=0, progress=False).auc()
    gaps = area.pivot(index="explainer", columns="game", values="auc").eval("revealing - hiding")
    layer = best_layer(explain, axioms.TEXTS, progress=False)
    assert gaps[str(layer)] == gaps.max()
    with refuses("explainer"):
        best_layer(nbsal.Explainer(explain.subject, "rollout"), axioms.TEXTS)


def test_wrong_explainers_and_texts_are_refused(load, small):
    explain = nbsal.Explainer(small, "gradcam")
    other = nbsal.Explainer(load("bert", decoding=False), "gradcam")
    for explainers in ({}, {"x": "gradcam"}, {"x": None}, {"x": [explain, other]}, [explain, explain]):
        with refuses("explainers"):
            games(explainers, ["A joy."], progress=False)
    for texts in ("A joy.", []):
        with refuses("texts"):
            games(explain, texts, progress=False)
    with pytest.raises(InputError):  # only special tokens
        games(explain, ["[SEP]"], progress=False)
    with refuses("explainers"):
        games(nbsal.Explainer(load("bert", "token", decoding=False), "gradcam"), ["A joy."], progress=False)
    windowed = nbsal.Explainer(load("bert", decoding=False), "gradcam", long="window")
    with refuses("texts"):
        games(windowed, ["joy " * 200], progress=False)


def test_wrong_labels_and_options_are_refused(small):
    explain = nbsal.Explainer(small, "gradcam")
    with refuses("labels"):
        games(explain, ["A joy."], [0, 1], progress=False)
    with refuses("label", UnknownName) as caught:
        games(explain, ["A joy."], ["good"], progress=False)
    assert caught.value.valid[:2] == ("negative", "positive")
    for fractions in ([0, 2], [0]):
        with refuses("fractions"):
            games(explain, ["A joy."], fractions=fractions, progress=False)
    with refuses("relative_to", UnknownName) as caught:
        games(explain, ["A joy."], relative_to="words", progress=False)
    assert caught.value.valid == ("content", "sequence")


def test_explainers_of_one_subject_share_traces_and_coalitions(load, monkeypatch):
    subject = load("bert", decoding=False)
    traces = []
    record = nbsal.passes.trace.record_now
    monkeypatch.setattr(nbsal.passes.trace, "record_now", lambda *args: traces.append(1) or record(*args))
    cache = Cache()
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple", "gradxact")}
    games(explainers, axioms.TEXTS, random=3, cache=cache, progress=False)
    assert len(traces) == 1
    forwards = cache.ablations[subject].forwards
    with_duplicate = explainers | {"duplicate": nbsal.Explainer(subject, "simple")}
    games(with_duplicate, axioms.TEXTS, random=2, cache=cache, progress=False)
    best_layer(explainers["gradcam"], axioms.TEXTS[:2], cache=cache, progress=False)
    assert len(traces) == 2  # of the layers that had not been explained
    best_layer(explainers["gradcam"], axioms.TEXTS[:2], cache=cache, progress=False)
    assert len(traces) == 2
    games(with_duplicate, axioms.TEXTS, random=0, cache=cache, progress=False)
    assert cache.ablations[subject].forwards - forwards < forwards


def test_explanations_are_dropped_when_the_weights_change():
    """A model that is trained between two calls is explained again; other models stay in the cache."""
    models = [zoo.model("bert", "sequence", seed=seed) for seed in range(2)]
    subjects = [nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece")) for model in models]
    explainers = {name: nbsal.Explainer(subject, "gradxact") for name, subject in zip("ab", subjects, strict=True)}
    cache = Cache()
    before = games(explainers, axioms.TEXTS, random=0, cache=cache, progress=False)
    old_caches = [dict(saliencies) for saliencies in cache.saliencies.values()]
    axioms.change_weights(models[0])
    after = games(explainers, axioms.TEXTS, random=0, cache=cache, progress=False)
    assert after.frame.equals(games(explainers, axioms.TEXTS, random=0, progress=False).frame)
    assert not after.frame.equals(before.frame)
    new_caches = [cache.saliencies[explain.subject, explain.method] for explain in explainers.values()]
    reused = [
        all(new[key] is saliency for key, saliency in old.items())
        for old, new in zip(old_caches, new_caches, strict=True)
    ]
    assert reused == [False, True]


@pytest.mark.parametrize("at", [2, 150])
def test_a_cancelled_call_resumes(load, monkeypatch, at):
    monkeypatch.setattr("nbsal.ablation.engine.TOKENS", 16)
    subject = load("bert", decoding=False)
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple")}
    cancel, steps = Event(), []
    options = {"fractions": TENTHS, "random": 0, "batch_size": 1}
    with pytest.raises(Cancelled) as cancelled:
        games(explainers, axioms.TEXTS, progress=lambda done, _: done >= at and cancel.set(), cancel=cancel, **options)
    cache = cancelled.value.partial
    explained = sum(map(len, cache.saliencies.values()))
    ablation = cache.ablations.get(subject)
    forwards = ablation.forwards if ablation else 0
    assert explained > 0 if at == 2 else forwards > 0
    complete = Cache()
    truth = games(explainers, axioms.TEXTS, cache=complete, progress=False, **options)
    results = games(explainers, axioms.TEXTS, cache=cache, progress=lambda *step: steps.append(step), **options)
    assert results.frame.equals(truth.frame)
    assert steps[-1][0] == steps[-1][1]
    assert cache.ablations[subject].forwards == complete.ablations[subject].forwards


@dataclass(frozen=True)
class UnhashableSetting(toys.FixedScores):
    """A method with a setting that cannot be hashed."""

    words: list = field(default_factory=list)


def test_explainers_with_unhashable_settings_share_nothing():
    subject = toys.word_sum_subject({"end": 1.0})
    good, bad = (nbsal.Explainer(subject, UnhashableSetting({"end": value}, ["end"])) for value in (1, -1))
    area = games({"good": good, "bad": bad}, ["a and the end"], [1], random=0, progress=False).auc()
    truth = games({"good": toys.fixed_scores(subject, end=1)}, ["a and the end"], [1], random=0, progress=False).auc()
    areas = {name: part["auc"].tolist() for name, part in area.groupby("explainer")}
    assert areas["good"] == truth["auc"].tolist() != areas["bad"]
