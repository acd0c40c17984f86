"""Checks of what is left without Python: static HTML, exported pages, notebooks opened again; 19, 20 and 21."""

import re
import shutil
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser import bench
from tests.browser.checklist import check, in_words
from tests.browser.checklist.session import NAMES, WINDOW, Session, seen
from tests.browser.conftest import open_page
from tests.browser.test_lab import LOST

# What a live view says beyond tools and hints: titles, sentences, words, bars with their numbers, cells, notes. The
# words of a chart are in its picture. The title of a folded panel is that of a control.
SAID = """root => {
  const tools = '.nbsal-tools, .nbsal-sheet, .nbsal-next, .nbsal-state, .nbsal-check button, .nbsal-stepper, '
    + '.nbsal-segments, button.nbsal-link, textarea, input, select, nav, output, [role=status], .nbsal-readout, '
    + '.nbsal-classes > .nbsal-quiet, .nbsal-opened > header > span, .nbsal-chart, .nbsal-curve, '
    + '.nbsal-fold:not([open]) > summary, .nbsal-hint';
  const parts = [];
  for (const node of root.querySelectorAll('*')) {
    if (node.closest(tools) || !node.checkVisibility({ visibilityProperty: true }) || node.closest('svg')) continue;
    const own = [...node.childNodes].filter(child => child.nodeType === 3).map(child => child.textContent.trim());
    parts.push(...own.filter(text => /[\\p{L}\\p{N}]/u.test(text)));
  }
  return [...new Set(parts)];
}"""


def joined(text: str) -> str:
    """A text without its spaces, which differ between copies."""
    return re.sub(r"\s", "", text)


@check(19, "saved, closed, reopened: each view shows, with “Snapshot of”", last=True)
def reopened(session: Session) -> str:
    sentences = {name: session.view(name).locator(".nbsal-headline").first.inner_text() for name in NAMES}
    session.notebook.save()
    shutil.copy(session.lab.root / "views.ipynb", session.lab.root / "again.ipynb")
    page = open_page(session.browser, viewport=WINDOW)
    session.lab.open(page, "again.ipynb")
    cells, wrong = page.locator(".jp-CodeCell"), {}
    for number, name in enumerate(NAMES, start=1):
        output = cells.nth(number).locator(".jp-OutputArea-output").first
        output.scroll_into_view_if_needed()
        text = seen(output)
        lacking = [part for part in ("Snapshot of", sentences[name]) if joined(part) not in joined(text)]
        if lacking or LOST.search(text):
            wrong[name] = f"lacks {lacking}"
    page.context.close()
    assert not wrong, in_words(wrong)
    return f"{len(NAMES)} of {len(NAMES)} views, with the sentence of the live view"


@check(20, "static HTML differs from the live view only in tools")
def static_html(session: Session) -> str:
    wrong, count = {}, 0
    for name in NAMES:
        parts = session.view(name).evaluate(SAID)
        with session.open_file(session.export(name, interactive=False), java_script_enabled=False) as page:
            text = joined(page.locator("body").inner_text())
        lacking = [part for part in parts if joined(part) not in text]
        if lacking:
            wrong[name] = f"{len(lacking)} of {len(parts)}: {lacking[:6]}"
        count += len(parts)
    assert not wrong, in_words(wrong)
    return f"{count} texts of {len(NAMES)} views"


def act_on(page: Any, root: Locator, name: str) -> None:
    """Do in an exported page what needs no Python: point, select, change layers, hide words."""
    listed = root.get_by_role("listbox", name=re.compile("^Words")) if name == "audit" else root
    words = listed.get_by_role("option").filter(visible=True)
    words.nth(1).hover()
    readout = root.locator(".nbsal-readout").filter(visible=True)
    if readout.count():
        expect(readout.first).to_have_text(re.compile(r"·|scores? |%|reply"))
    if name not in ("browse", "clouds", "audit"):  # where a press asks Python for texts
        chosen = words.nth(1).get_attribute("aria-selected")
        words.nth(1).click()
        expect(words.nth(1)).to_have_attribute("aria-selected", "false" if chosen == "true" else "true")
    if name == "layers":
        root.get_by_role("rowheader", name="layer 2").click()
        expect(root.get_by_role("row", selected=True)).to_contain_text("layer 2")
    if name == "games":
        root.get_by_role("slider", name="Words hidden", exact=True).fill("3")
        expect(root.locator(".nbsal-hidden")).to_have_count(3)
    if name in ("highlight", "workbench", "compare"):
        bench.choose(root, "Unit", "Tokens")


@check(21, "an exported page works from disk, without network")
def exported_pages(session: Session) -> str:
    wrong = {}
    for name in NAMES:
        file = session.export(name, interactive=True)
        with session.open_file(file) as page:
            root = page.locator("section.nbsal").first
            try:
                act_on(page, root, name)
            except AssertionError as error:
                wrong[name] = str(error).splitlines()[0]
            asked = [
                address
                for address in page.requests
                if address != file.as_uri() and address[:5] not in ("data:", "blob:")
            ]
            if asked or page.problems:
                wrong[name] = f"requests {asked}, problems {page.problems[:2]}"
    assert not wrong, in_words(wrong)
    return f"{len(NAMES)} pages, 0 requests"
