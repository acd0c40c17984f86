"""The tables and pages: numbers as they were found, the best marked, and no markup from outside."""

from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

import nbsal
from nbsal.errors import InputError
from nbsal.evaluation.bootstrap import Bootstrap
from nbsal.evaluation.results import BEST, RIVAL, Curve, MetricInfo, Results
from nbsal.figures import checkpoints, decoding_saliency, mask_lrp, pages

NAMES = {"ours": 0.9, "other": 0.5, "<b>third</b>": 0.7}


class Tags(HTMLParser):
    """Which tags a page has, and whether it reaches outside."""

    def __init__(self, page):
        super().__init__()
        self.seen, self.outside = Counter(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen[tag] += 1
        self.outside += [v for k, v in attrs if k in ("src", "href") and v and v.startswith(("http", "//", "/"))]


def made(shift=0.0, measure="aopc", better="high"):
    """Results of three explainers with known values."""
    again = Bootstrap([f"text {i}" for i in range(4)])
    curves = {(n, measure): Curve.of([0.5], np.full((1, 1, 4), v + shift), again) for n, v in NAMES.items()}
    return Results(MetricInfo(better={measure: better}), curves, ("<i>4</i> texts",))


def styles(styled):
    """The cells' styles by explainer, of the first column."""
    styled._compute()
    return {name: ";".join("".join(p) for p in styled.ctx[(at, 0)]) for at, name in enumerate(styled.data.index)}


def test_tables_hold_the_numbers_and_mark_the_best():
    table = mask_lrp.faithfulness_table({"one": made(), "two": made(1.0)}, ours=["ours"])
    frame = table.data
    assert frame[("one", "aopc ↑")].to_dict() == pytest.approx(NAMES)
    assert frame[("two", "aopc ↑")].to_dict() == pytest.approx({name: value + 1 for name, value in NAMES.items()})
    assert frame[("one", "95 % aopc")]["ours"] == "0.900 to 0.900"
    found = styles(table)
    assert found["ours"] == BEST.replace(": ", "") and found["<b>third</b>"] == RIVAL.replace(": ", "")
    assert found["other"] == ""
    page = table.to_html()
    assert "&lt;b&gt;third" in page and "<b>third" not in page and "<i>4" not in page


def test_low_is_better_where_results_say_so():
    table = mask_lrp.faithfulness_table({"one": made(measure="log-odds", better="low")})
    assert styles(table)["other"] == BEST.replace(": ", "")


def test_tables_below_each_other_show_the_explainers_asked_for():
    table = decoding_saliency.area_table({"one": made(), "two": made()}, explainers=["other", "ours"])
    assert table.data.index.tolist() == [(d, n) for d in ("one", "two") for n in ("ours", "other")]
    with pytest.raises(InputError, match="at least one data set"):
        decoding_saliency.area_table({})


def test_answer_table_has_a_column_a_model():
    assert mask_lrp.answer_table({"squad, bert": made(), "squad, gpt": made()}).data.shape == (3, 4)


def test_shared_tokens_are_those_of_the_cloud():
    clouds = {
        "ours": nbsal.clouds.Cloud({"a": {"x": 3.0, "<b>": 2.0}, "b": {"x": 1.0, "<b>": 0.5}}),
        "none": nbsal.clouds.Cloud({"a": {"x": 3.0}, "b": {"y": 1.0}}),
        "blind": nbsal.clouds.Cloud({"a": {"x": 3.0}}),
    }
    table = decoding_saliency.shared_tokens(clouds, "b", "a")
    assert table.data["shared"].to_dict() == {"ours": 2, "none": 0, "blind": 0}
    assert table.data["tokens"].to_dict() == {"ours": "x, <b>", "none": "(none)", "blind": "never predicted: b"}
    assert "<b>" not in table.to_html()


def test_checkpoints_are_the_papers():
    frame = checkpoints.checkpoint_table({"mnli": "my <model>"}).data
    assert len(frame) == 11
    assert frame.loc[("mnli", "BERT base"), "used here"] == "my <model>"
    assert checkpoints.dataset_table({"sst2": 1234}).data.loc["sst2", ["validation", "here"]].tolist() == [
        "872",
        "1,234",
    ]


def test_supplement_highlights_every_text_in_every_way(reviews):
    texts = ["A warm <script>film</script> & joy.", "Dull."]
    found = {name: nbsal.Explainer(reviews, name).map(texts, progress=False) for name in ("gradcam", "gradxact")}
    page = pages.supplement(found, ["positive", "<gold>"], "All <texts>")
    tags = Tags(page.to_html())
    assert tags.seen["section"] == 2 and tags.seen["h2"] == 2 and not tags.seen["script"] and not tags.outside
    assert "All &lt;texts&gt;" in page.body and "gold &lt;gold&gt;" in page.body
    assert page.body.count(">gradxact<") == 2
    strongest = found["gradcam"][0].top(1)["token"].item()
    assert f"<i class=f8>{strongest}</i>" in page.body
    assert "class=a" in page.body.split(">gradxact<")[2]
    assert "color-scheme" in page.to_html() and ".a8{background:rgba(40,118,200" in page.to_html()
    with pytest.raises(InputError, match="one explanation a text"):
        pages.supplement(found, ["positive"])


def test_a_pair_stays_two_texts(reviews):
    found = nbsal.Explainer(nbsal.load("demo/nli"), "gradcam")(("A dog runs.", "An animal moves."))
    assert " ‖ " in pages.supplement({"gradcam": [found]}).body


def test_pages_are_saved_whole(tmp_path):
    pages.Page("A & b", "<p>body</p>").save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "<title>A &amp; b</title>" in text and "<p>body</p>" in text
    assert pages.Page("A", "<p>body</p>")._repr_html_() == "<div><p>body</p></div>"
    assert pages.Page("A", "x", "p{color:red}")._repr_html_() == "<div><style>p{color:red}</style>x</div>"
