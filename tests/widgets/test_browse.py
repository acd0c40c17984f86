"""Browse: sorting, filters and pages show the right texts, and an opened one is as Highlight would show it."""

import pytest

import nbsal
from nbsal.errors import InputError, UnknownName
from nbsal.widgets import Browse, Highlight
from nbsal.widgets.browse import PAGE
from tests.widgets.test_view import from_page

ROWS = nbsal.samples.texts("reviews")[:30]
NAMES = ["negative", "positive"]
TEXTS, LABELS = [row["text"] for row in ROWS], [NAMES[row["label"]] for row in ROWS]


@pytest.fixture(scope="module")
def found(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam").map(TEXTS, progress=False)


@pytest.fixture
def view(found):
    made = Browse(found, labels=LABELS).wait()
    yield made
    made.close()


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


def test_filters_keep_what_they_say(view, found):
    from_page(view, label="negative")
    assert numbers(view) == [i for i, s in enumerate(found) if s.prediction == "negative"]
    from_page(view, wrong=True)
    wanted = [i for i, s in enumerate(found) if s.prediction == "negative" != LABELS[i]]
    assert numbers(view) == wanted
    from_page(view, label=None)
    assert all(s != LABELS[i] for i, s in ((i, found[i].prediction) for i in numbers(view)))


def test_texts_with_a_token_or_a_word_are_found(view, found):
    word = next(w.text for s in found for w in s.words if len(w.tokens) > 2)
    piece = next(s.tokens[w.tokens[1]] for s in found for w in s.words if w.text == word)
    for sought in (word, word.upper(), piece):
        from_page(view, token=sought)
        assert numbers(view), sought
    from_page(view, token="nowhere-in-these")
    assert numbers(view) == []


def test_a_new_filter_begins_at_the_first_page(view):
    view.page = 2
    view.wait()
    view.label = "positive"
    assert view.wait()._table["page"] == view.page == 0


def test_an_opened_text_is_shown_as_highlight_shows_it(view, found):
    from_page(view, opened=7)
    view.wait()
    alone = Highlight(found[7]).wait()
    assert (view._tokens, view._scores) == (alone._tokens, alone._scores)
    seen = []
    view.on_select(lambda rows: seen.append(rows["token"].tolist()))
    from_page(view, selection=[1, 2])
    assert seen == [list(found[7].tokens[1:3])]
    from_page(view, opened=None)
    assert view.wait()._tokens == {} and view.selection == []


def test_errors_are_counted(view, found):
    wrong = sum(s.prediction != label for s, label in zip(found, LABELS, strict=True))
    assert f"{wrong} of 30 are decided wrongly" in view._result["notes"][1]
    assert sum(row["wrong"] for row in view._table["rows"]) == sum(
        s.prediction != label for s, label in zip(found[:PAGE], LABELS[:PAGE], strict=True)
    )


def test_an_explainer_fills_the_table(reviews, found):
    explain = nbsal.Explainer(reviews, "decoded-gradcam")
    view = Browse(explain, TEXTS[:8], labels=[NAMES.index(label) for label in LABELS[:8]])
    assert numbers(view) == list(range(8))
    assert view.to_frame()["label"].tolist() == LABELS[:8]
    assert view.saliencies[3].scores == pytest.approx(found[3].scores, abs=1e-5)
    view.explain(["A joy."])
    assert numbers(view) == [0] and not view._table["judged"]


def test_an_opened_corpus_is_browsed(reviews, tmp_path):
    pytest.importorskip("pyarrow")
    explain = nbsal.Explainer(reviews, "gradcam")
    nbsal.corpus.explain(explain, ["A joy.", "", "A dull bore."], tmp_path / "c", progress=False)
    view = Browse(nbsal.corpus.open(tmp_path / "c"), opened=1)
    assert view.wait().to_frame()["text"].tolist() == ["A joy.", "A dull bore."]
    assert view._tokens["parts"] == ["A dull bore."]


def test_what_cannot_be_shown_is_refused(reviews, found):
    with pytest.raises(InputError, match="not int"):
        Browse(3)
    with pytest.raises(InputError, match="2 labels for 30 texts"):
        Browse(found, labels=["a", "b"]).wait()
    with pytest.raises(InputError, match="nothing for Browse to show"):
        Browse([])
    with pytest.raises(InputError, match="the list is empty"):
        Browse(nbsal.Explainer(reviews, "gradcam"), [])
    with pytest.raises(InputError, match="This Browse has no explainer"):
        Browse(found).explain(["A joy."])
    with pytest.raises(InputError, match="names of classes, not 1"):
        Browse(found, labels=[1] * 30).wait()
    with pytest.raises(UnknownName, match="0 to 29"):
        Browse(found, opened=30).wait()


def test_exports_hold_the_page_and_the_opened_text(view, found):
    view.opened = 3
    html = view.wait().to_html()
    assert html.count("<tr>") == PAGE + 1 and found[3].to_html() in html
    assert view.to_png()[:4] == b"\x89PNG" and len(view.to_frame()) == 30
