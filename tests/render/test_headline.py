"""The headline of static pages and pictures; nbsal/frontend/test/headline.test.ts holds the page to the same words."""

from nbsal.render.headline import HeadsOff, Outcome, Weighed, headline, plain
from tests.cases import cases

PERCENT = "\u202f%"
SIX_OFF = {"off": 6, "total": 72, "prediction": "positive"}
POSITIVE = {"prediction": "positive", "target": "positive", "probability": 0.998}
NEGATIVE = POSITIVE | {"target": "negative", "target_probability": 0.002}


def off(**settings):
    return HeadsOff(**SIX_OFF | settings)


# The outcome, the scores of the words, and the sentence.
SENTENCES = [
    (POSITIVE, {"warm": 2, "slow": -1}, "positive, 99.8 % — mostly because of warm, despite slow."),
    (POSITIVE | {"probability": 0.9999}, {"warm": 1}, "positive, over 99.9 % — mostly because of warm."),
    (POSITIVE | {"probability": 0.55}, {"warm": 1}, "leaning positive, 55.0 % — mostly because of warm."),
    (POSITIVE, {"slow": -1}, "positive, 99.8 % — despite slow."),
    (POSITIVE, {"warm": 0}, "positive, 99.8 % — every word scores 0."),
    (POSITIVE, {str(i): 1 for i in range(30)}, "positive, 99.8 % — no single word decides it."),
    (POSITIVE, {}, "positive, 99.8 %."),
    (POSITIVE | {"special": 0.6}, {"warm": 1}, "positive, 99.8 % — among the words, because of warm."),
    (POSITIVE | {"about_target": False}, {"warm": 1}, "positive, 99.8 % — warm is attended to most."),
    (
        POSITIVE | {"heads_off": off(probability=0.971)},
        {"warm": 2, "slow": -1},
        "positive, 99.8 → 97.1 % with 6 of 72 heads off — mostly because of warm, despite slow.",
    ),
    (
        POSITIVE | {"heads_off": off(probability=0.121, prediction="negative")},
        {"warm": 2, "slow": -1},
        "positive, 99.8 → 12.1 % with 6 of 72 heads off: now negative — warm speaks for positive; slow against.",
    ),
    (
        POSITIVE | {"probability": None, "heads_off": off()},
        {"warm": 1},
        "positive, also with 6 of 72 heads off — mostly because of warm.",
    ),
    (
        POSITIVE | {"probability": None, "heads_off": off(prediction="negative")},
        {"warm": 1},
        "positive → negative with 6 of 72 heads off — warm speaks for positive.",
    ),
    (NEGATIVE, {"slow": 1, "warm": -2}, "Why not negative? (0.2 %) — slow speaks for it; warm against."),
    (NEGATIVE, {"warm": -2}, "Why not negative? (0.2 %) — nothing speaks for it; warm against."),
    (NEGATIVE, {"warm": 0}, "Why not negative? (0.2 %) — every word scores 0."),
    (NEGATIVE, {}, "Why not negative? (0.2 %)."),
    (
        NEGATIVE | {"heads_off": off(target_probability=0.029)},
        {"slow": 1},
        "Why not negative? (0.2 → 2.9 % with 6 of 72 heads off) — slow speaks for it.",
    ),
    (POSITIVE | {"target": "positive - negative"}, {"warm": 1}, "Why positive − negative? — warm speaks for it."),
    (
        {"prediction": "joy 0.25, anger -1.5", "target": "anger"},
        {"a": 1},
        "joy 0.25, anger -1.5, explained: anger — mostly because of a.",
    ),
    ({"prediction": "in 1889", "target": "in 1889 [4:5]"}, {"warm": 1}, "in 1889 — mostly because of warm."),
]


@cases("outcome, scores, sentence", SENTENCES)
def test_what_is_said_of_an_outcome(outcome, scores, sentence):
    words = [Weighed(text, score) for text, score in scores.items()]
    assert plain(headline(Outcome(**outcome), words)).replace(PERCENT, " %") == sentence
