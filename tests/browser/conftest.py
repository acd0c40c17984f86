"""Fixtures of the browser tests: a headless Chromium, pages that record problems, and a JupyterLab server."""

import importlib.util
import os
from pathlib import Path

import pytest

import nbsal
from nbsal.widgets import Answers, Audit, Browse, Clouds, Compare, Games, Heads, Highlight, Layers, Workbench
from tests.browser import bench


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/browser" in item.path.as_posix():
            item.add_marker(pytest.mark.browser)


def missing(reason: str) -> None:
    """Skip the test, or fail it if browser tests are required."""
    if "browser" in os.environ.get("NBSAL_REQUIRE", ""):
        pytest.fail(f"NBSAL_REQUIRE=browser: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium():
    if (path := bench.executable()) is None:
        missing("there is no Chromium on the PATH (apt-get install chromium)")
    try:
        from playwright import sync_api
    except ImportError:
        missing("playwright is not installed (pip install nbsal[test])")
    sync_api.expect.set_options(timeout=120_000)  # a loaded machine is slow, not wrong
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=bench.FLAGS)
        try:
            page = browser.new_page()
            page.set_content("<textarea>text</textarea><select><option>text</select><button>text</button>")
            page.screenshot()
            page.close()
        except sync_api.Error:  # controls crash it if the system has no fonts
            missing("Chromium cannot draw controls: the system has no fonts (apt-get install fonts-dejavu-core)")
        yield browser
        browser.close()


def open_page(chromium, **settings):
    """Open a page that records errors, console errors and requests to other machines in `page.problems`."""
    context = chromium.new_context(**{"viewport": {"width": 1100, "height": 900}} | settings)
    page = context.new_page()
    page.set_default_timeout(120_000)
    problems = page.problems = []
    page.on("pageerror", lambda error: problems.append(f"error: {error}\n{(error.stack or '')[:800]}"))
    page.on("console", lambda log: problems.append(f"console: {log.text}") if log.type == "error" else None)
    page.on("request", lambda request: None if is_local(request.url) else problems.append(f"off-site: {request.url}"))
    return page


def is_local(url: str) -> bool:
    """Whether a request stays on this machine."""
    return not url.startswith(("http", "ws")) or url.split("//")[1].startswith("127.0.0.1")


def of_views(problems: list[str]) -> list[str]:
    """Problems of scripts of views; hosts have some of their own, such as icons that they load from a network."""
    return [problem for problem in problems if any(source in problem for source in ("nbsal", "anywidget", "blob:"))]


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory):
    if importlib.util.find_spec("jupyterlab") is None:
        missing("JupyterLab is not installed (pip install nbsal[lab])")
    from tests.browser.lab import Lab

    server = Lab(tmp_path_factory.mktemp("lab"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def lab(lab_server):
    """The server; its kernels, each with a model, end with the file of tests."""
    yield lab_server
    lab_server.stop_kernels()


class LazyViews(dict):
    """Views by name, each made when it is first looked up."""

    def __init__(self, builders):
        self.builders = builders

    def __missing__(self, name):
        self[name] = self.builders[name]().wait()
        return self[name]


@pytest.fixture(scope="module")
def model(small):
    """The model of `views`; a file whose tests need more layers or heads takes another."""
    return small


@pytest.fixture(scope="module")
def views(model):
    """One view of each kind, of real texts, by name."""
    explain = nbsal.Explainer(model, bench.SIGNED, layer=model.depth // 2)
    builders = {
        "highlight": lambda: Highlight(explain, text=bench.REAL),
        "layers": lambda: Layers(explain, text=bench.REAL),
        "compare": lambda: Compare(explain, text=bench.REAL, other_method="decoded-gradcam"),
        "heads": lambda: Heads(model, text=bench.REAL, head=[2, 1]),
        "games": lambda: Games(explain, text=bench.REAL, at=2),
        "clouds": lambda: Clouds(explain, bench.MANY, unit="word", picked=["negative", "dull"]),
        "browse": lambda: Browse(
            explain, bench.MANY, labels=["positive", "negative", "negative", "negative"], opened=1
        ),
        "workbench": lambda: Workbench(explain, text=bench.REAL, panels=["layers", "games"]),
        "audit": lambda: Audit(
            explain, bench.MANY, ["positive", "negative", "negative", "positive"], least=1, opened=0
        ),
        "answers": lambda: Answers(
            nbsal.load("demo/notes"), bench.ASKED, documents=bench.NOTES, method=bench.SIGNED, panels=["curve"]
        ),
    }
    return LazyViews(builders)


@pytest.fixture(scope="module")
def sheet(chromium):
    """A page that many tests share."""
    page = open_page(chromium)
    yield page
    page.context.close()


@pytest.fixture
def show(sheet, views):
    """show(name or view) -> the root of the view in a bare page; a problem in the page fails the test."""

    def show_view(view, live=False):
        view = views[view] if isinstance(view, str) else view
        bench.show(sheet, view, live)
        return sheet.locator("section.nbsal")

    sheet.problems.clear()
    sheet.emulate_media(color_scheme="light", reduced_motion="reduce")
    yield show_view
    sheet.mouse.move(0, 0)  # else the pointer lies on the next test's view
    assert sheet.problems == []


MODULES = Path(nbsal.__file__).parent / "frontend" / "node_modules"
# The rules that an element breaks, with where. That no contrast was measured is a violation too: axe passes what it
# takes for hidden, such as all that stands in a body without height.
AUDIT = """async (selector) => {
  const node = selector ? document.querySelector(selector) : document;
  const { passes, violations } = await axe.run(node);
  const measured = [...passes, ...violations].filter(({ id }) => id === "color-contrast")
    .flatMap(({ nodes }) => nodes).filter(({ any }) => any.some(({ data }) => data?.contrastRatio));
  const broken = violations.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map(({ html }) => `${id}: ${html.slice(0, 200)}`));
  return measured.length ? broken : [...broken, "color-contrast: no text was measured"];
}"""


@pytest.fixture
def audit(sheet):
    """audit(selector, theme) -> what axe finds wrong with an element, or with the whole page."""
    if not MODULES.is_dir():
        pytest.skip("the modules of npm are not installed (npm ci in nbsal/frontend)")

    def check(selector="section.nbsal", theme="light"):
        if not sheet.evaluate("() => 'axe' in window"):
            sheet.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
        sheet.emulate_media(color_scheme=theme, reduced_motion="reduce")
        return sheet.evaluate(AUDIT, selector)

    return check
