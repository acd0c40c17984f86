"""Every view passes axe-core in every state; menus are accessible, and methods are chosen by keys."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

import nbsal
from tests.browser import bench
from tests.browser.bench import every_view

MODULES = Path(nbsal.__file__).parent / "frontend" / "node_modules"
# The rules that an element breaks, with where.
AUDIT = """async (selector) => {
  const node = selector ? document.querySelector(selector) : document;
  const { violations } = await axe.run(node, { resultTypes: ["violations"] });
  return violations.flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}"""


@pytest.fixture
def audit(sheet):
    """audit(selector, theme) -> what axe finds wrong with an element, or with the whole page."""
    if not MODULES.is_dir():
        pytest.skip("the modules of npm are not installed (npm ci in nbsal/frontend)")

    def check(selector="section.nbsal", theme="light"):
        if not sheet.evaluate("() => 'axe' in window"):
            sheet.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
        sheet.emulate_media(color_scheme=theme, reduced_motion="reduce")
        return sheet.evaluate(AUDIT, selector)

    return check


# Dim parts look alike while something is computed and after an error: each is audited in one theme.
STATES = [
    ("light", {"status": "ready"}),
    ("dark", {"status": "ready"}),
    ("light", {"status": "computing", "progress": 0.4}),
    ("dark", {"status": "error", "error": "The layer must be from 0 to 6."}),
]


@every_view
def test_every_state_is_accessible(show, sheet, audit, name):
    show(name, live=True)
    for theme, state in STATES:
        bench.change(sheet, **state)
        assert audit(theme=theme) == [], state


MENUS = {
    "highlight": ["Method", "Display", "Save"],
    "layers": ["Display"],
    "compare": ["Display", "Gradient × input"],
    "heads": ["Heads on"],
    "clouds": ["Display"],
}


@pytest.mark.parametrize("name", MENUS)
def test_what_opens_over_a_view_is_accessible(show, audit, name):
    root = show(name, live=True)
    for menu in MENUS[name]:
        popover = root.locator(".nbsal-popover", has=root.page.locator("summary", has_text=menu))
        popover.locator("> summary").click()
        popover.locator(".nbsal-more").evaluate_all("folds => folds.forEach((fold) => { fold.open = true; })")
        assert audit(".nbsal-popover[open]", "dark") + audit(".nbsal-popover[open]") == []
        popover.locator("> summary").press("Escape")


def test_a_method_is_found_and_chosen_by_keys(show, sheet):
    root = show("highlight", live=True)
    picker = root.locator(".nbsal-method-picker > summary")
    picker.press("Enter")
    expect(root.get_by_label("Find a method")).to_be_focused()
    sheet.keyboard.type("mask")
    expect(root.locator(".nbsal-method:visible").first).to_contain_text("Mask-LRP")
    sheet.keyboard.press("ArrowDown")
    bench.expect_traits(sheet, method=bench.SIGNED)  # moving chooses nothing
    sheet.keyboard.press("Enter")
    bench.expect_traits(sheet, method="mask-lrp")
    expect(picker).to_be_focused()
    expect(root.get_by_label("Find a method")).to_be_hidden()
    picker.press("Space")
    expect(root.get_by_label("Find a method")).to_be_focused()
    expect(root.get_by_label("Find a method")).to_have_value("")
    sheet.keyboard.press("Tab")
    sheet.keyboard.press("Enter")
    expect(root.locator(".nbsal-more").first).to_have_attribute("open", "")
    bench.expect_traits(sheet, method="mask-lrp")  # Enter unfolds
    sheet.keyboard.press("Escape")
    expect(picker).to_be_focused()
    expect(root.get_by_label("Find a method")).to_be_hidden()
