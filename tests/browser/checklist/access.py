"""Checks for every reader: contrast, marks beside colour, keys, names for screen readers, paper; 15 to 18 and 30."""

import io
import re
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Locator

from tests.browser.checklist import check, in_words
from tests.browser.checklist.session import NAMES, Session
from tests.browser.conftest import AUDIT, MODULES
from tests.browser.test_checks import STATES

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
CHANGE_THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
AXE_CONTRAST = "color-contrast"
# Contrast of what axe does not measure: of marks with the paper (bars, lines of charts, borders of controls), and of
# words with their shade where an underline or a neighbour keeps axe from telling it.
MARKS = """root => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const paint = (...colours) => {
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const paper = getComputedStyle(root).backgroundColor;
  const ratio = (colour, ...below) => {
    const [a, b] = [light(paint(paper, ...below, colour)), light(paint(paper, ...below))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const shown = (selector) => [...root.querySelectorAll(selector)].filter(node => node.checkVisibility());
  const kinds = {
    bar: ['.nbsal-ranking:not(.nbsal-dots) i', 'backgroundColor', '::after'],
    line: ['.nbsal-curve:not(.nbsal-random)', 'stroke'],
    button: ['.nbsal-method-picker > summary', 'borderTopColor'], state: ['.nbsal-state', 'color'],
  };
  const marks = Object.entries(kinds).flatMap(([kind, [selector, property, pseudo]]) => shown(selector)
    .map(node => getComputedStyle(node, pseudo)[property])
    .filter(colour => colour !== 'none' && !/, 0\\)$|\\/ 0\\)$/.test(colour))
    .map(colour => [kind, ratio(colour), 3, colour, '']));
  const words = shown('.nbsal-against, .nbsal-cell, .nbsal-words b').filter(node => node.textContent.trim())
    .map(node => [node, getComputedStyle(node)])
    .map(([node, { color, backgroundColor }]) =>
      [node.closest('.nbsal-words') ? 'cloud' : 'word', ratio(color, backgroundColor), 4.5, color, node.textContent]);
  return [...marks, ...words];
}"""
MARKED = {"bar", "line", "button", "state", "cloud", "word"}
# JupyterLab's body has no height and hides what sticks out, from which axe concludes that all is hidden.
LET_OUT = "overflow => { document.body.style.overflow = overflow; }"
LEAST_SHAPE = 24  # of 255: how much a pixel of a mark differs from what is there without it
MEDIA: dict[str, Any] = {"paper": {"media": "print"}, "forced colours": {"forced_colors": "active"}}
# What shows numbers without text.
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
# Hides marks that are in the window, or shows them again; how many there are.
HIDE = """(nodes, hidden) => {
  const seen = nodes.filter(node => node.checkVisibility()).filter((node) => {
    const { top, bottom, width, height } = node.getBoundingClientRect();
    return width > 4 && height > 2 && top > 4 && bottom < innerHeight - 4;
  });
  for (const { style } of seen) style.setProperty('opacity', hidden ? '0' : '', 'important');
  return seen.length;
}"""


# The controls of a view: those that Tab reaches, in order; those that it does not; what only a pointer can press.
CONTROLS = """root => {
  const part = 'button, input, select, textarea, summary, a[href], [tabindex]';
  const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const all = [...root.querySelectorAll(part)].filter(node => seen(node) && !node.disabled && !node.closest('[inert]'));
  const pressed = [...root.querySelectorAll('*')].filter(node => node.getClientRects().length && seen(node)
    && getComputedStyle(node).cursor === 'pointer' && !node.closest(`${part}, label`));
  return [all.filter(node => node.tabIndex >= 0), all.filter(node => node.tabIndex < 0), pressed];
}"""
# Remembers the look of all controls; without the focus in one, which is in none of them yet.
REMEMBER = f"""root => {{
  const look = window.look_ = (control) => [control, ...control.querySelectorAll('*')].map((node) => {{
    const {{ outlineStyle, outlineWidth, outlineColor, boxShadow }} = getComputedStyle(node);
    return [outlineStyle !== 'none' && parseFloat(outlineWidth) > 0 && outlineColor, boxShadow].join();
  }}).join();
  document.activeElement.blur();
  const [reached, , pressed] = window.controls_ = ({CONTROLS})(root);
  window.looks_ = reached.map(look);
  reached[0].focus({{ focusVisible: true }});
  return [reached.length, pressed.map(node => node.outerHTML.slice(0, 90))];
}}"""
# Whether what has the focus is in the view, its number, and whether it looks otherwise than without: or has a caret.
FOCUSED = """root => {
  const node = document.activeElement, number = window.controls_[0].indexOf(node);
  const seen = node.matches('textarea, input:is(:not([type]), [type=text], [type=search], [type=number])')
    || number < 0 || window.look_(node) !== window.looks_[number];
  return [root.contains(node), number, seen, node.getAttribute('aria-label') || node.textContent.slice(0, 30)];
}"""
# Where Tab stops in the part around controls that it does not reach, their numbers, and how many come before the stop.
PARTS = """() => {
  const [reached, others] = window.controls_, parts = new Map();
  for (const [number, node] of others.entries()) {
    let part = node, stop;
    while (!stop && (part = part.parentElement)) stop = reached.find(each => part.contains(each));
    parts.set(stop, [...(parts.get(stop) ?? []), number]);
  }
  const { DOCUMENT_POSITION_FOLLOWING: AFTER } = Node;
  const isBefore = (stop) => (number) => others[number].compareDocumentPosition(stop) & AFTER;
  return [...parts].map(([stop, numbers]) => [reached.indexOf(stop), numbers, numbers.filter(isBefore(stop)).length]);
}"""


def missed_by_arrows(page: Any) -> list[str]:
    """Controls that neither Tab nor, from the Tab stop of their part, arrow keys reach."""
    missed = []
    for stop, numbers, before in page.evaluate(PARTS):
        page.evaluate("stop => window.controls_[0][stop].focus()", stop)
        left, count = set(numbers), len(numbers)
        ahead = dict.fromkeys(("ArrowUp", "ArrowLeft"), before)
        around = dict.fromkeys(("ArrowDown", "ArrowRight", "ArrowUp"), count)
        for key in (arrow for arrow, times in (*ahead.items(), *around.items()) for _ in range(times)):
            if left:  # a step too many turns the page
                page.keyboard.press(key)
                left.discard(page.evaluate("() => window.controls_[1].indexOf(document.activeElement)"))
        missed += page.evaluate("left => left.map(k => window.controls_[1][k].outerHTML.slice(0, 90))", list(left))
    return missed


def _pixels(png: bytes) -> Any:
    """The luminance of the pixels of a picture."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("L"), dtype=float)


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
            words[against].append(dashes(_pixels(text.get_by_role("option").nth(number).screenshot())))
    least, most = min(words[True]), max(words[False])
    measured = (
        f"the lower edge of words against varies by at least {least:.0f} of 255, of words for by at most {most:.0f}"
    )
    assert least > 2 * max(most, 1), measured
    return measured


def audit(session: Session) -> dict[str, list[str]]:
    """What axe finds in every view, by state and theme; and the contrast of marks that is too low."""
    page, found, kinds = session.page, {}, set()
    page.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
    page.evaluate(LET_OUT, "visible")
    for theme in THEMES:
        page.evaluate(CHANGE_THEME, THEMES[theme])
        page.wait_for_timeout(500)
        for name in NAMES:
            root = session.view(name)
            root.evaluate("node => { node.id = 'audited'; }")
            found[f"{name}, {theme}"] = page.evaluate(AUDIT, "#audited")
            marks = root.evaluate(MARKS)
            kinds |= {kind for kind, *_ in marks}
            found[f"{name}, {theme}, marks"] = [
                f"{kind} {word} {contrast:.1f} ({colour})"
                for kind, contrast, least, colour, word in marks
                if contrast < least
            ]
            for state_theme, state in STATES[1:]:
                if state_theme == theme:
                    session.python("\n".join(f"{name}.{trait} = {value!r}" for trait, value in state.items()))
                    session.frame()
                    found[f"{name}, {theme}, {state['status']}"] = page.evaluate(AUDIT, "#audited")
                    session.python(f"{name}.progress, {name}.error, {name}.status = None, '', 'ready'")
            root.evaluate("node => node.removeAttribute('id')")
    page.evaluate(CHANGE_THEME, THEMES["light"])
    page.evaluate(LET_OUT, "")
    found["never seen, marks"] = sorted(MARKED - kinds)
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
        count, pressed = root.evaluate(REMEMBER)
        numbers, unseen = set(), []
        for _ in range(count + 3):
            inside, number, visible, label = root.evaluate(FOCUSED)
            if not inside:
                break
            numbers.add(number)
            if not visible:
                unseen.append(label)
            page.keyboard.press("Tab")
        missed = page.evaluate(
            "missed => missed.map(k => window.controls_[0][k].outerHTML.slice(0, 90))", [*set(range(count)) - numbers]
        )
        if missed := [*missed, *missed_by_arrows(page), *pressed]:
            wrong[name] = f"no key reaches {missed}"
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
    """Kinds of marks that look like what is there without them."""
    blank, before = [], _pixels(root.page.screenshot())
    for selector in selectors:
        marks = root.locator(selector)
        if marks.evaluate_all(HIDE, True):
            if np.abs(before - _pixels(root.page.screenshot())).max() < LEAST_SHAPE:
                blank.append(selector)
            marks.evaluate_all(HIDE, False)
    return blank
