"""Two views in marimo, which sends each trait alone, uses shadow roots, and has no comms in Python."""

import pytest
from playwright.sync_api import expect

from tests.browser import servers
from tests.browser.conftest import open_page

NOTEBOOK = """
import marimo

app = marimo.App()


@app.cell
def _():
    import nbsal

    explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
    view = nbsal.widgets.Highlight(explain, text="A warm and funny film.")
    view
    return explain, nbsal


@app.cell
def _(explain, nbsal):
    bench = nbsal.widgets.Workbench(explain, text="A warm and funny film.")
    bench
    return
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of the notebook, run as an app."""
    pytest.importorskip("marimo", reason="marimo is not installed (pip install marimo)")
    folder = tmp_path_factory.mktemp("marimo")
    (folder / "views.py").write_text(NOTEBOOK)
    options = ["--headless", "--no-token", "--host", "127.0.0.1", "--port", "PORT"]
    with servers.serving("marimo", "run", "views.py", *options, folder=folder) as url:
        yield url


@pytest.mark.full
def test_two_views_work_in_marimo(served, chromium):
    page = open_page(chromium)
    page.goto(served)
    view = page.get_by_role("group", name="nbsal highlight")
    token = view.get_by_role("option", name="funny", exact=True)
    token.click(timeout=90_000)  # the cell loads torch first
    expect(token).to_have_attribute("aria-selected", "true")
    view.get_by_role("button", name="Edit text").click()
    view.get_by_label("Text", exact=True).fill("An utter bore.")
    expect(view.get_by_role("option", name="bore", exact=True)).to_be_visible()
    bench = page.get_by_role("group", name="nbsal workbench")
    bench.get_by_role("slider").press("End")
    expect(bench.locator(".nbsal-text .nbsal-hidden")).to_have_count(6)
    bench.locator("details[data-panel=heads] > summary").click()
    expect(bench.get_by_role("gridcell", name="Block 2, head 0:")).to_be_visible()
    bench.get_by_role("rowheader", name="layer 2").click()
    expect(bench.get_by_text("layer 2 of")).to_be_visible()
    expect(bench.locator(".nbsal-footer")).to_contain_text("layer 2")
    assert page.problems == []
    page.context.close()
