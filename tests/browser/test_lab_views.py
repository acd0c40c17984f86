"""Heads and Workbench in JupyterLab, changed from the page and from Python."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import open_page

pytestmark = pytest.mark.full  # a kernel and a model for what tests/browser/test_lab.py tests with three other views

SETUP = """
import nbsal
subject = nbsal.load("demo/reviews")
explain = nbsal.Explainer(subject, "decoded-gradcam")
"""
TEXT = "A warm and unbelievably funny film."
HEADS = f"heads = nbsal.widgets.Heads(subject, text={TEXT!r})\nheads"
WORKBENCH = f"bench = nbsal.widgets.Workbench(explain, text={TEXT!r})\nbench"


@pytest.fixture(scope="module")
def opened(lab, chromium):
    page = open_page(chromium)
    notebook = lab.open(page, lab.write("others.ipynb", SETUP, HEADS, WORKBENCH))
    notebook.run_cell(0)
    yield notebook
    page.context.close()


@pytest.fixture
def notebook(opened):
    """The open notebook without outputs; a problem in the page fails the test."""
    opened.clear()
    opened.page.problems.clear()
    yield opened
    assert opened.page.problems == []


def run_and_locate(notebook, cell, name):
    """Run a cell; return its view."""
    notebook.run_cell(cell)
    return notebook.page.get_by_role("group", name=f"nbsal {name}")


def test_heads_are_switched_from_both_sides(notebook):
    view = run_and_locate(notebook, 1, "heads")
    switch = view.get_by_role("gridcell", name="Block 5, head 11:")
    expect(switch).to_have_attribute("aria-label", "Block 5, head 11: no known pattern, off")
    notebook.python("before = heads.result.scores")
    switch.click()
    expect(view.get_by_role("heading", name="Block 5, head 11: no known pattern; here")).to_be_visible()
    switch.press("Delete")
    expect(switch).to_have_attribute("aria-label", "Block 5, head 11: no known pattern, on")
    notebook.until("heads.toggled, bool(heads.mask.selected[5, 11])", "[[5, 11]] True")
    notebook.until("bool((heads.result.scores != before).any())", "True")
    expect(view.get_by_text("with 62 of 72 heads off")).to_be_visible()
    view.get_by_role("button", name="Undo").click()
    notebook.until("heads.toggled", "[]")
    notebook.python("heads.kind, heads.toggled = 'all', []")
    expect(view.get_by_text("heads off")).to_have_count(0)
    expect(view.get_by_text("72 of 72 heads on")).to_be_visible()


def test_a_workbench_is_changed_from_both_sides(notebook):
    view = run_and_locate(notebook, 2, "workbench")
    view.get_by_role("rowheader", name="layer 2").click()
    notebook.until("bench.result.provenance['parameters']['layer']", "2")
    text = view.get_by_role("listbox", name="The text, word by word")
    text.get_by_role("option", name="funny", exact=True).click()
    expect(view.get_by_role("columnheader", name="funny", exact=True).first).to_have_attribute("aria-selected", "true")
    notebook.python("bench.method, bench.head = 'mask-lrp', [2, 1]")
    expect(view.get_by_text("with 63 of 72 heads off")).to_be_visible()
    view.locator("details[data-panel=heads] > summary").scroll_into_view_if_needed()
    expect(view.get_by_role("heading", name=re.compile("Block 2, head 1: .*; funny attends most to"))).to_be_visible()
    view.get_by_role("gridcell", name="Block 2, head 0:").click(modifiers=["Shift"])
    notebook.until("bench.toggled, bench.panels", "[[2, 0]] ['layers', 'games', 'heads']")
    view.locator("details[data-panel=games] > summary").click()
    notebook.until("bench.panels", "['layers', 'heads']")
    view.get_by_role("button", name="Edit text").click()
    view.get_by_label("Text", exact=True).fill("A bore.")
    notebook.until("bench.result.text, bench.selection, bench.token_games", "A bore. [] None")
