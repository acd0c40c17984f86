"""Workbench in Chromium: panels that fold, one selection in all of them, and what is computed when."""

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Workbench
from tests.browser import bench
from tests.browser.bench import REAL, tokens

PANELS = ["layers", "games", "heads"]


@pytest.fixture(scope="module")
def explain(reviews):
    return nbsal.Explainer(reviews, "decoded-gradcam")


@pytest.fixture(scope="module")
def full(explain):
    """A view with all panels open."""
    return Workbench(explain, text=REAL, panels=PANELS).wait()


def panel(root, name):
    return root.locator(f"details[data-panel={name}]")


def test_panels_fold_by_mouse_by_key_and_from_python(show, sheet, full):
    root = show(full, live=True)
    panel(root, "games").locator("> summary").click()
    sheet.wait_for_function("() => String(window.view.model.get('panels')) === 'layers,heads'")
    expect(panel(root, "games").locator(".nbsal-chart")).to_be_hidden()
    expect(panel(root, "games").locator("> summary h3:visible")).to_have_text(full._game["findings"]["hiding"])
    panel(root, "games").locator("> summary").press("Enter")
    sheet.wait_for_function("() => String(window.view.model.get('panels')) === 'layers,heads,games'")
    expect(panel(root, "games").locator(".nbsal-chart")).to_be_visible()
    bench.change(sheet, panels=["heads"])
    expect(panel(root, "layers")).not_to_have_attribute("open", "")
    expect(panel(root, "heads")).to_have_attribute("open", "")


def test_another_layer_without_python_is_named_wherever_it_is_shown(show, full):
    root = show(full)
    panel(root, "layers").get_by_role("rowheader", name="Layer 2").click()
    expect(root.locator(".nbsal-notes")).to_contain_text(full._layers["notes"][2])
    expect(root.locator(".nbsal-headline")).to_have_text(full.layers.at(2).statement().text())
    expect(panel(root, "games")).to_contain_text("order of layer 5")


def test_all_parts_share_selection_and_hover(show, sheet, full):
    root = show(full, live=True)
    word = full.result.row.words[1]
    tokens(root).nth(1).click()
    bench.expect_traits(sheet, selection=list(word.tokens))
    for role in ("columnheader", "option"):
        expect(root.get_by_role(role, name=word.text, exact=True, selected=True).first).to_be_visible()
    panel(root, "layers").get_by_role("columnheader", name="funny", exact=True).click()
    expect(tokens(root).get_by_text("funny", exact=True)).to_have_attribute("aria-selected", "true")
    panel(root, "layers").get_by_role("gridcell").nth(3).hover()
    sheet.wait_for_function("() => window.view.model.get('hover') !== null")
    expect(root.locator(".nbsal-text .nbsal-hover")).to_have_count(1)
