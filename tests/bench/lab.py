"""How long a change in a page of JupyterLab takes to be answered and painted: `python -m tests.bench.lab`.

A view is opened in JupyterLab in headless Chromium; Python answers in the kernel. The page's own clock starts at a key
or a click and stops when the frame with the answer is painted. Run it on an otherwise idle machine.
"""

import tempfile
from pathlib import Path
from typing import Any

from tests.bench import table
from tests.bench.table import Row, cost, missing
from tests.browser import bench

SENTENCE = "A slow start, but the second half is warm, funny and beautifully played by all. "
GOALS = {30: 150, 300: 450}
LAYER_GOAL = 80
SETUP = """
import nbsal
explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
"""
VIEWS = (
    "view = nbsal.widgets.Highlight(explain, text={!r}, check=True)\nview",
    "nbsal.widgets.Layers(explain, text={!r})",
)
# Starts the clock at the next event of that type, and stops it after the frame in which `done(root)` holds.
WATCH = """([selector, type, done]) => {
  const root = document.querySelector(selector);
  const holds = new Function('root', `return ${done}`);
  window.answer = new Promise((resolve) => {
    root.addEventListener(type, () => {
      const start = performance.now();
      const look = () => requestAnimationFrame(() => {
        if (holds(root)) setTimeout(() => resolve(performance.now() - start));
        else look();
      });
      setTimeout(look);  // the view's own listeners come first
    }, { capture: true, once: true });
  });
}"""
FRESH = "!root.classList.contains('nbsal-stale')"
CHECKED = f"{FRESH} && /supported|weak|contradicted/.test(root.querySelector('.nbsal-check').dataset.state)"
CHECK_GOAL = 400


def measure(page: Any, selector: str, event: str, done: str, act: Any) -> float:
    """Milliseconds from an event in a view to the frame in which `done`, an expression of its `root`, holds."""
    page.wait_for_function(f"() => !document.querySelector({selector!r}).classList.contains('nbsal-stale')")
    page.wait_for_timeout(150)
    page.evaluate(WATCH, [selector, event, done])
    act()
    return float(page.evaluate("() => window.answer"))


def typing(page: Any, keys: int, done: str = FRESH) -> list[float]:
    """Milliseconds from each key to the painted explanation of the text with it, or to its checked sentence."""
    selector = ".nbsal-highlight"
    page.locator(selector).get_by_role("button", name="Edit text").click()
    area = page.locator(selector).get_by_label("Text", exact=True)
    area.press("End")
    letters = ("good " * keys)[:keys]
    return [measure(page, selector, "input", done, lambda key=key: area.press_sequentially(key)) for key in letters]


def layer_steps(page: Any, steps: int) -> list[float]:
    """Milliseconds from a step to another layer to the text in the colours of that layer."""
    rows = page.locator(".nbsal-layers").get_by_role("rowheader")
    times = []
    for step in range(steps):
        layer = step % 2 + 1
        done = f"root.querySelector('[role=row][aria-selected=true]').textContent.includes('layer {layer}')"
        act = lambda layer=layer: rows.filter(has_text=f"layer {layer}").click()  # noqa: E731
        times.append(measure(page, ".nbsal-layers", "click", done, act))
    return times


def hovering(page: Any, words: int) -> list[float]:
    """Milliseconds from pointing at a word to its readout."""
    marks = page.locator(".nbsal-highlight .nbsal-mark")
    times = []
    for index in range(words):
        done = f"root.querySelector('.nbsal-readout').textContent.includes({marks.nth(index).inner_text()!r})"
        times.append(measure(page, ".nbsal-highlight", "pointerover", done, marks.nth(index).hover))
    return times


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """Milliseconds of keys, layer steps and readouts in JupyterLab; 10 keys per round."""
    if (chromium := bench.executable()) is None:
        return [missing("Views in JupyterLab", "there is no Chromium on the PATH (apt-get install chromium)")]
    from playwright.sync_api import sync_playwright

    from tests.browser.lab import Lab

    server = Lab(Path(tempfile.mkdtemp()))
    server.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=bench.FLAGS)
            return [row for words in ([30] if quick else GOALS) for row in _rows(browser, server, words, 10 * rounds)]
    finally:
        server.stop()


def _rows(browser: Any, server: Any, words: int, keys: int) -> list[Row]:
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    text = " ".join((SENTENCE * (words // 10)).split()[:words])
    notebook = server.open(page, server.write(f"{words}.ipynb", SETUP, *(view.format(text) for view in VIEWS)))
    for cell in range(2):
        notebook.run_cell(cell)
    keyed = typing(page, keys)
    page.keyboard.press("Escape")
    checked = []
    if words == min(GOALS):  # a longer text is checked on a press of its button
        checked = typing(page, 10, CHECKED)
        page.keyboard.press("Escape")
    hovered = hovering(page, 10)
    notebook.clear()
    notebook.run_cell(2)
    name = f"JupyterLab: key to checked sentence, {words} words"
    return [
        *([cost(name, checked, "ms", CHECK_GOAL, digits=0)] if checked else []),
        cost(f"JupyterLab: key to explanation, {words} words", keyed, "ms", GOALS[words], digits=0),
        cost(f"JupyterLab: pointer to readout, {words} words", hovered, "ms", digits=0),
        cost(f"JupyterLab: layer step, {words} words", layer_steps(page, 10), "ms", LAYER_GOAL, digits=0),
    ]


if __name__ == "__main__":
    table.main(results, __doc__)
