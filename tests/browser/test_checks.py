"""What holds of every view: its width, its answer in static HTML, and menus over the cell."""

import html as markup
import re

import pytest
from playwright.sync_api import expect

from tests.browser import bench
from tests.browser.bench import REAL, every_view
from tests.browser.conftest import open_page

OF_ONE_TEXT = ["highlight", "layers", "games", "heads", "workbench"]


@pytest.fixture
def resize(sheet):
    yield lambda width: sheet.set_viewport_size({"width": width, "height": 900})
    sheet.set_viewport_size({"width": 1100, "height": 900})


# What sticks out of a view or of the window, but for what scrolls or is cut within a part.
OUTSIDE = """root => {
  const box = root.getBoundingClientRect();
  const inside = (node) => {
    for (let at = node.parentElement; at !== root; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== 'visible') return true;
    return false;
  };
  return [...root.querySelectorAll('*')].filter((node) => {
    const { left, right, width } = node.getBoundingClientRect();
    return width > 0 && node.checkVisibility({ visibilityProperty: true }) && !inside(node)
      && (left < box.left - 3 || right > box.right + 3);
  }).map(node => `${node.className}: ${node.textContent.slice(0, 40)}`);
}"""


def assert_fits(sheet, root, width):
    assert sheet.evaluate("() => document.documentElement.scrollWidth") <= width
    assert root.bounding_box()["width"] >= 0.95 * width
    assert root.evaluate(OUTSIDE) == []


@pytest.mark.some(3)
@every_view
def test_a_view_is_as_wide_as_its_cell(show, sheet, resize, name):
    root = show(name, live=True)
    for width in (400, 760, 1400):
        resize(width)
        assert_fits(sheet, root, width)


def text_of(html):
    return re.sub(r"\s+", " ", markup.unescape(re.sub("<style.*?</style>|<[^>]*>", "", html, flags=re.DOTALL)))


@every_view
def test_static_html_says_the_same(show, views, name):
    root = show(name, live=True)
    static = text_of(views[name].render_html())
    answers = [re.sub(r"\s+", " ", text) for text in root.locator(".nbsal-headline").all_text_contents()]
    assert answers and all(answer in static for answer in answers)
    if name in OF_ONE_TEXT:
        shares = [re.sub(r"\s", " ", text) for text in root.locator(".nbsal-share > span").all_text_contents()]
        places = [static.index(part) for part in [answers[0], REAL[:30], *shares[:1]]]
        assert places == sorted(places) and (shares or name == "games")


def test_a_menu_is_not_cut_off_by_the_cell(chromium, views):
    page = open_page(chromium, viewport={"width": 700, "height": 800})
    bench.show(page, views["highlight"], live=True)
    root = page.locator("section.nbsal")
    root.evaluate("node => { node.parentElement.style = 'overflow: hidden; height: 330px; margin-top: 20px'; }")
    for menu in [".nbsal-method-picker", ".nbsal-at-end"]:
        summary, sheet = root.locator(f"{menu} > summary").first, root.locator(f"{menu} > .nbsal-sheet").first
        summary.click()
        page.wait_for_function("node => node.getBoundingClientRect().height > 60", arg=sheet.element_handle())
        box, button = sheet.bounding_box(), summary.bounding_box()
        assert box["y"] == pytest.approx(button["y"] + button["height"] + 4, abs=1)
        assert box["x"] >= 0 and box["x"] + box["width"] <= 700 and box["y"] + box["height"] <= 800
        at = [box["x"] + box["width"] / 2, box["y"] + box["height"] - 12]
        assert sheet.evaluate("(node, at) => node.contains(document.elementFromPoint(...at))", at), "it is in sight"
        page.mouse.click(5, 5)
        expect(sheet).to_be_hidden()
    assert page.problems == []
    page.context.close()
