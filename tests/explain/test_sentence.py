"""What is said of a decision, before and after its words were hidden."""

from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from nbsal.explain.sentences.decision_facts import (
    Candidate,
    Check,
    DecisionFacts,
    HeadsOff,
    Search,
    candidates,
    choose_named,
    with_smallest,
)
from nbsal.explain.sentences.outcomes import Outcome
from nbsal.explain.sentences.statement import statement
from nbsal.model.loading.plain_values import from_plain, to_plain
from nbsal.render.headline import plain
from tests.browser import bench
from tests.cases import cases

POSITIVE = {"prediction": "positive", "target": "positive", "probability": 0.998}
NEGATIVE = POSITIVE | {"target": "negative", "target_probability": 0.002, "contrary": True}


def off(**settings):
    return HeadsOff(**{"off": 6, "total": 72, "prediction": "positive"} | settings)


def said(outcome, scores, check=None):
    finding = DecisionFacts(**outcome, words=[(text, score, 0) for text, score in scores.items()], check=check)
    return statement(finding).text().replace("\u202f%", " %")


# The outcome, the scores of the words, and the sentence.
UNCHECKED = [
    (POSITIVE, {"warm": 2, "slow": -1}, "positive, 99.8 %. Ranked first: warm; against it: slow (not checked)."),
    (POSITIVE, {"warm": 2, "funny": 2}, "positive, 99.8 %. Ranked first: warm and funny (not checked)."),
    (POSITIVE | {"probability": 0.9999}, {"warm": 1}, "positive, over 99.9 %. Ranked first: warm (not checked)."),
    (POSITIVE | {"probability": 0.55}, {"warm": 1}, "leaning positive, 55.0 %. Ranked first: warm (not checked)."),
    (POSITIVE, {"slow": -1}, "positive, 99.8 %. No word speaks for it; against it: slow (not checked)."),
    (
        POSITIVE,
        {"warm": 0},
        "positive, 99.8 %. Every word scores 0: the output is saturated or does not depend on the words. "
        "Try occlusion.",
    ),
    (
        POSITIVE | {"special": 1.0},
        {"warm": 0},
        "positive, 99.8 %. Every word scores 0: all of the score is on special tokens. "
        "Try another layer, or occlusion.",
    ),
    (
        POSITIVE | {"method": "occlusion"},
        {"warm": 0},
        "positive, 99.8 %. Every word scores 0: without any one of them nothing changes. Try "
        "nbsal.flip, which hides several.",
    ),
    (POSITIVE, {"The": 9, "warm": 2, ".": -9}, "positive, 99.8 %. Ranked first: warm (not checked)."),
    (POSITIVE, {"The": 9, "not": 2, "n't": -2}, "positive, 99.8 %. Ranked first: not; against it: n't (not checked)."),
    (POSITIVE, {"The": 9, "slow": -2}, "positive, 99.8 %. Ranked first: The; against it: slow (not checked)."),
    (POSITIVE, {"it": 1, ".": -1}, "positive, 99.8 %. Ranked first: it (not checked)."),
    (POSITIVE, {".": -1}, "positive, 99.8 %. No word speaks for it; against it: “.” (not checked)."),
    (POSITIVE, {str(i): 1 for i in range(30)}, "positive, 99.8 %. No single word stands out."),
    (POSITIVE, {}, "positive, 99.8 %."),
    (POSITIVE | {"place": " at “Bob”"}, {}, "positive at “Bob”, 99.8 %."),
    (POSITIVE | {"also": (("new", 0.6), ("warm", 0.7))}, {}, "positive, 99.8 %; also warm (70.0 %) and new (60.0 %)."),
    (
        POSITIVE | {"also": tuple((name, 0.9 - place / 10) for place, name in enumerate("abcde"))},
        {},
        "positive, 99.8 %; also a (90.0 %), b (80.0 %), c (70.0 %) and 2 more.",
    ),
    (POSITIVE, {"!": 1}, "positive, 99.8 %. Ranked first: “!” (not checked)."),
    (POSITIVE | {"special": 0.6}, {"warm": 1}, "positive, 99.8 %. Ranked first among the words: warm (not checked)."),
    (POSITIVE | {"about_target": False}, {"warm": 1}, "positive, 99.8 %. Attended to most: warm (not checked)."),
    (
        POSITIVE | {"parts": ("first text", "second text")},
        {"warm": 1},
        "positive, 99.8 %. Ranked first: warm (first text); not checked.",
    ),
    (
        POSITIVE | {"heads_off": off(probability=0.971)},
        {"warm": 2},
        "positive, 99.8 → 97.1 % with 6 of 72 heads off. Ranked first: warm (not checked).",
    ),
    (
        POSITIVE | {"heads_off": off(probability=0.121, prediction="negative")},
        {},
        "positive, 99.8 → 12.1 % with 6 of 72 heads off: now negative.",
    ),
    (POSITIVE | {"probability": None, "heads_off": off()}, {}, "positive, also with 6 of 72 heads off."),
    (
        POSITIVE | {"probability": None, "heads_off": off(prediction="negative")},
        {},
        "positive → negative with 6 of 72 heads off.",
    ),
    (
        NEGATIVE,
        {"slow": 1, "warm": -2},
        "Why not negative (0.2 %)? Ranked first: slow; against it: warm (not checked).",
    ),
    (NEGATIVE, {}, "Why not negative (0.2 %)?"),
    (
        NEGATIVE | {"heads_off": off(target_probability=0.029)},
        {},
        "Why not negative (0.2 → 2.9 % with 6 of 72 heads off)?",
    ),
    (POSITIVE | {"target": "positive - negative", "contrary": True}, {}, "Why positive − negative?"),
    ({"prediction": "joy 0.25, anger -1.5", "target": "anger"}, {}, "joy 0.25, anger -1.5, explained: anger."),
    ({"prediction": "O", "target": "B-PER at “Bob”", "contrary": True}, {}, "Why not B-PER at “Bob”?"),
]


@cases("outcome, scores, sentence", UNCHECKED)
def test_scores_that_nothing_has_checked_say_so(outcome, scores, sentence):
    assert said(outcome, scores) == sentence


def checked(scores, values, together, random=(), whole=0.998, **settings):
    """A check in which the named words are chosen by the outcomes; a value below one half decides negative."""

    def outcome(value):
        return Outcome("negative" if value < 0.5 else "positive", value)

    tried = tuple(candidates([(text, score, 0) for text, score in scores.items()]))
    alone = tuple(outcome(values[word.text]) for word in tried)
    check = Check(tried, outcome(whole), alone, (), outcome(whole), (), **settings)
    draws = tuple(map(outcome, random))
    return replace(check, named=choose_named(check), together=outcome(together), random=draws, drawn=len(scores))


WORDS = {"beauty": 3, "warm": 2, "funny": 1}
CHECKED = [
    (
        WORDS, {"beauty": 0.032, "warm": 0.99, "funny": 0.99}, 0.032, [0.9],
        "supported", "positive, 99.8 %. Without beauty it would be negative (positive 3.2 %).",
    ),
    (
        WORDS, {"beauty": 0.9975, "warm": 0.997, "funny": 0.997}, 0.61, [0.94, 0.96],
        "supported",
        "positive, 99.8 %. Without beauty, warm and funny it would still be positive, at 61.0 % (random words: at "
        "least 94.0 %).",
    ),
    (
        WORDS, {"beauty": 0.9975, "warm": 0.997, "funny": 0.997}, 0.996, [0.997],
        "weak",
        "positive, 99.8 %. None of the 4 sets of words that the scores propose turns it: without beauty, warm and "
        "funny it would still be positive, at 99.6 %.",
    ),
    (
        WORDS, {"beauty": 0.9975, "warm": 0.997, "funny": 0.997}, 0.61, [0.4, 0.9],
        "weak",
        "positive, 99.8 %. Without beauty, warm and funny it would still be positive, at 61.0 %, but one of two "
        "random sets does as much (40.0 %).",
    ),
    (
        {"beauty": 1}, {"beauty": 0.31}, 0.31, [0.3, 0.31, 0.9],
        "weak",
        "positive, 99.8 %. Without beauty it would be negative (positive 31.0 %), but two of three random words do as "
        "much (30.0 %).",
    ),
    (
        {"beauty": 1}, {"beauty": 0.31}, 0.31, [0.3],
        "weak",
        "positive, 99.8 %. Without beauty it would be negative (positive 31.0 %), but a random word does as much "
        "(30.0 %).",
    ),
    (
        {"warm": 3, "film": 1}, {"warm": 0.997, "film": 0.997}, 0.997, [0.9, 0.95, 0.998],
        "weak",
        "positive, 99.8 %. None of the 3 sets of words that the scores propose turns it: without warm and film it "
        "would still be positive, at 99.7 %; two of three random sets change more (90.0 %).",
    ),
    (
        {"warm": 1}, {"warm": 0.997}, 0.997, [0.9],
        "weak",
        "positive, 99.8 %. The scores name warm, but without it nothing changes (99.7 %); a random word changes more "
        "(90.0 %).",
    ),
    (
        {"warm": 1}, {"warm": 0.95}, 0.95, [0.7, 0.91],
        "weak",
        "positive, 90.0 %. Without warm it would still be positive, at 95.0 % (random words: at least 70.0 %).",
    ),
    ({"slow": -1}, {"slow": 0.9999}, 0.998, [], "weak", "positive, 99.8 %. No word speaks for it."),
    (
        {"warm": 1}, {"warm": 0.997}, 0.997, [0.998],
        "weak", "positive, 99.8 %. The scores name warm, but without it nothing changes (99.7 %).",
    ),
    (
        {"swamp": 5, "warm": 1, "beauty": 1}, {"swamp": 0.998, "warm": 0.998, "beauty": 0.2}, 0.2, [0.9],
        "contradicted",
        "positive, 99.8 %. ▲ Without beauty it would be negative (positive 20.0 %); the scores name swamp.",
    ),
    (
        {"warm": 3, "slow": -2}, {"warm": 0.3, "slow": 0.9999}, 0.3, [0.9],
        "supported", "positive, 99.8 %. Without warm it would be negative (positive 30.0 %).",
    ),
]  # fmt: skip


@cases("scores, alone, together, random, state, sentence", CHECKED)
def test_hiding_decides_what_is_said(scores, alone, together, random, state, sentence):
    whole = float(sentence.split()[1]) / 100
    check = checked(scores, alone, together, random, whole)
    assert (check.state, said(POSITIVE | {"probability": whole}, scores, check)) == (state, sentence)


def test_a_word_on_the_other_side_is_named_if_hiding_it_moves_the_value():
    check = checked({"warm": 3, "slow": -2}, {"warm": 0.3, "slow": 0.96}, 0.3, [0.8], whole=0.9)
    assert said(POSITIVE | {"probability": 0.9}, {"warm": 3, "slow": -2}, check) == (
        "positive, 90.0 %. Without warm it would be negative (positive 30.0 %). slow speaks against it: 96.0 % without."
    )


def test_another_class_is_what_it_would_be_without_the_words_against_it():
    words = (Candidate("beauty", -2.0, (0,)), Candidate("swamp", 1.0, (1,)))
    whole, without = Outcome("positive", 0.008), Outcome("negative", 0.968)
    alone = (without, Outcome("positive", 0.002))
    check = Check(words, whole, alone, (0,), without, (Outcome("positive", 0.01),), raises=True)
    assert choose_named(check) == (0,)
    sentence = "Why not negative (0.8 %)? Without beauty it would be negative (96.8 %)."
    assert (check.state, said(NEGATIVE, {"beauty": -2, "swamp": 1}, check)) == ("supported", sentence)
    still = replace(check, together=Outcome("positive", 0.3), alone=(Outcome("positive", 0.3), alone[1]))
    assert said(NEGATIVE, {"beauty": -2}, still).endswith(
        "Without beauty, negative would have 30.0 % (random words: 1.0 %)."
    )


def test_a_value_is_told_without_percentages():
    words = (Candidate("warm", 2.0, (0,)),)
    outcomes = Outcome("", 4.2), Outcome("", 3.1), Outcome("", 4.1)
    check = Check(words, outcomes[0], (outcomes[1],), (0,), outcomes[1], (outcomes[2],), probable=False)
    sentence = "4.2. Without warm it would be 3.1 (random words: 4.1)."
    assert said({"prediction": "4.2", "target": "score"}, {"warm": 2}, check) == sentence


def test_a_contrast_says_what_its_values_are():
    words = (Candidate("warm", -2.0, (0,)),)
    whole, without = Outcome("", -6.3), Outcome("", -3.1)
    check = Check(words, whole, (without,), (0,), without, (Outcome("", -6.0),) * 2, False, True, drawn=1)
    facts = POSITIVE | {"target": "negative - positive", "contrary": True}
    lead = "Why negative − positive (difference of logits: −6.3)?"
    assert said(facts, {"warm": -2}, check) == f"{lead} Without warm it would be −3.1 (random words: at most −6)."
    effects = statement(DecisionFacts(**facts, words=[("warm", -2.0, 0)], check=check)).effects
    assert effects[-1] == ("without one random word (largest change in two draws)", "−6", None)
    own = said({"prediction": "positive", "target": "negative - positive"}, {"warm": -2}, check)
    assert own.startswith("positive, explained: negative - positive (difference of logits: −6.3). ")


@pytest.mark.parametrize("minor", [",", "the"])
def test_punctuation_and_short_words_need_half_of_the_largest_effect(minor):
    scores = {minor: 5, "beauty": 3}
    assert choose_named(checked(scores, {minor: 0.99, "beauty": 0.6}, 0.5)) == (1,)
    assert choose_named(checked(scores, {minor: 0.6, "beauty": 0.9975}, 0.5)) == (0,)


def test_equal_words_are_one_candidate():
    words = [("Warm", 1.0, 0), ("film", 0.5, 0), ("warm", 2.0, 0), ("warm", 9.0, 1)]
    assert candidates(words) == [
        Candidate("warm", 9.0, (3,), 1),
        Candidate("warm", 3.0, (0, 2)),
        Candidate("film", 0.5, (1,)),
    ]
    finding = DecisionFacts(**POSITIVE, words=words[:3])
    assert "Ranked first: warm × 2 (not checked)." in statement(finding).text()


A, B, C = (0,), (1,), (2,)
SUBSETS = [
    # The values without each word, those without sets of them, and the set that is named.
    ((0.997, 0.997, 0.998), {A + B + C: 0.6, A + B: 0.601, A + C: 0.99, B + C: 0.99}, A + B, 0.601),
    ((0.997, 0.997, 0.998), {A + B + C: 0.6, A + B: 0.61, A + C: 0.62, B + C: 0.99}, A + B + C, 0.6),
    ((0.7, 0.997, 0.998), {A + B: 0.698}, A, 0.7),
    ((0.7, 0.997, 0.998), {A + B: 0.75}, A, 0.7),
    ((0.997, 0.997, 0.997), {A + B + C: 0.1, A + B: 0.4, A + C: 0.3, B + C: 0.6}, A + C, 0.3),
    ((0.501, 0.997, 0.997), {A + B: 0.499}, A + B, 0.499),
    ((0.996, 0.997, 0.998), {A + B + C: 0.995, A + B: 0.995, A + C: 0.995, B + C: 0.995}, A, 0.996),
]


@cases("alone, sets, named, value", SUBSETS)
def test_the_smallest_set_that_does_the_same_is_named(alone, sets, named, value):
    def outcome(share):
        return Outcome("positive" if share >= 0.5 else "negative", share)

    words = tuple(Candidate(name, 3.0 - place, (place,)) for place, name in enumerate(WORDS))
    check = Check(words, outcome(0.998), tuple(map(outcome, alone)), (), outcome(0.998), ())
    smallest = with_smallest(check, {numbers: outcome(share) for numbers, share in sets.items()})
    assert (smallest.named, smallest.together.value) == (named, value)
    assert smallest.tried == len(alone) + len(sets)


def test_what_was_not_hidden_is_not_called_checked():
    check = replace(checked({"slow": -1}, {"slow": 0.9999}, 0.998), alone=(), first=True)
    facts = DecisionFacts(**POSITIVE, words=[("slow", -1.0, 0)], check=check)
    assert (statement(facts).evidence_line, statement(facts).effects) == ("", ())


def test_of_words_that_do_nothing_one_with_content_is_named():
    silent = {"the": 0.995, "film": 0.997, "warm": 0.998}
    check = checked({"the": 3, "film": 2, "warm": 1}, silent, 0.995)
    smallest = with_smallest(replace(check, named=()), {(0, 1): Outcome("positive", 0.995)})
    assert (smallest.named, smallest.together.value) == ((1,), 0.997)


def test_a_word_that_alone_turns_the_decision_is_named_whatever_its_score():
    values = {"warm": 0.995, "slow": 0.4}
    for scores in ({"warm": 3, "slow": 1}, {"warm": 3, "slow": -3}):
        check = checked(scores, values, 0.4 if scores["slow"] > 0 else 0.995)
        assert "Without slow it would be negative" in said(POSITIVE, scores, check)


def test_what_may_tell_more_is_offered():
    silent = {"beauty": 0.9975, "warm": 0.997, "funny": 0.997}
    weak = checked(WORDS, silent, 0.996, [0.997], classifies=True)
    facts = DecisionFacts(**POSITIVE, words=[(text, score, 0) for text, score in WORDS.items()], check=weak)
    assert statement(facts).advice == "search" and "nbsal.flip" in statement(facts).notes[-1]
    for other in (replace(weak, first=True), replace(weak, classifies=False)):
        assert statement(replace(facts, check=other)).advice == ""
    saturated = replace(facts, check=replace(weak, candidates=tuple(replace(w, score=1e-6) for w in weak.candidates)))
    rival = checked({"swamp": 5, "warm": 1}, {"swamp": 0.998, "warm": 0.2}, 0.2)
    zero = replace(facts, words=[("warm", 0.0, 0)], check=None)
    for wrong in (saturated, replace(facts, check=rival), zero):
        assert statement(wrong).advice == "rescue" and statement(replace(wrong, method="occlusion")).advice != "rescue"
    assert all("explain.rescue" in statement(wrong).notes[-1] for wrong in (saturated, zero))


SEARCHES = [
    (
        Search(("warm", "!"), Outcome("negative", 0.58), 37, exact=True),
        "A search finds one: without warm and “!” it would be negative (58.0 %); no fewer words do.",
    ),
    (
        Search(("warm",), Outcome("negative", 0.58), 37),
        "A search finds one: without warm it would be negative (58.0 %).",
    ),
    (Search((), Outcome("positive", 0.998), 1370), "A search through 1,370 sets finds none."),
]


@cases("search, sentence", SEARCHES)
def test_a_search_says_what_it_came_to(search, sentence):
    check = checked(WORDS, {"beauty": 0.9975, "warm": 0.997, "funny": 0.997}, 0.996, classifies=True, search=search)
    assert said(POSITIVE, WORDS, check).endswith(f"at 99.6 %. {sentence}")
    facts = DecisionFacts(**POSITIVE, words=[("warm", 1.0, 0)], check=check)
    assert statement(facts).advice == "" and from_plain(Check, to_plain(check)) == check


def test_a_check_is_restored_from_json():
    check = checked(WORDS, {"beauty": 0.032, "warm": 0.99, "funny": 0.99}, 0.032, [0.9])
    assert from_plain(Check, to_plain(check)) == check


def test_lists_of_words_count_them_as_sentences_do():
    saliency = bench.saliency_of(["warm", "film", "Warm", "warm"])
    saliency = replace(saliency, scores=np.array([0, 1.0, -2.0, 1.0, 0.5, 0]))
    assert [(word.label, word.score) for word in saliency.ranked_words(6)] == [("warm × 3", 2.5), ("film", -2.0)]
    offsets = ((0, 0), (0, 4), (5, 9), (0, 4), (5, 9), (9, 9))
    row = replace(saliency.row, text=("warm film", "Warm warm"), segments=(0, 0, 0, 1, 1, 1), offsets=offsets)
    pair = replace(saliency, row=row)
    names = [word.label for word in pair.ranked_words(6)]
    assert names == ["film (first text)", "Warm × 2 (second text)", "warm (first text)"]
    page = unescape(saliency.render_html())
    assert "warm × 3" in page


def test_words_that_all_speak_against_are_not_called_zero():
    sentence = plain(statement(DecisionFacts("positive", "positive", 0.9, words=[("不", -0.005, 0)])).sentence)
    assert "0:" not in sentence and "against" in sentence
