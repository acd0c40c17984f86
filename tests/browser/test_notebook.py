"""A view in Jupyter Notebook 7: changes in the page reach Python, and its picture stays in the file."""

import importlib.util

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import of_views, open_page
from tests.browser.lab import ClassicServer

VIEW = """
import nbsal
explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
view = nbsal.widgets.Highlight(explain, text="A warm and funny film.")
view
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if importlib.util.find_spec("notebook") is None:
        pytest.skip("Notebook is not installed (pip install nbsal[hosts])")
    classic = ClassicServer(tmp_path_factory.mktemp("notebook"))
    try:
        classic.start()
        yield classic
    finally:
        classic.stop()


def test_a_view_works_in_notebook_7(server, chromium):
    page = open_page(chromium)
    notebook = server.open(page, server.write("view.ipynb", VIEW))
    notebook.run_all()
    view = page.get_by_role("group", name="nbsal highlight")
    token = view.get_by_role("option", name="funny", exact=True)
    token.click()
    expect(token).to_have_attribute("aria-selected", "true")
    notebook.until("len(view.selection)", "1")
    notebook.python("view.text = 'An utter bore.'")
    expect(view.get_by_role("option", name="bore", exact=True)).to_be_visible()
    notebook.save()
    assert "bore" in (server.root / "view.ipynb").read_text(encoding="utf-8")
    assert of_views(page.problems) == [] and not [text for text in page.problems if text.startswith("off-site")]
    page.context.close()
