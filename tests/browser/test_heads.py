"""Heads in Chromium: what the grid says, the attention of a head, switching and Undo, by mouse and by key."""

import re

import pytest
from playwright.sync_api import expect

import nbsal
from nbsal.heads import Parse
from nbsal.render.headline import plain
from nbsal.widgets import Heads
from nbsal.widgets.head_parts import ZEROED
from tests.browser import bench
from tests.browser.bench import REAL, tokens
from tests.browser.conftest import open_page

OFF = [[0, 2], [2, 1], [3, 9], [5, 4], [5, 5], [5, 11]]
PARSE = Parse.from_lists(["She", "sells", "red", "shells"], [1, -1, 3, 1], ["nsubj", "root", "amod", "obj"])


@pytest.fixture(scope="module")
def off(reviews):
    """A view in which six heads are off."""
    return Heads(reviews, text=REAL, kind="all", toggled=OFF, head=[2, 0]).wait()


def cell(root, block, head):
    return root.get_by_role("gridcell", name=re.compile(rf"^Block {block}, head {head}: "))


def height(root):
    return root.evaluate("node => node.getBoundingClientRect().height")


def test_the_grid_has_numbers_and_names(show, off):
    root = show(off, live=True)
    grid = root.get_by_role("grid", name="Heads by block")
    expect(grid.get_by_role("columnheader")).to_have_text(["head", *map(str, range(12))])
    expect(grid.get_by_role("rowheader")).to_have_text([f"block {block}" for block in range(6)])
    expect(cell(root, 2, 0).locator(".nbsal-long")).to_have_text("object")
    expect(cell(root, 2, 0)).to_have_attribute("aria-label", "Block 2, head 0: object, obj, on")
    expect(cell(root, 5, 4)).to_have_attribute("aria-label", "Block 5, head 4: no known pattern, off")
    pattern = "node => getComputedStyle(node).backgroundImage.slice(0, 9)"
    assert cell(root, 0, 2).evaluate(pattern) == "repeating" and cell(root, 2, 0).evaluate(pattern) == "none"
    expect(root.get_by_role("heading", name="Heads: 9 of 72 follow syntax or position")).to_be_visible()
    expect(root.get_by_text("66 of 72 heads on")).to_be_visible()


def test_names_are_short_where_the_grid_is_narrow(show, sheet, off):
    sheet.set_viewport_size({"width": 400, "height": 900})
    root = show(off, live=True)
    expect(cell(root, 2, 0).locator(".nbsal-short")).to_be_visible()
    expect(cell(root, 2, 0).locator(".nbsal-long")).to_be_hidden()
    assert sheet.evaluate("() => document.documentElement.scrollWidth") <= 400
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_a_grid_fades_out_where_it_goes_on(show, sheet, off):
    grid = show(off).locator(".nbsal-heads-grid")
    faded = "node => getComputedStyle(node).maskImage !== 'none'"
    assert not grid.evaluate(faded)
    sheet.set_viewport_size({"width": 280, "height": 900})
    sheet.wait_for_function(f"() => ({faded})(document.querySelector('.nbsal-heads-grid'))")
    grid.evaluate("node => node.scrollTo(node.scrollWidth, 0)")
    sheet.wait_for_function(f"() => !({faded})(document.querySelector('.nbsal-heads-grid'))")
    sheet.set_viewport_size({"width": 1100, "height": 900})


def test_the_headline_and_bars_compare_before_and_after(show, off):
    root = show(off, live=True)
    sentence = plain(off.sentence())
    assert "with 6 of 72 heads off" in sentence
    expect(root.locator(".nbsal-headline")).to_have_text(sentence)
    before = sentence.split(" → ")[0].split(", ")[1]
    expect(root.locator(".nbsal-headline s")).to_have_text(before)
    expect(root.locator(".nbsal-changes")).to_contain_text(sentence.split(", ")[1].split(" with")[0])
    expect(root.locator(".nbsal-footer")).to_contain_text(ZEROED)


def test_a_click_shows_attention_and_a_shift_click_switches(show, sheet, off):
    root = show(off, live=True)
    cell(root, 3, 8).click()
    bench.expect_traits(sheet, head=[3, 8], toggled=OFF)
    expect(cell(root, 3, 8)).to_have_attribute("aria-selected", "true")
    cell(root, 3, 8).click(modifiers=["Shift"])
    bench.expect_traits(sheet, toggled=[*OFF, [3, 8]], head=[3, 8])
    expect(cell(root, 3, 8)).to_have_attribute("aria-label", "Block 3, head 8: object, obj, off")
    expect(root.get_by_text("All but 7")).to_be_visible()
    root.get_by_role("button", name="Switch this head on").click()
    bench.expect_traits(sheet, toggled=OFF)
    root.get_by_role("button", name="Switch this head off").click()
    root.get_by_role("button", name="Switch all on").click()
    bench.expect_traits(sheet, toggled=[])
    expect(root.get_by_role("button", name="Switch all on")).to_be_disabled()


def test_all_heads_are_switched_on_while_any_is_off(show, sheet, views):
    root = show("heads", live=True)
    bench.expect_traits(sheet, kind="both", toggled=[])
    root.get_by_role("button", name="Switch all on").click()
    bench.expect_traits(sheet, kind="all", toggled=[])
    bench.change(sheet, _heads=views["heads"]._heads | {"on": [[1] * 12] * 6})
    expect(root.get_by_role("button", name="Switch all on")).to_be_disabled()


def test_undo_brings_back_the_last_switch(show, sheet, off):
    root = show(off, live=True)
    undo = root.get_by_role("button", name="Undo")
    expect(undo).to_be_hidden()
    cell(root, 3, 8).click(modifiers=["Shift"])
    cell(root, 4, 4).click(modifiers=["Shift"])
    expect(undo).to_be_visible()
    undo.click()
    bench.expect_traits(sheet, toggled=[*OFF, [3, 8]])
    root.get_by_role("grid", name="Heads by block").press("Control+z")
    bench.expect_traits(sheet, toggled=OFF)
    expect(undo).to_be_hidden()


def test_heads_are_reached_and_switched_by_keys(show, sheet, off):
    root = show(off, live=True)
    grid = root.get_by_role("grid", name="Heads by block")
    grid.focus()
    for key in ["Home", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"]:
        grid.press(key)
    expect(root.locator(".nbsal-heads-panel .nbsal-readout")).to_contain_text("block 2, head 2 · on")
    bench.expect_traits(sheet, head=[2, 0])  # moving does not select
    grid.press("Delete")
    bench.expect_traits(sheet, toggled=[*OFF, [2, 2]])
    grid.press("Shift+Enter")
    bench.expect_traits(sheet, toggled=OFF)
    grid.press("Enter")
    bench.expect_traits(sheet, head=[2, 2])


def test_pointing_at_heads_describes_them_and_moves_nothing(show, sheet, off):
    root = show(off, live=True)
    before = height(root)
    for block, head in [(0, 0), (2, 0), (2, 11), (5, 4)]:
        cell(root, block, head).hover()
        about, state = off._heads["about"][block][head], "off" if [block, head] in OFF else "on"
        expect(root.locator(".nbsal-heads-panel .nbsal-readout")).to_have_text(
            f"block {block}, head {head} · {state} · {about}"
        )
        assert height(root) == before
    bench.expect_traits(sheet, head=[2, 0])


def test_heads_are_chosen_together(show, sheet, off):
    root = show(off, live=True)
    menu = root.locator(".nbsal-head-tools summary")
    expect(menu).to_have_text("Heads onAll but 6")
    menu.click()
    kinds = root.get_by_role("group", name="Heads on").get_by_role("button")
    expect(kinds).to_have_text(["All", "Syntax and position", "Syntax", "Position", "None"])
    kinds.get_by_text("None").click()
    bench.expect_traits(sheet, kind="none", toggled=[])
    expect(menu).to_have_text("Heads onNone")
    assert root.locator("[data-trait=synt]").count() and root.locator("[data-trait=synt]").is_hidden()


def test_thresholds_belong_to_a_study(show, sheet, reviews):
    study = nbsal.heads.study(reviews, [PARSE] * 3, progress=False)
    root = show(Heads(reviews, text=REAL, study=study).wait(), live=True)
    root.locator(".nbsal-head-tools summary").click()
    expect(root.get_by_text("Counts as syntax from 10\u202f%")).to_be_visible()
    slider = root.get_by_label("Counts as position from")
    expect(slider).to_have_attribute("title", "Share of cases in which the head attends most to that word")
    slider.press("ArrowLeft")
    bench.expect_traits(sheet, pos=0.75)
    expect(root.get_by_text("Counts as position from 75\u202f%")).to_be_visible()


def test_a_model_without_a_study_says_how_to_make_one(show, load):
    root = show(Heads(load("bert"), text="The film is a joy.").wait(), live=True)
    expect(root.get_by_text("study = nbsal.heads.study(subject, parses)")).to_be_visible()
    expect(root.locator(".nbsal-head-tools summary")).to_have_text("Heads onAll")


def test_the_map_names_words_on_both_axes_and_follows_the_selection(show, sheet, views):
    root, view = show("heads", live=True), views["heads"]
    grid = root.locator(".nbsal-attention [role=grid]")
    names = view.attention.names
    expect(grid.get_by_role("rowheader")).to_have_text(names)
    expect(grid.get_by_role("columnheader")).to_have_text(names)
    heading = root.locator(".nbsal-attention h3")
    expect(heading).to_have_text(view.attention.heading(view.grid.habits()[2][1]))
    expect(root.get_by_text("rows attend to columns")).to_be_visible()
    row = names.index("warm")
    strengths = (
        grid.get_by_role("row")
        .nth(row + 1)
        .get_by_role("gridcell")
        .evaluate_all("cells => cells.map(cell => Number(cell.style.getPropertyValue('--s')))")
    )
    weights = view.attention.words[row]
    assert strengths.index(max(strengths)) == int(weights.argmax())
    tokens(root).get_by_text("warm", exact=True).click()
    expect(heading).to_contain_text(f"warm attends most to {names[int(weights.argmax())]}")
    grid.get_by_role("rowheader", name="film").click()
    bench.expect_traits(sheet, selection=list(view.result.row.words[names.index("film") - 1].tokens))
    grid.get_by_role("gridcell").nth(3).hover()
    expect(root.locator(".nbsal-attention .nbsal-readout")).to_contain_text("of its attention")


def test_the_map_of_another_head_waits_for_python(show, sheet, views):
    root = show("heads", live=True)
    cell(root, 4, 4).click()
    panel = root.locator(".nbsal-attention")
    expect(panel).to_have_class(re.compile("nbsal-pending"))
    before = height(root)
    bench.change(sheet, _attention=views["heads"]._attention | {"head": [4, 4]})
    expect(panel).not_to_have_class(re.compile("nbsal-pending"))
    expect(panel.get_by_role("heading")).to_contain_text("Block 4, head 4: no known pattern")
    assert height(root) == before


def test_a_saved_page_says_why_it_has_no_other_map(chromium, tmp_path, views):
    file = tmp_path / "page.html"
    file.write_text(views["heads"].to_html(interactive=True), encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    root = page.locator("section.nbsal")
    cell(root, 4, 4).click()
    expect(root.get_by_text("the attention of block 4, head 4 needs Python")).to_be_visible()
    cell(root, 2, 1).click()
    expect(root.locator(".nbsal-attention h3")).to_contain_text("Block 2, head 1")
    cell(root, 2, 1).click(modifiers=["Shift"])
    assert page.problems == [] and page.evaluate("() => window.view === undefined")
    page.context.close()


def test_a_mask_without_a_text_is_a_grid_alone(show, sheet, reviews):
    root = show(Heads(reviews.mask).wait(), live=True)
    expect(root.locator(".nbsal-headline")).to_have_count(0)
    cell(root, 5, 11).click()
    bench.expect_traits(sheet, toggled=[[5, 11]])
    expect(root.get_by_text("10 of 72 heads on")).to_be_visible()
