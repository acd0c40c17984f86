"""Views in other hosts than JupyterLab: Notebook 7, marimo, and the guide's apps in Panel and in Streamlit.

marimo sends each trait alone, uses shadow roots, and has no comms in Python.
"""

import importlib.util
from pathlib import Path

import anywidget
import pytest
from playwright.sync_api import expect

from tests.browser import servers
from tests.browser.conftest import of_views, open_page
from tests.browser.lab import ClassicServer
from tests.docs import examples

GUIDE = examples.GUIDES / "hosts.md"
SCRIPT = "off-site: https://unpkg.com/anywidget@"
BRIDGE = Path(anywidget.__file__).parent / "nbextension" / "index.js"


def write_app(package: str, folder: Path) -> str:
    """Write the guide's app that needs a package; return the name of its file."""
    pytest.importorskip(package, reason=f"{package} is not installed (pip install nbsal[hosts])")
    (source,) = (block for block in examples.blocks(GUIDE) if package in examples.needs(block))
    (folder / "app.py").write_text(source, encoding="utf-8")
    return "app.py"


def test_a_view_is_live_in_panel(chromium, tmp_path):
    """The browser loads anywidget's script from a public address; here it is answered with the installed file."""
    options = ["--port", "PORT", "--address", "127.0.0.1"]
    with servers.serving("panel", "serve", write_app("panel", tmp_path), *options, folder=tmp_path) as url:
        page = open_page(chromium)
        script = {"path": BRIDGE, "content_type": "text/javascript", "headers": {"Access-Control-Allow-Origin": "*"}}
        page.route("https://unpkg.com/anywidget@**", lambda route: route.fulfill(**script))
        page.goto(f"{url}app", timeout=240_000)  # the app loads torch first
        view = page.get_by_role("group", name="nbsal highlight")
        token = view.get_by_role("option", name="funny", exact=True)
        token.click(timeout=240_000)
        expect(token).to_have_attribute("aria-selected", "true")
        view.get_by_role("button", name="Edit text").click()
        view.get_by_label("Text", exact=True).fill("An utter bore.")
        expect(view.get_by_role("option", name="bore", exact=True)).to_be_visible()
        expect(page.get_by_text("Prediction: negative")).to_be_visible()  # the app in Python follows
        assert not [problem for problem in of_views(page.problems) if not problem.startswith(SCRIPT)]
        page.context.close()


def test_a_text_typed_in_streamlit_is_explained(chromium, tmp_path):
    options = ["--server.port", "PORT", "--server.address", "127.0.0.1", "--server.headless", "true"]
    options += ["--browser.gatherUsageStats", "false"]
    with servers.serving("streamlit", "run", write_app("streamlit", tmp_path), *options, folder=tmp_path) as url:
        page = open_page(chromium)
        page.goto(url)
        frame = page.frame_locator("iframe").first
        token = frame.get_by_role("option", name="funny", exact=True)
        token.click(timeout=240_000)
        expect(token).to_have_attribute("aria-selected", "true")
        page.get_by_label("Text", exact=True).fill("An utter bore.")
        page.keyboard.press("Enter")
        expect(frame.get_by_role("option", name="bore", exact=True)).to_be_visible(timeout=240_000)
        assert of_views(page.problems) == []
        page.context.close()


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
    token.click(timeout=240_000)  # the cell loads torch first
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
