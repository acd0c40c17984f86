"""How long a change in a page of JupyterLab takes to be answered and painted: `python -m tests.bench.lab`.

A view is opened in JupyterLab in headless Chromium; Python answers in the kernel. The page's own clock starts at a key
or a click and stops when the frame with the answer is painted. Run it on an otherwise idle machine.
"""

import tempfile
from pathlib import Path
from typing import Any

from tests.bench.table import Row, at_most, markdown, missing, parser, spread
from tests.browser import bench

SENTENCE = "A slow start, but the second half is warm, funny and beautifully played by all. "
GOALS = {30: 150, 300: 450}
LAYER_GOAL = 80
DEATH_GOAL = 1000
SETUP = """
import nbsal
explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
"""
HIGHLIGHT = "view = nbsal.widgets.Highlight(explain, text={text!r})\nview"
LAYERS = "layers = nbsal.widgets.Layers(explain, text={text!r})\nlayers"
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


def measure(page: Any, selector: str, event: str, done: str, act: Any) -> float:
    """Milliseconds from an event in a view to the frame in which `done`, an expression of its `root`, holds."""
    page.wait_for_function(f"() => !document.querySelector({selector!r}).classList.contains('nbsal-stale')")
    page.wait_for_timeout(150)
    page.evaluate(WATCH, [selector, event, done])
    act()
    return float(page.evaluate("() => window.answer"))


def typing(page: Any, keys: int) -> list[float]:
    """Milliseconds from each key to the painted explanation of the text with it."""
    selector = ".nbsal-highlight"
    page.locator(selector).get_by_role("button", name="Edit text").click()
    area = page.locator(selector).get_by_label("Text", exact=True)
    area.press("End")
    letters = ("good " * keys)[:keys]
    return [measure(page, selector, "input", FRESH, lambda key=key: area.press_sequentially(key)) for key in letters]


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


def death(page: Any, notebook: Any) -> float:
    """Milliseconds from a key, pressed when the kernel is killed, to the sentence that says that Python has stopped."""
    area = page.locator(".nbsal-highlight").get_by_label("Text", exact=True)

    def kill() -> None:
        notebook.kill()
        area.press_sequentially("a")

    said = "root.querySelector('.nbsal-state').textContent.includes('Python has stopped')"
    return measure(page, ".nbsal-highlight", "input", said, kill)


def text_of(words: int) -> str:
    """A text of so many words."""
    return " ".join((SENTENCE * (words // 10)).split()[:words])


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """Milliseconds of keys, layer steps and readouts in JupyterLab; 10 keys per round."""
    if (chromium := bench.executable()) is None:
        return [missing("Views in JupyterLab", "there is no Chromium on the PATH (apt-get install chromium)")]
    try:
        from playwright.sync_api import sync_playwright

        from tests.browser.lab import Lab
    except ImportError:
        return [missing("Views in JupyterLab", "playwright or JupyterLab is not installed (pip install nbsal[test])")]
    server = Lab(Path(tempfile.mkdtemp()))
    server.start()
    rows = []
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=bench.FLAGS)
            for words in [30] if quick else GOALS:
                rows += _rows(browser, server, words, 10 * rounds)
            rows.append(_row("killed kernel to the sentence about it", deaths(browser, server, rounds), DEATH_GOAL))
            browser.close()
    finally:
        server.stop()
    return rows


def _rows(browser: Any, server: Any, words: int, keys: int) -> list[Row]:
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    cells = [SETUP, HIGHLIGHT.format(text=text_of(words)), LAYERS.format(text=text_of(words))]
    notebook = server.open(page, server.write(f"{words}.ipynb", *cells))
    for cell in range(2):
        notebook.run_cell(cell)
    rows = [_row(f"key to explanation, {words} words", typing(page, keys), GOALS[words])]
    page.keyboard.press("Escape")
    rows.append(Row(f"JupyterLab: pointer to readout, {words} words", ours=f"{spread(hovering(page, 10), 0)} ms"))
    notebook.clear()
    notebook.run_cell(2)
    rows.append(_row(f"layer step, {words} words", layer_steps(page, 10), LAYER_GOAL))
    page.close()
    return rows


def deaths(browser: Any, server: Any, count: int) -> list[float]:
    """The time of each of some kernels that are killed."""
    times = []
    for number in range(count):
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        notebook = server.open(page, server.write(f"killed-{number}.ipynb", SETUP, HIGHLIGHT.format(text=text_of(30))))
        notebook.run_cell(0)
        notebook.run_cell(1)
        typing(page, 1)
        times.append(death(page, notebook))
        page.close()
    return times


def _row(work: str, times: list[float], goal: float) -> Row:
    return Row(f"JupyterLab: {work}", ours=f"{spread(times, 0)} ms", **at_most(goal, times, " ms"))


if __name__ == "__main__":
    options = parser(".lab", __doc__).parse_args()
    print(markdown(results(options.rounds, options.quick)))
