"""What live pages cost, and how close their copy of a model is to the model: `python -m tests.bench.live`.

A page of Highlight with `demo/reviews` in headless Chromium, from a server on this machine: seconds and milliseconds by
the page's own clock; memory of the page and its worker, beyond what the page took before its first question.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import nbsal
from nbsal import live, samples
from nbsal.widgets import Compare, Highlight, Layers
from nbsal.widgets.page.live_page import FOLDER
from tests.bench import table
from tests.bench.table import Row, cost, missing
from tests.browser import bench
from tests.browser.live_pages import served

START = "A slow start, but the second half is warm, funny and beautifully played."
WORDS = "The plot is thin and the jokes are old, but two fine actors make this small film a real joy".split()
KEYS = 12
VIEWS = (Highlight, Layers, Compare)
MB = 1_000_000
LENGTHS = (20, 100)  # words
# Types a text, and resolves with the milliseconds until its explanation is drawn and a frame is painted, and until its
# sentence has been checked.
TYPED = """async (text) => {
  const find = (selector) => document.querySelector(selector);
  const [area, state, check] = ['textarea', '.nbsal-state', '.nbsal-check'].map(find);
  await new Promise((resolve) => setTimeout(resolve, 150)); // as long as it takes to press the next key
  const start = performance.now();
  const until = (line, isDrawn) => new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (!isDrawn(line.dataset.state)) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
    });
    observer.observe(line, { attributes: true });
  });
  const answered = until(state, (name) => name === 'ready');
  area.value = text;
  area.dispatchEvent(new Event('input'));
  const answer = await answered;
  const isChecked = !check || check.dataset.state !== 'checking'; // Compare has no check
  return [answer, isChecked ? performance.now() - start : await until(check, (name) => name !== 'checking')];
}"""


def renderer_memory() -> float:
    """MB of private memory of the pages of the browsers that this process has started."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parent = re.search(r"PPid:\s+(\d+)", (folder / "status").read_text())
            children.setdefault(int(parent[1]), []).append(int(folder.name))  # type: ignore[index]
    family = [os.getpid()]
    for process in family:
        family += children.get(process, [])
    return sum(map(_private, family)) / 1000


def _private(process: int) -> int:
    """kB of private memory of a process that shows a page."""
    with suppress(OSError):
        folder = Path(f"/proc/{process}")
        if "--type=renderer" in (folder / "cmdline").read_text():
            return sum(
                map(int, re.findall(r"^Private_\w+:\s+(\d+)", (folder / "smaps_rollup").read_text(), re.MULTILINE))
            )
    return 0


def closeness(quick: bool) -> Iterator[Row]:
    """Accuracy on SST-2, and words of the sample reviews, of the copy beside the model."""
    subject = nbsal.load("demo/reviews")
    copy = live.rounded(subject)
    sst2 = nbsal.data.load("sst2", split="validation")[: 100 if quick else None]
    truth = [subject.labels.index(label) if isinstance(label, str) else int(label) for label in sst2["label"]]
    accuracies = []
    for each in (subject, copy):
        explained = nbsal.Explainer(each, "gradcam", layer=5).map(list(sst2["sentence"]), progress=False)
        accuracies.append(np.mean([s.prediction == subject.labels[t] for s, t in zip(explained, truth, strict=True)]))
    work = f"accuracy on {len(sst2)} texts of SST-2"
    yield Row(work, f"{accuracies[1]:.3f}", peer=f"{accuracies[0]:.3f} (the model itself)")
    texts = [row["text"] for row in samples.texts("reviews")][: 20 if quick else None]
    orders = [
        [s.word_order for s in nbsal.Explainer(each, "decoded-gradcam", layer=5).map(texts, progress=False)]
        for each in (subject, copy)
    ]
    pairs = list(zip(*orders, strict=True))
    strongest = np.mean([ours[0] == theirs[0] for ours, theirs in pairs])
    shared = np.mean([len({*ours[:5]} & {*theirs[:5]}) / len(ours[:5]) for ours, theirs in pairs])
    yield Row(f"same strongest word, {len(texts)} sample reviews", f"{strongest:.2f}")
    yield Row("share of the five strongest words that both name", f"{shared:.2f}")


def costs(page: Any, address: str, rounds: int) -> Iterator[Row]:
    """Seconds of the first answer, milliseconds of a key, and memory, of pages of a server."""
    firsts, keys, memory = [], dict[tuple[str, int], list[list[float]]](), []
    for _ in range(rounds):
        for view in VIEWS:
            page.goto(f"{address}{view.__name__}.html")
            page.get_by_role("button", name="Edit text").click()
            before = renderer_memory()
            firsts.append(page.evaluate(TYPED, " ".join(WORDS[:10]))[0] / 1000)
            for length in LENGTHS:
                text = " ".join(WORDS * (length // len(WORDS)))
                times = [page.evaluate(TYPED, f"{text} {key}") for key in range(KEYS)]
                keys.setdefault((view.__name__, length), []).extend(times)
            memory.append(renderer_memory() - before)
    yield cost("first answer, the download from this machine included", firsts, "s", 4)
    for (name, length), times in keys.items():
        answers, checks = map(list, zip(*times, strict=True))
        most = 250 if length == LENGTHS[0] else None
        yield cost(f"{name}: from a key to the painted answer, {length} words", answers, "ms", most, digits=0)
        if name != Compare.__name__:
            yield cost(f"{name}: from a key to the checked sentence, {length} words", checks, "ms", digits=0)
    yield cost("growth of memory", memory, "MB", 400, digits=0)


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """The costs of a live page, and the closeness of its copy."""
    rows = list(closeness(quick))
    if (chromium := bench.executable()) is None:
        return [*rows, missing("a live page", "there is no Chromium on the PATH (apt-get install chromium)")]
    from playwright.sync_api import sync_playwright

    explain = nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam", layer=5)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        for view in VIEWS:
            view(explain, text=START).wait().to_html(folder / f"{view.__name__}.html", live=True)
        size = sum(path.stat().st_size for path in (folder / FOLDER).rglob("*.*")) / MB
        page_size = (folder / "Highlight.html").stat().st_size / 1000
        work = f"{size:.2f} MB and a page of {page_size:.0f} kB"
        rows.append(Row("download", work, **table.at_most(20, size, " MB")))
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=bench.FLAGS)
        with served(folder) as address:
            rows += costs(browser.new_page(), address, rounds)
        browser.close()
    return rows


if __name__ == "__main__":
    table.main(results, __doc__)
