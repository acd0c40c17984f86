"""Workbench in Chromium: panels that fold, one selection in all of them, what is computed when, and Undo."""

import re

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Workbench
from tests.browser import bench
from tests.browser.bench import REAL, tokens, trait
from tests.browser.conftest import open_page

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


def opacity(locator):
    return locator.evaluate("node => Number(getComputedStyle(node).opacity)")


@pytest.mark.parametrize("width", [400, 760, 1400])
def test_no_panel_is_wider_than_the_view(show, sheet, full, width):
    sheet.set_viewport_size({"width": width, "height": 900})
    root = show(full, live=True)
    assert sheet.evaluate("() => document.documentElement.scrollWidth") <= width
    assert root.bounding_box()["width"] >= 0.95 * width
    left, right = (root.locator(f".nbsal-{side}").bounding_box() for side in ("main", "side"))
    assert (right["x"] > left["x"]) == (width == 1400)
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_summaries_are_findings(show, full):
    root = show(full, live=True)
    expect(panel(root, "layers").locator("> summary h3:visible")).to_contain_text("is the strongest word in")
    expect(panel(root, "games").locator("> summary h3:visible")).to_have_text(full._game["findings"]["hiding"])
    expect(panel(root, "heads").locator("> summary h3:visible")).to_have_text(
        "Heads: 9 of 72 follow syntax or position"
    )
    assert root.get_by_role("tab").count() == 0


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


def test_a_layer_is_painted_without_python(show, sheet, full):
    root = show(full, live=True)
    strengths = "marks => marks.map(mark => mark.style.getPropertyValue('--s'))"
    before = root.locator(".nbsal-text .nbsal-mark").evaluate_all(strengths)
    panel(root, "layers").get_by_role("rowheader", name="layer 2").click()
    bench.expect_traits(sheet, layer=2)
    bench.wait_for(sheet, lambda: root.locator(".nbsal-text .nbsal-mark").evaluate_all(strengths) != before, True)
    bench.change(sheet, status="computing")
    assert opacity(root.locator(".nbsal-headline")) == 1, "it is painted from what is there"


def test_what_is_there_is_not_dim_while_the_rest_is_computed(show, sheet, full):
    root = show(full, live=True)
    sheet.evaluate(
        "() => { const { model } = window.view; model.set('method', 'x'); model.set('status', 'computing'); }"
    )
    assert opacity(root.locator(".nbsal-headline")) < 1 and opacity(panel(root, "games").locator("> summary")) < 1
    box = root.bounding_box()["height"]
    bench.change(sheet, _game={}, _layers={})
    assert opacity(root.locator(".nbsal-headline")) == 1, "the scores are there"
    assert opacity(panel(root, "games").locator(".nbsal-evidence")) < 1
    assert root.bounding_box()["height"] == box, "panels keep their size"
    bench.change(sheet, _layers=full._layers)
    assert opacity(panel(root, "layers").locator(".nbsal-evidence")) == 1
    bench.change(sheet, _game=full._game)
    sheet.evaluate("() => window.view.model.set('status', 'ready')")
    assert opacity(panel(root, "games").locator(".nbsal-evidence")) == 1


def test_panels_out_of_sight_are_named(show, sheet, full):
    sheet.set_viewport_size({"width": 400, "height": 500})
    root = show(full, live=True)
    sheet.wait_for_function("() => String(window.view.model.get('_unseen')) === 'games,heads'")
    panel(root, "games").scroll_into_view_if_needed()
    sheet.wait_for_function("() => !window.view.model.get('_unseen').includes('games')")
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_heads_act_on_mask_lrp_only(show, sheet, full):
    root = show(full, live=True)
    expect(panel(root, "heads").get_by_text("Heads act on Mask-LRP only.")).to_be_visible()
    expect(panel(root, "heads").get_by_text("the prediction uses all 72 heads")).to_be_visible()
    cell = panel(root, "heads").locator(".nbsal-switch").nth(20)
    cell.click(modifiers=["Shift"])
    bench.expect_traits(sheet, toggled=[])
    panel(root, "heads").get_by_role("button", name="Use Mask-LRP").click()
    bench.expect_traits(sheet, method="mask-lrp")
    expect(panel(root, "heads").get_by_text("Heads act on Mask-LRP only.")).to_be_hidden()
    expect(panel(root, "heads").get_by_text("9 of 72 heads on", exact=True)).to_be_visible()
    cell.click(modifiers=["Shift"])
    bench.wait_for(sheet, lambda: len(trait(sheet, "toggled")), 1)


def test_a_method_without_layers_offers_another(show, sheet, explain):
    root = show(Workbench(explain, text=REAL, method="attcat").wait(), live=True)
    expect(panel(root, "layers")).to_contain_text("AttCAT reads the whole model at once, so it has no layers.")
    panel(root, "layers").get_by_role("button", name="Use Decoded Grad-CAM").click()
    bench.expect_traits(sheet, method="decoded-gradcam")


def test_undo_takes_back_one_change_after_the_other(show, sheet, full):
    root = show(full, live=True)
    before = {name: trait(sheet, name) for name in ("layer", "target", "method")}
    panel(root, "layers").get_by_role("rowheader", name="layer 2").click()
    root.locator(".nbsal-classes").get_by_role("button", name="negative").click()
    panel(root, "heads").get_by_role("button", name="Use Mask-LRP").click()
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, method=before["method"], target="negative")
    tokens(root).first.click()
    sheet.keyboard.press("Control+z")
    bench.expect_traits(sheet, target=before["target"])
    sheet.keyboard.press("Control+z")
    bench.expect_traits(sheet, layer=before["layer"])
    expect(root.get_by_role("button", name="Undo")).to_be_hidden()


def test_typing_is_one_step_and_the_editor_has_its_own_undo(show, sheet, full):
    root = show(full, live=True)
    root.get_by_role("button", name="Edit text").click()
    area = root.get_by_label("Text", exact=True)
    area.press("End")
    area.press_sequentially(" Very good", delay=20)
    sheet.wait_for_function("() => window.view.model.get('text').endsWith('Very good')")
    area.press("Control+z")
    assert trait(sheet, "text") != REAL or area.input_value() != REAL, "the key is the editor's"
    root.get_by_role("button", name="Done").click()
    root.get_by_role("button", name="Undo").click()
    bench.expect_traits(sheet, text=REAL)


def test_hidden_words_are_struck_in_the_text(show, sheet, full):
    root = show(full, live=True)
    panel(root, "games").get_by_role("slider").press("End")
    expect(root.locator(".nbsal-text .nbsal-hidden")).not_to_have_count(0)
    panel(root, "games").locator("> summary").click()
    expect(root.locator(".nbsal-text .nbsal-hidden")).to_have_count(0)


def test_a_saved_page_works_for_what_was_computed(chromium, tmp_path, explain):
    view = Workbench(explain, text=REAL, panels=["layers"]).wait()
    file = tmp_path / "page.html"
    file.write_text(view.to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    strengths = "marks => marks.map(mark => mark.style.getPropertyValue('--s'))"
    before = root.locator(".nbsal-text .nbsal-mark").evaluate_all(strengths)
    panel(root, "layers").get_by_role("rowheader", name="layer 2").click()
    bench.wait_for(page, lambda: root.locator(".nbsal-text .nbsal-mark").evaluate_all(strengths) != before, True)
    panel(root, "games").locator("> summary").click()
    expect(panel(root, "games").get_by_text("Not computed before this page was saved.")).to_be_visible()
    panel(root, "heads").locator("> summary").click()
    expect(panel(root, "heads").get_by_text("needs Python")).to_be_visible()
    expect(root.get_by_role("button", name="Undo")).to_be_hidden()
    assert page.problems == []
    page.context.close()


def test_pointing_at_words_never_changes_the_height(show, sheet, full):
    root = show(full, live=True)
    before = root.bounding_box()["height"]
    for k in range(tokens(root).count()):
        tokens(root).nth(k).hover()
        assert root.bounding_box()["height"] == before


def test_the_first_rows_at_400_pixels_are_headline_text_and_readout(show, sheet, full):
    sheet.set_viewport_size({"width": 400, "height": 900})
    root = show(full, live=True)
    classes = root.locator(".nbsal-main > *:visible").evaluate_all("nodes => nodes.map(node => node.className)")
    assert [name.split()[0] for name in classes[:3]] == ["nbsal-headline", "nbsal-page", "nbsal-read"]
    sheet.set_viewport_size({"width": 1100, "height": 900})
    assert re.match("nbsal-", classes[0])
