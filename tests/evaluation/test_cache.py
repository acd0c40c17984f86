"""The cache: what is computed once, what is dropped when weights change, and how cancelled calls resume."""

from dataclasses import dataclass, field
from threading import Event

import pytest

import nbsal
from nbsal.evaluation import Cache, best_layer, games
from nbsal.support.errors import Cancelled
from tests import axioms, zoo
from tests.evaluation import toys

TENTHS = [step / 10 for step in range(11)]


def test_explainers_of_one_subject_share_traces_and_coalitions(load, monkeypatch):
    subject = load("bert", decoding=False)
    traces = []
    record = nbsal.trace.record
    monkeypatch.setattr(
        nbsal.passes.trace, "record", lambda *args, **options: traces.append(1) or record(*args, **options)
    )
    cache = Cache()
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple", "gradxact")}
    games(explainers, axioms.TEXTS, random=3, cache=cache, progress=False)
    assert len(traces) == 1
    forwards = cache.masked_models[subject, "remove"].forwards
    with_duplicate = explainers | {"duplicate": nbsal.Explainer(subject, "simple")}
    games(with_duplicate, axioms.TEXTS, random=2, cache=cache, progress=False)
    best_layer(explainers["gradcam"], axioms.TEXTS[:2], cache=cache, progress=False)
    assert len(traces) == 2  # of the layers that had not been explained
    best_layer(explainers["gradcam"], axioms.TEXTS[:2], cache=cache, progress=False)
    assert len(traces) == 2
    games(with_duplicate, axioms.TEXTS, random=0, cache=cache, progress=False)
    assert cache.masked_models[subject, "remove"].forwards - forwards < forwards


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
    monkeypatch.setattr("nbsal.model.running.masking.TOKENS", 16)
    subject = load("bert", decoding=False)
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple")}
    cancel, steps = Event(), []
    options = {"fractions": TENTHS, "random": 0, "batch_size": 1}
    with pytest.raises(Cancelled) as cancelled:
        games(explainers, axioms.TEXTS, progress=lambda done, _: done >= at and cancel.set(), cancel=cancel, **options)
    cache = cancelled.value.partial
    explained = sum(map(len, cache.saliencies.values()))
    masked_model = cache.masked_models.get((subject, "remove"))
    forwards = masked_model.forwards if masked_model else 0
    assert explained > 0 if at == 2 else forwards > 0
    complete = Cache()
    truth = games(explainers, axioms.TEXTS, cache=complete, progress=False, **options)
    results = games(explainers, axioms.TEXTS, cache=cache, progress=lambda *step: steps.append(step), **options)
    assert results.frame.equals(truth.frame)
    assert steps[-1][0] == steps[-1][1]
    assert cache.masked_models[subject, "remove"].forwards == complete.masked_models[subject, "remove"].forwards


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
