"""Words hidden in four ways: each outcome is that of the literal text, and most ways must agree."""

from dataclasses import replace

import pytest

import nbsal
from nbsal.explain.prompt.neutral import NEUTRAL, neutral_words, replaced
from nbsal.explain.sentences.decision_facts import Candidate, Check
from nbsal.explain.sentences.outcomes import MASKED, NAMES, ONLY, REMOVED, REPLACED, HidingWay, Outcome
from tests.cases import cases
from tests.raising import refuses

TEXT = "Nobody laughed at the 2 jokes."
PAIR = ("A dog runs.", "A cat sleeps.")
WORD = Candidate("warm", 3.0, (1,))


@pytest.fixture(scope="module")
def explain(small):
    return nbsal.Explainer(small, "occlusion")


def way(check, name):
    (match,) = [each for each in check.ways if each.name == name]
    return match


def test_each_way_is_the_text_that_it_says(small, explain):
    saliency = explain(TEXT, check="ways")
    check = saliency.check
    assert [each.name for each in check.ways] == list(NAMES)
    assert [check.candidates[number].text for number in check.named] == ["Nobody"]
    neutral = replaced("Nobody", [(0, 6)], neutral_words(small))
    assert neutral[0].isupper() and neutral.lower() in NEUTRAL
    for name, text in ((REMOVED, "laughed at the 2 jokes."), (REPLACED, TEXT.replace("Nobody", neutral))):
        literal = explain(text)
        assert way(check, name).outcome.prediction == literal.prediction
        assert way(check, name).outcome.value == pytest.approx(literal.probabilities[small.labels.index("negative")])
    assert way(check, MASKED).outcome == check.together
    assert way(check, MASKED).random == check.random, "the same words are drawn for each way"
    assert {len(each.random) for each in check.ways} == {len(check.random)}
    assert way(check, ONLY).outcome.prediction == saliency.prediction


def test_a_part_of_a_pair_is_written_again():
    explain = nbsal.Explainer(nbsal.load("demo/nli"), "occlusion")
    check = explain(PAIR, check="ways").check
    left = [*PAIR]
    for word in map(check.candidates.__getitem__, check.reported):
        left[word.part] = left[word.part].replace(word.text, "").replace("  ", " ").replace(" .", ".").strip()
    literal = explain(tuple(left), target=explain(PAIR).target)
    label = explain.subject.labels.index(literal.target)
    assert left != list(PAIR) and way(check, REMOVED).outcome.value == pytest.approx(literal.probabilities[label])


def test_a_way_that_leaves_no_word_is_left_out(explain):
    check = explain("Awful", check="ways").check
    assert [each.name for each in check.ways] == [REPLACED, MASKED, ONLY] and check.holding == 3


def held(*values, random=0.99, only=(0.99, 0.3)):
    """A check of a word without which the decision turns, with its values when it is removed, replaced and masked."""

    def outcome(value):
        return Outcome("positive" if value >= 0.5 else "negative", value)

    check = Check((WORD,), outcome(0.99), (outcome(0.1),), (0,), outcome(0.1), (outcome(0.98),), drawn=1)
    pairs = [*((value, random) for value in values), only]
    ways = [HidingWay(name, outcome(a), (outcome(b),)) for name, (a, b) in zip(NAMES, pairs, strict=True)]
    return replace(check, ways=tuple(ways))


@cases(
    "check, holding, state",
    [
        (held(0.1, 0.2, 0.1), 4, "supported"),
        (held(0.1, 0.99, 0.1), 3, "supported"),  # three of four are most
        (held(0.1, 0.99, 0.99), 2, "weak"),
        (held(0.1, 0.2, 0.1, random=0.05), 1, "weak"),  # random words do more in three ways
        (held(0.1, 0.2, 0.1, only=(0.99, 0.995)), 3, "supported"),  # random words alone decide as well
        (held(0.1, 0.2, 0.99, only=(0.3, 0.2)), 2, "weak"),  # the word alone does not
    ],
)
def test_most_ways_must_agree(check, holding, state):
    assert (check.holding, check.state) == (holding, state)
    assert replace(check, ways=()).state == "supported"


def test_the_sentence_and_the_table_tell_of_the_ways(explain):
    plain, ways = explain(TEXT, check=True), explain(TEXT, check="ways")
    assert replace(ways.check, ways=()) == plain.check
    assert plain.statement().text() in ways.statement().text() and "4 of 4 ways" in ways.statement().text()
    assert ways.effects()["kind"].tolist()[-4:] == list(NAMES) and len(ways.effects()) == len(plain.effects()) + 4
    assert ways.effects()["value"].tolist()[-4:] == [each.outcome.value for each in ways.check.ways]
    assert len(ways.statement().effects) == len(plain.statement().effects) + 4


def test_few_ways_are_no_support(explain):
    """The words that a sentence names are weak if they count in too few ways, and it says in how many."""
    saliency = explain(TEXT, check="ways")
    same = tuple(replace(each, outcome=saliency.check.whole) for each in saliency.check.ways)
    weak = saliency.with_check(replace(saliency.check, ways=same))
    assert weak.statement().state == "weak" and "0 of 4 ways" in weak.statement().text()


def test_a_saved_explanation_keeps_its_ways(explain, tmp_path):
    saliency = explain(TEXT, check="ways")
    saliency.save(tmp_path / "saliency.nbsal")
    assert nbsal.Saliency.load(tmp_path / "saliency.nbsal").check == saliency.check


def test_what_cannot_be_written_again_is_refused(explain):
    with refuses("check"):
        explain(TEXT, check="way")
    spans = nbsal.Explainer(nbsal.load("demo/answers"), "gradxact")
    with refuses("check"):
        spans(("Who ran home?", "The old dog ran home."), check="ways")
    ids = explain.subject.encode(TEXT)[0].ids
    with refuses("check"):
        explain.check(explain.ids([ids[0], *reversed(ids[1:-1]), ids[-1]]), passes="ways")


@cases(
    "word, other",
    [("warm", "that"), ("Warm", "That"), ("NASA", "THAT"), ("1998", "4221"), ("B12", "B45"), ("!", "!"), ("it", "a")],
)
def test_a_neutral_word_is_of_the_same_kind(word, other):
    assert replaced(f"so {word}.", [(3, 3 + len(word))]) == f"so {other}."
    assert replaced(f"{word} so {word}", [(0, len(word)), (0, 0)]) == f"{other} so {word}"


def test_a_word_is_replaced_by_one_that_the_model_knows():
    words = neutral_words(nbsal.load("planted/word"))
    assert words and {*words} < {*NEUTRAL}
