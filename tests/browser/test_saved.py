"""Notebooks that are read without a kernel: static HTML, and an untrusted file in JupyterLab."""

import re

import nbformat
import pytest
from nbclient import NotebookClient
from playwright.sync_api import expect

from nbsal.widgets import snapshot
from tests.browser.conftest import open_page
from tests.browser.test_lab import HIGHLIGHT, SETUP

PAGE = "view.freeze(interactive=True)"
WIDGET = "application/vnd.jupyter.widget-view+json"
LOST = re.compile("Error displaying widget|Loading widget")  # what the widget manager says of a view without a kernel


@pytest.fixture(scope="module")
def executed():
    """A notebook with a view and a frozen view, executed without a front end."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, HIGHLIGHT, "view.freeze()", PAGE)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    NotebookClient(notebook, timeout=120, store_widget_state=False).execute()
    return notebook


def test_a_run_without_a_front_end_keeps_static_html(executed):
    picture, live = (output["data"] for output in executed.cells[1].outputs)
    assert "funny" in picture["text/html"] and "Snapshot of " in picture["text/html"]
    assert WIDGET in live and live["text/plain"] == ""
    (frozen,) = (output["data"] for output in executed.cells[2].outputs)
    assert WIDGET not in frozen and frozen["text/html"] == picture["text/html"].removeprefix(snapshot.STYLE)


@pytest.mark.full
def test_an_untrusted_notebook_shows_static_html(lab, chromium, executed):
    nbformat.write(executed, lab.root / "untrusted.ipynb")
    page = open_page(chromium)
    lab.open(page, "untrusted.ipynb")
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
