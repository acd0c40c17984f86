"""Tables, pages and the papers' numbers: the right numbers, the best marked, and no markup from outside."""

from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

import nbsal
from nbsal.evaluation.curve import Curve
from nbsal.evaluation.results import BEST, RIVAL, MetricInfo, Results
from nbsal.figures import checkpoints, decoding_saliency, mask_lrp, pages, printed
from tests.raising import refuses

NAMES = {"ours": 0.9, "other": 0.5, "<b>third</b>": 0.7}


class Tags(HTMLParser):
    """Count the tags of a page, and collect its links to other pages."""

    def __init__(self, page):
        super().__init__()
        self.counts, self.links = Counter(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.counts[tag] += 1
        links = [value for name, value in attrs if name in ("src", "href") and value]
        self.links += [link for link in links if link.startswith(("http", "//", "/"))]


def results(shift=0.0, measure="aopc", better="high", values=NAMES):
    """Create results of three explainers with the values of NAMES, or of others."""
    curves = {
        (name, measure): Curve.from_values([0.5], np.array([[[-0.05, 0, 0, 0.05]]]) + value + shift, range(4))
        for name, value in values.items()
    }
    return Results(MetricInfo(better={measure: better}), curves, ("<i>4</i> texts",))


def test_explainers_with_the_same_number_are_marked_alike():
    values = {"first": 0.9001, "second": 0.9, "third": 0.5, "fourth": 0.4999, "last": 0.1}
    marked = styles(mask_lrp.faithfulness_table({"one": results(values=values)}))
    assert marked == {"first": BEST, "second": BEST, "third": RIVAL, "fourth": RIVAL, "last": ""}


def styles(styler):
    """Return the style of the first column's cells, by explainer."""
    styler._compute()
    names = enumerate(styler.data.index)
    return {name: ": ".join(pair for pairs in styler.ctx[(number, 0)] for pair in pairs) for number, name in names}


def test_tables_contain_the_numbers_and_mark_the_best():
    table = mask_lrp.faithfulness_table({"one": results(), "two": results(1.0)}, ours=["ours"])
    frame = table.data
    assert frame[("one", "aopc ↑")].to_dict() == pytest.approx(NAMES)
    assert frame[("two", "aopc ↑")].to_dict() == pytest.approx({name: value + 1 for name, value in NAMES.items()})
    low, high = results().mean().set_index("explainer").loc["ours", ["low", "high"]]
    assert low < 0.9 < high and frame[("one", "95 % aopc")]["ours"] == f"{low:.3f} to {high:.3f}"
    assert styles(table) == {"ours": BEST, "other": "", "<b>third</b>": RIVAL}
    page = table.to_html()
    assert "&lt;b&gt;third" in page and "<b>third" not in page and "<i>4" not in page
    lowest = mask_lrp.faithfulness_table({"one": results(measure="log-odds", better="low")})
    assert styles(lowest)["other"] == BEST
    assert mask_lrp.answer_table({"squad, bert": results(), "squad, gpt": results()}).data.shape == (3, 4)


def test_stacked_tables_show_the_selected_explainers():
    table = decoding_saliency.area_table({"one": results(), "two": results()}, explainers=["other", "ours"])
    assert table.data.index.tolist() == [(panel, name) for panel in ("one", "two") for name in ("ours", "other")]
    with refuses("panels"):
        decoding_saliency.area_table({})


def test_shared_tokens_are_the_tokens_of_both_classes():
    clouds = {
        "ours": nbsal.clouds.Cloud({"a": {"x": 3.0, "<b>": 2.0}, "b": {"x": 1.0, "<b>": 0.5}}),
        "none": nbsal.clouds.Cloud({"a": {"x": 3.0}, "b": {"y": 1.0}}),
        "empty": nbsal.clouds.Cloud({"a": {"x": 3.0}}),
    }
    table = decoding_saliency.shared_tokens(clouds, "b", "a")
    pairs = {"Table 3": ("b", "a"), "Table 4": ("a", "b")}
    columns = decoding_saliency.shared_token_columns(clouds, pairs)
    assert columns["Table 3"].tolist() == columns["Table 4"].tolist() == ["2: x, <b>", "0", "0"]
    assert table.data["shared"].to_dict() == {"ours": 2, "none": 0, "empty": 0}
    assert table.data["tokens"]["ours"] == "x, <b>" and "<b>" not in table.to_html()


def test_checkpoints_and_data_sets_match_the_paper():
    gpt = "anas-awadalla/gpt2-span-head-finetuned-squad"
    table = checkpoints.checkpoint_table({"mnli": ["my <model>"], "squad": [gpt]})
    assert table.to_html().count("<tr") == 1 + 12  # one row of headers
    frame = table.data.set_index(["data set", "model"])
    assert len(frame) == 12 and frame.loc[("mnli", "here"), "used here"] == "my <model>"
    used = frame.loc["squad", "used here"]
    assert used["GPT-2"] == gpt and not used["BERT base"] and not used["RoBERTa"]
    sizes = checkpoints.dataset_table({"sst2": 1234}).data.loc["sst2", ["validation", "available"]]
    assert sizes.tolist() == ["872", "1,234"]


def test_supplement_highlights_every_text_with_every_explainer(reviews):
    texts = ["A warm <script>film</script> & joy.", "Dull."]
    saliencies = {name: nbsal.Explainer(reviews, name).map(texts, progress=False) for name in ("gradcam", "gradxact")}
    page = pages.supplement(saliencies, ["positive", "<gold>"], "All <texts>")
    tags = Tags(page.to_html())
    assert tags.counts["section"] == 2 and tags.counts["h2"] == 2 and not tags.counts["script"] and not tags.links
    assert "All &lt;texts&gt;" in page.body and "&lt;gold&gt;" in page.body
    assert page.body.count(">gradxact<") == 2
    strongest = saliencies["gradcam"][0].top(1)["token"].item()
    assert f"<i class=f8>{strongest}</i>" in page.body and "class=a" in page.body.split(">gradxact<")[2]
    assert ".a8{background:rgba(40,118,200" in page.to_html()
    with refuses("labels"):
        pages.supplement(saliencies, ["positive"])
    with refuses("explanations"):
        pages.supplement({"gradcam": saliencies["gradcam"], "gradxact": saliencies["gradxact"][:1]})
    pair = nbsal.Explainer(nbsal.load("demo/nli"), "gradcam")(("A dog runs.", "An animal moves."))
    assert " ‖ " in pages.supplement({"gradcam": [pair]}).body


def test_saved_pages_are_complete_documents(tmp_path):
    pages.Page("A & b", "<p>body</p>").save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "<title>A &amp; b</title>" in text and "<p>body</p>" in text
    assert pages.Page("A", "x", "p{color:red}")._repr_html_() == "<div><style>p{color:red}</style>x</div>"


def test_the_papers_tables_are_whole_and_every_row_is_a_method():
    tables = (printed.AREAS, printed.SIMPLE_AREAS, printed.DELETION, printed.MASK_PARTS, printed.ANSWERS)
    shapes = [[len(rows) for rows in table.values()] for table in tables]
    assert shapes == [[9, 12], [4, 4], [11, 11, 11, 10, 10], [3, 3], [4, 4]]
    rows = {row for table in tables if table is not printed.MASK_PARTS for part in table.values() for row in part}
    rows = {row for row in rows if "Grad-CAM l" not in row and "Simple l" not in row}
    assert rows - set(nbsal.methods.catalogue.table().index) == {"random mask"}
    frame = printed.frame(printed.DELETION, printed.LOSSES)
    assert frame.isna().sum().sum() == 4  # ALTC, which Table 4 has for three data sets only
    assert frame.loc["mask-lrp", ("Yelp", "log-odds")] == -1.898


def test_numbers_stand_beside_those_of_the_paper(reviews):
    explainers = {name: nbsal.Explainer(reviews, "gradcam", layer=n) for n, name in enumerate(("Grad-CAM l0", "own"))}
    results = nbsal.evaluation.games(explainers, ["A joy.", "A bore."], random=0, progress=False)
    area = results.auc().query("game == 'hiding'").set_index("explainer").loc["own"]
    frame = printed.beside({"SST-2": results}, printed.AREAS)
    assert frame.columns.tolist()[:3] == ["SST-2 revealing here", "SST-2 revealing paper", "SST-2 hiding here"]
    assert (
        frame.loc["own", "SST-2 hiding here"] == f"{area['auc']:.3f}" and frame.loc["own", "SST-2 hiding paper"] == ""
    )
    assert frame.loc["Grad-CAM l0", "AG News hiding paper"] == "0.804" and "AG News hiding here" not in frame
    assert set(frame.index) == {"own", *(name for rows in printed.AREAS.values() for name in rows)}
    frame = printed.beside({"SST-2": results}, {"SST-2": printed.AREAS["SST-2"]}, ["hiding"], intervals=True)
    assert frame.columns.tolist() == ["here", "paper"]
    assert frame.loc["own", "here"] == f"{area['auc']:.3f} ({area['low']:.3f} to {area['high']:.3f})"
    with refuses("panels"):
        printed.beside({"samples": results}, printed.AREAS)
