"""Views in JupyterLab: changes in the page reach Python, changes in Python the page, and files open without kernels."""

import re

import nbformat
import pytest
from nbclient import NotebookClient
from playwright.sync_api import expect

from tests.browser.bench import choose, tokens
from tests.browser.conftest import open_page

SETUP = """
import time
import nbsal
explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
"""
TEXT = "A warm and unbelievably funny film."
HIGHLIGHT = f"view = nbsal.widgets.Highlight(explain, text={TEXT!r})\nview"
LINKED = f"""
import ipywidgets
pair = nbsal.widgets.Layers(explain, text={TEXT!r}), nbsal.widgets.Highlight(explain, text={TEXT!r})
ipywidgets.jslink((pair[0], "layer"), (pair[1], "layer"))
ipywidgets.HBox(pair)
"""
BUSY = """
layer, deadline = view.result.provenance["parameters"]["layer"], time.monotonic() + 20
print("busy at layer", layer)
while view.result.provenance["parameters"]["layer"] == layer and time.monotonic() < deadline:
    time.sleep(0.02)
print("done:", "late" if time.monotonic() > deadline else "meanwhile")
"""


@pytest.fixture(scope="module")
def opened(lab, chromium):
    page = open_page(chromium)
    notebook = lab.open(page, lab.write("views.ipynb", SETUP, HIGHLIGHT, BUSY, LINKED))
    notebook.run_cell(0)
    yield notebook
    page.context.close()


@pytest.fixture
def notebook(opened):
    """The open notebook with one new Highlight; a problem in the page fails the test."""
    opened.clear()
    opened.run_cell(1)
    opened.page.problems.clear()
    yield opened
    assert opened.page.problems == []


@pytest.fixture
def view(notebook):
    highlight = notebook.page.get_by_role("group", name="nbsal highlight").first
    expect(token(highlight, "funny")).to_be_visible()
    return highlight


def token(view, name: str):
    """A token, or word, of the text."""
    return view.get_by_role("listbox", name="The text, word by word").get_by_role("option", name=name, exact=True)


def edit(view, text: str):
    """Open the editor and replace the text."""
    if not view.get_by_label("Text", exact=True).is_visible():
        view.get_by_role("button", name="Edit text").click()
    view.get_by_label("Text", exact=True).fill(text)


def layer(view):
    """What the view says of its layer."""
    return view.locator("output[data-trait=layer]")


def test_a_view_shows_and_a_click_reaches_python(notebook, view):
    expect(tokens(view)).to_have_text(["A", "warm", "and", "unbelievably", "funny", "film", "."])
    choose(view, "Unit", "Tokens")
    expected = ["A", "warm", "and", "un", "bel", "ie", "va", "bly", "funny", "film", "."]
    expect(tokens(view)).to_have_text(expected)
    token(view, "funny").click()
    expect(token(view, "funny")).to_have_attribute("aria-selected", "true")
    notebook.until("[view.result.tokens[i] for i in view.selection]", "['funny']")


@pytest.mark.full
def test_views_in_a_box_can_be_linked_by_jslink(notebook):
    notebook.run_cell(3)
    layers = notebook.page.get_by_role("group", name="nbsal layers")
    view = notebook.page.get_by_role("group", name="nbsal highlight").last
    layers.last.get_by_role("rowheader", name="Layer 1").click()
    expect(layer(view)).to_have_text("layer 1 of 6")
    expect(view.locator(".nbsal-notes")).to_contain_text("layer 1")
    view.get_by_role("button", name="Next layer").click()
    expect(layers.last.get_by_role("row", selected=True)).to_contain_text("layer 2")


def test_python_reaches_the_page(notebook, view):
    notebook.python("view.selection = [2]; view.level = 'token'; view.layer = 1")
    expect(token(view, "warm")).to_have_attribute("aria-selected", "true")
    expect(layer(view)).to_have_text("layer 1 of 6")
    expect(view.locator(".nbsal-notes")).to_contain_text("layer 1")
    view.locator("summary", has_text="Display").click()
    expect(view.get_by_role("button", name="Tokens")).to_have_attribute("aria-pressed", "true")


def test_typed_text_is_explained_and_keys_stay_in_the_view(notebook, view):
    cells = notebook.cells
    edit(view, "An utter")
    view.get_by_label("Text", exact=True).press_sequentially(" bore.")
    view.get_by_label("Text", exact=True).press("Escape")
    expect(token(view, "bore")).to_be_visible()
    expect(view.locator(".nbsal-headline")).to_contain_text("negative")
    notebook.until("view.result.text", "An utter bore.")  # a new text clears the selection
    view.get_by_role("listbox", name="The text, word by word").focus()
    for key in ["b", "a", "x", "d", "d", "ArrowRight", "ArrowRight", "Enter", "ArrowDown", "m", "0", "0"]:
        notebook.page.keyboard.press(key)
    expect(view.get_by_role("listbox", name="The text, word by word")).to_be_focused()
    assert notebook.cells == cells
    notebook.until("len(view.selection)", "1")


def test_a_busy_kernel_answers_the_view(notebook, view):
    """The cell ends early only if the change in the page was computed while the cell ran.

    On a full machine Lab's first messages come before it has a thread of the kernel for them, and wait for the cell.
    """
    printed = notebook.page.locator(".jp-OutputArea-output", has_text="busy at")
    for _ in range(4):
        notebook.run_cell(2, wait=False)
        expect(printed).to_have_text(re.compile(r"busy at layer \d"))  # the last change may still be on its way
        view.get_by_role("button", name="Previous layer").click()
        expect(printed).to_contain_text("done:")
        if "meanwhile" in printed.inner_text():
            return
    raise AssertionError("no change in the page was computed while the cell ran")


@pytest.mark.full
def test_a_save_is_downloaded(notebook, view):
    with notebook.page.expect_download() as download:
        view.locator("summary", has_text="Save").click()
        view.get_by_role("button", name="Table (.csv)").click()
    assert download.value.suggested_filename == "highlight.csv"


PAGE = "view.freeze(interactive=True)"
LOST = re.compile("Error displaying widget|Loading widget")  # what the widget manager says of a view without a kernel


@pytest.mark.full
def test_an_untrusted_notebook_shows_static_html(lab, chromium):
    name = lab.write("untrusted.ipynb", SETUP, HIGHLIGHT, "view.freeze()", PAGE)
    executed = nbformat.read(lab.root / name, as_version=4)
    NotebookClient(executed, timeout=900, store_widget_state=False).execute()
    nbformat.write(executed, lab.root / name)
    page = open_page(chromium)
    lab.open(page, name)
    outputs = page.locator(".jp-RenderedHTML")
    expect(outputs).to_have_count(3)
    expect(page.locator("iframe[title=nbsal]")).to_have_count(0)
    for output in outputs.all():
        expect(output).to_contain_text("unbelievably funny")
        expect(output).to_contain_text("Snapshot of ")
        shaded = output.get_by_title("funny: ")
        assert shaded.evaluate("node => getComputedStyle(node).backgroundColor").startswith("rgba(230, 126, 16")
    expect(page.get_by_role("group", name="nbsal highlight")).to_have_count(0)
    expect(page.get_by_text(LOST)).to_have_count(0)
    assert page.problems == []
    page.context.close()
