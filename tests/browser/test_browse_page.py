"""Browse in Chromium: filters, sorting, walking and opening rows by mouse and by keys."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.render.headline import plain
from nbsal.widgets import Browse
from nbsal.widgets.content.table_columns import Columns
from nbsal.widgets.content.text_table import PAGE, Filters
from tests.browser import bench
from tests.browser.bench import MANY, tokens

ROWS = nbsal.samples.texts("reviews")[:40]
TEXTS, LABELS = [row["text"] for row in ROWS], [row["label"] for row in ROWS]


@pytest.fixture(scope="module")
def corpus(small):
    """Browse of 40 texts with their labels."""
    return Browse(nbsal.Explainer(small, "gradcam"), TEXTS, labels=LABELS).wait()


def rows(root):
    return root.locator("tbody tr[data-number]")


def numbers(root):
    return [int(number) for number in rows(root).evaluate_all("rows => rows.map(row => row.dataset.number)")]


def answer(sheet, view, **settings):
    """Change the view in Python and send the page what it publishes."""
    for name, value in settings.items():
        setattr(view, name, value)
    view.wait()
    bench.change(
        sheet,
        **settings,
        **{name: getattr(view, name) for name in ("_table", "_confusion", "_tokens", "_scores", "_result")},
    )


@pytest.fixture
def reset(corpus):
    yield
    for name, value in {
        "sort": "number",
        "descending": False,
        "label": None,
        "wrong": False,
        "token": "",
        "cell": None,
    }.items():
        setattr(corpus, name, value)
    corpus.page, corpus.opened = 0, 0


def test_the_table_says_what_python_says(show, sheet, views):
    root = show("browse", live=True)
    page = views["browse"].result
    expect(root.locator(".nbsal-headline").first).to_have_text(page.caption())
    expect(rows(root)).to_have_count(len(MANY))
    for k, entry in enumerate(page.rows):
        row = rows(root).nth(k)
        expect(row).to_contain_text(f"{entry.prediction} {100 * entry.confidence:.1f}\u202f%")
        expect(row.locator(".nbsal-cell-top")).to_have_text(entry.top)
        expect(row.get_by_text(f"✗ labelled {entry.label}")).to_have_count(int(entry.misclassified))
    expect(root.get_by_text("Text 1", exact=True)).to_be_visible()
    label = views["browse"]._labels[1]
    headline = root.locator(".nbsal-opened .nbsal-headline")
    expect(headline).to_contain_text(page.opened.statement().text())
    expect(headline).to_contain_text(f"Labelled {label}.")
    expect(tokens(root)).to_have_text([word.text for word in page.opened.words])


def test_filters_and_headings_set_the_traits(show, sheet):
    root = show("browse", live=True)
    for heading, expected in [
        ("Prediction", ("confidence", True)),
        ("Prediction", ("confidence", False)),
        ("Ranked first", ("top", False)),
        ("Text", ("text", False)),
        ("No.", ("number", False)),
        ("No.", ("number", True)),
    ]:
        root.get_by_role("columnheader").get_by_role("button", name=heading).click()
        bench.expect_traits(sheet, sort=expected[0], descending=expected[1])
    root.get_by_role("button", name=re.compile("^Errors")).click()
    root.get_by_role("group", name="Predicted class").get_by_role("button", name="negative").click()
    bench.expect_traits(sheet, label="negative", wrong=True)
    search = root.get_by_label("Contains")
    search.fill("dull")
    sheet.wait_for_function("() => window.view.model.get('token') === 'dull'")
    search.press("Escape")
    bench.expect_traits(sheet, token="")
    root.get_by_role("button", name="Any prediction").click()
    bench.expect_traits(sheet, label=None)


def test_rows_are_walked_and_opened_by_keys(show, sheet, corpus, reset):
    root = show(corpus, live=True)
    opener = root.get_by_role("button", name="Open text 0", exact=True)
    expect(root.locator("tr[aria-current=true]")).to_have_attribute("data-number", "0")
    opener.press("Escape")
    opener.press("ArrowDown")
    expect(root.get_by_role("button", name="Open text 1", exact=True)).to_be_focused()
    bench.expect_traits(sheet, opened=None)  # no text is open yet
    sheet.keyboard.press("Enter")
    bench.expect_traits(sheet, opened=1)
    answer(sheet, corpus, opened=1)
    sheet.keyboard.press("ArrowDown")
    bench.expect_traits(sheet, opened=2)  # the open text follows
    expect(root.locator("tr[aria-current=true]")).to_have_attribute("data-number", "2")
    expect(root.locator(".nbsal-outdated")).to_have_count(1)
    answer(sheet, corpus, opened=2)
    expect(root.locator(".nbsal-outdated")).to_have_count(0)
    expect(root.get_by_role("button", name="Open text 2", exact=True)).to_be_focused()
    sheet.keyboard.press("End")
    bench.expect_traits(sheet, opened=PAGE - 1)
    sheet.keyboard.press("ArrowDown")
    bench.expect_traits(sheet, page=1)
    answer(sheet, corpus, page=1)
    expect(root.get_by_role("button", name=f"Open text {PAGE}", exact=True)).to_be_focused()
    bench.expect_traits(sheet, opened=PAGE)
    sheet.keyboard.press("ArrowUp")
    answer(sheet, corpus, page=0)
    expect(root.get_by_role("button", name=f"Open text {PAGE - 1}", exact=True)).to_be_focused()
    sheet.keyboard.press("Escape")
    bench.expect_traits(sheet, opened=None)
    expect(root.locator(".nbsal-opened")).to_have_count(0)


PLACES = "rows => rows.map(row => [row.dataset.number, row.getBoundingClientRect().top])"


def partial(view, count, **filters):
    """What the view publishes once `count` texts are explained."""
    asked = Filters(**filters)
    columns, saliencies = Columns(view._labels), view.saliencies[:count]
    columns.update(saliencies)
    return view.publish(asked.page(columns, saliencies, 40, 0, None, ["negative", "positive"]))


def test_sorted_rows_stay_until_the_reader_asks_for_the_new_order(show, sheet, corpus, reset):
    order = {"sort": "confidence", "descending": True}
    root = show(corpus, live=True)
    bench.change(sheet, **order, **partial(corpus, 16, **order), status="computing")
    before = numbers(root)
    places = rows(root).evaluate_all(PLACES)
    put = root.get_by_role("button", name="Put in order")
    expect(put).to_be_hidden()
    rows(root).first.hover()  # someone reads
    for count in (32, 40):
        bench.change(sheet, **partial(corpus, count, **order))
        assert rows(root).evaluate_all(PLACES) == places
    expect(root.locator(".nbsal-headline").first).to_contain_text("of 40 texts")
    expect(root.get_by_text("page 1 of 4 · 40 texts")).to_be_visible()
    put.click()
    expect(put).to_be_hidden()
    ordered = Filters(**order).arrange(np.arange(len(corpus._columns)), corpus._columns).tolist()
    assert numbers(root) == ordered[:PAGE] != before


def test_a_table_that_nobody_reads_is_in_order_once_it_is_full(show, sheet, corpus, reset):
    order = {"sort": "confidence", "descending": True}
    root = show(corpus, live=True)
    bench.change(sheet, **order, **partial(corpus, 16, **order), status="computing")
    bench.change(sheet, **partial(corpus, 40, **order), status="ready")
    columns = corpus._columns
    assert numbers(root) == Filters(**order).arrange(np.arange(40), columns).tolist()[:PAGE]


def test_a_pair_of_label_and_prediction_filters_by_mouse_and_by_keys(show, sheet, corpus, reset):
    root = show(corpus, live=True)
    cells = corpus._confusion["cells"]
    buttons = root.locator(".nbsal-confusion button")
    expect(buttons).to_have_text([cell["text"] for cell in cells])
    wrong = next(k for k, cell in enumerate(cells) if cell["wrong"] and cell["text"] != "0")
    buttons.nth(wrong).click()
    bench.expect_traits(sheet, cell=cells[wrong]["pair"])
    expect(buttons.nth(wrong)).to_have_attribute("aria-pressed", "true")
    answer(sheet, corpus, cell=cells[wrong]["pair"])
    expect(rows(root)).to_have_count(min(PAGE, int(cells[wrong]["text"])))
    buttons.nth(wrong).click()
    bench.expect_traits(sheet, cell=None)
    buttons.first.press("ArrowDown")
    expect(buttons.nth(2)).to_be_focused()
    sheet.keyboard.press("Enter")
    bench.expect_traits(sheet, cell=cells[2]["pair"])


def test_an_opened_text_says_what_hiding_its_words_does(show, corpus, reset):
    root = show(corpus, live=True)
    statement = corpus._table["opened"]["statement"]
    expect(root.locator(".nbsal-opened .nbsal-check summary")).to_have_text(statement["evidence_line"])
    expect(root.locator(".nbsal-opened .nbsal-effects i")).to_have_count(len(statement["effects"]))
    assert statement["effects"] and "not checked" not in plain(statement["sentence"])


def test_a_saved_page_has_no_control_that_needs_python(show, corpus, reset):
    root = show(corpus)
    expect(root.get_by_text("Text 0", exact=True)).to_be_visible()
    expect(root.get_by_text("page 1 of 4 · 40 texts · other pages need Python")).to_be_visible()
    expect(root.locator("button:visible, input:visible, select:visible")).to_have_count(0)
