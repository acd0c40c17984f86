"""The Browse view: sorting, filters and pages, and an opened text that looks as in Highlight."""

import pytest

import nbsal
from nbsal.widgets import Browse, Highlight
from nbsal.widgets.browse import PAGE
from tests.raising import refuses
from tests.widgets.test_view import from_page

ROWS = nbsal.samples.texts("reviews")[:30]
NAMES = ["negative", "positive"]
TEXTS, LABELS = [row["text"] for row in ROWS], [NAMES[row["label"]] for row in ROWS]


@pytest.fixture(scope="module")
def saliencies(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam").map(TEXTS, progress=False)


@pytest.fixture
def view(saliencies):
    browse = Browse(saliencies, labels=LABELS).wait()
    yield browse
    browse.close()


def numbers(view):
    return view.wait().to_frame()["number"].tolist()


def test_all_texts_are_listed_a_page_at_a_time(view):
    assert numbers(view) == list(range(30)) and view._table["pages"] == -(-30 // PAGE)
    from_page(view, page=1)
    assert [row["number"] for row in view.wait()._table["rows"]] == list(range(PAGE, 2 * PAGE))
    view.page = 99
    assert view.wait()._table["page"] == 30 // PAGE


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
    from_page(view, token="nowhere-in-these")
    assert numbers(view) == []


def test_a_new_filter_begins_at_the_first_page(view):
    view.page = 2
    view.wait()
    view.label = "positive"
    assert view.wait()._table["page"] == view.page == 0


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


def test_misclassified_texts_are_counted(view, saliencies):
    wrong = sum(s.prediction != label for s, label in zip(saliencies, LABELS, strict=True))
    assert f"{wrong} of 30" in view._result["notes"][1]
    assert sum(row["wrong"] for row in view._table["rows"]) == sum(
        s.prediction != label for s, label in zip(saliencies[:PAGE], LABELS[:PAGE], strict=True)
    )


def test_an_explainer_fills_the_table(reviews, saliencies):
    explain = nbsal.Explainer(reviews, "decoded-gradcam")
    view = Browse(explain, TEXTS[:8], labels=[NAMES.index(label) for label in LABELS[:8]])
    assert numbers(view) == list(range(8))
    assert view.to_frame()["label"].tolist() == LABELS[:8]
    assert view.saliencies[3].scores == pytest.approx(saliencies[3].scores, abs=1e-5)
    view.explain(["A joy."])
    assert numbers(view) == [0] and not view._table["judged"]


def test_an_opened_corpus_is_browsed(reviews, tmp_path):
    pytest.importorskip("pyarrow")
    explain = nbsal.Explainer(reviews, "gradcam")
    nbsal.corpus.explain(explain, ["A joy.", "", "A dull bore."], tmp_path / "c", progress=False)
    view = Browse(nbsal.corpus.open(tmp_path / "c"), opened=1)
    assert view.wait().to_frame()["text"].tolist() == ["A joy.", "A dull bore."]
    assert view._tokens["parts"] == ["A dull bore."]


def test_impossible_arguments_are_refused(reviews, saliencies):
    for source in (3, []):
        with refuses("source"):
            Browse(source)
    with refuses("texts"):
        Browse(nbsal.Explainer(reviews, "gradcam"), [])
    with refuses("texts"):
        Browse(saliencies).explain(["A joy."])
    for labels in (["a", "b"], [1] * 30):
        with refuses("labels"):
            Browse(saliencies, labels=labels).wait()
    with refuses("opened"):
        Browse(saliencies, opened=30).wait()
    with refuses("opened"):
        Browse(saliencies[:1], opened=7).wait()


def test_exports_hold_the_page_and_the_opened_text(view, saliencies):
    view.opened = 3
    html = view.wait().to_html()
    assert html.count("<tr>") == PAGE + 1 and saliencies[3].to_html() in html
    assert view.to_png()[:4] == b"\x89PNG" and len(view.to_frame()) == 30


def test_a_text_is_opened_as_soon_as_it_is_explained(reviews, monkeypatch):
    monkeypatch.setattr("nbsal.widgets.corpus_view.CHUNK", 2)
    shown = []
    summarize = Browse.summarize
    monkeypatch.setattr(Browse, "summarize", lambda *args: shown.append(summarize(*args).opened) or summarize(*args))
    view = Browse(nbsal.Explainer(reviews, "gradcam"), ["A joy.", "A bore.", "A film."], opened=2).wait()
    assert shown[0] is None and view.result.opened.text == "A film."


def test_values_have_no_confidence(load):
    explain = nbsal.Explainer(load("bert", problem_type="regression", num_labels=3), "gradcam")
    view = Browse(explain, texts=["A joy.", "A bore."], sort="confidence").wait(60)
    assert [row["confidence"] for row in view._table["rows"]] == [None, None]
    assert "100.0%" not in view.render_html() and view.to_png()
    view.close()
