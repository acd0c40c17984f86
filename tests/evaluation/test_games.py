"""The games against slow reference implementations on twelve architectures, and in closed form."""

import numpy as np
import pytest

import nbsal
from nbsal.evaluation import at_layers, best_layer, games
from nbsal.evaluation._games import coalition_steps
from nbsal.support.errors import InputError, UnknownName
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


@pytest.mark.some(4)
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


def test_fractions_can_be_relative_to_the_whole_sequence(reviews):
    row = reviews.encode("A warm and funny film.")[0]
    order, points = list(row.content), [0.0, 0.5, 1.0]
    content, sequence = (coalition_steps(row, order, points, length) for length in ("content", "sequence"))
    assert content.sum(1).tolist() == [2, 5, 8, 8, 5, 2]
    assert sequence.sum(1).tolist() == [2, 6, 8, 8, 4, 2]


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


def test_nan_scores_are_refused():
    broken = toys.fixed_scores(toys.word_sum_subject({"end": 1.0}), end=float("nan"))
    with refuses("explainers") as caught:
        games({"broken": broken}, ["the end"], progress=False)
    assert caught.value.value == "broken"


def test_wrong_explainers_and_texts_are_refused(load, reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
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


def test_wrong_labels_and_options_are_refused(reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
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
