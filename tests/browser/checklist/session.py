"""The notebook of the checks: a cell for each of the ten views, open in JupyterLab in a headless Chromium."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from playwright.sync_api import Locator, sync_playwright

from tests.browser import bench
from tests.browser.conftest import open_page
from tests.browser.lab import KERNEL, Lab

SETUP = """import json, nbsal
from pathlib import Path
from tempfile import mkdtemp
from nbsal import widgets
from tests import zoo
from tests.browser.bench import ASKED, NOTES, REAL
from tests.browser.checklist.session import TOKENIZERS
model = nbsal.load("demo/reviews-small")
explain = nbsal.Explainer(model)
rows = nbsal.samples.texts("reviews")[:160]
texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
"""
# Heads name what they follow only where a study is: that of the larger model.
CELLS = {
    "highlight": "widgets.Highlight(explain, text=REAL)",
    "layers": "widgets.Layers(model, text=REAL)",
    "compare": "widgets.Compare(explain, text=REAL, other_method='gradxact')",
    "heads": "widgets.Heads(nbsal.load('demo/reviews'), text=REAL)",
    "games": "widgets.Games(explain, text=REAL)",
    "clouds": "widgets.Clouds(explain, texts)",
    "browse": "widgets.Browse(explain, texts, labels=labels)",
    "workbench": "widgets.Workbench(explain, text=REAL, panels=['layers', 'games', 'heads'])",
    "audit": "widgets.Audit(explain, texts, labels, least=3)",
    "answers": "widgets.Answers(nbsal.load('demo/notes'), ASKED, documents=NOTES)",
}
# Further cells, which checks run: a table that fills for a while, and texts of every kind of tokenizer as tokens.
OTHER_CELLS = {
    "filling": "widgets.Browse(nbsal.Explainer(model, 'integrated'), texts, labels=labels)",
    "tokenized": """for name in TOKENIZERS:
    subject = nbsal.load(name if "/" in name else zoo.save(Path(mkdtemp()), name, "sequence"))
    display(widgets.Highlight(nbsal.Explainer(subject, "gradxact"), text=REAL, check=False, level="token"))""",
}
TOKENIZERS = ("demo/reviews", "demo/news", "bert", "roberta", "modernbert", "albert", "xlm-roberta")
NAMES = tuple(CELLS)
OF_TEXT = ("highlight", "layers", "heads", "games", "workbench")
PATIENCE = 30_000  # ms for a page to show something
WIDTHS = (400, 760, 1400)
WINDOW = {"width": 1900, "height": 1200}
FRAME = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# What a reader sees as text: none of what is folded, of menus or of tooltips.
SEEN = """root => {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), seen = [];
  while (walker.nextNode()) {
    const { parentElement: node, textContent } = walker.currentNode;
    if (textContent.trim() && node.checkVisibility({ visibilityProperty: true, opacityProperty: true })
      && node.getClientRects().length && node.closest('script, style') === null) seen.push(textContent);
  }
  return seen;
}"""


class Session:
    """The open notebook, with Python to ask and pages to compare with."""

    def __init__(self, lab: Lab, browser: Any) -> None:
        self.lab, self.browser = lab, browser
        self.measured: dict[str, Any] = {}
        self.folder = Path(tempfile.mkdtemp(dir=lab.base))
        self.page = open_page(browser, viewport=WINDOW, reduced_motion="reduce")
        self.page.set_default_timeout(PATIENCE)
        cells = [f"{name} = {source}\n{name}" for name, source in CELLS.items()]
        self.notebook = lab.open(self.page, lab.write("views.ipynb", SETUP, *cells, *OTHER_CELLS.values()))

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Self]:
        """A session whose views are all computed."""
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            lab = Lab(Path(folder))
            lab.start()
            browser = playwright.chromium.launch(executable_path=bench.executable(), args=bench.FLAGS)
            try:
                session = cls(lab, browser)
                for cell in range(1 + len(NAMES)):
                    session.notebook.run_cell(cell)
                session.settle(*NAMES)
                yield session
            finally:
                browser.close()
                lab.stop()

    def once(self, measure: Callable[[Self], Any]) -> Any:
        """What a function measures, which several checks read."""
        if measure.__name__ not in self.measured:
            self.measured[measure.__name__] = measure(self)
        return self.measured[measure.__name__]

    def view(self, name: str) -> Locator:
        """The view of a cell, scrolled into sight."""
        root = self.page.get_by_role("group", name=f"nbsal {name}", exact=True).first
        root.evaluate("node => node.scrollIntoView({ block: 'start' })")
        self.frame()
        return root

    def run(self, name: str) -> Locator:
        """Run one of the other cells; its output."""
        number = 1 + [*CELLS, *OTHER_CELLS].index(name)
        self.notebook.run_cell(number)
        output = self.page.locator(".jp-CodeCell").nth(number)
        output.evaluate("node => node.scrollIntoView({ block: 'start' })")
        return output

    @property
    def kernel_id(self) -> str:
        """The name by which the server knows the kernel of the notebook."""
        return str(self.page.evaluate(f"() => {KERNEL}.id"))

    def frame(self) -> None:
        """Wait until the page has been laid out and painted."""
        self.page.evaluate(FRAME)

    def python(self, code: str) -> str:
        """Run code in the kernel; what it prints."""
        printed = self.notebook.python(code)
        assert "Error: " not in printed, printed
        return printed

    def value(self, expression: str, *before: str) -> Any:
        """The value of an expression of the kernel, which JSON can hold; `before` are statements to run first."""
        return json.loads(self.python("\n".join([*before, f"print(json.dumps({expression}))"])))

    def settle(self, *names: str) -> None:
        """Wait until views have a result, with its check, and show it."""
        for name in names:
            self.python(f"_ = {name}.wait()")
        for name in names:
            self.state(name).filter(has_text="Up to date").wait_for()

    @contextmanager
    def having(self, name: str, **traits: Any) -> Iterator[Locator]:
        """A view with other traits; they are set back afterwards."""
        before = {trait: self.value(f"{name}.{trait}") for trait in traits}
        try:
            yield self.set(name, traits)
        finally:
            self.set(name, before)

    def set(self, name: str, traits: dict[str, Any]) -> Locator:
        """Set traits of a view in Python and wait for its result."""
        self.python("\n".join(f"{name}.{trait} = {value!r}" for trait, value in traits.items()))
        self.settle(name)
        return self.view(name)

    def state(self, name: str) -> Locator:
        """The line that says whether a view is up to date."""
        return self.page.get_by_role("group", name=f"nbsal {name}", exact=True).first.locator(".nbsal-state")

    def reset(self) -> None:
        """Leave the page as a check has found it."""
        page = self.page
        page.keyboard.press("Escape")
        page.mouse.move(0, 0)
        page.emulate_media(media="null", forced_colors="null", color_scheme="light", reduced_motion="reduce")
        page.problems.clear()

    @contextmanager
    def width(self, name: str, width: int) -> Iterator[Locator]:
        """A view in an output area of that width."""
        root = self.view(name)
        style = "(node, width) => { node.closest('.jp-OutputArea-output').style.cssText += "
        style += "`;box-sizing: content-box; padding: 0; flex: none; width: ${width}; max-width: none`; }"
        root.evaluate(style, f"{width}px")
        self.frame()
        yield self.view(name)
        root.evaluate("node => node.closest('.jp-OutputArea-output').removeAttribute('style')")

    @contextmanager
    def open_file(self, file: Path, **settings: Any) -> Iterator[Any]:
        """A page opened from disk, which cannot reach a network; `requests` has the addresses that it asked for."""
        page = open_page(self.browser, viewport=WINDOW, reduced_motion="reduce", offline=True, **settings)
        page.set_default_timeout(PATIENCE)
        page.requests = []
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(file.as_uri())
        yield page
        page.context.close()

    def export(self, name: str, interactive: bool) -> Path:
        """The page of a view, written by Python."""
        file = self.folder / f"{name}-{'interactive' if interactive else 'static'}.html"
        self.python(f"_ = {name}.to_html({str(file)!r}, interactive={interactive})")
        return file


def seen(root: Locator) -> str:
    """The text of a view that a reader sees."""
    return re.sub(r"\s+", " ", " ".join(root.evaluate(SEEN)))
