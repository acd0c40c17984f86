"""Checks for every reader: contrast, marks beside colour, keys, names for screen readers, paper; 15 to 18 and 30."""

import io
import re
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Locator

from tests.browser.checklist import check, in_words
from tests.browser.checklist.session import NAMES, Session
from tests.browser.test_checks import AUDIT, MODULES, STATES

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
CHANGE_THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
AXE_CONTRAST = "color-contrast"
# Contrast with the paper of the marks of a view that are no text: bars, lines of charts, borders of controls.
MARKS = """root => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const paint = (colour, below) => {
    canvas.fillStyle = below;
    canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const paper = getComputedStyle(root).backgroundColor;
  const ratio = (colour) => {
    const [a, b] = [light(paint(colour, paper)), light(paint(paper, paper))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const kinds = {
    bar: ['.nbsal-ranking i', 'backgroundColor'], line: ['.nbsal-chart path[stroke], .nbsal-chart polyline', 'stroke'],
    button: ['.nbsal-method-picker > summary', 'borderTopColor'], state: ['.nbsal-state', 'color'],
  };
  return Object.entries(kinds).flatMap(([kind, [selector, property]]) => [...root.querySelectorAll(selector)]
    .filter(node => node.checkVisibility()).map(node => getComputedStyle(node)[property])
    .filter(colour => colour !== 'none' && !/, 0\\)$|\\/ 0\\)$/.test(colour))
    .map(colour => [kind, ratio(colour), colour]));
}"""
LEAST_MARK = 3.0
LEAST_SHAPE = 3  # standard deviation of the luminance of what is seen
MEDIA: dict[str, Any] = {"paper": {"media": "print"}, "forced colours": {"forced_colors": "active"}}
# What shows numbers without text, and its box with some paper around, if it is in the window.
SHAPES = (
    ".nbsal-ranking i",
    ".nbsal-effects i",
    ".nbsal-class i",
    ".nbsal-share-bar",
    ".nbsal-text .nbsal-against",
    ".nbsal-chart svg",
    ".nbsal-cell",
    "[aria-label^=Words] i",
    "[aria-label=Slices] i",
)
BOXES = """nodes => nodes.filter(node => node.checkVisibility()).map(node => node.getBoundingClientRect())
  .filter(({ top, bottom, width, height }) => width > 4 && height > 2 && top > 4 && bottom < innerHeight - 4)
  .map(({ left, top, right, bottom }) => [left - 3, top - 3, right + 3, bottom + 3])"""
# Every control that Tab reaches in a view, in order.
REACHABLE = """root => [...root.querySelectorAll('button, input, select, textarea, summary, a[href], [tabindex]')]
  .filter(node => node.checkVisibility({ visibilityProperty: true }) && !node.disabled && node.tabIndex >= 0
    && !node.closest('[inert]'))"""
# Whether what has the focus is in the view, its number, and whether it looks focused: an outline, a ring or a caret.
FOCUSED = f"""root => {{
  const node = document.activeElement, number = ({REACHABLE})(root).indexOf(node);
  const visible = (each) => {{
    const {{ outlineStyle, outlineWidth, boxShadow }} = getComputedStyle(each);
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none';
  }};
  const seen = node.matches('textarea, input') || visible(node) || [...node.querySelectorAll('*')].some(visible);
  return [root.contains(node), number, seen, node.getAttribute('aria-label') || node.textContent.slice(0, 30)];
}}"""


def grey(element: Locator) -> Any:
    """The luminance of the pixels of an element."""
    return np.asarray(Image.open(io.BytesIO(element.screenshot())).convert("L"), dtype=float)


def dashes(pixels: Any) -> float:
    """How much a line along the lower edge goes up and down: what tells a dashed line from a plain one or none."""
    edge = pixels[-5:, 4:-4]
    return float(np.abs(np.diff(edge, axis=1)).mean(1).max())


@check(15, "against is told from for in greyscale")
def greyscale(session: Session) -> str:
    root = session.view("highlight")
    text = root.get_by_role("listbox", name="The text, word by word")
    marks = text.get_by_role("option").evaluate_all(
        "nodes => nodes.map(node => [node.textContent, Number(node.style.getPropertyValue('--s')),"
        " node.classList.contains('nbsal-against')])"
    )
    words = {True: [], False: []}
    for number, (name, strength, against) in enumerate(marks):
        if strength >= 0.1 and not set(name) & set("gjpqy,;"):
            words[against].append(dashes(grey(text.get_by_role("option").nth(number))))
    least, most = min(words[True]), max(words[False])
    measured = (
        f"the lower edge of words against varies by at least {least:.0f} of 255, of words for by at most {most:.0f}"
    )
    assert least > 2 * max(most, 1), measured
    return measured


def audit(session: Session) -> dict[str, list[str]]:
    """What axe finds in every view, by state and theme; and the contrast of marks that is too low."""
    page, found = session.page, {}
    page.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
    for theme in THEMES:
        page.evaluate(CHANGE_THEME, THEMES[theme])
        page.wait_for_timeout(500)
        for name in NAMES:
            root = session.view(name)
            root.evaluate("node => { node.id = 'audited'; }")
            found[f"{name}, {theme}"] = page.evaluate(AUDIT, "#audited")
            found[f"{name}, {theme}, marks"] = [
                f"{kind} {ratio:.1f} ({colour})" for kind, ratio, colour in root.evaluate(MARKS) if ratio < LEAST_MARK
            ]
            for state_theme, state in STATES[1:]:
                if state_theme == theme:
                    session.python("\n".join(f"{name}.{trait} = {value!r}" for trait, value in state.items()))
                    session.frame()
                    found[f"{name}, {theme}, {state['status']}"] = page.evaluate(AUDIT, "#audited")
                    session.python(f"{name}.progress, {name}.error, {name}.status = None, '', 'ready'")
            root.evaluate("node => node.removeAttribute('id')")
    page.evaluate(CHANGE_THEME, THEMES["light"])
    return found


@check(16, "text 4.5 : 1, marks of controls 3 : 1, both themes")
def contrast(session: Session) -> str:
    found = session.once(audit)
    wrong = {
        place: some
        for place, rules in found.items()
        if (some := [rule for rule in rules if AXE_CONTRAST in rule or place.endswith("marks")])
    }
    assert not wrong, in_words(wrong)
    return f"0 of {len(NAMES)} views in 2 themes"


@check(17, "every action by keys alone; the focus is always seen")
def keys(session: Session) -> str:
    page, wrong, reached = session.page, {}, 0
    for name in NAMES:
        root = session.view(name)
        count = root.evaluate(f"root => ({REACHABLE})(root).length")
        root.evaluate(f"root => ({REACHABLE})(root)[0].focus({{ focusVisible: true }})")
        numbers, unseen = set(), []
        for _ in range(count + 3):
            inside, number, visible, label = root.evaluate(FOCUSED)
            if not inside:
                break
            numbers.add(number)
            if not visible:
                unseen.append(label)
            page.keyboard.press("Tab")
        if missed := set(range(count)) - numbers:
            labels = root.evaluate(
                f"(root, missed) => missed.map(k => ({REACHABLE})(root)[k].outerHTML.slice(0, 90))", list(missed)
            )
            wrong[name] = f"Tab misses {labels}"
        if unseen:
            wrong[f"{name}, focus"] = unseen
        reached += len(numbers)
    assert not wrong, in_words(wrong)
    return f"{reached} controls of {len(NAMES)} views, each with a visible focus"


@check(18, "axe finds nothing in any view and state")
def axe(session: Session) -> str:
    found = {place: rules for place, rules in session.once(audit).items() if not place.endswith("marks")}
    wrong = {place: rules for place, rules in found.items() if rules}
    assert not wrong, in_words(wrong)
    return f"0 in {len(found)} states of {len(NAMES)} views"


# Motion of a view: neither what follows scrolling nor what has ended.
MOVING = """() => document.getAnimations().filter(({ effect, timeline }) =>
  timeline instanceof DocumentTimeline && effect?.target?.closest?.('.nbsal')).length"""


@check(30, "paper, forced colours, reduced motion: the question is answered")
def media(session: Session) -> str:
    page, wrong = session.page, {}
    sentences = {name: session.view(name).locator(".nbsal-headline").first.inner_text() for name in NAMES}
    for kind, settings in MEDIA.items():
        page.emulate_media(**settings)
        for name in NAMES:
            root = session.view(name)
            blank = blank_marks(root, [".nbsal-headline", *(SHAPES if kind == "forced colours" else ())])
            if blank or root.locator(".nbsal-headline").first.inner_text() != sentences[name]:
                wrong[f"{name}, {kind}"] = f"not seen: {blank}"
            if kind == "paper" and (tools := root.locator(".nbsal-tools button:visible, .nbsal-sheet:visible").count()):
                wrong[f"{name}, tools on paper"] = tools
        page.emulate_media(media="null", forced_colors="null")
    root = session.view("games")
    root.get_by_role("button", name=re.compile("^(Play|Next step)$")).click()
    at = root.get_by_role("slider", name="Words hidden", exact=True).input_value()
    if (moving := page.evaluate(MOVING)) or at != "1":
        wrong["reduced motion"] = f"{moving} animations, a press makes {at} steps"
    session.set("games", {"at": 0})
    assert not wrong, in_words(wrong)
    return f"{len(NAMES)} views on paper and in forced colours; 0 animations, one step a press"


def blank_marks(root: Locator, selectors: list[str]) -> list[str]:
    """Kinds of marks of which the widest looks like the paper."""
    blank, window = [], Image.open(io.BytesIO(root.page.screenshot())).convert("L")
    for selector in selectors:
        boxes = root.locator(selector).evaluate_all(BOXES)
        if boxes:
            widest = max(boxes, key=lambda box: box[2] - box[0])
            if np.asarray(window.crop([round(side) for side in widest]), dtype=float).std() < LEAST_SHAPE:
                blank.append(selector)
    return blank
