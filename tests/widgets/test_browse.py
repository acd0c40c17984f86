"""The Browse view: sorting, filters and pages, and an opened text that looks as in Highlight."""

import pytest

import nbsal
from nbsal.support.errors import UnknownName
from nbsal.widgets import Browse, Highlight
from tests.raising import refuses
from tests.widgets.test_view import from_page

ROWS = nbsal.samples.texts("reviews")[:30]
NAMES = ["negative", "positive"]
TEXTS, LABELS = [row["text"] for row in ROWS], [NAMES[row["label"]] for row in ROWS]


@pytest.fixture(scope="module")
def saliencies(small):
    return nbsal.Explainer(small, "decoded-gradcam").map(TEXTS, progress=False)


@pytest.fixture
def view(saliencies):
    browse = Browse(saliencies, labels=LABELS).wait()
    yield browse
    browse.close()


def numbers(view):
    return view.wait().to_frame()["number"].tolist()


@pytest.mark.parametrize("column", ["number", "text", "prediction", "confidence", "label", "top"])
def test_every_column_sorts(view, column):
    from_page(view, sort=column)
    values = view.wait().to_frame()[column].tolist()
    assert values == sorted(values)
    from_page(view, descending=True)
    assert view.wait().to_frame()[column].tolist() == values[::-1] or sorted(values, reverse=True)[0] == max(values)
    assert view.to_frame()[column].is_monotonic_decreasing


def test_filters_keep_matching_texts(view, saliencies):
    from_page(view, label="negative")
    assert numbers(view) == [i for i, s in enumerate(saliencies) if s.prediction == "negative"]
    from_page(view, wrong=True)
    assert numbers(view) == [i for i, s in enumerate(saliencies) if s.prediction == "negative" != LABELS[i]]
    from_page(view, label=None)
    assert numbers(view) and all(saliencies[i].prediction != LABELS[i] for i in numbers(view))


def test_texts_are_filtered_by_a_token_or_word(view, saliencies):
    word = next(w.text for s in saliencies for w in s.words if len(w.tokens) > 2)
    piece = next(s.tokens[w.tokens[1]] for s in saliencies for w in s.words if w.text == word)
    for token in (word, word.upper(), piece):
        from_page(view, token=token)
        assert numbers(view), token
    part = word[1:-1].upper()
    from_page(view, token=part)
    assert numbers(view) == [i for i, text in enumerate(TEXTS) if part.lower() in text.lower()]
    from_page(view, token="nowhere-in-these")
    assert numbers(view) == []


def test_labels_by_predictions_are_counted_and_filter(view, saliencies):
    pairs = list(zip(LABELS, (s.prediction for s in saliencies), strict=True))
    cells = {tuple(cell["pair"]): cell["text"] for cell in view._confusion["cells"]}
    assert cells == {(a, b): str(pairs.count((a, b))) for a in NAMES for b in NAMES}
    from_page(view, cell=["positive", "negative"])
    assert numbers(view) == [i for i, pair in enumerate(pairs) if pair == ("positive", "negative")] != []
    assert {tuple(cell["pair"]): cell["text"] for cell in view._confusion["cells"]} == cells, "of all texts"
    from_page(view, cell=None)
    assert numbers(view) == list(range(30))
    with refuses("cell"):
        view.cell = ["positive"]
    assert Browse(saliencies).wait()._confusion == {}
    assert view.result.table.columns.label(0) in view.to_html().split("No.")[0], "static HTML has the table"


def test_of_many_classes_the_mistakes_are_listed(saliencies):
    labels = [f"class {i % 12}" for i in range(30)]
    confusion = Browse(saliencies, labels=labels).wait()._confusion
    assert confusion["columns"] == [] and all(cell["wrong"] for cell in confusion["cells"])
    assert sum(int(cell["text"]) for cell in confusion["cells"]) == 30


def test_an_opened_text_is_checked(small, saliencies):
    view = Browse(nbsal.Explainer(small, "decoded-gradcam"), TEXTS[:4]).wait()
    check = nbsal.Explainer(small, "decoded-gradcam").check(saliencies[0]).check
    assert view.result.opened.check == check and "not checked" not in str(view._table["opened"]["statement"])
    ready = Browse(saliencies[:4]).wait()._table["opened"]["statement"]
    assert str(ready).count("not checked: no model") == 1


def test_a_text_that_cannot_be_checked_says_why(small):
    text = "dull " * 600
    statement = (
        Browse(nbsal.Explainer(small, "decoded-gradcam", long="window"), [text]).wait()._table["opened"]["statement"]
    )
    assert statement["evidence_line"].startswith("not checked: ") and not statement["effects"]


def test_the_opened_text_is_one_that_is_listed(view, saliencies):
    assert (view.opened, view._table["opened"]["number"]) == (0, 0), "the first one is opened at the start"
    label = next(s.prediction for s in saliencies if s.prediction != saliencies[0].prediction)
    requests = []
    view.observe(lambda change: requests.append(change["new"]), "status")
    from_page(view, label=label)
    first = numbers(view)[0]
    assert view.opened == view._table["opened"]["number"] == view._inputs["opened"] == first > 0
    assert requests == ["computing", "ready"], "nothing is computed again"
    from_page(view, label=None)
    assert numbers(view) == list(range(30)) and view.opened == first, "it stays"
    from_page(view, token="nowhere-in-these")
    assert view.wait()._table["opened"] is None
    from_page(view, opened=None)
    from_page(view, token="")
    assert view.wait().opened is view._table["opened"] is None, "what a reader closes stays closed"


def test_an_opened_text_is_shown_as_in_highlight(view, saliencies):
    from_page(view, opened=7)
    view.wait()
    alone = Highlight(saliencies[7]).wait()
    assert (view._tokens, view._scores) == (alone._tokens, alone._scores)
    selections = []
    view.on_select(lambda rows: selections.append(rows["token"].tolist()))
    from_page(view, selection=[1, 2])
    assert selections == [list(saliencies[7].tokens[1:3])]
    from_page(view, opened=None)
    assert view.wait()._tokens == {} and view.selection == []


def test_an_explainer_fills_the_table(small, saliencies):
    explain = nbsal.Explainer(small, "decoded-gradcam")
    view = Browse(explain, TEXTS[:8], labels=[NAMES.index(label) for label in LABELS[:8]])
    assert numbers(view) == list(range(8))
    assert view.to_frame()["label"].tolist() == LABELS[:8]
    assert view.saliencies[3].scores == pytest.approx(saliencies[3].scores, abs=1e-5)
    view.explain(["A joy."])
    assert numbers(view) == [0] and not view._table["judged"]


def test_an_opened_corpus_is_browsed(small, tmp_path):
    pytest.importorskip("pyarrow")
    explain = nbsal.Explainer(small, "gradcam")
    nbsal.corpus.explain(explain, ["A joy.", "", "A dull bore."], tmp_path / "c", progress=False)
    view = Browse(nbsal.corpus.open(tmp_path / "c"), opened=1)
    assert view.wait().to_frame()["text"].tolist() == ["A joy.", "A dull bore."]
    assert view._tokens["parts"] == ["A dull bore."]


def test_impossible_arguments_are_refused(small, saliencies):
    for source in (3, []):
        with refuses("source"):
            Browse(source)
    with refuses("texts"):
        Browse(nbsal.Explainer(small, "gradcam"), [])
    with refuses("texts"):
        Browse(saliencies).explain(["A joy."])
    for labels in (["a", "b"], [1] * 30):
        with refuses("labels"):
            Browse(saliencies, labels=labels)
    explain = nbsal.Explainer(small, "gradcam")
    for label in ("good", 2, 0.5):
        with refuses("labels", UnknownName):
            Browse(explain, ["A joy."], labels=[label])
    view = Browse(explain, ["A joy."])
    with refuses("labels"):
        view.explain(["A joy."], labels=["positive", "negative"])
    assert view.wait().result.total == 1, "what was there stays"
    with refuses("opened"):
        Browse(saliencies, opened=30).wait()
    with refuses("opened"):
        Browse(saliencies[:1], opened=7).wait()


def test_exports_hold_the_page_and_the_opened_text(view, saliencies):
    view.opened = 3
    html = view.wait().to_html()
    assert f" Labelled {LABELS[3]}." in html
    assert all(html.count(f">{name}</th>") == 1 for name in ("No.", "Text", "Prediction", "Ranked first"))
    assert view.result.caption() in html and "page 1 of 3 \u00b7 30 texts" in html
    for row in view._table["rows"]:
        assert f"{row['prediction']} {100 * row['confidence']:.1f}\u202f%" in html
    assert html.count("\N{BALLOT X} labelled") == sum(row["wrong"] for row in view._table["rows"])
    assert view.to_png()[:4] == b"\x89PNG" and len(view.to_frame()) == 30


def partial_pages(monkeypatch, *arguments, **settings):
    """The pages that a view of an explainer shows one after the other, two texts more each time; and the view."""
    monkeypatch.setattr("nbsal.widgets.corpus_view.CHUNK", 2)
    pages = []
    summarize = Browse.summarize

    def record(self, *inputs):
        pages.append((summarize(self, *inputs), len(inputs[0])))
        return pages[-1][0]

    monkeypatch.setattr(Browse, "summarize", record)
    return pages, Browse(*arguments, **settings).wait()


def test_a_text_is_opened_as_soon_as_it_is_explained(small, monkeypatch):
    explain = nbsal.Explainer(small, "gradcam")
    pages, view = partial_pages(monkeypatch, explain, ["A joy.", "A bore.", "A film."], opened=2)
    assert [page.opened and page.opened.check is not None for page, _ in pages] == [None, None, False, True]
    assert view.result.opened.text == "A film." and view._table["opened"]["number"] == 2


def test_rows_are_filled_in_place_while_texts_are_explained(small, monkeypatch):
    pages, view = partial_pages(monkeypatch, nbsal.Explainer(small, "gradcam"), TEXTS[:5], labels=LABELS[:5])
    assert [count for _, count in pages] == [0, 2, 4, 5, 5], "the last time, what is opened was checked"
    for page, count in pages:
        rows = view.publish(page)["_table"]["rows"]
        assert [row["number"] for row in rows] == list(range(5)), "no row moves"
        assert [("prediction" in row) for row in rows] == [number < count for number in range(5)]
        if page.waiting:
            number = page.waiting[0]
            assert rows[number]["pieces"][0][0] == TEXTS[number][:160]
            assert view.publish(page)["_result"]["notes"][-1] == f"{count} of 5 explained"
            assert count == 0 or "texts explained so far" in page.caption()
        assert len(page.to_frame()) == count
    assert pages[0][0].caption() == "No text is explained yet." and view._result["notes"][1] == "5 texts"
