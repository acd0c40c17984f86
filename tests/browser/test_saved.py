"""Notebooks that are read without a kernel: an untrusted file in JupyterLab, and an export without a network."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from tests.browser.conftest import open_page
from tests.browser.test_lab import HIGHLIGHT, SETUP

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def executed():
    """A notebook with a view and a frozen view, executed without a front end."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, HIGHLIGHT, "view.freeze()")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    NotebookClient(notebook, timeout=120, store_widget_state=False).execute()
    return notebook


def test_a_run_without_a_front_end_keeps_static_html(executed):
    bundle = executed.cells[1].outputs[-1]["data"]
    assert WIDGET in bundle and "funny" in bundle["text/html"] and "positive (" in bundle["text/html"]
    frozen = executed.cells[2].outputs[-1]["data"]
    assert WIDGET not in frozen and frozen["text/html"] == bundle["text/html"]


def test_an_untrusted_notebook_shows_static_html(lab, chromium, executed):
    nbformat.write(executed, lab.root / "untrusted.ipynb")
    page = open_page(chromium)
    lab.open(page, "untrusted.ipynb")
    outputs = page.locator(".jp-RenderedHTML")
    expect(outputs).to_have_count(2)
    expect(outputs.first).to_contain_text("unbelievably funny")
    shaded = outputs.first.get_by_title("funny: ")
    assert shaded.evaluate("node => getComputedStyle(node).backgroundColor").startswith("rgba(230, 126, 16")
    expect(page.get_by_role("group", name="nbsal highlight")).to_have_count(0)
    assert page.problems == []
    page.context.close()


def test_an_export_can_be_read_with_the_network_off(chromium, executed, tmp_path):
    quiet = HTMLExporter(mathjax_url="", require_js_url="", jupyter_widgets_base_url="", html_manager_semver_range="")
    file = tmp_path / "export.html"
    file.write_text(quiet.from_notebook_node(executed)[0], encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    expect(page.get_by_role("figure").first).to_contain_text("unbelievably funny")
    assert [problem for problem in page.problems if "off-site" in problem] == []
    page.context.close()
