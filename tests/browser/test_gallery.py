"""Test that the pictures of views in the README and the gallery say what the program says now, and find something."""

import pytest

from tests import gallery
from tests.cases import cases


@pytest.fixture(scope="module")
def shown():
    return gallery.views()


def test_pictures_of_views_say_what_the_program_says(chromium, shown):
    assert gallery.outdated(chromium, shown) == {}, "run: python -m tests.gallery"


def test_the_audit_finds_what_was_planted(shown):
    words = shown["audit"][0].audit.words.head(2)
    assert set(words["word"]) == {'"', "*"} and (words["p_holm"] < 0.05).all() and (words["corrects"] > 10).all()


ALIKE = [("positive, 99.8 %", "positive, 99.7 %"), ("+0.00", "−0.01"), ("−35", "−36"), ("share 8 %.", "share 9 %.")]
OTHER = [("because of", "without"), ("99.8 %", "99.6 %"), ("0.02", "0.04"), ("layer 4 of 6", "layer 5 of 6")]


@cases("pair, alike", [*((pair, True) for pair in ALIKE), *((pair, False) for pair in [*OTHER, ("7", "7\na")])])
def test_words_differ_and_last_digits_may(pair, alike):
    assert (gallery.changes(*pair) == []) == alike
