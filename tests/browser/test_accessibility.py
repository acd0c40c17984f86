"""Every view in every state passes axe-core, whose rules are WCAG and good practice, in both themes."""

from pathlib import Path

import pytest

import nbsal
from nbsal.widgets import Compare, Games, Heads, Highlight, Layers, Workbench
from tests.browser import bench
from tests.browser.bench import every_view

MODULES = Path(nbsal.__file__).parent / "frontend" / "node_modules"
# The rules that an element breaks, with where; the colour scheme matters to contrast alone.
AUDIT = """async ([selector, rules]) => {
  const settings = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations } = await axe.run(selector ? document.querySelector(selector) : document, settings);
  return violations.flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}"""


@pytest.fixture
def audit(sheet):
    """audit(selector) -> what axe finds wrong with an element, or with the whole page, in both themes."""
    if not MODULES.is_dir():
        pytest.skip("the modules of npm are not installed (npm ci in nbsal/frontend)")

    def check(selector="section.nbsal"):
        if not sheet.evaluate("() => 'axe' in window"):
            sheet.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
        light = sheet.evaluate(AUDIT, [selector, None])
        sheet.emulate_media(color_scheme="dark")
        dark = sheet.evaluate(AUDIT, [selector, ["color-contrast"]])
        sheet.emulate_media(color_scheme="light")
        return light + dark

    return check


STATES = {
    "ready": {"status": "ready"},
    "computing": {"status": "computing", "progress": 0.4},
    "error": {"status": "error", "error": "The layer must be from 0 to 6."},
}


@every_view
@pytest.mark.parametrize("state", STATES)
def test_every_state_is_accessible(show, sheet, audit, name, state):
    show(name, live=True)
    bench.change(sheet, **STATES[state])
    assert audit() == []


@every_view
def test_what_opens_over_a_view_is_accessible(show, audit, name):
    root = show(name, live=True)
    popovers = root.locator(".nbsal-popover:visible")
    assert popovers.count() >= 1
    for popover in popovers.all():
        popover.locator("> summary").click()
        popover.locator(".nbsal-more").evaluate_all("folds => folds.forEach((fold) => { fold.open = true; })")
        assert audit(".nbsal-popover[open]") == []
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
