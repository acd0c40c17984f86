"""Test Saliency: frames, words, saved files, HTML, plots."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbsal
from nbsal.model.text.tokens import Row
from nbsal.render import html, sheet_html, sheet_png
from nbsal.support.errors import UnknownName
from nbsal.widgets import Compare
from nbsal.widgets.page import wire
from tests.cases import cases
from tests.raising import refuses

matplotlib.use("Agg")
HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "$\\frac{1}{0}$", "a_b^c", "</p>", "\x1b[31m"]


def make(tokens=("good", "bad", "bad"), scores=(0.5, -0.25, 0.0), tie_breaker=(0.5, -0.25, -1.0), text=None, **changes):
    """A Saliency of tokens, separated by spaces in the text, between two special tokens."""
    text, offsets, at = text or " ".join(tokens), [(0, 0)], 0
    for token in tokens:
        offsets.append((at, at + len(token)))
        at += len(token) + 1
    n = len(tokens) + 2
    special, zeros, ones = (True, *[False] * len(tokens), True), (0,) * n, (1,) * n
    names, offsets = ("[CLS]", *tokens, "[SEP]"), (*offsets, (0, 0))
    row = Row(text, tuple(range(n)), names, offsets, zeros, special, zeros, ones)
    provenance = {"model": "a model", "dtype": "float64", "parameters": {"layer": 3}}
    fields = {
        "row": row, "target": "positive", "prediction": "positive", "probabilities": np.array([0.1, 0.9]),
        "method": "gradcam", "provenance": provenance, "scores": np.array([9.0, *scores, -9.0]),
        "tie_breaker": np.array([0.0, *tie_breaker, 0.0]),
    }  # fmt: skip
    return nbsal.Saliency(**fields | changes)


def test_order_is_score_then_tie_breaker_then_position():
    saliency = make(tokens=("a", "b", "c", "d"), scores=(0.0, 1.0, 0.0, 0.0), tie_breaker=(-2.0, 0.0, -1.0, -2.0))
    assert [saliency.tokens[i] for i in saliency.order] == ["b", "c", "a", "d"]


def test_special_tokens_are_scored_and_never_ranked():
    frame = make().to_frame()
    assert frame["score"].tolist() == [9.0, 0.5, -0.25, 0.0, -9.0]
    assert frame["rank"].isna().tolist() == [True, False, False, False, True]
    assert frame["rank"].dropna().tolist() == [1, 3, 2]
    assert make().top(2)["token"].tolist() == ["good", "bad"]
    assert make().largest == 0.5
    with refuses("count"):
        make().top(-1)


def test_a_word_has_the_sum_of_its_tokens_scores():
    saliency = make(tokens=("unlike", "ly"), scores=(0.25, 0.5), tie_breaker=(0, 0), text="unlikely")
    words = replace(saliency, row=replace(saliency.row, offsets=((0, 0), (0, 6), (6, 8), (0, 0)))).by_word()
    assert words[["word", "score", "start", "end"]].values.tolist() == [["unlikely", 0.75, 0, 8]]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=3, max_size=3),
    st.sampled_from([np.float32, np.float64]),
)
def test_saving_and_loading_keeps_every_bit(tmp_path_factory, scores, kind):
    path = tmp_path_factory.mktemp("saved") / "s.json"
    with np.errstate(over="ignore"):
        values = np.array([0, *scores, 0], kind)
    saved = replace(make(), scores=values)
    saved.save(path)
    loaded = nbsal.Saliency.load(path)
    assert loaded.scores.dtype == kind and np.array_equal(loaded.scores, values)
    assert (loaded.row, loaded.provenance, loaded.order) == (saved.row, saved.provenance, saved.order)
    assert loaded.to_html() == saved.to_html()


DAMAGES = [
    lambda text: text[: len(text) // 2],
    lambda text: "[]",
    lambda text: "{}",
    lambda text: text.replace('"nbsal": 1', '"nbsal": 99'),
    lambda text: json.dumps(json.loads(text) | {"scores": [1.0]}),
    lambda text: json.dumps(json.loads(text) | {"row": {"text": "a"}}),
    lambda text: json.dumps(json.loads(text) | {"dtype": "float99"}),
]
OLDER = Path(__file__).parent / "data" / "saved" / "0.2.0" / "saliency.json"


@cases("damage", DAMAGES)
def test_damaged_files_of_earlier_versions_are_refused(tmp_path, damage):
    path = tmp_path / "s.json"
    path.write_text(damage(OLDER.read_text()))
    with refuses("path"):
        nbsal.Saliency.load(path)
    with pytest.raises(FileNotFoundError):
        nbsal.Saliency.load(tmp_path / "none.json")


class Page(HTMLParser):
    """The elements of an HTML page, their attributes, and its text."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.text = [], ""
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def test_html_shows_the_text_as_typed_and_contains_no_scripts():
    for token in HOSTILE:
        page = Page(make(tokens=(token, "x"), scores=(1.0, -1.0), tie_breaker=(0, 0)).to_html())
        names = {name for name, _ in page.elements}
        assert names <= {"html", "meta", "title", "body", "div", "b", "p", "span", "table", "tr", "td"}, token
        keys = {key for _, attributes in page.elements for key in attributes}
        assert not [key for key in keys if key.startswith("on") or key in ("href", "src")]
        assert html.visible(token) in page.text


def test_html_has_tooltips_and_dashes_for_evidence_against(load):
    source = make().render_html()
    assert "90.0" in source and 'title="good: +0.500"' in source
    assert re.search(r'role="figure" aria-label="[^"]+"', source)
    assert "underline dashed" in source  # the sign does not depend on colour alone
    assert "dashed" not in make(scores=(1.0, 0.5, 0.0)).render_html()
    assert make()._repr_html_() == source
    one_sided = [replace(make(method=name), scores=np.ones(5)) for name in ("gradcam", "gradxact", "mine")]
    assert [saliency.signed for saliency in [*one_sided, make()]] == [False, True, True, True]
    assert ["nothing shown against" in saliency.render_html() for saliency in one_sided] == [True, False, False]
    pair = Page(nbsal.Explainer(load("bert"), "gradxact")(("A joy.", "The film is a bore.")).render_html())
    assert [name for name, _ in pair.elements].count("p") == 3  # the headline, and a paragraph for each text
    assert "A joy." in pair.text and "The film is a bore." in pair.text


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), max_size=8))
def test_spans_concatenate_to_the_text(text, spans):
    spans = sorted((min(a, len(text)), min(a + n, len(text))) for a, n in spans)
    scored = html.scored_spans(text, ((a, b, 1.0, "t") for a, b in spans))
    assert "".join(span.text for span in scored) == text


def test_escape_codes_in_the_text_do_not_reach_the_terminal():
    output = make(tokens=("\x1b[31mred", "x"), scores=(1.0, 0.9), tie_breaker=(0, 0)).to_terminal()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert "\x1b[31m" not in output and "␛[31mred" in plain and "\x1b[48;2;" in output
    plain = make().to_terminal(colours=False)
    assert "\x1b" not in plain and "good[+0.5] bad[-0.25] bad" in plain


def test_small_scores_share_one_power_of_ten():
    saliency = make(scores=(9.7e-6, -3e-7, 0.0))
    page = saliency.to_html()
    assert "× 10⁻⁶" in page and ">+9.70<" in page and ">−0.30<" in page and "e-0" not in page
    plain = saliency.to_terminal(colours=False)
    assert "good[+9.7]" in plain and "[scores × 10⁻⁶]" in plain


def test_bar_chart_of_words(load):
    ax = make().plot()
    assert [bar.get_height() for bar in ax.patches] == [0.5, -0.25, 0.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["good", "bad", "bad"]
    assert ax.patches[1].get_hatch() and not ax.patches[0].get_hatch()
    axes = matplotlib.figure.Figure().subplots()
    assert make().plot(axes) is axes and len(axes.patches) == 3
    many = make(tokens=[f"w{i}" for i in range(99)], scores=np.arange(99.0), tie_breaker=np.zeros(99)).plot(longest=7)
    assert [label.get_text() for label in many.get_xticklabels()] == [f"w{i}" for i in range(92, 99)]
    long = "pneumo" * 20
    bars = make(tokens=(long, "x"), scores=(1.0, 0.0), tie_breaker=(0, 0)).plot()
    layers = nbsal.Explainer(load("bert"), "gradxact").every_layer(f"good {long}")
    other = matplotlib.figure.Figure().add_subplot()
    assert layers.plot(ax=other) is other and other.get_yticklabels()
    for drawn in (bars, other):
        assert max(len(tick.get_text()) for tick in drawn.get_xticklabels()) <= 24
    matplotlib.pyplot.close("all")


@cases("token", HOSTILE)
def test_figures_draw_hostile_tokens_as_they_are(load, token):
    figure = make(tokens=(token, "x"), scores=(1.0, 0.0), tie_breaker=(0, 0)).plot().figure
    figure.canvas.draw()
    matplotlib.pyplot.close(figure)
    layers = nbsal.Explainer(load("bert"), "gradxact").every_layer(f"good {token}").plot().figure
    layers.canvas.draw()
    matplotlib.pyplot.close(layers)


def test_one_layer_of_a_layer_saliency_is_a_saliency(load):
    every = nbsal.Explainer(load("bert"), "decoded-gradcam").every_layer("The film is a joy.")
    saliency = every.at(2)
    assert np.array_equal(saliency.scores, every.scores[2]) and saliency.provenance["parameters"]["layer"] == 2
    assert every.to_frame().shape == every.scores.shape
    assert every._repr_html_().count("<th style") == 4 + len(every.words)
    with refuses("layer", UnknownName) as caught:
        every.at(4)
    assert caught.value.valid == (0, 1, 2, 3)


def test_frame_of_several_texts(load):
    saliencies = nbsal.Explainer(load("bert"), "gradcam").map(["A joy.", "A bore."], progress=False)
    frame = saliencies.to_frame()
    assert frame["text"].unique().tolist() == [0, 1]
    assert len(frame) == sum(len(saliency.tokens) for saliency in saliencies)
    shown = saliencies._repr_html_()
    assert "joy" in shown and "bore" in shown and "bore" in saliencies.to_terminal() and len(saliencies[:1]) == 1
    assert "2" in repr(saliencies) and "gradcam" in repr(saliencies)


def test_provenance_records_settings_and_versions(load):
    provenance = nbsal.Explainer(load("bert"), "decoded-gradcam", layer=1, tau=3)("A joy.").provenance
    expected = {"layer": 1, "form": "per_position", "tau": 3, "renormalise": False, "coarse": False}
    assert provenance["parameters"] == expected
    assert provenance["dtype"] == "float64" and "torch" in provenance["versions"]


def test_truncated_text_is_marked():
    full = make(text="good bad bad and what follows is long")
    source = replace(full, row=replace(full.row, dropped=5)).to_html()
    assert f'<span style="opacity:.6" title="{html.UNREAD}"> and what follows is long</span>' in source
    assert html.UNREAD not in replace(full, row=replace(full.row, text="good bad bad \n", dropped=5)).to_html()


def test_a_special_token_typed_at_the_end_is_not_marked_as_truncated(small):
    saliency = nbsal.Explainer(small, "gradcam")("A joy. [SEP] ")
    assert saliency.scored_spans()[0][-1].text.strip() == "[SEP]" and html.UNREAD not in saliency.to_html()


def test_plots_of_long_texts_show_the_most_important_tokens(small):
    explain = nbsal.Explainer(small, "gradxact")
    text = "A warm and funny film, though dull. " * 12
    bars, grid = explain(text).plot(longest=5), explain.every_layer(text).plot(longest=7)
    assert "108" in bars.get_xlabel() and "108" in grid.get_xlabel()
    assert len(bars.patches) == 5 and len(grid.get_xticks()) == 7
    assert not explain("A joy.").plot().get_xlabel() and not explain.every_layer("A joy.").plot().get_xlabel()
    matplotlib.pyplot.close("all")


def test_control_characters_of_labels_do_not_reach_the_terminal(load):
    subject = nbsal.load(load("bert").model, tokenizer=load("bert").tokenizer, labels=["\x1b[2J", "\u202e", "joy"])
    explain = nbsal.Explainer(subject, "gradcam")
    saliency = explain("A warm joy.")
    for thing in (saliency, explain.every_layer("A warm joy.")):
        assert saliency.prediction in ("\x1b[2J", "\u202e") and not {"\x1b", "\u202e"} & set(repr(thing))


def test_a_span_has_the_probability_of_its_ends():
    saliency = nbsal.Explainer(nbsal.load("demo/answers"), "gradxact")(("Who ran?", "The old dog ran home."))
    start, end = wire.decision(saliency)["answer"]
    probability = saliency.probabilities[start, 0] * saliency.probabilities[end, 1]
    assert 0.2 < saliency.confidence == wire.decision(saliency)["confidence"] == pytest.approx(probability)
    assert saliency.outcome() == f"dog ({probability:.1%})" and "start times that of its end" in saliency.notes()[-1]


def test_a_method_that_divides_0_by_0_is_said_and_drawn():
    explain = nbsal.Explainer(nbsal.load("demo/answers"), "attention-gradcam@published")
    saliency = explain(("Who wrote it?", "Nora Smith wrote the long book in May."))
    assert np.isnan(saliency.scores[list(saliency.row.content)]).all()  # as the authors' program has them
    assert "0 by 0" in saliency.statement().text() and saliency.statement().badge == "not checked"
    assert {word.score for word in saliency.ranked_words(9)} == {saliency.largest} == {0.0}
    for level in ("word", "token"):
        assert "nan" not in sheet_html.render(saliency.sheet(level)) and sheet_png.draw(saliency.sheet(level))
    view = Compare(explain, text=saliency.text, other_method="gradxact", level="token", check=False).wait()
    assert "nan" not in view.render_html()
    view.close()


def test_notes_report_truncation_windows_and_the_completeness_gap():
    saliency = make()
    assert len(saliency.notes()) == 1 and "layer 3" in saliency.notes()[0]
    provenance = saliency.provenance | {"windows": 2, "gap": 0.5, "change": 1.25}
    noted = replace(saliency, row=replace(saliency.row, dropped=5), provenance=provenance)
    _, truncated, windows, gap = noted.notes()
    assert "5" in truncated and "2" in windows and "+1.75" in gap and "+1.25" in gap


def test_notes_name_the_last_folder_of_a_model_and_settings_all_of_it(small):
    saliency = nbsal.Explainer(small, "gradcam")("A joy.")
    folder = "/home/mara/runs/best"
    saved = replace(saliency, provenance=saliency.provenance | {"model": folder})
    assert saved.notes()[0].startswith("best · ") and folder in saved.settings()
    assert folder not in Compare(saved, saved).wait().result.notes()


def test_a_page_is_not_printed_in_full(small, tmp_path):
    saliency = nbsal.Explainer(small, "gradcam")("A joy.")
    page = saliency.to_html()
    assert len(repr(page)) < 100 < len(page) and page == str(page) and isinstance(page, str)
    assert saliency.to_html(tmp_path / "p.html").read_text(encoding="utf-8") == page
