"""The documentation site: built strictly, whole, and searchable and accessible from disk without a network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect

from nbsal.methods import catalogue
from tests.browser.conftest import open_page
from tests.browser.test_accessibility import AUDIT as AUDIT_ONLINE
from tests.browser.test_accessibility import MODULES
from tests.docs.repository import ROOT
from tests.public import public

PAGES = (
    "index.html",
    "views/workbench.html",
    "guides/your-model.html",
    "reference/methods.html",
    "course/02_gradcam_decoding.html",
)
pytestmark = pytest.mark.full  # the build takes a minute and gigabytes
AUDIT = AUDIT_ONLINE.replace("resultTypes", "preload: false, resultTypes")  # a page on disk may not fetch its styles
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


def test_the_reference_has_every_public_name_with_its_example(pages):
    names = set().union(*(page.names for page in pages.values()))
    assert public().keys() - names == set()
    text = "".join(path.read_text(encoding="utf-8") for path in pages if path.parent.name == "python")
    assert text.count('class="gp">&gt;&gt;&gt;') >= len(public())


def test_every_method_and_formula_is_on_its_page(folder, pages):
    page = folder / "reference" / "methods.html"
    assert {name.replace("@", "-") for name in catalogue.names()} - pages[page].names == set()
    assert page.read_text(encoding="utf-8").count("<math") > len(catalogue.names())
    assert [path for path in pages if "arithmatex" in path.read_text(encoding="utf-8")] == []


@pytest.fixture
def visit(chromium, folder):
    """visit(page, scheme, width) opens a page of the site from disk; problems that it reports fail the test."""
    opened = []

    def visit_page(name, scheme="light", width=1400):
        opened.append(open_page(chromium, viewport={"width": width, "height": 900}, color_scheme=scheme))
        opened[-1].goto((folder / name).as_uri())
        return opened[-1]

    yield visit_page
    for page in opened:
        page.context.close()
        assert page.problems == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 400)])
def test_pages_are_accessible_and_fit(visit, name, scheme, width):
    if not MODULES.is_dir():
        pytest.skip("the modules of npm are not installed (npm ci in nbsal/frontend)")
    page = visit(name, scheme, width)
    page.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
    assert page.evaluate(AUDIT, "") == []
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_search_works_from_disk(visit):
    page = visit("guides/index.html")
    search = page.get_by_placeholder("Search")
    search.click()
    expect(page.locator(".md-search-result__meta")).to_have_text("Type to start searching")
    search.press_sequentially("comprehensiveness")
    expect(page.locator(".md-search-result__link").first).to_be_visible()
    assert "judging.html" in " ".join(
        link.get_attribute("href") for link in page.locator(".md-search-result__link").all()
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_view_works_in_its_page_and_has_its_colours(visit, scheme):
    page = visit("views/layers.html", scheme)
    view = page.frame_locator("iframe.view")
    expect(view.locator("section.nbsal")).to_have_css(
        "background-color", {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 19, 22)"}[scheme]
    )
    frame = page.locator("iframe.view").bounding_box()["height"]
    assert abs(frame - view.locator("section.nbsal").bounding_box()["height"]) < 60
    page.get_by_title("Switch to the", exact=False).locator("visible=true").first.click()
    expect(view.locator("section.nbsal")).to_have_css(
        "background-color", {"dark": "rgb(255, 255, 255)", "light": "rgb(18, 19, 22)"}[scheme]
    )
    view.locator(".nbsal-text .nbsal-mark").first.click()
    expect(view.locator(".nbsal-text [aria-selected=true]").first).to_be_visible()


def test_every_view_has_a_page_that_shows_it(visit, folder):
    frames = sorted(path.stem for path in (folder / "views" / "frames").glob("*.html"))
    views = ["answers", "browse", "clouds", "compare", "games", "heads", "highlight", "layers", "workbench"]
    assert frames == sorted([*views, "start"])
    for name in views:
        frame = visit(f"views/{name}.html").frame_locator("iframe.view")
        expect(frame.locator("section.nbsal .nbsal-headline").first).to_be_visible()


def test_answers_of_exercises_unfold(visit):
    page = visit("course/01_quickstart.html")
    answers = page.locator("details")
    expect(answers.locator("li").first).to_be_hidden()
    answers.locator("summary").click()
    expect(answers.locator("li").first).to_be_visible()
