"""Views of damaged data, views whose Python has stopped, and views that are saved."""

import pytest
from playwright.sync_api import expect

from nbsal.widgets import Highlight
from tests.browser import bench
from tests.browser.conftest import open_page

DAMAGED = "The saved data of this view are damaged. Run the cell again."
STOPPED = "Python has stopped · run the cell again to continue"


@pytest.fixture(scope="module")
def model(reviews):
    return reviews


def test_damaged_data_shows_an_error(show, sheet):
    broken = Highlight(bench.saliency_of(["a", "b"])).wait()
    broken._scores = b"\x00"
    root = show(broken)
    expect(root.get_by_role("alert")).to_have_text(DAMAGED)
    whole = Highlight(bench.saliency_of(["a", "b"])).wait()
    bench.change(sheet, _scores=whole._scores)
    expect(root.get_by_role("alert")).to_be_hidden()
    for part in (b"\x00", whole._scores[:-2]):  # cut inside a number, and between two
        bench.change(sheet, _scores=part)
        expect(root.get_by_role("alert")).to_have_text(DAMAGED)
        bench.change(sheet, _scores=whole._scores)
    bench.change(sheet, _tokens=whole._tokens | {"starts": b"\x80"})
    expect(root.get_by_role("alert")).to_have_text(DAMAGED)
    assert len(sheet.problems) == 4
    sheet.problems.clear()


def test_a_result_that_does_not_match_the_controls_is_dimmed(show, sheet, views):
    root = show("highlight", live=True)
    state = root.locator(".nbsal-state")
    bench.expect_dim(sheet, False)
    bench.change(sheet, status="error", error="The layer is too deep.")
    expect(root.get_by_role("alert").filter(visible=True)).to_have_text("The layer is too deep.")
    bench.expect_dim(sheet)
    expect(state).to_have_text("Not computed")
    bench.change(sheet, status="cancelled", error="")
    expect(root.get_by_role("alert").filter(visible=True)).to_have_count(0)
    bench.expect_dim(sheet)
    expect(state).to_have_text("Cancelled; showing the previous result")
    bench.change(sheet, status="computing")
    bench.expect_dim(sheet)
    expect(state).to_have_text("Updating\u2026")
    bench.change(sheet, progress=0.99, _left="99\u202f%")
    expect(state).to_have_text("Computing\u2026 99\u202f%")  # the result is not there yet
    bench.change(sheet, status="ready", progress=None)
    bench.expect_dim(sheet, False)
    root.locator(".nbsal-classes").get_by_role("button", name="negative").click()
    bench.expect_dim(sheet)
    expect(state).to_have_text("Updating\u2026")  # before Python answers
    root.locator(".nbsal-classes").get_by_role("button", name="negative").click()
    bench.expect_dim(sheet, False)  # the result is of what is chosen again


def stop_python(sheet):
    """Close the connection as a host does whose kernel has ended: traits go nowhere, messages raise an error."""
    sheet.evaluate("() => { window.view.model.send = () => { throw new Error('Cannot send'); }; }")


def test_the_end_of_python_is_said_once_and_the_typed_text_stays(show, sheet):
    root = show("highlight", live=True)
    root.get_by_role("button", name="Edit text").click()
    area, state = root.get_by_label("Text", exact=True), root.locator(".nbsal-state")
    area.press("End")
    sheet.keyboard.type("Go")
    sheet.evaluate("() => window.view.model.set('status', 'computing')")
    sheet.wait_for_timeout(1200)  # the check that follows the last key is over
    stop_python(sheet)
    expect(state).to_have_text(STOPPED)  # while an answer is awaited, without another key
    sheet.keyboard.type("od.")
    expect(area).to_have_value(f"{bench.REAL}Good.")
    expect(root.locator(".nbsal-text")).to_have_text(f"{bench.REAL}Good.")
    expect(state).to_have_text(STOPPED)
    expect(root.get_by_text("Python has stopped")).to_have_count(1)
    expect(root.get_by_role("alert").filter(visible=True)).to_have_count(0)
    bench.expect_dim(sheet)  # the colours are of an older text
    expect(root.get_by_role("button", name="Cancel")).to_be_hidden()
    expect(root.locator(".nbsal-work")).to_be_hidden()


def test_without_python_only_what_needs_it_is_disabled(show, sheet):
    root = show("highlight", live=True)
    stop_python(sheet)
    tokens = root.get_by_role("listbox", name="The text, word by word").get_by_role("option")
    tokens.nth(1).hover()
    expect(root.locator(".nbsal-state")).to_have_text(STOPPED)
    bench.expect_dim(sheet, False)  # the result is still that of the text
    for control in [".nbsal-method-picker", ".nbsal-stepper", ".nbsal-popover:has-text('Save')"]:
        expect(root.locator(control)).to_have_js_property("inert", True)
    for button in [root.locator("button.nbsal-class").nth(0), root.get_by_role("button", name="Edit text")]:
        expect(button).to_be_disabled()
    bench.choose(root, "Unit", "Tokens")
    expect(tokens.nth(3)).to_have_text("un")
    expect(root.locator("button.nbsal-class").nth(0)).to_be_disabled()  # also when drawn again
    tokens.nth(1).click()
    bench.expect_traits(sheet, selection=[2])
    expect(root.locator(".nbsal-readout")).to_contain_text("· rank ")


def test_a_saved_page_works_without_python_or_network(chromium, tmp_path, views):
    file = tmp_path / "page.html"
    file.write_text(views["highlight"].to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    text = root.locator(".nbsal-text").get_by_role("option")
    expect(text.get_by_text("unbelievably", exact=True)).to_be_visible()
    count = text.count()
    bench.choose(root, "Unit", "Tokens")
    expect(text.get_by_text("unbelievably", exact=True)).to_have_count(0)
    assert text.count() > count
    expect(root.get_by_role("button", name="Edit text")).to_be_hidden()
    assert page.problems == []
    page.context.close()
