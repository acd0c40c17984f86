"""Every view passes axe-core in every state, and can be read without colours, by keys, on paper, in forced colours."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Compare, Games, Heads, Highlight, Layers, Workbench
from tests.browser import bench
from tests.browser.bench import every_view, trait

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
@pytest.mark.parametrize("look", STATES)
def test_every_state_is_accessible(show, sheet, audit, name, look):
    theme, state = look
    show(name, live=True)
    bench.change(sheet, **state)
    assert audit(theme=theme) == []


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


@every_view
def test_a_saved_page_is_accessible(show, sheet, views, audit, name):
    """All of it: the page around the view belongs to it."""
    sheet.set_content(views[name].to_html(interactive=True))
    sheet.locator("section.nbsal").wait_for()
    assert audit("") == []


@pytest.mark.parametrize("kind", [Highlight, Layers, Compare, Games, Heads, Workbench])
def test_a_view_without_a_text_is_accessible(show, reviews, audit, kind):
    source = reviews if kind is Heads else nbsal.Explainer(reviews, bench.SIGNED, layer=3)
    root = show(kind(source, text=""), live=True)
    assert root.locator(".nbsal-mark").count() == 0
    assert audit() == []


# Parts of marks that differ with the sign of a score: the lowest three rows of pixels, inside borders.
EDGES = """() => [...document.querySelectorAll(
    '.nbsal-text .nbsal-mark, .nbsal-piece, .nbsal-cell, .nbsal-ranking i, .nbsal-legend span')].flatMap((node) => {
  const [box, style] = [node.getClientRects()[0], getComputedStyle(node)];
  const bar = node.matches('i');
  const name = node.matches('span') && node.parentElement.matches('.nbsal-legend');
  const shade = Number(style.getPropertyValue('--s'));
  if (!box || !node.checkVisibility() || !(bar || name || shade > 0.15)) return [];
  const inside = bar ? getComputedStyle(node, '::after') : { left: '0', width: `${box.width}` };
  const [left, width] = [box.left + parseFloat(inside.left), parseFloat(inside.width)];
  const bottom = box.bottom - (node.matches('.nbsal-cell') ? parseFloat(style.borderBottomWidth) : 0);
  const against = node.matches('.nbsal-against, .nbsal-word-against');
  return width < 14 ? [] : [[against, left + 1, bottom - 2, width - 3, node.className]];
})"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["workbench", "browse"])
def test_against_is_dashed_where_colours_are_missing(show, sheet, name, theme):
    """Text, bars, cells, pieces and legend, in the pixels of a screenshot without colours."""
    sheet.emulate_media(color_scheme=theme, reduced_motion="reduce")
    show(name, live=True)
    picture = np.asarray(Image.open(io.BytesIO(sheet.screenshot(full_page=True))).convert("L"), float)
    seen = {True: set(), False: set()}
    for against, x, y, width, kind in sheet.evaluate(EDGES):
        line = picture[round(y), round(x) : round(x + width)]
        steps = int((np.abs(np.diff(line)) > 12).sum())
        assert steps >= 2 * (width // 12) if against else steps <= 2, (kind, against, line.tolist())
        seen[against].add(kind.split()[0] if kind else "bar")
    assert len(seen[True]) >= 3 and len(seen[False]) >= 3, seen


# Marks without text, with the property that has their colour: at least 3 to 1 on what they lie on.
MARKS = {
    ".nbsal-button:not(.nbsal-plain):enabled": "borderTopColor",
    ".nbsal-popover:not(.nbsal-plain) > summary": "borderTopColor",
    ".nbsal-popover > summary::after": "borderBottomColor",
    ".nbsal-segments": "borderTopColor",
    ".nbsal-stepper": "borderTopColor",
    "input[type=search], input[type=number]": "borderTopColor",
    ".nbsal-class[aria-pressed=true]": "borderTopColor",
    ".nbsal-ranking li:not(.nbsal-hover) i::after": "backgroundColor",
    ".nbsal-changes i::before": "backgroundColor",
    ".nbsal-state::before": "borderTopColor",
    ".nbsal-work::before": "backgroundColor",
    ".nbsal-curve": "stroke",
    "line.nbsal-half": "stroke",
    ".nbsal-here": "borderLeftColor",
    ".nbsal-play-button": "backgroundColor",
    ".nbsal-badge": "borderTopColor",
    ".nbsal-dot": "borderTopColor",
    ".nbsal-word[aria-selected=true] rect": "stroke",
    ".nbsal-switch.nbsal-off": "borderTopColor",
    ".nbsal-word-for": "borderBottomColor",
    ".nbsal-word-against": "borderBottomColor",
}
MARK_CONTRASTS = (
    "(marks) => {"
    + bench.COLOURS
    + """
  return Object.entries(marks).flatMap(([selector, property]) => {
    const [node, pseudo] = selector.split('::');
    return [...document.querySelectorAll(node.split(', ').map(one => `.nbsal ${one}`).join(', '))]
      .filter(found => found.checkVisibility())
      .map(found => [selector, contrast(papers(found.parentElement),
        getComputedStyle(found, pseudo && `::${pseudo}`)[property])]);
  });
}"""
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_of_controls_and_charts_stand_out(show, sheet, theme):
    sheet.emulate_media(color_scheme=theme, reduced_motion="reduce")
    seen = set()
    for name in ["games", "workbench", "compare", "browse", "clouds", "heads"]:
        root = show(name, live=True)
        sheet.evaluate("() => window.view.model.set('status', 'computing')")
        expect(root.locator(".nbsal-work")).to_be_visible()
        bench.change(sheet, **{} if name in ("browse", "clouds") else {"_inputs": trait(sheet, "_inputs")})
        contrasts = sheet.evaluate(MARK_CONTRASTS, MARKS)
        assert [entry for entry in contrasts if entry[1] < 3] == []
        seen |= {selector for selector, _ in contrasts}
    assert seen == set(MARKS)


# The Tab stops whose focus is not seen: no outline of two pixels that stands out, on it or on its active item.
UNSEEN = (
    "() => {"
    + bench.COLOURS
    + """
  const stops = [...document.querySelectorAll('.nbsal :is(button, input, select, textarea, summary, [tabindex])')]
    .filter(node => node.checkVisibility() && !node.disabled && node.tabIndex >= 0);
  const seen = (node) => [node, ...node.querySelectorAll('.nbsal-active')].some((shown) => {
    const { outlineStyle, outlineWidth, outlineColor, outlineOffset, strokeDasharray } = getComputedStyle(shown);
    const cut = getComputedStyle(node.parentElement).overflow === 'hidden' && parseFloat(outlineOffset) >= 0;
    return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && !cut
      && contrast(papers(node.parentElement), outlineColor) >= 3;
  });
  return stops.filter((node) => {
    node.focus({ focusVisible: true });
    return document.activeElement !== node || !seen(node);
  }).map(node => node.outerHTML.slice(0, 150));
}"""
)


@pytest.mark.some(3)
@every_view
def test_the_focus_is_always_seen(show, sheet, name):
    root = show(name, live=True)
    root.locator(".nbsal-at-end > summary").first.click()
    for theme in ("light", "dark"):
        sheet.emulate_media(color_scheme=theme, reduced_motion="reduce")
        assert sheet.evaluate(UNSEEN) == []


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


@pytest.mark.some(3)
@every_view
def test_a_printed_view_answers_its_question(show, sheet, name):
    root = show(name, live=True)
    sheet.emulate_media(color_scheme="dark")
    root.locator(".nbsal-at-end > summary").first.click()
    sheet.emulate_media(media="print", color_scheme="dark")
    expect(root.locator(".nbsal-headline").first).to_be_visible()
    expect(root.locator(".nbsal-notes")).to_be_visible()
    for unprinted in [".nbsal-sheet", ".nbsal-state", ".nbsal-tools", "button.nbsal-button", "input"]:
        assert [node for node in root.locator(unprinted).all() if node.is_visible()] == [], unprinted
    paper, ink, exact = root.evaluate(
        "node => { const s = getComputedStyle(node); return [s.backgroundColor, s.color, s.printColorAdjust]; }"
    )
    assert (paper, ink, exact) == ("rgb(255, 255, 255)", "rgb(0, 0, 0)", "exact")
    assert [entry for entry in sheet.evaluate(bench.CONTRASTS) if entry[0] < 4.5] == []
    sheet.emulate_media(media="screen")


FORCED = """() => {
  const style = (selector) => [...document.querySelectorAll(`.nbsal ${selector}`)]
    .filter(node => node.checkVisibility()).map(node => getComputedStyle(node));
  const [pressed, others] = ['true', 'false'].map((value) =>
    style(`:is(.nbsal-segments button, .nbsal-class)[aria-pressed=${value}]`).map(s => s.backgroundColor));
  return { pressed, others, motion: style('*').map(s => s.transitionDuration).filter(time => time !== '0s').length,
    animations: document.getAnimations().filter(one => one.timeline instanceof DocumentTimeline).length };
}"""


@every_view
def test_forced_colours_and_reduced_motion_lose_nothing(show, sheet, name):
    root = show(name, live=True)
    sheet.emulate_media(forced_colors="active", reduced_motion="reduce")
    expect(root.locator(".nbsal-headline").first).to_be_visible()
    found = sheet.evaluate(FORCED)
    assert not set(found["pressed"]) & set(found["others"])
    assert (found["motion"], found["animations"]) == (0, 0)
    sheet.emulate_media(forced_colors="none")
