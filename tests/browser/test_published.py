"""A published notebook as readers see it: untrusted in JupyterLab, and exported without a network."""

import shutil

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from tests import publish
from tests.browser.conftest import open_page

PUBLISHED = publish.FOLDER / "01_quickstart.ipynb"
PHRASE = "beautifully"


@pytest.mark.full
def test_a_published_notebook_shows_its_text_views_and_figures(lab, chromium, tmp_path):
    shutil.copyfile(PUBLISHED, lab.root / "published.ipynb")
    page = open_page(chromium)
    lab.open(page, "published.ipynb")
    expect(page.get_by_role("heading", name="Quickstart")).to_be_visible()
    expect(page.locator(".jp-RenderedImage img").first).to_be_attached()
    expect(page.get_by_role("group", name="nbsal workbench")).to_have_count(0)
    assert page.problems == []
    page.context.close()
    cells = nbformat.read(PUBLISHED, 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    texts = [output.get("metadata", {}).get("image/png", {}).get("alt", "") for output in outputs]
    assert any(PHRASE in text for text in texts), "pictures of highlighted texts have an alternative text"

    quiet = HTMLExporter(mathjax_url="", require_js_url="", jupyter_widgets_base_url="", html_manager_semver_range="")
    file = tmp_path / "published.html"
    file.write_text(quiet.from_notebook_node(nbformat.read(PUBLISHED, 4))[0], encoding="utf-8")
    page = open_page(chromium, offline=True)
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name="Quickstart")).to_be_visible()
    expect(page.locator(".jp-RenderedPNG img, .jp-RenderedImage img").first).to_be_visible()
    assert page.locator("img").evaluate_all("images => images.length > 0 && images.every(one => one.naturalWidth > 0)")
    assert [problem for problem in page.problems if "off-site" in problem] == []
    page.context.close()
