"""One check of every kind of target: what was hidden, what came out, and random sets beside it, as one frame."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import nbsal
from nbsal.explain.text_sheet import word_bars
from nbsal.render.headline import percent
from nbsal.support.errors import InputError
from tests.cases import cases

COLUMNS = ["hidden", "kind", "value", "change", "outcome"]
ASKED = [{"role": "user", "content": "Where does Mara live?"}]
DOCUMENTS = ["Mara lives in Oslo now.", "Boris lives in Rouen."]


def check_frame(effects, *kinds):
    assert list(effects.columns) == COLUMNS and set(kinds) <= {*effects["kind"]}
    assert (effects["kind"].iloc[0], effects["hidden"].iloc[0], effects["change"].iloc[0]) == ("nothing", (), 0.0)
    np.testing.assert_allclose(effects["value"] - effects["value"].iloc[0], effects["change"])


@cases(
    "model, text, target",
    [
        ("demo/reviews-small", "A warm and funny film.", None),
        ("demo/reviews-small", "A warm and funny film.", "negative"),
        ("demo/reviews-small", "A warm and funny film.", nbsal.contrast("positive", "negative")),
        ("demo/answers", ("Who wrote it?", "Nora Smith wrote the long book in May."), None),
        ("demo/notes", "Mara lives in Oslo. Mara lives in", None),
    ],
)
def test_a_decision_has_its_effects(model, text, target):
    saliency = nbsal.Explainer(nbsal.load(model), "gradxact")(text, target, check=True)
    check_frame(saliency.effects(), "alone", "random")
    assert saliency.effects()["outcome"].iloc[0] == saliency.check.whole.prediction


@cases(
    "model, text, turns",
    [
        ("demo/reviews-small", "Warm, warm and funny film.", False),
        ("demo/reviews-small", "A dull film.", True),
        ("demo/answers", ("Who wrote it?", "Nora Smith wrote the long book in May."), True),
    ],
)
def test_the_list_of_words_shows_what_hiding_each_did(model, text, turns):
    saliency = nbsal.Explainer(nbsal.load(model), "gradxact")(text, check=True)
    check, alone = saliency.check, dict(saliency.statement().alone)
    assert len(alone) == len(check.alone) > 1
    for word, outcome in zip(check.candidates, check.alone, strict=True):
        kind, said = alone[tuple(i for number in word.words for i in saliency.words[number].tokens)]
        assert said.startswith(percent(outcome.value)) or outcome.value > 0.999
        assert kind == ("class" if outcome.prediction != saliency.prediction else "text")
    assert ("class" in [kind for kind, _ in alone.values()]) == turns
    (*_, table) = word_bars(saliency)
    ranked = saliency.ranked_words(10)
    assert [row[3] for row in table.rows] == [[alone[word.tokens]] if word.tokens in alone else "" for word in ranked]
    (*_, table) = word_bars(replace(saliency, checks={}))
    assert {len(row) for row in table.rows} == {3}


@cases("first, second, raises", [("positive", "negative", False), ("negative", "positive", True)])
def test_for_the_decision_rather_than_another_words_for_it_are_hidden(first, second, raises):
    explain = nbsal.Explainer(nbsal.load("demo/reviews-small"), "attn-lrp")
    saliency = explain("Slow, but beautifully played.", nbsal.contrast(first, second), check=True)
    assert saliency.prediction == "positive" and saliency.check.raises == raises


@pytest.fixture(scope="module")
def notes():
    return nbsal.load("demo/notes")


def test_a_part_of_a_reply_is_checked_as_a_decision_is(notes):
    answer = nbsal.answer(notes, ASKED, documents=DOCUMENTS, method="gae", progress=False)
    part = answer.of("Oslo", check=True)
    check_frame(part.effects(), "alone", "random")
    (oslo,) = (number for number, word in enumerate(part.check.candidates) if word.text == "Oslo")
    without = nbsal.answer(notes, ASKED, answer.text, documents=["Mara lives in now.", DOCUMENTS[1]], progress=False)
    (place,) = answer.tokens_of("Oslo")
    assert part.check.alone[oslo].value == pytest.approx(np.exp(without.statistics.logprob[place]), abs=1e-3)
    assert part.check.state == "supported" and part.check.alone[oslo].prediction != "Oslo"
    assert part.check.whole.value == pytest.approx(np.exp(answer.statistics.logprob[place]), abs=1e-5)


@pytest.mark.parametrize("method", ["gae", "attn-lrp"])
def test_a_token_rather_than_another_is_checked(notes, method):
    explain = nbsal.Explainer(notes, method)
    answer = explain.reply(ASKED, documents=DOCUMENTS, progress=False)
    contrast = explain.check(answer.rather("Rouen", "Oslo"))
    effects = contrast.effects()
    check_frame(effects, "alone", "random")
    assert not contrast.check.probable and {*effects["outcome"]} == {"Oslo", "Rouen"}
    assert (contrast.check.state, contrast.check.raises) == ("supported", False), "words for Oslo answer why not Rouen"
    np.testing.assert_array_equal(effects["value"] > 0, effects["outcome"] == "Oslo")


def test_what_a_method_hides_is_hidden(notes):
    answer = nbsal.answer(notes, ASKED, documents=DOCUMENTS, progress=False)
    part = answer.of("Oslo", check=True)
    assert part.check.unit == "part" and ("document 1",) in {*part.effects()["hidden"]}
    assert part.check.state == "supported"


def test_a_whole_reply_has_its_effects(notes):
    explain = nbsal.Explainer(notes, "gae")
    unchecked = explain.reply(ASKED, documents=DOCUMENTS, check=False, progress=False)
    with pytest.raises(InputError):
        unchecked.effects()
    answer = explain.check(unchecked)
    check_frame(answer.effects(), "alone", "together")
    part = answer.effects("Oslo").set_index("hidden")
    assert part["change"].idxmin() in [("document 1",), ("document 1", "document 2")]
    assert answer.effects()["value"].iloc[0] == pytest.approx(answer.statistics.logprob[answer.reading.content].sum())


def test_what_was_not_checked_or_has_no_model_says_so(notes, tmp_path):
    answer = nbsal.answer(notes, ASKED, documents=DOCUMENTS, method="gae", progress=False)
    with pytest.raises(InputError):
        answer.of("Oslo").effects()
    answer.save(tmp_path / "answer")
    with pytest.raises(InputError):
        nbsal.Answer.load(tmp_path / "answer").of("Oslo", check=True)


def test_effects_of_layers_are_one_table():
    explain = nbsal.Explainer(nbsal.load("demo/reviews-small"), "gradcam")
    layers = explain.every_layer("A warm and funny film.")
    with pytest.raises(InputError):
        layers.effects()
    for layer in (1, 3):
        layers = layers.with_check(explain.check(layers.at(layer)).check, layer)
    effects = layers.effects()
    assert effects["layer"].unique().tolist() == [1, 3]
    pd.testing.assert_frame_equal(
        effects[effects["layer"] == 3].drop(columns="layer").reset_index(drop=True), layers.at(3).effects()
    )
    assert layers.statement().state == "unchecked" and "warm" not in layers.statement().text()
