"""The way from an empty notebook to a word that is hidden in every text; 31."""

import time
from typing import Any

from playwright.sync_api import expect

from tests.browser.checklist import check
from tests.browser.checklist.session import PATIENCE, WINDOW, Session
from tests.browser.conftest import open_page
from tests.browser.lab import CURRENT

WHY = """import nbsal
nbsal.why(nbsal.load("demo/reviews"), "A slow start, but the second half is warm, funny and beautifully played.")"""
STEPS = ("all texts like this", "which words mislead the model?")
HIDE = "Hide it in every text"
STOP = f"async () => {{ await {CURRENT}.sessionContext.shutdown(); }}"
LONG = 8 * PATIENCE  # ms for a model that loads, and for words that are hidden in all texts


@check(31, "from an empty notebook, four clicks hide a word in every text")
def four_clicks(session: Session) -> str:
    page = open_page(session.browser, viewport=WINDOW)
    page.set_default_timeout(LONG)
    try:
        session.lab.open(page, session.lab.write("empty.ipynb", WHY)).run_cell(0)
        measured = hide_a_word(page)
        assert not page.problems, f"{measured}; {page.problems[:3]}"
        return measured
    finally:
        page.evaluate(STOP)
        page.context.close()


def hide_a_word(page: Any) -> str:
    """Take the steps of the line Next, choose a word and hide it; what that changes."""
    start = time.monotonic()
    for step in STEPS:
        page.get_by_role("navigation", name="Next").get_by_role("button", name=step, exact=True).last.click()
    audit = page.get_by_role("group", name="nbsal audit", exact=True)
    word = audit.get_by_role("listbox", name="Words").get_by_role("option").first
    word.click()
    hide = audit.get_by_role("button", name=HIDE)
    decided = audit.locator(".nbsal-confusion h3")
    before = decided.inner_text()
    hide.click()
    expect(hide).to_have_attribute("aria-pressed", "true")
    expect(decided).not_to_have_text(before, use_inner_text=True, timeout=LONG)
    expect(audit.locator("tbody tr[data-number] .nbsal-cell-text small").first).to_contain_text("→", timeout=LONG)
    name = word.inner_text().split("\n")[0]
    return f"{time.monotonic() - start:.0f} s; without “{name}”: {before} → {decided.inner_text()}"
