"""Citations in Chromium: a statement marks its words and its documents, a document marks its statements."""

import pytest
from playwright.sync_api import expect

from nbsal.explain.citations.sourced import SourcedRows, field_rows
from nbsal.widgets import Answers
from nbsal.widgets.content.answer_citations import rows_trait
from tests.answers import writers
from tests.browser import bench
from tests.browser.checklist.saving import SAID
from tests.browser.test_checks import assert_fits
from tests.browser.test_copies_page import bare
from tests.widgets import cited
from tests.widgets.test_citations import frame
from tests.widgets.test_copies import Words

SUPPORTED, DECORATION, ELSEWHERE = range(3)


@pytest.fixture(scope="module")
def view():
    answers = Answers(cited.answer(writers.load()), selection=[]).wait()
    fields = field_rows(frame(), answers.result.reading.prompt)
    answers._citations = rows_trait(SourcedRows(answers.result.sourced.statements, fields))
    yield answers
    answers.close()


def rows_of(root, name="Citations"):
    return root.get_by_role("listbox", name=name, exact=True).get_by_role("option")


def marked(rows):
    return rows.evaluate_all("nodes => nodes.map(node => node.getAttribute('aria-selected') === 'true')")


def roles(root):
    """What each document is to what is chosen."""
    heads = root.locator(".nbsal-source").all()
    return [
        head.locator(".nbsal-badge").inner_text() if head.locator(".nbsal-badge:visible").count() else ""
        for head in heads
    ]


def test_a_statement_marks_its_words_and_documents_by_keys_alone(show, sheet, view):
    root, statements = show(view, live=True), view._citations["statements"]
    assert roles(root) == [""] * 5 and not any(marked(rows_of(root)))
    box = root.get_by_role("listbox", name="Citations", exact=True)
    for key in ("Home", "ArrowDown", "ArrowDown", "Enter"):
        box.press(key)
    bench.expect_traits(sheet, selection=list(statements[ELSEWHERE]["tokens"]), source_selection=[])
    assert marked(rows_of(root)) == [number == ELSEWHERE for number in range(5)]
    links = dict(statements[ELSEWHERE]["links"])
    assert roles(root) == [links.get(number, "") for number in range(5)] and len(links) == 2
    box.press("Escape")
    bench.expect_traits(sheet, selection=[])
    assert roles(root) == [""] * 5
    rows_of(root).nth(DECORATION).click()
    bench.expect_traits(sheet, selection=list(statements[DECORATION]["tokens"]))
    rows_of(root).nth(DECORATION).click()
    bench.expect_traits(sheet, selection=[])


def test_a_document_marks_the_statements_that_cite_or_use_it(show, sheet, view):
    root = show(view, live=True)
    bench.tokens(root, "Document 1, word by word").get_by_text("pier", exact=True).click()
    bench.wait_for(sheet, lambda: len(bench.trait(sheet, "source_selection")) > 0, True)
    linked = [any(source == 1 for source, _ in row["links"]) for row in view._citations["statements"]]
    assert marked(rows_of(root)) == linked == [False, True, True, False, True]
    assert not any(marked(rows_of(root, "Fields")))


def test_a_field_marks_its_place_in_the_document(show, sheet, view):
    root, fields = show(view, live=True), view._citations["fields"]
    rows_of(root, "Fields").nth(1).click()
    bench.expect_traits(sheet, selection=[], source_selection=list(fields[1]["positions"]))
    chosen = bench.tokens(root, "Document 2, word by word").and_(root.locator("[aria-selected=true]"))
    expect(chosen).to_have_text(["Oslo"])
    assert roles(root)[2] == fields[1]["links"][0][1]


def test_verdicts_differ_by_sign_word_and_line(show, view):
    badges = rows_of(show(view)).locator(".nbsal-badge")
    looks = badges.evaluate_all("nodes => nodes.map(getComputedStyle).map(s => `${s.borderStyle} ${s.borderRadius}`)")
    assert len({*looks}) == 5 and len({text.split()[0] for text in badges.all_inner_texts()}) == 5


@pytest.mark.parametrize("width", [400, 760, 1400])
def test_citations_fit_and_are_accessible(show, sheet, audit, view, width):
    sheet.set_viewport_size({"width": width, "height": 900})
    root = show(view, live=True)
    rows_of(root).nth(ELSEWHERE).click()
    assert_fits(sheet, root, width)
    for theme in ("light", "dark"):
        assert audit(theme=theme) == []
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_forced_colours_show_what_is_chosen(show, sheet, view):
    root = show(view, live=True)
    rows_of(root).nth(SUPPORTED).click()
    sheet.emulate_media(forced_colors="active")
    lines = rows_of(root).evaluate_all("nodes => nodes.map(node => getComputedStyle(node).outlineStyle)")
    sheet.emulate_media(forced_colors="none")
    assert lines == ["solid", *["none"] * 4]


def test_a_page_with_citations_says_what_its_copies_say(show):
    answers = Answers(cited.answer(writers.load())).wait()
    copy, said = bare(Words(answers.render_html()).text), show(answers).evaluate(SAID)
    assert [text for text in said if bare(text) not in copy] == []
    places = [copy.index(bare(text)) for text in said if copy.count(bare(text)) == 1]
    assert len(places) > 20 and places == sorted(places)
    answers.close()


def test_the_check_is_a_fold_that_asks_python(show, sheet, views):
    view = views["answers"]
    root = show(view, live=True)
    fold = root.locator('.nbsal-fold[data-panel="citations"]')
    expect(fold).to_be_hidden()
    bench.change(sheet, _citations={"offer": "Check it"}, panels=[])
    expect(fold.locator("summary")).to_have_text("Check it")
    fold.locator("summary").press("Enter")
    bench.expect_traits(sheet, panels=["citations"])
