"""The documentation site: built strictly, and readable from disk without a network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import open_page
from tests.docs import examples
from tests.docs.repository import ROOT

pytestmark = pytest.mark.full  # the build takes a minute and gigabytes
SLOW = 60_000  # milliseconds in which a busy machine has built the index of the search
HIGHEST = 15_000  # pixels of a page, 1,400 wide
ELSEWHERE = ("https://", "http://", "//")


class Links(HTMLParser):
    """The addresses in a page, those that it loads by itself, and the names of its parts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loaded, self.names = [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        for key in ("href", "src", "srcset", "poster", "data", "action"):
            if attributes.get(key):
                (self.links if tag == "a" else self.loaded).append(attributes[key])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The site, built by its command in a process of its own, since the build takes gigabytes."""
    path = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run([sys.executable, "-m", "tests.docs", path], cwd=ROOT, check=True)
    return path


@pytest.fixture(scope="module")
def pages(folder):
    """The links of every page."""
    return {path: Links(path) for path in sorted(folder.rglob("*.html"))}


def test_every_link_leads_to_a_page_and_to_a_part_of_it(folder, pages):
    broken = []
    for path, page in pages.items():
        for address in (*page.links, *page.loaded):
            if address.startswith((*ELSEWHERE, "data:", "mailto:", "javascript:")) or path.name == "404.html":
                continue
            target, _, part = unquote(address).partition("#")
            file = (path.parent / target).resolve() if target else path
            if not file.is_file() or (part and file in pages and part not in pages[file].names):
                broken.append((str(path.relative_to(folder)), address))
    assert len(pages) > 40 and broken == []


def test_no_page_loads_anything_from_elsewhere(folder, pages):
    assert [(path, at) for path, page in pages.items() for at in page.loaded if at.startswith(ELSEWHERE)] == []
    styles = [path.read_text(encoding="utf-8") for path in folder.rglob("*.css")]
    assert styles and not [style for style in styles if re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style)]


def test_every_view_has_a_page_that_shows_it(chromium, folder):
    frames = sorted(path.stem for path in (folder / "views" / "frames").glob("*.html"))
    views = ["answers", "audit", "browse", "clouds", "compare", "games", "heads", "highlight", "layers", "workbench"]
    assert frames == sorted([*views, "start"])
    page = open_page(chromium)
    for name in views:
        page.goto((folder / "views" / f"{name}.html").as_uri())
        frame = page.frame_locator("iframe.view")
        expect(frame.locator("section.nbsal .nbsal-headline").first).to_be_visible()
    page.context.close()
    assert page.problems == []


def test_the_search_finds_the_guide_on_methods_first(chromium, folder):
    """As the build checks for more queries, without a browser."""
    page = open_page(chromium)
    page.goto((folder / "index.html").as_uri())
    field, state = page.locator("[data-md-component=search-query]"), page.locator(".md-search-result__meta")
    field.click()
    expect(state).to_have_text("Type to start searching", timeout=SLOW)
    field.press_sequentially("which method should I use")  # the page listens to keys
    first = page.locator(".md-search-result__item a").first
    expect(first).to_have_attribute("href", re.compile("guides/which-method.html"), timeout=SLOW)
    page.context.close()


def test_no_page_is_too_high_to_scroll(chromium, folder, pages):
    page = open_page(chromium)
    page.set_viewport_size({"width": 1400, "height": 900})
    heights = {}
    for path in (path for path in pages if "frames" not in path.parts):
        page.goto(path.as_uri())
        heights[str(path.relative_to(folder))] = page.evaluate("document.documentElement.scrollHeight")
    page.context.close()
    assert {name: height for name, height in heights.items() if height > HIGHEST} == {}


def test_llms_txt_has_every_page_of_the_navigation_and_an_example_that_tests_run(folder):
    text = (folder / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", text, re.MULTILINE)
    assert text.startswith("# nbsal\n\n> ") and text.count("\n## ") > 4 and len(links) > 60
    assert [link for link in links if not (folder / link).is_file()] == []
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert example in examples.blocks(ROOT / ".docs" / "index.md")  # which tests/docs runs
