"""Saliency and its pictures: numbers, words, saved files, pages, bars."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbsal
from nbsal.errors import InputError
from nbsal.model.tokens import Row
from nbsal.render import colours, html

matplotlib.use("Agg")
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{1}{0}$",
    "a_b^c",
    "</p>",
    "&lt;",
    "\x1b[31m",
]


def made(tokens=("good", "bad", "bad"), scores=(0.5, -0.25, 0.0), signed=(0.5, -0.25, -1.0), text=None, **changes):
    """A Saliency from nothing but tokens and scores, separated by spaces, between two special tokens."""
    text, offsets, at = text or " ".join(tokens), [(0, 0)], 0
    for token in tokens:
        offsets.append((at, at + len(token)))
        at += len(token) + 1
    n = len(tokens) + 2
    row = Row(
        text=text,
        ids=tuple(range(n)),
        tokens=("[CLS]", *tokens, "[SEP]"),
        offsets=(*offsets, (0, 0)),
        segments=(0,) * n,
        special=(True, *[False] * len(tokens), True),
        types=(0,) * n,
        mask=(1,) * n,
    )
    fields = {
        "row": row,
        "target": "positive",
        "prediction": "positive",
        "probabilities": np.array([0.1, 0.9]),
        "method": "gradcam",
        "provenance": {"model": "a model", "dtype": "float64", "parameters": {"layer": 3}},
        "scores": np.array([9.0, *scores, -9.0]),
        "tie_breaker": np.array([0.0, *signed, 0.0]),
    }
    return nbsal.Saliency(**fields | changes)


def test_order_is_score_then_signed_score_then_position():
    tied = made(tokens=("a", "b", "c", "d"), scores=(0.0, 1.0, 0.0, 0.0), tie_breaker=(-2.0, 0.0, -1.0, -2.0))
    assert [tied.tokens[i] for i in tied.order] == ["b", "c", "a", "d"]


def test_special_tokens_are_scored_and_never_ranked():
    frame = made().to_frame()
    assert frame["score"].tolist() == [9.0, 0.5, -0.25, 0.0, -9.0]
    assert frame["rank"].isna().tolist() == [True, False, False, False, True]
    assert frame["rank"].dropna().tolist() == [1, 3, 2]
    assert made().top(2)["token"].tolist() == ["good", "bad"]
    assert made().largest == 0.5


def test_words_add_up_their_tokens():
    split = made(tokens=("unlike", "ly"), scores=(0.25, 0.5), tie_breaker=(0, 0), text="unlikely")
    row = split.row.__class__(**{**vars(split.row), "offsets": ((0, 0), (0, 6), (6, 8), (0, 0))})
    words = made(row=row, scores=(0.25, 0.5), tie_breaker=(0, 0), tokens=("unlike", "ly")).by_word()
    assert words[["word", "score", "start", "end"]].values.tolist() == [["unlikely", 0.75, 0, 8]]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
    st.sampled_from([np.float32, np.float64]),
)
def test_saved_and_loaded_to_the_last_bit(tmp_path_factory, scores, kind):
    path = tmp_path_factory.mktemp("saved") / "s.json"
    saved = made()
    with np.errstate(over="ignore"):
        values = np.array([0, *scores, 0], kind)
    saved = nbsal.Saliency(**{**{f: getattr(saved, f) for f in saved.__dataclass_fields__}, "scores": values})
    saved.save(path)
    loaded = nbsal.Saliency.load(path)
    assert loaded.scores.dtype == kind and np.array_equal(loaded.scores, values)
    assert (loaded.row, loaded.provenance, loaded.order) == (saved.row, saved.provenance, saved.order)
    assert loaded.to_html() == saved.to_html()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"nbsal": 1', '"nbsal": 99'),
        lambda text: json.dumps(json.loads(text) | {"scores": [1.0]}),
        lambda text: json.dumps(json.loads(text) | {"row": {"text": "a"}}),
        lambda text: json.dumps(json.loads(text) | {"dtype": "float99"}),
    ],
)
def test_damaged_files_are_a_sentence(tmp_path, damage):
    path = tmp_path / "s.json"
    made().save(path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=r"damaged|format 99"):
        nbsal.Saliency.load(path)


def test_a_file_that_is_not_there_is_what_the_disk_says(tmp_path):
    with pytest.raises(FileNotFoundError):
        nbsal.Saliency.load(tmp_path / "none.json")


class Page(HTMLParser):
    """What a browser would see: elements, their attributes, and text."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.text, self.depth = [], "", 0
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def test_html_shows_the_text_as_typed_and_runs_nothing():
    for token in HOSTILE:
        page = Page(made(tokens=(token, "x"), scores=(1.0, -1.0), tie_breaker=(0, 0)).to_html(page=True))
        names = {name for name, _ in page.elements}
        assert names <= {"html", "meta", "title", "body", "div", "b", "p", "span"}, token
        assert not any(key.startswith("on") or key in ("href", "src") for _, found in page.elements for key in found)
        assert html.visible(token) in page.text


def test_html_says_what_it_shows():
    source = made().to_html()
    assert "positive (90.0%)" in source and "gradcam" in source and "layer=3" in source
    assert 'title="good: +0.5"' in source and "underline dotted" in source  # the sign is not told by colour alone
    assert "-0.5" in source and "+0.5" in source  # the legend, in numbers
    assert re.search(r'role="figure" aria-label="[^"]+"', source)
    assert "underline" not in made(scores=(1.0, 0.5, 0.0)).to_html()
    assert made()._repr_html_() == source


def test_strength_follows_the_score():
    alphas = [colours.colour(score, 2.0)[1] for score in (0.0, 0.5, 2.0, -2.0)]
    assert alphas == [0.0, colours.STRONGEST / 4, colours.STRONGEST, colours.STRONGEST]
    assert colours.colour(1.0, 1.0)[0] != colours.colour(-1.0, 1.0)[0]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=8))
def test_stretches_give_back_the_text(text, spans):
    spans = sorted((min(a, len(text)), min(a + n, len(text))) for a, n in spans)
    cut = html.scored_spans(text, ((a, b, 1.0, "t") for a, b in spans))
    assert "".join(stretch.text for stretch in cut) == text


def test_pieces_of_one_character_share_its_stretch():
    cut = html.scored_spans("😀!", [(0, 1, 0.25, "a"), (0, 1, 0.5, "b"), (1, 2, 1.0, "!")])
    assert [(s.text, s.score) for s in cut] == [("😀", 0.75), ("!", 1.0)]


def test_the_terminal_is_not_steered_by_the_text():
    shown = made(tokens=("\x1b[31mred", "x"), scores=(1.0, 0.9), tie_breaker=(0, 0)).to_terminal()
    assert "\x1b[31m" not in shown and "␛[31mred" in shown and "\x1b[48;2;" in shown
    plain = made().to_terminal(colours=False)
    assert "\x1b" not in plain and "good[+0.5] bad[-0.25] bad" in plain


def test_bars_show_words_and_their_sizes():
    ax = made().plot()
    assert [bar.get_height() for bar in ax.patches] == [0.5, -0.25, 0.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["good", "bad", "bad"]
    assert ax.patches[1].get_hatch() and not ax.patches[0].get_hatch()
    own = matplotlib.figure.Figure().subplots()
    assert made().plot(own) is own and len(own.patches) == 3
    many = made(tokens=[f"w{i}" for i in range(99)], scores=np.arange(99.0), tie_breaker=np.zeros(99)).plot(longest=7)
    assert [label.get_text() for label in many.get_xticklabels()] == [f"w{i}" for i in range(92, 99)]


@pytest.mark.parametrize("token", HOSTILE)
def test_figures_draw_hostile_tokens_as_they_are(load, token):
    figure = made(tokens=(token, "x"), scores=(1.0, 0.0), tie_breaker=(0, 0)).plot().figure
    figure.canvas.draw()
    matplotlib.pyplot.close(figure)
    layers = nbsal.Explainer(load("bert"), "gradxact").every_layer(f"good {token}").plot().figure
    layers.canvas.draw()
    matplotlib.pyplot.close(layers)


def test_layers_are_saliencies(load):
    every = nbsal.Explainer(load("bert"), "decoded-gradcam").every_layer("The film is a joy.")
    one = every.at(2)
    assert np.array_equal(one.scores, every.scores[2]) and one.provenance["parameters"]["layer"] == 2
    assert every.to_frame().shape == every.scores.shape
    assert every._repr_html_().count("<th style") == 4
    with pytest.raises(InputError, match="0 to 3"):
        every.at(4)


def test_many_in_one_frame(load):
    found = nbsal.Explainer(load("bert"), "gradcam").map(["A joy.", "A bore."], progress=False)
    frame = found.to_frame()
    assert frame["text"].unique().tolist() == [0, 1]
    assert len(frame) == sum(len(one.tokens) for one in found)
    assert found._repr_html_().count('role="figure"') == 2 and len(found[:1]) == 1


def test_pairs_show_both_members(load):
    found = nbsal.Explainer(load("bert"), "gradxact")(("A joy.", "The film is a bore."))
    page = Page(found.to_html())
    assert [name for name, _ in page.elements].count("p") == 2
    assert "A joy." in page.text and "The film is a bore." in page.text


def test_provenance_says_what_was_run(load):
    found = nbsal.Explainer(load("bert"), "decoded-gradcam", layer=1, tau=3)("A joy.")
    assert found.provenance["parameters"] == {
        "layer": 1, "form": "per_position", "tau": 3, "renormalise": False, "coarse": False,
    }  # fmt: skip
    assert found.provenance["dtype"] == "float64" and "torch" in found.provenance["versions"]


def test_figures_cut_names_that_would_leave_them_no_room(load):
    long = "pneumo" * 20
    bars = made(tokens=(long, "x"), scores=(1.0, 0.0), tie_breaker=(0, 0)).plot()
    layers = nbsal.Explainer(load("bert"), "gradxact").every_layer(f"good {long}").plot()
    for axes in (bars, layers):
        assert max(len(tick.get_text()) for tick in axes.get_xticklabels()) <= 24
        matplotlib.pyplot.close(axes.figure)


def test_what_the_model_did_not_read_is_told_apart():
    typed = made(text="good bad bad and what follows is long")
    shown = replace(typed, row=replace(typed.row, dropped=5)).to_html()
    assert '<span style="opacity:.6" title="not read"> and what follows is long</span>' in shown
    assert 'title="not read"' not in replace(typed, row=replace(typed.row, text="good bad bad \n", dropped=5)).to_html()


def test_a_special_token_that_was_typed_at_the_end_was_read(reviews):
    found = nbsal.Explainer(reviews, "gradcam")("A joy. [SEP] ")
    assert found.scored_spans()[0][-1].text.strip() == "[SEP]" and 'title="not read"' not in found.to_html()


def test_the_scale_says_what_colours_mean_and_has_a_number_at_each_step():
    signed, plain = html.legend_html(0.5, True), html.legend_html(0.5, False)
    numbers = [re.findall(r">([^<]+)</span>", scale) for scale in (signed, plain)]
    assert numbers == [["-0.5", "-0.25", "0", "+0.25", "+0.5"], ["0", "+0.25", "+0.5"]]
    assert "orange speaks for, blue against" in signed and "blue" not in plain


def test_scales_reach_below_zero_only_where_a_token_of_the_text_does(reviews):
    assert "blue" in made().to_html() and "blue" not in made(scores=(0.5, 0.25, 0.0)).to_html()
    for name, scale in (("gradcam", (0, 1)), ("gradxact", (-1, 1))):
        grid = nbsal.Explainer(reviews, name).every_layer("A warm and funny film, though dull.").plot()
        assert grid.images[0].get_clim() == scale
        matplotlib.pyplot.close(grid.figure)


def test_pictures_of_long_texts_say_that_they_show_a_part(reviews):
    explain = nbsal.Explainer(reviews, "gradxact")
    text = "A warm and funny film, though dull. " * 12
    bars, grid = explain(text).plot(longest=5), explain.every_layer(text).plot(longest=7)
    assert bars.get_xlabel() == "the 5 most important of 108 words"
    assert grid.get_xlabel() == "the 7 most important of 108 tokens" and len(grid.get_xticks()) == 7
    found = explain.every_layer(text)
    shares = np.abs(found.scores[:, found.row.content])
    shares = (shares / np.maximum(shares.max(1, keepdims=True), 1e-30)).max(0)
    assert np.abs(grid.images[0].get_array()).max(0).tolist() == pytest.approx(
        shares[np.sort(np.argsort(-shares, kind="stable")[:7])].tolist()
    )
    assert not explain("A joy.").plot().get_xlabel() and not explain.every_layer("A joy.").plot().get_xlabel()
    matplotlib.pyplot.close("all")


def test_layers_in_a_page_say_what_the_rows_are_and_on_what_scale(reviews):
    shown = nbsal.Explainer(reviews, "gradxact").every_layer("A joy.")._repr_html_()
    assert "<th>layer</th>" in shown and "Each layer is shaded by its own largest score." in shown


def test_whatever_holds_many_scores_shows_itself_in_a_line(reviews):
    explain = nbsal.Explainer(reviews, "gradxact")
    layers, many = explain.every_layer("A joy."), explain.map(["A joy.", "A bore."], progress=False)
    assert repr(layers) == f"LayerSaliency({layers.caption()}: 7 layers, 5 tokens)"
    assert repr(many) == "Saliencies(2 of gradxact)" and repr(many[:0]) == "Saliencies(0)"
