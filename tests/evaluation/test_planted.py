"""Audits and explanations of the planted models find what these go by."""

import numpy as np
import pytest

import nbsal
from nbsal.samples.planted import SHORTCUTS
from tests.evaluation.planted import Tally, audit_model
from tests.raising import refuses

BY_DAY = ("pair", "position", "control")  # two words, no word, nothing to find


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.full] * (n not in BY_DAY)) for n in SHORTCUTS])
def test_an_audit_finds_the_shortcut_and_nothing_else(name):
    tally = Tally()
    tally.add(name, audit_model(name, 0, 300))
    assert tally.hits == bool(SHORTCUTS[name].features) and not tally.false


@pytest.mark.full
@pytest.mark.parametrize("name", SHORTCUTS)
def test_audits_of_many_seeds_find_it_too(name):
    tally = Tally()
    for seed in range(20):
        tally.add(name, audit_model(name, seed, 300))
    assert tally.hits >= (19 if SHORTCUTS[name].features else 0) and tally.false_share <= 0.05


def test_methods_are_scored_by_the_word_that_decides():
    def wide_occlusion(subject):
        return nbsal.Explainer(subject, "occlusion", window=2)

    results = nbsal.evaluation.planted({"occlusion": "occlusion", "random": "random"}, size=20, progress=False)
    means = results.mean().query("model == 'mean'").set_index("explainer")
    assert means.loc["occlusion", "low"] > 0.8 and means.loc["random", "high"] < 0.4
    assert results.measures == [name for name in SHORTCUTS if SHORTCUTS[name].words] + ["mean"]
    frame = results.mean().pivot(index="explainer", columns="model", values="mean")
    assert np.allclose(frame.drop(columns="mean").mean(axis=1), frame["mean"])
    by_function = nbsal.evaluation.planted(wide_occlusion, size=2, progress=False)
    assert by_function.explainers == ["wide_occlusion"]
    with refuses("explainers"):
        nbsal.evaluation.planted(nbsal.Explainer(nbsal.load("planted/word"), "occlusion"), progress=False)
