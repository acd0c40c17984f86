"""Saved and live pages where scripts are off, forbidden, or late: the static HTML, then the view in its place."""

import json
import re
import shutil
from urllib.parse import urlsplit

import pytest
import traitlets
from playwright.sync_api import expect

import nbsal
from nbsal.widgets import Highlight, View
from nbsal.widgets.page.live_page import FOLDER
from tests.browser import bench
from tests.browser.conftest import open_page
from tests.browser.live_pages import served

TEXT = "A slow start, but the second half is warm and funny."
STRICT = "script-src 'unsafe-inline' 'wasm-unsafe-eval'"  # no blob:
POLICY = f"default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; {STRICT}"
INSECURE = "http://nbsal.example/"
# Whether the static HTML and the view are visible, in each frame that is painted until the view is there.
FRAMES = """window.frames_ = [];
const look = () => {
  const isVisible = (selector) => document.querySelector(selector)?.checkVisibility({ visibilityProperty: true });
  const [fixed, view] = ['.nbsal-snapshot', 'section.nbsal'].map((selector) => isVisible(selector) ?? false);
  window.frames_.push({ fixed, view, at: document.timeline.currentTime });
  if (!view) requestAnimationFrame(look);
};
requestAnimationFrame(look);"""


class Own(View):
    """A view whose script is not built with the package."""

    inputs = ("text",)
    text = traitlets.Unicode(TEXT).tag(sync=True)
    _esm = """export default { render({ el, signal }) {
      const word = document.createElement("b");
      word.id = "own";
      signal.addEventListener("abort", () => word.remove());
      el.append(word);
    } };"""

    def compute(self, inputs, job):
        return self.explainer(inputs["text"])

    def publish(self, saliency):
        return {}


@pytest.fixture(scope="module")
def folder(small, tmp_path_factory):
    """A folder with a saved page, a live page, and a page of a view of somebody else."""
    folder = tmp_path_factory.mktemp("pages")
    view = Highlight(nbsal.Explainer(small, "gradcam", layer=2), text=TEXT, check=False).wait()
    view.to_html(folder / "saved.html", interactive=True)
    view.to_html(folder / "live.html", live=True)
    Own(view.explainer).wait().to_html(folder / "own.html", interactive=True)
    return folder


def is_visible(page):
    """Whether the static HTML is visible, and whether the view is."""
    return [page.locator(selector).is_visible() for selector in (".nbsal-snapshot", "section.nbsal")]


def serve(page, folder, address, headers=None):
    """Answer requests to an address with the files of a folder."""

    def answer(route):
        path = folder / urlsplit(route.request.url).path[1:]
        route.fulfill(path=path, headers=headers) if path.is_file() else route.fulfill(status=404)

    page.route(f"{address}**", answer)


@pytest.mark.parametrize("name", ["saved", "live", "own"])
def test_without_scripts_the_result_is_there(chromium, folder, name):
    page = open_page(chromium, java_script_enabled=False)
    page.goto((folder / f"{name}.html").as_uri())
    expect(page.locator(".nbsal-snapshot")).to_contain_text(TEXT)
    assert is_visible(page) == [True, False] and page.problems == []
    page.context.close()


@pytest.mark.parametrize("name", ["saved", "live"])
def test_the_view_takes_the_place_of_the_result_in_one_step(chromium, folder, name):
    page = open_page(chromium)
    page.add_init_script(FRAMES)
    with served(folder) as address:
        page.goto(f"{address}{name}.html")
        expect(page.locator("section.nbsal")).to_be_visible()
        page.wait_for_function("() => window.frames_.at(-1).view")
    frames = page.evaluate("() => window.frames_")
    assert not [frame for frame in frames if frame["fixed"] and (frame["view"] or frame["at"] < 900)]  # ms
    assert page.locator(".nbsal-snapshot").count() == 0
    page.context.close()


def test_a_script_that_is_late_leaves_the_result_where_it_is(chromium, folder):
    page = open_page(chromium)
    content = (folder / "saved.html").read_text(encoding="utf-8")
    late = content.replace("<script>", "<script>throw Error('late');", 1)
    serve(page, folder, "http://127.0.0.1:1/")
    page.route("**/late.html", lambda route: route.fulfill(body=late, content_type="text/html"))
    page.goto("http://127.0.0.1:1/late.html")
    bench.wait_for(page, lambda: is_visible(page), [True, False])
    page.context.close()


@pytest.mark.parametrize("name", ["saved", "live"])
def test_a_policy_without_blob_shows_the_view(chromium, folder, name):
    page = open_page(chromium)
    address = "http://127.0.0.1:1/"
    serve(page, folder, address, {"content-security-policy": POLICY})
    page.goto(f"{address}{name}.html")
    expect(page.locator(".nbsal-headline")).to_be_visible()
    assert is_visible(page) == [False, True]
    if name == "live":
        page.get_by_role("button", name="Edit text").click()
        page.get_by_label("Text", exact=True).fill("What a dull bore.")
        expect(page.locator(".nbsal-headline")).to_contain_text(re.compile(r"negative, .*bore"))
    page.context.close()


def test_a_view_of_somebody_else_is_drawn(chromium, folder):
    page = open_page(chromium)
    page.goto((folder / "own.html").as_uri())
    expect(page.locator("#own")).to_have_count(1)
    assert page.locator(".nbsal-snapshot").count() == 0 and page.problems == []
    page.context.close()


def test_where_a_policy_forbids_the_script_or_the_model_the_result_stays(chromium, folder):
    page = open_page(chromium)
    address = "http://127.0.0.1:1/"
    serve(page, folder, address, {"content-security-policy": POLICY})
    page.goto(f"{address}own.html")
    bench.wait_for(page, lambda: is_visible(page), [True, False])
    assert page.locator("#own").count() == 0
    page.unroute(f"{address}**")
    serve(page, folder, address, {"content-security-policy": POLICY.replace(" 'wasm-unsafe-eval'", "")})
    page.goto(f"{address}live.html")
    expect(page.get_by_role("note")).to_contain_text("wasm-unsafe-eval")
    assert is_visible(page) == [False, True]
    page.context.close()


def test_over_plain_http_a_page_says_that_files_are_not_checked(chromium, folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "site")
    page = open_page(chromium)
    serve(page, copied, INSECURE)
    page.goto(f"{INSECURE}live.html")
    expect(page.get_by_role("note")).to_contain_text("plain http")
    (path,) = (copied / FOLDER).glob("*/manifest.json")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(manifest | {"sizes": manifest["sizes"] | {"heads": 0}}), encoding="utf-8")
    page.get_by_role("button", name="Edit text").click()
    area = page.get_by_label("Text", exact=True)
    area.fill("What a dull bore.")
    expect(page.get_by_role("alert").filter(has_text="manifest.json")).to_be_visible()
    path.write_text(json.dumps(manifest), encoding="utf-8")
    area.fill("What a dull, endless bore.")
    expect(page.locator(".nbsal-headline")).to_contain_text("negative")
    page.context.close()


def test_a_text_that_would_freeze_the_page_is_not_taken(chromium, folder):
    page = open_page(chromium)
    with served(folder) as address:
        page.goto(f"{address}live.html")
        page.get_by_role("button", name="Edit text").click()
        area = page.get_by_label("Text", exact=True)
        for text in (f"e{chr(0x301) * 20_000}", "x" * 100_000):
            area.fill(text)
            expect(page.get_by_role("alert").filter(has_text="restored")).to_be_visible()
            expect(area).to_have_value(TEXT)
        area.fill("What a dull bore.")
        expect(page.locator(".nbsal-headline")).to_contain_text("negative")
        expect(page.get_by_role("alert").filter(has_text="restored")).to_be_hidden()
    page.context.close()
