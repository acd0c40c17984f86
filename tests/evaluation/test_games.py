"""The games: against slow replicas on twelve architectures, and in closed form."""

from dataclasses import dataclass, field
from inspect import signature
from threading import Event

import numpy as np
import pytest
import torch

import nbsal
from nbsal import evaluation
from nbsal.errors import Cancelled, InputError, UnknownName
from nbsal.evaluation import Memory, at_layers, best_layer, bootstrap, games
from nbsal.evaluation import cache as remembering
from nbsal.evaluation._games import coalition_steps
from nbsal.model.masking import MaskedModel
from tests import axioms, zoo
from tests.evaluation import known, naive

TENTHS = [step / 10 for step in range(11)]
LONG = " ".join(axioms.TEXTS)  # beyond the tiny ModernBERT's local window


def areas(found, name):
    return found.auc().set_index("explainer").loc[[name], "auc"].tolist()


def plays_as_slowly(explain, labels, texts=axioms.TEXTS):
    found = games({"ours": explain}, texts, labels, fractions=TENTHS, random=0, progress=False)
    truth = naive.games(explain.subject, [explain(t) for t in texts], labels or [None] * len(texts), TENTHS)
    assert np.allclose(areas(found, "ours"), truth, atol=1e-12)


@pytest.mark.parametrize("labels", [None, [0, 1, 2, 0]], ids=["predictions", "labels"])
@pytest.mark.parametrize("architecture", zoo.ARCHITECTURES)
def test_games_are_those_of_one_forward_a_fraction(load, architecture, labels):
    explain = nbsal.Explainer(load(architecture, decoding=False), "gradcam")
    plays_as_slowly(explain, labels, [*axioms.TEXTS[:3], LONG])


def test_a_model_that_counts_plays_as_it_must():
    """One word decides: hidden first, the decision falls at once; revealed first, it stands at once."""
    subject = known.counting({"end": 1.0, "the": -0.1})
    good, bad = known.scoring(subject, end=2, a=1), known.scoring(subject, end=-1)
    text, count = "a and the end", 4
    assert len(subject.encode(text)[0].content) == count
    points = [k / count for k in range(count + 1)]
    found = games({"good": good, "bad": bad}, [text], [1], fractions=points, random=0, progress=False).frame
    curve = {key: part["accuracy"].tolist() for key, part in found.groupby(["explainer", "game"])}
    # Without the end nothing is above 0, and the first class it is.
    assert curve["good", "revealing"] == [0.0] + [1.0] * count
    assert curve["good", "hiding"] == [1.0] + [0.0] * count
    assert curve["bad", "revealing"] == [0.0] * count + [1.0]
    assert curve["bad", "hiding"] == [1.0] * count + [0.0]


def test_areas_are_trapezoids_over_the_given_fractions():
    subject = known.counting({"end": 1.0})
    good = known.scoring(subject, end=1)
    found = games({"good": good}, ["a and the end"], [1], fractions=[0, 0.25, 1], random=0, progress=False)
    assert np.allclose(areas(found, "good"), [1 - 0.5 / 4, 0.5 / 4])


@pytest.mark.parametrize(("text", "falls_at"), [("end and a the", 0.25), ("a the and end", 1.0)])
def test_ties_are_broken_by_the_rule_of_saliency(text, falls_at):
    """With constant scores the order is that of positions."""
    subject = known.counting({"end": 1.0})
    same = known.scoring(subject)
    frame = games({"same": same}, [text], [1], fractions=[0, 0.25, 0.5, 1], random=0, progress=False).frame
    masked_model = frame[frame["game"] == "hiding"].set_index("fraction")["accuracy"]
    assert masked_model[masked_model == 0].index.min() == falls_at


def test_fractions_may_be_of_the_whole_sequence(reviews):
    row = reviews.encode("A warm and funny film.")[0]
    order, points = list(row.content), [0.0, 0.5, 1.0]
    content, whole = (coalition_steps(row, order, points, of) for of in ("content", "sequence"))
    assert content.sum(1).tolist() == [2, 5, 8, 8, 5, 2]
    assert whole.sum(1).tolist() == [2, 6, 8, 8, 4, 2]


def test_a_text_of_one_token_is_played(reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    found = games({"one": explain}, ["joy"], fractions=[0, 0.5, 1], random=0, progress=False).frame
    assert found[found["game"] == "hiding"]["accuracy"].tolist()[:2] == [1.0, 1.0]  # half of one token is none


def order_changes_nothing(subject):
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple")}
    texts, labels = [*axioms.TEXTS, "The plot hardly moves."], [0, 1, 2, 0, 1]
    order = [3, 0, 4, 2, 1]
    one = games(explainers, texts, labels, random=3, progress=False)
    other = games(explainers, [texts[i] for i in order], [labels[i] for i in order], random=3, progress=False)
    assert one.frame.equals(other.frame)
    assert one.paired("gradcam", "random").equals(other.paired("gradcam", "random"))


def test_the_order_of_texts_changes_nothing(load, monkeypatch):
    subject = load("bert", decoding=False)
    order_changes_nothing(subject)
    # A mutant that draws texts by the places they were given at.
    monkeypatch.setattr(bootstrap.Bootstrap, "_canonical", lambda self, values: np.asarray(values))
    with pytest.raises(AssertionError):
        order_changes_nothing(subject)


def test_chance_is_the_mean_of_its_runs(load):
    subject = load("bert", decoding=False)
    explain = nbsal.Explainer(subject, "gradcam")
    found = games({"ours": explain}, axioms.TEXTS, random=4, progress=False)
    runs = {f"r{seed}": nbsal.Explainer(subject, "random", seed=seed) for seed in range(4)}
    each = games(runs, axioms.TEXTS, random=0, progress=False).auc()
    assert np.allclose(areas(found, "random"), each.groupby("game", sort=False)["auc"].mean())
    spread = found.spread().set_index("game")
    assert spread["runs"].tolist() == [4, 4]
    assert np.allclose(spread["sd"], each.groupby("game", sort=False)["auc"].std())


def test_explainers_of_one_subject_share_traces_and_subsets(load, monkeypatch):
    subject = load("bert", decoding=False)
    recorded = []
    record = nbsal.trace.record
    monkeypatch.setattr(nbsal.trace, "record", lambda *given, **named: recorded.append(1) or record(*given, **named))
    cache = Memory()
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple", "gradxact")}
    games(explainers, axioms.TEXTS, random=3, cache=cache, progress=False)
    assert len(recorded) == 1
    forwards = cache.masked_models[subject, "remove"].forwards
    again = explainers | {"again": nbsal.Explainer(subject, "simple")}
    games(again, axioms.TEXTS, random=2, cache=cache, progress=False)
    best_layer(explainers["gradcam"], axioms.TEXTS[:2], cache=cache, progress=False)
    assert len(recorded) == 2  # of layers that were not asked before
    best_layer(explainers["gradcam"], axioms.TEXTS[:2], cache=cache, progress=False)
    assert len(recorded) == 2
    games(again, axioms.TEXTS, random=0, cache=cache, progress=False)
    assert cache.masked_models[subject, "remove"].forwards - forwards < forwards


def test_only_what_is_new_is_explained(load, monkeypatch):
    subject, asked = load("bert", decoding=False), []
    read = nbsal.Explainer.from_trace
    monkeypatch.setattr(nbsal.Explainer, "from_trace", lambda self, trace: asked.append(self) or read(self, trace))
    old, new = (nbsal.Explainer(subject, name) for name in ("gradcam", "simple"))
    cache = Memory()
    games({"old": old}, axioms.TEXTS, random=0, cache=cache, progress=False)
    games({"old": old, "new": new}, axioms.TEXTS, random=0, cache=cache, progress=False)
    assert asked == [old, new]
    games({"old": old, "new": new}, [*axioms.TEXTS, "A warm film."], random=0, cache=cache, progress=False)
    assert asked == [old, new, old, new]


def test_a_memory_is_of_the_weights_it_was_filled_with():
    """Whoever trains between two calls gets the second one of the trained model; other models are not forgotten."""
    models = [zoo.model("bert", "sequence", seed=seed) for seed in range(2)]
    subjects = [nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece")) for model in models]
    explainers = {name: nbsal.Explainer(subject, "gradxact") for name, subject in zip("ab", subjects, strict=True)}
    cache = Memory()
    before = games(explainers, axioms.TEXTS, random=0, cache=cache, progress=False)
    kept = [dict(known) for known in cache.saliencies.values()]
    axioms.change_weights(models[0])
    now = games(explainers, axioms.TEXTS, random=0, cache=cache, progress=False)
    assert now.frame.equals(games(explainers, axioms.TEXTS, random=0, progress=False).frame)
    assert not now.frame.equals(before.frame)
    again = [cache.saliencies[explain.subject, explain.method] for explain in explainers.values()]
    assert [all(new[key] is one for key, one in old.items()) for old, new in zip(kept, again, strict=True)] == [
        False,
        True,
    ]


def test_a_memory_is_of_the_lm_head_it_was_filled_with():
    """Decoded methods read the weights of another model too, which may learn alone."""
    model, lm = zoo.model("bert", "sequence"), zoo.model("bert", "masked", seed=1)
    explain = nbsal.Explainer(nbsal.load(model, tokenizer=zoo.tokenizer("wordpiece"), lm=lm), "decoded-gradcam")

    def told(cache):
        games(explain, axioms.TEXTS, random=0, cache=cache, progress=False)
        return list(cache.saliencies[explain.subject, explain.method].values())

    cache = Memory()
    before, again = told(cache), told(cache)
    assert all(one is other for one, other in zip(before, again, strict=True))
    axioms.change_weights(lm)
    now, fresh = ([one.scores.tolist() for one in told(each)] for each in (cache, Memory()))
    assert now == fresh != [one.scores.tolist() for one in before]


def test_a_memory_makes_one_hiding(reviews, monkeypatch):
    made = []

    class Counted(MaskedModel):
        def __init__(self, *settings):
            made.append(settings)
            super().__init__(*settings)

    monkeypatch.setattr(remembering, "MaskedModel", Counted)
    cache = Memory()
    for _ in range(2):
        games(nbsal.Explainer(reviews, "gradcam"), ["A joy."], random=0, cache=cache, progress=False)
    assert len(made) == 1


@pytest.mark.parametrize("at", [2, 150])
def test_a_cancelled_call_goes_on_where_it_stopped(load, monkeypatch, at):
    monkeypatch.setattr("nbsal.model.masking.TOKENS", 16)
    subject = load("bert", decoding=False)
    explainers = {name: nbsal.Explainer(subject, name) for name in ("gradcam", "simple")}
    cancel, seen = Event(), []
    options = {"fractions": TENTHS, "random": 0, "batch_size": 1}
    with pytest.raises(Cancelled) as stopped:
        games(explainers, axioms.TEXTS, progress=lambda done, _: done >= at and cancel.set(), cancel=cancel, **options)
    cache = stopped.value.partial
    told = sum(map(len, cache.saliencies.values()))
    masked_model = cache.masked_models.get((subject, "remove"))
    before = masked_model.forwards if masked_model else 0
    assert told > 0 if at == 2 else before > 0
    whole = Memory()
    truth = games(explainers, axioms.TEXTS, cache=whole, progress=False, **options)
    found = games(explainers, axioms.TEXTS, cache=cache, progress=lambda *step: seen.append(step), **options)
    assert found.frame.equals(truth.frame)
    assert seen[-1][0] == seen[-1][1]
    assert cache.masked_models[subject, "remove"].forwards == whole.masked_models[subject, "remove"].forwards


def test_points_are_twentieths_and_two_are_enough(load):
    explain = nbsal.Explainer(load("bert", decoding=False), "gradcam")
    found = games(explain, axioms.TEXTS, random=0, progress=False).frame["fraction"].unique()
    assert found.tolist() == [step / 20 for step in range(21)]
    assert len(games(explain, axioms.TEXTS, fractions=[0, 1], random=0, progress=False).frame) == 4


def test_twenty_orders_by_chance_are_played(load):
    explain, cache = nbsal.Explainer(load("bert", decoding=False), "gradcam"), Memory()
    games(explain, axioms.TEXTS, cache=cache, progress=False)
    assert len(cache.saliencies) == 1 + 20


def test_long_calls_show_a_bar_unless_told():
    calls = games, best_layer, evaluation.faithfulness, evaluation.precision_at, evaluation.answer_recall_at
    assert [signature(call).parameters["progress"].default for call in calls] == [True] * len(calls)


def test_notes_say_against_what_accuracy_counts(load):
    explain = nbsal.Explainer(load("bert", decoding=False), "gradcam")
    for labels, said in ((None, "the model's own predictions"), ([0, 1, 2, 0], "their labels")):
        assert f"accuracy against {said}" in games(explain, axioms.TEXTS, labels, random=0, progress=False).notes[0]


def test_two_models_are_played_side_by_side(load):
    one, other = load("bert", decoding=False), load("roberta", decoding=False)
    both = {"bert": nbsal.Explainer(one, "gradcam"), "roberta": nbsal.Explainer(other, "gradcam")}
    found = games(both, axioms.TEXTS, random=2, progress=False)
    alone = games({"roberta": both["roberta"]}, axioms.TEXTS, random=0, progress=False)
    assert areas(found, "roberta") == areas(alone, "roberta")
    assert found.explainers[2:] == [f"random, {one.name}", f"random, {other.name}"]


def test_the_best_layer_is_the_one_with_the_widest_gap(load):
    explain = nbsal.Explainer(load("bert", decoding=False), "gradxact")
    assert list(at_layers(explain)) == [0, 1, 2, 3]
    area = games({str(at): e for at, e in at_layers(explain).items()}, axioms.TEXTS, random=0, progress=False).auc()
    gaps = area.pivot(index="explainer", columns="game", values="auc").eval("revealing - hiding")
    chosen = best_layer(explain, axioms.TEXTS, progress=False)
    assert gaps[str(chosen)] == gaps.max()
    with pytest.raises(InputError, match="no layers to choose from"):
        best_layer(nbsal.Explainer(explain.subject, "rollout"), axioms.TEXTS)


def test_decoded_layers_can_be_chosen(reviews):
    layers = at_layers(nbsal.Explainer(reviews, "decoded-simple", layer=2))
    assert [one.method.layer for one in layers.values()] == list(range(7))
    assert {one.method.name for one in layers.values()} == {"decoded-simple"}


def test_scores_that_are_no_numbers_are_refused():
    broken = known.scoring(known.counting({"end": 1.0}), end=float("nan"))
    with pytest.raises(InputError, match="broken scored a token of 'the end' with NaN"):
        games({"broken": broken}, ["the end"], progress=False)


@dataclass(frozen=True)
class Listed(known.Chosen):
    """A method with a setting that has no hash."""

    words: list = field(default_factory=list)


def test_settings_without_a_hash_are_those_of_one_explainer():
    subject = known.counting({"end": 1.0})
    good, bad = (nbsal.Explainer(subject, Listed({"end": value}, ["end"])) for value in (1, -1))
    found = games({"good": good, "bad": bad}, ["a and the end"], [1], random=0, progress=False)
    truth = games({"good": known.scoring(subject, end=1)}, ["a and the end"], [1], random=0, progress=False)
    assert areas(found, "good") == areas(truth, "good") != areas(found, "bad")


def test_errors_say_the_way_out(load, reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    other = nbsal.Explainer(load("bert", decoding=False), "gradcam")
    for given, error, sentence in [
        (({}, ["A joy."]), InputError, "at least one"),
        (({"x": "gradcam"}, ["A joy."]), InputError, "no nbsal.Explainer"),
        (({"x": None}, ["A joy."]), InputError, "no nbsal.Explainer"),
        (({"x": [explain, other]}, ["A joy."]), InputError, "runs of x explain different models: name them apart"),
        (([explain, explain], ["A joy."]), InputError, "different names"),
        ((explain, "A joy."), InputError, "list of texts"),
        ((explain, []), InputError, "list is empty"),
        ((explain, ["[SEP]"]), InputError, "only special tokens"),
        ((explain, ["A joy."], [0, 1]), InputError, "2 labels for 1 texts"),
        ((explain, ["A joy."], ["good"]), UnknownName, "negative, positive"),
    ]:
        with pytest.raises(error, match=sentence):
            games(*given, progress=False)
    for options, sentence in [
        ({"fractions": [0, 2]}, "shares from 0 to 1"),
        ({"fractions": [0]}, "at least one above 0"),
        ({"of": "words"}, "content, sequence"),
    ]:
        with pytest.raises((InputError, UnknownName), match=sentence):
            games(explain, ["A joy."], progress=False, **options)
    with pytest.raises(InputError, match="no decision to follow"):
        games(nbsal.Explainer(load("bert", "token", decoding=False), "gradcam"), ["A joy."], progress=False)
    long = nbsal.Explainer(load("bert", decoding=False), "gradcam", long="window")
    with pytest.raises(InputError, match='long="truncate"'):
        games(long, ["joy " * 200], progress=False)


def test_what_was_cut_is_said(load):
    explain = nbsal.Explainer(load("bert", decoding=False), "gradcam")
    assert "1 cut to the model's length" in games(explain, ["A bore.", "joy " * 200], random=0, progress=False).notes


def test_labels_may_be_names_or_numbers(reviews):
    explain = nbsal.Explainer(reviews, "gradcam")
    named = games(explain, ["A joy.", "A bore."], ["positive", "negative"], random=0, progress=False)
    numbered = games(explain, ["A joy.", "A bore."], np.array([1, 0]), random=0, progress=False)
    assert named.frame.equals(numbered.frame)
    assert torch.is_inference_mode_enabled() is False
