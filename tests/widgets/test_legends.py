"""What stands beside a row of scores: shares of words and special tokens, a warning, and the strongest word."""

from types import SimpleNamespace

import numpy as np
import pytest

from nbsal.model.text.tokens import Word
from nbsal.render.headline import percent
from nbsal.widgets import Layers
from nbsal.widgets.content.legends import legends
from nbsal.widgets.content.line_chart import axes, count_ticks, line


class Tokens(SimpleNamespace):
    """[CLS] un ##warm ! [SEP], of which two tokens are a word."""

    tokens = ("[CLS]", "un", "##warm", "!", "[SEP]")
    content = (1, 2, 3)
    special = (True, False, False, False, True)
    words = (Word("unwarm", 0, 6, 0, (1, 2)), Word("!", 6, 7, 0, (3,)))
    parts = ("unwarm!",)
    units = ()
    segments = (0,) * 5
    offsets = ((0, 0), (0, 2), (2, 6), (6, 7), (7, 7))

    def __len__(self):
        return len(self.tokens)


def legend(row, scores):
    return legends(row, [scores])[0]


def test_a_row_is_divided_between_words_and_special_tokens():
    said = legend(Tokens(), np.array([0.1, 0.2, 0.2, -0.3, 0.2]))
    assert said["special"] == 0.3 and said["warning"] == ""
    assert [text.startswith(percent(share, 0)) for text, share in zip(said["shares"], (0.7, 0.3), strict=True)] == [
        True
    ] * 2
    assert said["tokens"] == "[CLS] +0.100, [SEP] +0.200"


def test_most_of_the_score_on_special_tokens_is_a_warning_that_names_the_token():
    one, both = legend(Tokens(), np.array([9.0, 1, 0, 0, 1])), legend(Tokens(), np.array([4.0, 1, 0, 0, 5]))
    assert one["warning"] != both["warning"] != "" and "[CLS]" in one["warning"] and "[CLS]" not in both["warning"]


def test_the_strongest_word_is_named_by_its_words_and_by_its_token():
    said = legend(Tokens(), np.array([0, 0.2, 0.2, -0.3, 9]))["strongest"]
    assert said == {"word": ["unwarm", "+0.400"], "token": ["\u201c!\u201d", "\u22120.300"]}
    assert legend(Tokens(), np.zeros(5))["strongest"]["word"] == ["", ""]
    assert legend(Tokens(), np.full(5, np.nan))["special"] == 0


def test_the_strongest_words_and_tokens_are_listed_with_their_bars():
    ranked = legend(Tokens(), np.array([0, 0.2, 0.2, -0.3, 9]))["ranked"]
    rows = [[*row["name"], row["number"], row["share"], *row["tokens"]] for row in ranked["word"]["rows"]]
    assert rows == [["", "unwarm", "", "+0.400", 1, 1, 2], ["", "!", "", "\u22120.300", -0.75, 3]]
    tokens = ranked["token"]["rows"]
    assert [row["name"] for row in tokens] == [("", "!", ""), ("", "un", "warm"), ("un", "warm", "")]
    assert ranked["word"]["power"] == "" != legend(Tokens(), np.full(5, 1e-6))["ranked"]["word"]["power"]


def test_every_layer_has_a_legend(explain):
    view = Layers(explain, text="A warm and funny film.").wait()
    shown = view._result["legends"]
    assert len(shown) == len(view.result.scores)
    assert [each["special"] for each in shown] == pytest.approx(
        [row.special_share() for row in view.result.rows()], abs=1e-4
    )
    view.close()


def test_a_chart_ends_where_its_values_do_and_has_their_words():
    drawn = line("a", 0.25, True, False, at=[0, 1], values=[0.0, 0.5], low=None)
    assert drawn["name"].endswith(percent(0.25, 0)) and drawn["title"].endswith("0.250") and "low" not in drawn
    assert axes([drawn], True, "words", [])["values"] == [percent(1, 0), percent(0.5, 0), "0"]
    open_ended = axes([drawn | {"low": [-1.0, 0.0]}], False, "words", [])
    assert (open_ended["low"], open_ended["high"], open_ended["values"][0]) == (-1, 0.5, "+0.500")
    flat = axes([{"values": [2.0, 2.0]}], False, "words", [])
    assert (flat["low"], flat["high"]) == (1, 3), "a flat line can be plotted"
    assert [[text for _, text in count_ticks(count)] for count in (16, 3, 0, 14)] == [
        ["0", "4", "8", "12", "16"],
        ["0", "1", "2", "3"],
        ["0"],
        ["0", "4", "7", "11", "14"],
    ]
