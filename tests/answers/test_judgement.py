"""Units judged by hiding them: literal loops, bounded cost, other units, and what chance would do."""

import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import nbsal
from tests.ablation.runs import hide
from tests.ablation.test_reply import masked_by_hand
from tests.answers import writers
from tests.answers.test_ways import sequences
from tests.cases import cases
from tests.raising import refuses

SENTENCES = [
    "The film is a joy.", "The plot is a bore.", "Ann wrote the book.", "Ben read it.", "Prices fell on Monday.",
    "The striker scored twice.", "It was warm.",
]  # fmt: skip
PROMPT, REPLY = " ".join(SENTENCES), " Ann wrote it. Ben."
COUNT = len(SENTENCES)


@pytest.fixture(scope="module")
def subject():
    return writers.load()


@pytest.fixture(scope="module")
def results(subject):
    methods = {"shapley": "shapley", "random": "random", "cut": nbsal.Ridge(way="text")}
    return nbsal.answer(subject, PROMPT, REPLY, method=methods, progress=False)


@cases("name", ["shapley", "cut"])
def test_the_curve_is_that_of_a_literal_loop(subject, results, name):
    """For units that are left out, of the stock model with their tokens masked by hand."""
    result = results[name]
    judged = result.judge(random=3, subsets=5)
    order = np.argsort(-result.unit_scores().sum(0))
    fresh, curve = hide(subject, result.reading, result.units, result.provenance["parameters"]["way"]), []
    for step in range(COUNT + 1):
        stays = np.isin(np.arange(COUNT), order[:step], invert=True)
        curve.append(float(fresh.numbers(stays[None]).sum()))
        if name == "shapley":
            hidden = [token for unit in order[:step] for token in result.units[unit].tokens if token]
            assert curve[-1] == pytest.approx(sum(masked_by_hand(subject, result.reading, hidden)), abs=1e-6)
    assert judged.curve == pytest.approx(curve, abs=1e-6)
    assert judged.drop == pytest.approx(curve[0] - np.mean(curve[1:]), abs=1e-6)
    frame = judged.frame().set_index("measure")["value"]
    for k in (1, 2, 3):
        assert frame[f"drop without the first {k}"] == pytest.approx(curve[0] - curve[k], abs=1e-6)
    drops = result.sources(COUNT, "reply")["drop"]
    assert drops[0] == pytest.approx(curve[0] - curve[1], abs=1e-6)
    assert judged.random.shape == (3, COUNT + 1, len(result.ids)) and judged.values.shape == (5, len(result.ids))


def test_good_scores_beat_random_orders_and_random_scores_do_not(results):
    best, chance = results["shapley"].judge(random=40), results["random"].judge(random=40)
    assert best.drop >= best.random_drops.mean() and best.rank_correlation > 0.8
    assert best.beats_chance and best.frame().attrs["finding"] == "better than chance"
    assert not chance.beats_chance and chance.frame().attrs["finding"] == "no better than chance"
    assert -1 <= chance.rank_correlation <= 1
    low, high = np.percentile(best.random_drops, (2.5, 97.5))
    assert best.frame()["value"].tolist()[-3:-1] == pytest.approx([low, high])


def test_the_rank_correlation_is_of_sums_of_scores_with_fresh_subsets(results):
    judged, again, other = (results["shapley"].judge(random=1, subsets=30, seed=seed) for seed in (4, 4, 5))
    ranks = [np.argsort(np.argsort(each)) for each in (judged.subsets @ judged.scores.sum(0), judged.values.sum(1))]
    distinct = len({subset.tobytes() for subset in judged.subsets})
    assert distinct < 30 or judged.rank_correlation == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert np.array_equal(again.subsets, judged.subsets) and not np.array_equal(other.subsets, judged.subsets)


def test_the_cost_is_bounded_and_known_subsets_are_free():
    subject, random, subsets = writers.load(), 5, 10
    result = nbsal.answer(subject, PROMPT, REPLY, method="gae", progress=False)
    texts = sequences(subject)
    result.judge(random=random, subsets=subsets)
    run = result.running.experiment.ablation.forwards
    assert len(texts) <= run + 4 and COUNT < run <= COUNT + 1 + random * COUNT + subsets
    texts.clear()
    result.judge(random=random, subsets=subsets)
    assert not texts and result.running.experiment.ablation.forwards == run
    assert result.sources(COUNT, "reply")["drop"].notna().any()
    exact = nbsal.answer(subject, PROMPT, REPLY, method="shapley", progress=False)
    exact.judge(random=random, subsets=subsets)
    assert exact.running.experiment.ablation.forwards == 2**COUNT, "exact values had every subset before"
    assert exact.sources(COUNT, "reply")["drop"].notna().all()


def test_other_units_and_parts_are_judged_by_their_own_sums(results):
    result = results["shapley"]
    words = result.judge(unit="word", k=[1], random=2, subsets=3)
    assert words.hidden.shape == (len(result.reading.units("word")) + 1, len(result.ids))
    assert np.allclose(words.scores.sum(1), result.unit_scores().sum(1)) and len(words.frame()) == 6
    assert result.judge(unit=[(0, 38), (39, len(PROMPT))], random=2, subsets=3).hidden.shape[0] == 3
    judged, tokens = result.judge(random=4, subsets=6), list(result.tokens_of("Ben"))
    forwards = result.running.experiment.ablation.forwards
    part = judged.of("Ben")
    assert part.curve == pytest.approx(judged.hidden[:, tokens].sum(1)) and part.tokens == tuple(tokens)
    assert part.random_curves.shape == (4, COUNT + 1) and part.drop != judged.drop
    assert result.running.experiment.ablation.forwards == forwards, "without another run"


UNITS = [("unit", "lines"), ("unit", [(0, 18)])]


@cases("name, value", [("k", 2), ("k", [0]), ("k", "two"), ("random", 0), ("seed", -1), ("subsets", 1.5), *UNITS])
def test_what_cannot_be_judged_is_refused(subject, results, name, value):
    with refuses(name):
        results["random"].judge(**{name: value})
    with refuses("unit"):
        nbsal.answer(subject, "One unit", " Ann.", progress=False).judge()


def test_a_judgement_can_be_cancelled(subject):
    result = nbsal.answer(subject, PROMPT, REPLY, method="gae", progress=False)
    cancel, experiment = threading.Event(), result.running.experiment
    experiment.ablation.batch_size = 4

    def progress(done, total):
        if experiment.ablation.forwards > 20:
            cancel.set()

    with pytest.raises(nbsal.support.errors.Cancelled):
        result.judge(progress=progress, cancel=cancel)
    run = experiment.ablation.forwards
    result.judge(progress=False)
    assert 20 < run < 40 and experiment.ablation.forwards <= 2**COUNT, "what was run stays in the cache"


def test_judgements_of_saved_copied_and_even_answers(results, tmp_path):
    result, settings = results["cut"], {"random": 2, "subsets": 3, "progress": False}
    judgement = result.judge(**settings)
    assert np.allclose(pickle.loads(pickle.dumps(result)).judge(**settings).hidden, judgement.hidden)
    ax = Figure().add_subplot()
    assert judgement.plot(ax=ax) is ax and ax.lines
    assert replace(judgement, scores=np.zeros_like(judgement.scores)).rank_correlation == 0
    result.save(tmp_path / "answer.json")
    with refuses("span"):
        nbsal.Answer.load(tmp_path / "answer.json").judge()


def test_the_model_replies_by_itself_and_its_reply_is_explained():
    subject = nbsal.load("demo/notes")
    documents = {"homes": "Mara lives in Oslo now.", "keys": "Mara has the keys.", "trips": "Boris lives in Rouen."}
    question = [{"role": "user", "content": "Where does Mara live?"}]
    answer = nbsal.answer(subject, question, documents=documents, unit="document", method="occlusion", progress=False)
    assert answer.text == " Mara lives in Oslo."
    assert answer.matrix("word", "document").loc["Oslo"].idxmax() == "document 1, homes"
    assert answer.provenance["documents"] == "by the template"
    assert answer.judge().beats_chance
    against = answer.rather(" Rouen", at="Oslo")
    assert against.target == "Oslo - Rouen"
