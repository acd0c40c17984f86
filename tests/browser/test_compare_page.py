"""Compare in Chromium: both texts, the sentence, the dots and the difference, by mouse and at every width."""

import dataclasses
import re

import numpy as np
import pytest
from playwright.sync_api import expect

from nbsal.widgets import Compare
from tests.browser import bench
from tests.browser.bench import tokens

A, B = "The text as A explains it", "The text as B explains it"


def test_compare_shows_both_and_on_request_the_difference(show, sheet, views):
    root = show("compare")
    pair = views["compare"].result
    expect(root.locator(".nbsal-headline")).to_have_text(pair.caption())
    for label, shares in [(A, pair.shares[0]), (B, pair.shares[1])]:
        expect(tokens(root, label)).to_have_text(list(pair.typed))
        marked = [k for k, share in enumerate(shares) if share < -0.1]
        box = tokens(root, label)
        assert [k for k in range(box.count()) if "nbsal-against" in box.nth(k).get_attribute("class")] >= marked
    difference = tokens(root, "Where A and B differ")
    expect(difference.first).to_be_hidden()
    root.get_by_text("Display").click()
    root.get_by_role("group", name="Difference").get_by_role("button", name="Show").click()
    expect(root.get_by_text("A higher")).to_be_visible()
    tokens(root, A).nth(3).click()
    expect(difference.nth(3)).to_have_attribute("aria-selected", "true")
    expect(tokens(root, B).nth(3)).to_have_attribute("aria-selected", "true")


@pytest.mark.parametrize("scale", ["own", "shared"])
@pytest.mark.parametrize("level", ["word", "token"])
def test_the_sentence_the_agreement_and_the_dots_of_compare_are_those_of_python(show, sheet, views, scale, level):
    root = show("compare")
    pair = dataclasses.replace(views["compare"].result, scale=scale, level=level)
    bench.change(sheet, scale=scale, level=level)
    expect(root.locator(".nbsal-headline")).to_have_text(pair.caption())
    expect(root.get_by_role("heading", name=pair.heading(), exact=True)).to_be_visible()
    unit = {"own": "% of each one’s strongest word", "shared": "% of the strongest word of both"}[scale]
    expect(root.locator(".nbsal-read .nbsal-legend")).to_contain_text(unit.replace("% of", "100 % ="))
    expect(root.get_by_text("ranked by size, for or against")).to_be_visible()
    expect(root.get_by_text(unit, exact=True)).to_be_visible()
    rows = root.get_by_role("listbox", name="The strongest words").get_by_role("option")
    listed = pair.listed()
    expect(rows.locator("b")).to_have_text([name for name, *_ in listed])
    numbers = [[int(n.replace("−", "-")) for n in text.split(" · ")] for text in rows.locator("span").all_inner_texts()]
    assert np.abs(np.array(numbers) - 100 * np.array([shares for _, *shares in listed])).max() <= 0.51


def test_the_dots_of_compare_lie_on_a_common_zero(show, sheet, views):
    root = show("compare")
    listed = views["compare"].result.listed()
    middles = """nodes => nodes.map(node => {
      const box = node.getBoundingClientRect();
      return box.left + box.width / 2;
    })"""
    both = [np.array(root.locator(f".nbsal-dot.nbsal-badge-{side}").evaluate_all(middles)) for side in "ab"]
    shares = np.array([values for _, *values in listed]).T
    pixels = np.polyfit(shares.ravel(), np.concatenate(both), 1)
    assert np.abs(np.polyval(pixels, shares) - both).max() < 1


def test_pointing_at_a_word_says_what_both_give_it(show, sheet, views):
    root = show("compare")
    name, first, second = views["compare"].result.listed()[0]
    row = root.get_by_role("listbox", name="The strongest words").get_by_role("option").first
    height = root.bounding_box()["height"]
    tokens(root, B).get_by_text(name, exact=True).first.hover()
    signs = ["for" if share > 0 else "against" for share in (first, second)]
    shares = [f"{sign}, {abs(100 * share):.0f}\u202f%" for sign, share in zip(signs, (first, second), strict=True)]
    expect(root.locator(".nbsal-readout")).to_have_text(f"{name} · A: {shares[0]} · B: {shares[1]}")
    expect(row).to_have_class(re.compile("nbsal-hover"))
    assert root.bounding_box()["height"] == height
    row.click()
    expect(tokens(root, A).get_by_text(name, exact=True).first).to_have_attribute("aria-selected", "true")


def test_the_list_that_the_pointer_left_does_not_end_the_hover_in_the_text(show, sheet, views):
    root = show("compare")
    sheet.mouse.move(0, 0)
    row = root.get_by_role("listbox", name="The strongest words").get_by_role("option").first
    second = tokens(root, B).nth(1)
    move = """(row, word) => {
        const point = (node, type) => node.dispatchEvent(new PointerEvent(type, { bubbles: type === 'pointerover' }));
        point(row, 'pointerover');
        point(row.parentElement, 'pointerleave');
        point(word, 'pointerover');
    }"""
    row.evaluate(move, second.element_handle())
    sheet.wait_for_timeout(200)
    expect(second).to_have_class(re.compile("nbsal-hover"))


def test_one_click_explains_a_class_by_both_and_swap_asks_python(show, sheet):
    root = show("compare", live=True)
    root.get_by_role("group", name="Explain").get_by_role("button", name="negative").click()
    bench.expect_traits(sheet, target="negative", other_target="negative")
    sheet.evaluate("() => { window.view.model.send = (content) => (window.sent ??= []).push(content.ask); }")
    root.get_by_role("button", name="Swap A and B").click()
    sheet.wait_for_function("() => window.sent?.includes('swap')")


@pytest.mark.parametrize("width", [400, 760, 1400])
def test_compare_is_as_wide_as_its_cell(show, sheet, width):
    sheet.set_viewport_size({"width": width, "height": 900})
    root = show("compare", live=True)
    assert sheet.evaluate("() => document.documentElement.scrollWidth") == width
    assert root.bounding_box()["width"] >= 0.95 * (width - 16)
    first, second = (root.get_by_role("listbox", name=name).bounding_box() for name in (A, B))
    assert (first["y"] == second["y"]) == (width >= 680)
    for picker in range(2):
        summary = root.locator(".nbsal-method-picker > summary").nth(picker)
        summary.click()
        methods = root.locator(".nbsal-method-picker .nbsal-sheet").nth(picker)
        inside = "node => node.getBoundingClientRect().left >= 0 && node.getBoundingClientRect().right <= innerWidth"
        sheet.wait_for_function(inside, arg=methods.element_handle())  # it is placed once it has its size
        summary.press("Escape")


def test_long_texts_that_are_compared_scroll_together(show, sheet):
    saliency = bench.saliency_of([f"word{i}" for i in range(500)])
    root = show(Compare(saliency, saliency, difference=True).wait())
    first, *others = root.locator(".nbsal-page").all()
    first.hover()
    sheet.mouse.wheel(0, 150)
    for other in others:
        sheet.wait_for_function("node => node.scrollTop === 150", arg=other.element_handle())
    others[0].evaluate("node => { node.scrollTop = 0; }")  # like a box whose layout is not complete
    sheet.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert first.evaluate("node => node.scrollTop") == 150


def test_both_texts_follow_the_editor_and_keep_their_scores(show, sheet, views):
    root = show("compare", live=True)
    pair = views["compare"].result
    tokens(root, B).first.dblclick()
    editor = root.get_by_label("Text", exact=True)
    expect(editor).to_be_focused()
    editor.press("Control+Home")
    sheet.keyboard.type("Oh! ")
    for label in (A, B):
        expect(root.get_by_role("listbox", name=label)).to_have_text(f"Oh! {pair.first.text}")
    name, first, second = pair.listed()[0]
    tokens(root, B).get_by_text(name, exact=True).first.hover()
    shares = [f"{'for' if share > 0 else 'against'}, {abs(100 * share):.0f}\u202f%" for share in (first, second)]
    expect(root.locator(".nbsal-readout")).to_have_text(f"{name} · A: {shares[0]} · B: {shares[1]}")
    sheet.wait_for_function("() => window.view.model.get('text').startsWith('Oh! ')")
    root.get_by_role("button", name="Done").click()
    tokens(root, B).first.click()
    root.get_by_role("listbox", name=B).press("e")
    expect(editor).to_be_focused()


def test_a_long_text_is_searched_in_both(show, sheet):
    saliency = bench.saliency_of([f"word{i}" for i in range(500)])
    root = show(Compare(saliency, saliency).wait())
    find = root.get_by_label("Find in the text")
    find.fill("word321")
    find.press("Enter")
    for label in (A, B):
        expect(tokens(root, label).nth(321)).to_be_in_viewport()
    expect(root.get_by_role("slider", name="Where in the text")).to_have_count(2)
