"""Compare in Chromium: both texts, the sentence, the scores and the difference."""

import dataclasses
import re
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import expect

import nbsal
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
        marked = {k for k, share in enumerate(shares) if share < -0.1}
        box = tokens(root, label)
        assert {k for k in range(box.count()) if "nbsal-against" in box.nth(k).get_attribute("class")} >= marked
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
    unit = {"own": "100 % = each one’s strongest word", "shared": "100 % = the strongest word of both"}[scale]
    expect(root.locator(".nbsal-read .nbsal-legend")).to_contain_text(unit)
    expect(root.get_by_text("ranked by size, for or against")).to_be_visible()
    expect(root.get_by_text(unit, exact=True)).to_be_visible()
    rows = root.get_by_role("listbox", name="The strongest words").get_by_role("option")
    listed = pair.listed()
    expect(rows.locator("b")).to_have_text([row.name for row in listed])
    sides = [re.fullmatch("([AB]) (.+)\u202f%", text).groups() for text in rows.locator("> span").all_inner_texts()]
    assert "".join(side for side, _ in sides) == "AB" * len(listed)
    numbers = [int(number.replace("−", "-")) for _, number in sides]
    assert np.abs(np.array(numbers) - 100 * np.array([row.shares for row in listed]).ravel()).max() <= 0.51


@pytest.mark.parametrize("width", [400, 760, 900, 1400])
def test_the_shares_of_both_stand_in_two_columns(show, sheet, width):
    saliency = bench.saliency_of(["unbelievably-long-" * 3, "warm", "film"])
    first, second = (dataclasses.replace(saliency, scores=np.array([0, -1, 1, 0.5, 0]) * sign) for sign in (1, -1))
    sheet.set_viewport_size({"width": width, "height": 900})
    root = show(Compare(first, second).wait())
    rows = root.get_by_role("listbox", name="The strongest words").get_by_role("option")
    boxes = [[cell.bounding_box() for cell in row.locator("> *").all()] for row in rows.all()]
    assert all(box["height"] <= 24 for row in boxes for box in row), "no share wraps"
    assert all(cell.evaluate("node => node.scrollWidth <= node.clientWidth") for cell in rows.locator("> span").all())
    for column in zip(*boxes, strict=True):
        assert len({box["x"] + box["width"] for box in column}) == 1
    assert all(left["x"] + left["width"] <= right["x"] for row in boxes for left, right in pairwise(row))
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_a_check_that_ends_is_said_at_once(show, sheet, small):
    view = Compare(nbsal.Explainer(small, "gradxact"), text=bench.REAL, other_method="simple", check=False).wait()
    root = show(view, live=True)
    expect(root.locator(".nbsal-headline")).to_have_text(view.statement.text())
    expect(root.get_by_role("button", name="Check")).to_be_visible()
    view.handle_check()
    view.wait()
    sheet.evaluate("(findings) => window.view.model.set('_findings', findings)", bench.plain(view._findings))
    expect(root.locator(".nbsal-headline")).to_have_text(view.statement.text())
    root.get_by_text("those of A and of B").click()
    expect(root.locator(".nbsal-effects span").first).to_have_text(view.statement.effects[0][0])


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
