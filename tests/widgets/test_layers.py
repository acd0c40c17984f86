"""The Layers view: every layer is shown, one is chosen without computing again, and finished results are accepted."""

from dataclasses import replace

import numpy as np
import pytest

import nbsal
from nbsal.explain.layer_sheet import LISTED, LayerWords, layer_blocks, layer_words
from nbsal.render.headline import plain
from nbsal.support.errors import UnknownName
from nbsal.widgets import Layers
from nbsal.widgets.page import wire
from tests.browser import bench
from tests.cases import cases
from tests.raising import refuses
from tests.widgets.test_view import TEXT, from_page


@pytest.fixture
def view(reviews):
    layers = Layers(nbsal.Explainer(reviews, "gradxact", layer=3), text=TEXT).wait()
    yield layers
    layers.close()


def test_every_layer_is_shown(view, reviews):
    expected = nbsal.Explainer(reviews, "gradxact").every_layer(TEXT)
    assert (view.result.scores == expected.scores).all()
    assert view._scores == wire.scores(list(expected.scores))
    assert view.layer == 3 and view.to_frame().shape == (7, len(expected.tokens))


def test_choosing_a_layer_computes_nothing(view):
    before = view._rev
    from_page(view, layer=5)
    assert view.wait().layer == 5 and view._rev == before


def test_selected_tokens_are_those_of_the_chosen_layer(view):
    selections = []
    view.on_select(selections.append)
    from_page(view, selection=[2])
    assert selections[0]["score"].tolist() == [view.result.scores[3, 2]]


def test_methods_without_layers_are_listed_with_the_reason(view, reviews):
    reasons = {method["name"]: method["unavailable"] for method in view.handle_methods(view._choices["methods"])}
    assert not reasons["decoded-gradcam"] and "no layers" in reasons["lrp"] and list(reasons)[-1] != "decoded-gradcam"
    with refuses("method", UnknownName):
        view.method = "lrp"
    with refuses("method", UnknownName):
        Layers(nbsal.Explainer(reviews, "attcat"), text=TEXT)


def test_a_finished_result_is_shown(reviews):
    layers = nbsal.Explainer(reviews, "gradcam").every_layer(TEXT)
    assert Layers(layers).wait().result is layers
    with refuses("source"):
        Layers(layers.at(2))


def test_a_static_page_shows_the_chosen_layer_and_the_finding(view):
    view.layer = 5
    html, ((_, word), (_, rest)) = view.render_html(), LayerWords(view.result).finding()
    view.level = "token"
    assert f"<i>{word}</i>{rest}" in view.render_html()  # a sentence names words
    assert f"<i>{word}</i>{rest}" in html and rest.endswith("of 6 layers")
    assert "<b>layer 5</b>" in html and ">embeddings<" in html
    text = view.result.at(5).scored_spans("word")
    assert all(span.text.strip() in html for part in text for span in part)


def words_of(scores, names):
    words = LayerWords.__new__(LayerWords)
    words._layers = None
    words.level, words.names, words.parts, words.scores = "word", names, [0] * len(names), np.array(scores, float)
    return words


@cases(
    "scores, expected",
    [
        ([[0, 2, 1], [3, 0, 0], [0, -5, 0]], "warm is the strongest word in the embeddings and 1 of 2 layers"),
        ([[0, 2, 1], [0, 2, 0], [0, 3, 0]], "warm is the strongest word in the embeddings and both layers"),
        ([[0, 0, 2], [0, 0, 2], [0, 0, 0]], "“!” is the strongest word in the embeddings and 1 of 2 layers"),
        ([[1, 0, 0], [0, 1, 0]], "Each layer has a strongest word of its own"),
        ([[0, 0, 0]], "Every word scores 0 in every layer"),
    ],
)
def test_the_finding_is_the_word_that_is_strongest_in_most_layers(scores, expected):
    assert plain(words_of(scores, ["slow", "warm", "!"]).finding()) == expected


def layers_of(*rows):
    """Layers of a text of two words between two special tokens."""
    layers = bench.saliency_of(["warm", "film"], layers=len(rows))
    return replace(layers, scores=np.array(rows, "float32"))


@cases(
    "rows, reason",
    [
        ([[1, 2, 3, 0], [4, 0, 0, 0]], "all of the score is on [CLS], which the model classifies"),
        ([[0, 0, 0, 5], [1, 2, 3, 0]], "all of the score is on [SEP]"),
        ([[1, 2, 3, 0], [4, 0, 0, 1]], "all of the score is on [CLS], [SEP]"),
        ([[1, 2, 3, 0], [0, 0, 0, 0]], "every token scores 0"),
    ],
)
def test_a_blank_row_says_why(rows, reason):
    layers = layers_of(*rows)
    blank = rows.index(max(rows, key=lambda row: not any(row[1:3])))
    (_, grid), words = layer_blocks(layers, 0), layer_words(layers)
    assert grid.remarks[blank] == reason == words["levels"]["token"]["remarks"][blank] and not grid.remarks[1 - blank]
    assert layers.render_html().count(f">{reason}</td>") == 1


def test_the_page_is_told_every_cell(view):
    words, levels = view._layer_words, ("word", "token")
    assert words["rows"] == ["embeddings", *(f"layer {layer}" for layer in range(1, 7))]
    for level in levels:
        counted, cells = LayerWords(view.result, level), words["levels"][level]["cells"]
        assert [len(row) for row in cells] == [len(counted.names)] * 7
        ((row, k),) = np.argwhere(counted.scores == counted.scores.min())
        assert cells[row][k].startswith("against, ") and {"100\u202f%", "against, 100\u202f%"} & set(cells[3])


def test_a_long_text_is_shown_by_its_strongest_words(reviews):
    layers = nbsal.Explainer(reviews, "gradxact").every_layer(" ".join([TEXT] * 20))
    heading, grid = layer_blocks(layers, 5)
    assert f"the {LISTED} strongest of {len(layers.words)} words" in heading.note and len(grid.columns) == LISTED


def test_a_text_beyond_the_models_length_is_refused(load):
    view = Layers(nbsal.Explainer(load("bert"), "gradcam", long="window"), text=" ".join([TEXT] * 20))
    with refuses("text") as caught:
        view.wait()
    assert str(caught.value) == "The text is longer than the model reads at once; layers need a shorter one."
