"""The apps of the guide to hosts, served by Panel and by Streamlit."""

from pathlib import Path

import anywidget
import pytest
from playwright.sync_api import expect

from tests.browser import servers
from tests.browser.conftest import of_views, open_page
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
        page.goto(f"{url}app", timeout=120_000)  # the app loads torch first
        view = page.get_by_role("group", name="nbsal highlight")
        token = view.get_by_role("option", name="funny", exact=True)
        token.click(timeout=90_000)
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
        token.click(timeout=120_000)
        expect(token).to_have_attribute("aria-selected", "true")
        page.get_by_label("Text", exact=True).fill("An utter bore.")
        page.keyboard.press("Enter")
        expect(frame.get_by_role("option", name="bore", exact=True)).to_be_visible(timeout=60_000)
        assert of_views(page.problems) == []
        page.context.close()
