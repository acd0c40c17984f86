"""Heads in Chromium: the attention of a head and switching, by mouse and by key."""

import re

import pytest
from playwright.sync_api import expect

from nbsal.widgets import Heads
from tests.browser import bench
from tests.browser.bench import REAL, tokens

OFF = [[0, 2], [2, 1], [3, 9], [5, 4], [5, 5], [5, 11]]


@pytest.fixture(scope="module")
def model(reviews):
    return reviews


@pytest.fixture(scope="module")
def off(reviews):
    """A view in which six heads are off."""
    return Heads(reviews, text=REAL, kind="all", toggled=OFF, head=[2, 0]).wait()


def cell(root, block, head):
    return root.get_by_role("gridcell", name=re.compile(rf"^Block {block}, head {head}: "))


def height(root):
    return root.evaluate("node => node.getBoundingClientRect().height")


def top(root, part):
    return root.locator(part).bounding_box()["y"]


def test_a_click_shows_attention_and_a_shift_click_switches(show, sheet, off):
    root = show(off, live=True)
    cell(root, 3, 8).click()
    bench.expect_traits(sheet, head=[3, 8], toggled=OFF)
    expect(cell(root, 3, 8)).to_have_attribute("aria-selected", "true")
    cell(root, 3, 8).click(modifiers=["Shift"])
    bench.expect_traits(sheet, toggled=[*OFF, [3, 8]], head=[3, 8])
    expect(cell(root, 3, 8)).to_have_attribute("aria-label", "Block 3, head 8: obj, off")
    seven = Heads(off.subject, text=REAL, kind="all", toggled=[*OFF, [3, 8]]).wait()
    bench.change(sheet, _heads=seven._heads)
    expect(root.get_by_text("All but 7")).to_be_visible()
    root.get_by_role("button", name="Switch this head on").click()
    bench.expect_traits(sheet, toggled=OFF)
    root.get_by_role("button", name="Switch this head off").click()
    root.get_by_role("button", name="Switch all on").click()
    bench.expect_traits(sheet, toggled=[])
    root.get_by_role("button", name="Only syntax and position").click()
    bench.expect_traits(sheet, kind="both", toggled=[])
    assert top(root, ".nbsal-share") > top(root, ".nbsal-changes"), "the decision comes first"


def test_heads_are_reached_and_switched_by_keys(show, sheet, off):
    root = show(off, live=True)
    grid = root.get_by_role("grid", name="Heads by block")
    grid.focus()
    for key in ["Home", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"]:
        grid.press(key)
    expect(root.locator(".nbsal-heads-panel .nbsal-readout")).to_contain_text("Block 2, head 2 · on")
    bench.expect_traits(sheet, head=[2, 0])  # moving does not select
    grid.press("Delete")
    bench.expect_traits(sheet, toggled=[*OFF, [2, 2]])
    grid.press("Shift+Enter")
    bench.expect_traits(sheet, toggled=OFF)
    grid.press("Enter")
    bench.expect_traits(sheet, head=[2, 2])


def test_the_map_names_words_on_both_axes_and_follows_the_selection(show, sheet, views):
    root, view = show("heads", live=True), views["heads"]
    grid = root.locator(".nbsal-attention [role=grid]")
    names = view.attention.names
    expect(grid.get_by_role("rowheader")).to_have_text(names)
    expect(grid.get_by_role("columnheader")).to_have_text(names)
    heading = root.locator(".nbsal-attention h3")
    expect(heading).to_have_text(view.attention.heading(view.grid.cells[2][1].habit))
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
    view.selection = bench.trait(sheet, "selection")
    bench.change(sheet, _attended=view._attended)
    view.selection = []
    expect(heading).to_contain_text(f"warm attends most to {names[int(weights.argmax())]}")
    grid.get_by_role("rowheader", name="film").click()
    bench.expect_traits(sheet, selection=list(view.result.row.words[names.index("film") - 1].tokens))
    grid.get_by_role("gridcell").nth(3).hover()
    expect(root.locator(".nbsal-attention .nbsal-readout")).to_have_text(re.compile(r"^\S+ \u2192 \S+ · \d+\u202f%$"))


def test_the_map_of_another_head_waits_for_python(show, sheet, views):
    root = show("heads", live=True)
    cell(root, 4, 4).click()
    panel = root.locator(".nbsal-attention")
    expect(panel).to_have_class(re.compile("nbsal-pending"))
    before = height(root)
    other = Heads(views["heads"].explainer, text=views["heads"].text, head=[4, 4]).wait()
    bench.change(sheet, _attention=other._attention, _attended=other._attended)
    expect(panel).not_to_have_class(re.compile("nbsal-pending"))
    expect(panel.get_by_role("heading")).to_contain_text("Block 4, head 4: no known pattern")
    assert height(root) == before


def test_scores_of_one_sign_offer_no_choice_of_signs(show, views):
    for name, offered in (("heads", False), ("highlight", True)):
        root = show(name, live=True)
        root.get_by_text("Display", exact=True).click()
        expect(root.get_by_label("Faint scores")).to_be_visible()
        expect(root.get_by_role("group", name="Show", exact=True)).to_have_count(int(offered))
        expect(root.locator(".nbsal-legend").get_by_text("nothing shown against")).to_have_count(int(not offered))
