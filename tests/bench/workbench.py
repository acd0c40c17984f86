"""What an edit in Workbench costs, and what typing in it feels like: `python -m tests.bench.workbench`.

Seconds of CPU time of one thread for one changed text, from the change to the last panel. Then a sentence is typed in
JupyterLab in headless Chromium, and the page's clock says how long a key takes to be painted, and how long after the
last key the first sentence and all panels are there; Highlight's sentence stands beside it. Requests that a newer one
replaced before they were done count as cancelled.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import nbsal
from nbsal.widgets import Workbench
from tests.bench import table
from tests.bench.lab import SENTENCE
from tests.bench.measure import cpu
from tests.bench.table import Row, cost, missing
from tests.browser import bench

GOALS = {10: 0.3, 30: 0.5, 100: 1.0, 320: 2.0}
TYPED = (100, 320)
EDITS = ("fine", "good", "dull", "sad")
KEYS, DELAY = " and I liked it well", 150  # what is typed, and ms between two keys
SETUP = """
import nbsal
explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam")
def counted(view):
    global asked, done
    asked, done, request = [], [], view.request
    view.request = lambda: asked.append(request())
    view.observe(lambda change: done.append(change.new) if change.new == "ready" else None, "status")
    return view
"""
VIEW = "view = counted(nbsal.widgets.{}(explain, text={!r}).wait())\nview"
# Resolves when all is there: ms from each key to its paint, and from the last key to the sentence and to quiet.
WATCH = """([name, count]) => {
  const root = document.querySelector(`.nbsal-${name}`);
  const [state, check] = ['.nbsal-state', '.nbsal-check'].map((selector) => root.querySelector(selector).dataset);
  const painted = [];
  let [last, sentence] = [0, 0];
  window.answer = new Promise((resolve) => {
    const look = () => {
      const now = performance.now();
      if (painted.length === count && now > last + 50) { // the text is sent, and what was drawn is dim
        const shown = root.querySelector('.nbsal-current') ?? (root.classList.contains('nbsal-stale') ? null : root);
        if (!sentence && shown) sentence = now - last;
        const quiet = !root.classList.contains('nbsal-stale') && check.state !== 'checking';
        if (quiet && state.state === 'ready') return resolve([painted, sentence, now - last]);
      }
      requestAnimationFrame(look);
    };
    root.addEventListener('input', () => {
      last = performance.now();
      const start = last;
      requestAnimationFrame(() => setTimeout(() => painted.push(performance.now() - start)));
    }, { capture: true });
    look();
  });
}"""


def text_of(words: int) -> str:
    """A text of so many words."""
    return " ".join((SENTENCE * (words // 10 + 1)).split()[:words])


def edits(words: int) -> list[float]:
    """Seconds of CPU time until quiet, of some edits of the last word."""
    view = Workbench(nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam"), text=text_of(words)).wait()

    def edit(word: str) -> None:
        view.text = f"{text_of(words - 1)} {word}"
        while view.status != "ready":
            time.sleep(0.005)
        view.wait()

    try:
        return [cpu(lambda word=word: edit(word)) for word in EDITS]
    finally:
        view.close()


def typing(page: Any, notebook: Any, name: str, cell: int) -> tuple[list[float], float, float, str]:
    """Milliseconds from keys to their paint, to the sentence and to quiet, and how many requests were cancelled."""
    notebook.run_cell(cell)
    root = page.locator(f".nbsal-{name}")
    root.get_by_role("button", name="Edit text").click()
    root.get_by_label("Text", exact=True).press("Control+End")
    page.wait_for_timeout(500)
    page.evaluate(WATCH, [name, len(KEYS)])
    page.keyboard.type(KEYS, delay=DELAY)
    painted, sentence, quiet = page.evaluate("() => window.answer")
    cancelled = notebook.python("print(f'{len(asked) - len(done)} of {len(asked)}')")
    notebook.clear()
    return painted, sentence, quiet, cancelled


def results(rounds: int = 1, quick: bool = False) -> list[Row]:
    """The CPU time of edits, and the times of a page in which a sentence is typed."""
    torch.set_num_threads(1)
    sizes = list(GOALS)[:1] if quick else list(GOALS)
    rows = [
        cost(f"Workbench, one edit until quiet, {words} words", edits(words) * rounds, "s", GOALS[words])
        for words in sizes
    ]
    if (chromium := bench.executable()) is None:
        return [*rows, missing("typing in Workbench", "there is no Chromium on the PATH (apt-get install chromium)")]
    from playwright.sync_api import sync_playwright

    from tests.browser.lab import Lab

    server = Lab(Path(tempfile.mkdtemp()))
    server.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=bench.FLAGS)
            for words in TYPED[:1] if quick else TYPED:
                page = browser.new_page(viewport={"width": 1800, "height": 3000})
                cells = [VIEW.format(name, text_of(words)) for name in ("Highlight", "Workbench")]
                notebook = server.open(page, server.write(f"{words}.ipynb", SETUP, *cells))
                notebook.run_cell(0)
                for cell, name in enumerate(("highlight", "workbench"), 1):
                    painted, sentence, until_quiet, cancelled = typing(page, notebook, name, cell)
                    where = f"typing in {name.capitalize()}, {words} words"
                    rows += [
                        cost(f"{where}: key to paint", painted, "ms", digits=0),
                        cost("  last key to sentence", sentence, "ms", digits=0),
                        cost("  last key to quiet", until_quiet, "ms", digits=0, ratio=f"cancelled: {cancelled}"),
                    ]
                page.close()
    finally:
        server.stop()
    return rows


if __name__ == "__main__":
    table.main(results, __doc__)
