"""Many explained replies judged together: means of single judgements, and what is refused."""

import threading

import numpy as np
import pytest

import nbsal
from nbsal import evaluation
from nbsal.support.errors import Cancelled, InputError
from tests.answers import writers
from tests.raising import refuses

SENTENCES = ["The film is a joy.", "The plot is a bore.", "Ann wrote the book.", "Ben read it.", "Prices fell."]
REPLIES = [" Ann wrote it.", " A joy.", " Ben."]
SETTINGS = {"random": 6, "subsets": 12, "progress": False}


@pytest.fixture(scope="module")
def answers():
    subject, table = writers.load(), {"shapley": [], "random": []}
    for i, reply in enumerate(REPLIES):
        prompt = " ".join(SENTENCES[: 5 - i])
        for name, answer in nbsal.answer(subject, prompt, reply, method=list(table), progress=False).items():
            table[name].append(answer)
    return table


def test_measures_are_means_of_judgements(answers):
    results = evaluation.answers(answers, k=[1, 4], **SETTINGS)
    frame = results.frame.set_index(["explainer", "measure", "k"])["value"]
    for name, each in answers.items():
        judged = [answer.judge(**SETTINGS) for answer in each]
        assert frame[name, "mean drop", 1] == pytest.approx(np.mean([j.drop for j in judged]))
        assert frame[name, "drop", 1] == pytest.approx(np.mean([j.curve[0] - j.curve[1] for j in judged]))
        everything = [j.curve[0] - j.curve[min(4, len(j.curve) - 1)] for j in judged]
        assert frame[name, "drop", 4] == pytest.approx(np.mean(everything))
        assert frame[name, "rank correlation", 1] == pytest.approx(np.mean([j.rank_correlation for j in judged]))
        assert frame[name, "better than chance", 1] == np.mean([j.beats_chance for j in judged])
        above = np.mean([j.drop - j.random_drops.mean() for j in judged])
        assert frame[name, "above random orders", 1] == pytest.approx(above)
    assert frame["shapley", "above random orders", 1] > 0
    paired = results.paired("shapley", "random", ["mean drop"])
    assert paired["margin"][0] == pytest.approx(frame["shapley", "mean drop", 1] - frame["random", "mean drop", 1])
    assert "3 replies" in results.notes and len(results.plot().axes) == 5
    words = evaluation.answers(answers, unit="word", **SETTINGS).frame
    assert not words.equals(evaluation.answers(answers, **SETTINGS).frame)


def test_shared_subsets_are_run_once(answers):
    before = [answer.running.experiment.ablation.forwards for answer in answers["shapley"]]
    evaluation.answers(answers, **SETTINGS)
    after = [answer.running.experiment.ablation.forwards for answer in answers["random"]]
    assert after == before, "Shapley values had them all"


def test_wrong_answers_and_settings_are_refused(answers):
    first, second = answers.values()
    for wrong in (None, {}, first, {"a": []}, {"a": first[0]}, {"a": ["x"]}, {"a": first, "b": second[::-1]}):
        with refuses("answers"):
            evaluation.answers(wrong, **SETTINGS)
    with refuses("answers"):
        evaluation.answers({"a": first, "b": second[:2]}, **SETTINGS)
    for name, value in {"k": 0, "random": 0, "subsets": 1.5, "unit": "lines", "seed": -1}.items():
        with pytest.raises(InputError) as caught:
            evaluation.answers(answers, **SETTINGS | {name: value})
        assert caught.value.argument == name
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        evaluation.answers(answers, **SETTINGS | {"cancel": cancel})
