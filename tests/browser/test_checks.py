"""What holds of every view: width, static HTML, accessibility in every state, focus, listeners, menus and themes."""

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


@pytest.mark.some(1)
@every_view
def test_a_view_is_as_wide_as_its_cell(show, sheet, resize, name):
    root = show(name, live=True)
    for width in (400, 760, 1400):
        resize(width)
        assert_fits(sheet, root, width)


@pytest.mark.parametrize("width", [760, 1000, 1500])
def test_display_and_save_share_a_row_with_other_tools(show, sheet, views, resize, width):
    root = show("layers", live=True)
    resize(width)
    for method, in_row in [("gradcam", width != 1000), ("decoded-gradxact", False)]:  # a short and a long name
        bench.change(sheet, method=method)
        edit, save = (root.get_by_text(name, exact=True).bounding_box() for name in ("Edit text", "Save"))
        picker = root.locator(".nbsal-method-picker").bounding_box()
        assert abs(edit["y"] - save["y"]) < 10
        assert (abs(picker["y"] - save["y"]) < 10) == in_row


LONG = "Decoded gradient \u00d7 activation of a method with a very long name"


@pytest.mark.parametrize("name", ["highlight", "compare", "answers"])
def test_the_name_of_the_method_is_never_cut_off(show, sheet, views, resize, name):
    root = show(name, live=True)
    choices = {key: getattr(views[name], key) for key in ("_choices", "_other_choices") if views[name].has_trait(key)}
    for label in ("Decoded gradient \u00d7 activation", LONG):
        long = {key: value | {"method": value["method"] | {"label": label}} for key, value in choices.items()}
        sheet.evaluate(bench.SHARE, {})  # the names are those of the choices
        bench.change(sheet, layer=0, target="negative", **long)
        for width in (400, 561, 700, 760, 1000, 1080, 1220, 1400):
            resize(width)
            assert_fits(sheet, root, width)
            for button in root.locator(".nbsal-method-picker b").all():
                assert button.text_content() == label
                assert button.evaluate("node => node.scrollWidth <= node.clientWidth")


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


# Dim parts look alike while something is computed and after an error: each is audited in one theme.
STATES = [
    ("light", {"status": "ready"}),
    ("dark", {"status": "computing", "progress": 0.4}),
    ("light", {"status": "error", "error": "The layer must be from 0 to 6."}),
]


@pytest.mark.some(4)
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


@pytest.mark.some(3)
@pytest.mark.parametrize("name", MENUS)
def test_what_opens_over_a_view_is_accessible(show, audit, name):
    root = show(name, live=True)
    for menu in MENUS[name]:
        popover = root.locator(".nbsal-popover", has=root.page.locator("summary", has_text=menu))
        popover.locator("> summary").click()
        popover.locator(".nbsal-more").evaluate_all("folds => folds.forEach((fold) => { fold.open = true; })")
        assert audit(".nbsal-popover[open]", "dark") + audit(".nbsal-popover[open]") == []
        popover.locator("> summary").press("Escape")


@pytest.mark.some(3)
@every_view
def test_everything_can_be_reached_by_tab(show, sheet, views, name):
    root = show(name, live=True)
    reachable = sheet.evaluate(
        "() => [...document.querySelectorAll('.nbsal :is(button, input, select, textarea, [tabindex])')]"
        ".filter(node => node.checkVisibility() && !node.disabled && node.tabIndex >= 0).length"
    )
    sheet.evaluate("() => document.activeElement?.blur()")
    seen = set()
    for _ in range(reachable + 2):
        sheet.keyboard.press("Tab")
        inside = sheet.evaluate("() => [...document.querySelectorAll('.nbsal *')].indexOf(document.activeElement)")
        seen |= {inside} - {-1}
    assert len(seen) == reachable > 3
    tree, label = root.aria_snapshot(), bench.LISTS.get(name, "The text")
    assert f'group "nbsal {name}"' in tree and f'listbox "{label}' in tree


@every_view
def test_a_closed_view_leaves_no_listener(show, sheet, name):
    show(name)
    assert sheet.evaluate("() => window.view.model.listeners()") > 5
    sheet.evaluate("() => window.view.close()")
    assert sheet.evaluate("() => window.view.model.listeners()") == 0
    assert sheet.locator("section.nbsal").count() == 0


@pytest.mark.some(1)
@every_view
@pytest.mark.parametrize("width", [400, 1400])
def test_pointing_and_computing_never_change_the_height(show, sheet, views, name, width):
    sheet.set_viewport_size({"width": width, "height": 900})
    root = show(name, live=True)
    kinds = {"clouds": ".nbsal-words li"}
    words = root.locator(kinds.get(name, ".nbsal-text .nbsal-mark:visible"))
    sheet.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")  # laid out
    before, count = root.bounding_box()["height"], words.count()
    assert count > 5
    for k in range(0, count, -(-count // 8)):
        words.nth(k).hover(force=True)
        assert root.bounding_box()["height"] == before, words.nth(k).inner_text()
    sheet.mouse.move(0, 0)
    status = "([status, progress]) => { const { model } = window.view; model.set('progress', progress); "
    status += "model.set('status', status); }"
    cancel = root.get_by_role("button", name="Cancel")
    for state, progress in [("computing", None), ("computing", 0.4), ("cancelling", 0.4), ("cancelled", None)]:
        sheet.evaluate(status, [state, progress])
        expect(cancel).to_be_visible(visible=state != "cancelled")
        assert root.bounding_box()["height"] == before, state
    bench.answer(sheet, views[name])
    assert root.bounding_box()["height"] == before, "the same result again"
    sheet.evaluate("() => { window.view.model.send = () => { throw new Error('Cannot send'); }; }")
    words.nth(0).click(force=True)
    expect(root.locator(".nbsal-state")).to_contain_text("Python has stopped")
    assert root.bounding_box()["height"] == before or name in ("clouds", "browse", "games", "answers", "audit"), (
        "a press may open something"
    )
    sheet.set_viewport_size({"width": 1100, "height": 900})


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


def test_the_dark_theme_of_jupyterlab_is_followed(show, sheet):
    root = show("highlight")
    colours = {}
    for light in ("true", "false"):
        sheet.evaluate("(light) => { document.body.dataset.jpThemeLight = light; }", light)
        colours[light] = root.evaluate("node => getComputedStyle(node).backgroundColor")
    sheet.evaluate("() => { delete document.body.dataset.jpThemeLight; }")
    assert colours["true"] == "rgb(255, 255, 255)"
    assert max(map(int, re.findall(r"\d+", colours["false"])[:3])) < 40
