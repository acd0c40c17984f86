"""Heads, Games, Clouds, Browse, Workbench and Answers in JupyterLab, changed from the page and from Python."""

import re

import pytest
from playwright.sync_api import expect

from nbsal.widgets.token_games import RANDOM_NAME
from tests.browser.bench import ASKED, MANY, NOTES
from tests.browser.conftest import open_page

pytestmark = pytest.mark.full  # a kernel and a model for what tests/browser/test_lab.py tests with three other views

SETUP = """
import nbsal
subject = nbsal.load("demo/reviews")
explain = nbsal.Explainer(subject, "decoded-gradcam")
"""
TEXT = "A warm and unbelievably funny film."
HEADS = f"heads = nbsal.widgets.Heads(subject, text={TEXT!r})\nheads"
GAMES = f"games = nbsal.widgets.Games(explain, text={TEXT!r})\ngames"
CLOUDS = f"clouds = nbsal.widgets.Clouds(explain, {MANY!r}, unit='word')\nclouds"
BROWSE = f"table = nbsal.widgets.Browse(explain, {MANY!r})\ntable"
WORKBENCH = f"bench = nbsal.widgets.Workbench(explain, text={TEXT!r})\nbench"

ANSWERS = f"""answers = nbsal.widgets.Answers(
    nbsal.load("demo/notes"), {ASKED!r}, documents={NOTES!r}, method="gradxact"
)
answers"""


@pytest.fixture(scope="module")
def opened(lab, chromium):
    page = open_page(chromium)
    notebook = lab.open(page, lab.write("others.ipynb", SETUP, HEADS, GAMES, CLOUDS, BROWSE, WORKBENCH, ANSWERS))
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


def test_the_step_of_a_game_is_changed_from_both_sides(notebook):
    view = run_and_locate(notebook, 2, "games")
    curve = view.get_by_role("slider", name="positive")
    expect(view.get_by_text(f"{RANDOM_NAME} · mean")).to_be_visible()
    curve.focus()
    for key in ["ArrowRight", "ArrowRight", "b"]:
        curve.press(key)
    notebook.until("games.at, len(games.remaining)", "2 9")
    expect(view.locator(".nbsal-hidden")).to_have_count(2)
    assert notebook.cells == 7, "keys stay in the view"
    notebook.python("games.game = 'revealing'")
    expect(view.locator(".nbsal-hidden")).to_have_count(5)


def test_a_word_is_picked_from_both_sides(notebook):
    view = run_and_locate(notebook, 3, "clouds")
    cloud = view.get_by_role("listbox", name="words of positive")
    cloud.get_by_role("option", name="funny", exact=True).click()
    expect(view.locator("li .nbsal-highlighted")).to_have_text("funny")
    notebook.until("clouds.texts_with(*clouds.picked)", "[0]")
    notebook.python("clouds.picked = ['negative', 'bore']")
    expect(view.locator("li .nbsal-highlighted")).to_have_text("bore")
    assert view.locator("svg text").first.evaluate("node => node.namespaceURI").endswith("svg")


def test_a_table_is_sorted_and_a_text_opened_from_both_sides(notebook):
    view = run_and_locate(notebook, 4, "browse")
    rows = view.locator("tbody tr[data-number]")
    view.get_by_role("columnheader", name="Prediction").get_by_role("button").click()
    expect(view.get_by_role("columnheader", name="Prediction")).to_have_attribute("aria-sort", "descending")
    view.get_by_label("Contains the word").fill("dull")
    expect(rows).to_have_count(2)
    rows.first.locator("td").nth(1).click()
    tokens = view.get_by_role("listbox", name="The text, word by word").get_by_role("option")
    expect(tokens.get_by_text("dull", exact=True)).to_be_visible()
    notebook.until("table.opened == table.to_frame()['number'][0]", "True")
    view.get_by_role("button", name=re.compile("^Open text")).first.press("ArrowDown")
    notebook.until("table.opened == table.to_frame()['number'][1]", "True")
    notebook.python("table.opened = 0")
    expect(tokens.get_by_text("warm", exact=True)).to_be_visible()


def test_a_workbench_is_changed_from_both_sides(notebook):
    view = run_and_locate(notebook, 5, "workbench")
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


def test_an_answer_is_changed_from_both_sides(notebook):
    view = run_and_locate(notebook, 6, "answers")
    reply = view.get_by_role("listbox", name="The reply, word by word")
    reply.get_by_role("option", name="Oslo", exact=True).click()
    expect(view.locator(".nbsal-headline")).to_have_text(re.compile("^“Oslo” comes mostly from document 3, Address"))
    notebook.until("answers.selected()['token'].item().strip()", "Oslo")
    notebook.python("answers.rival, answers.at = 'Rouen', 3")
    expect(view.locator(".nbsal-headline")).to_have_text(re.compile("^“Oslo” rather than “Rouen”"))
    view.get_by_role("button", name="nothing").click()
    notebook.until("answers.rival, answers.at", "None None")
    for number in (2, 3):
        view.get_by_role("button", name=f"Strike out: Document {number}").click()
    notebook.until("answers.struck, bool(answers.hidden.struck.sum() < -5)", "[3, 4] True")
    view.get_by_role("button", name="Write again").click()
    expect(view.get_by_text("Written again without document 2 and document 3")).to_be_visible()
    notebook.until("answers.rewritten == answers.result.text.strip()", "False")
    notebook.python("answers.method = 'occlusion'")
    expect(view.locator(".nbsal-notes")).to_contain_text("Occlusion")
