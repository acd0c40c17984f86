"""Undo in Chromium, in the views that explain one text: by its button and by Ctrl+Z, one change after the other."""

import pytest
from playwright.sync_api import expect

from tests.browser import bench
from tests.browser.bench import REAL, trait

TRAITS = ["text", "method", "layer", "target"]


@pytest.fixture(scope="module")
def model(reviews):
    return reviews


def values(sheet):
    return [trait(sheet, name) for name in TRAITS]


def changed(sheet, before):
    """The values once they are others."""
    bench.wait_for(sheet, lambda: values(sheet) != before, True)
    return values(sheet)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["highlight", "games"])
def test_undo_takes_back_one_change_after_the_other(show, sheet, name):
    root = show(name, live=True)
    undo, text = root.get_by_role("button", name="Undo"), root.locator(".nbsal-text").first
    expect(undo).to_be_hidden()
    steps = [values(sheet)]
    root.get_by_role("button", name="Previous layer").first.click()
    steps.append(changed(sheet, steps[-1]))
    root.get_by_role("group", name="Explain").get_by_role("button", name="negative").click()
    steps.append(changed(sheet, steps[-1]))
    sheet.evaluate("() => window.view.model.set('method', 'gradcam')")
    sheet.evaluate("() => null")  # a task of its own
    steps.append(values(sheet))
    root.get_by_role("button", name="Edit text").click()
    area = root.get_by_label("Text", exact=True)
    area.press("Control+End")
    sheet.keyboard.type("abc", delay=20)
    sheet.wait_for_function("() => window.view.model.get('text').endsWith('abc')")
    assert len(set(map(str, steps))) == 4
    area.press("Control+z")
    bench.wait_for(sheet, lambda: values(sheet)[1:], steps[-1][1:])  # the key is the editor's
    root.get_by_role("button", name="Done").click()
    undo.click()
    bench.wait_for(sheet, lambda: values(sheet), steps.pop())  # what was typed in a row is one step
    expect(area).to_have_value(REAL)
    while steps:
        expect(undo).to_be_visible()
        text.press("Control+z")
        bench.wait_for(sheet, lambda: values(sheet), steps.pop())
    expect(undo).to_be_hidden()


def test_undo_in_compare_takes_back_both_targets_and_the_method_of_b(show, sheet):
    root = show("compare", live=True)
    root.get_by_role("group", name="Explain").get_by_role("button", name="negative").click()
    bench.expect_traits(sheet, target="negative", other_target="negative")
    sheet.evaluate("() => window.view.model.set('other_method', 'attcat')")
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, other_method="decoded-gradcam")
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, target=None, other_target=None)


def test_the_focus_stays_in_the_view_when_what_has_it_is_drawn_again_or_disabled(show, sheet, views):
    root = show("highlight", live=True)
    negative = root.get_by_role("group", name="Explain").get_by_role("button", name="negative")
    negative.press("Enter")
    bench.expect_traits(sheet, target="negative")
    bench.answer(sheet, views["highlight"])
    expect(negative).to_be_focused()
    sheet.keyboard.press("Control+z")
    bench.expect_traits(sheet, target=None)
    sheet.evaluate("() => window.view.model.set('layer', 5)")
    root.get_by_role("button", name="Next layer").press("Enter")
    expect(root.get_by_role("button", name="Next layer")).to_be_disabled()
    expect(root.get_by_role("button", name="Previous layer")).to_be_focused()
    sheet.keyboard.press("Control+z")
    bench.expect_traits(sheet, layer=5)


def test_what_is_pressed_after_the_last_undo_has_the_focus(show, sheet):
    root = show("highlight", live=True)
    undo, save = root.get_by_role("button", name="Undo"), root.locator("summary", has_text="Save")
    root.get_by_role("button", name="Previous layer").first.click()
    undo.click()
    save.click()
    expect(undo).to_be_hidden()
    expect(save).to_be_focused()
