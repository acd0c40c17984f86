"""The cost of showing Highlight in headless Chromium, compared with plain spans: `python -m tests.bench.pages`.

The results have 1,000 and 10,000 fake tokens; no Python kernel runs. Times are milliseconds by the page's own clock.
"""

import numpy as np

from nbsal.widgets import Highlight
from nbsal.widgets.page import wire
from tests.bench import table
from tests.bench.table import Row, cost, missing, spread
from tests.browser import bench

GOALS = {1_000: {"first paint": 200, "update": 50}, 10_000: {"first paint": 500, "update": 150}}
# Milliseconds until the frame is painted; "nothing" is the time of waiting for an empty frame.
TIMED = f"""async ([inputs, update, count]) => {{
  const painted = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
  const timed = async (work) => {{
    await new Promise(resolve => setTimeout(resolve, 100));
    const start = performance.now();
    await work();
    await painted();
    return performance.now() - start;
  }};
  const plain = () => {{
    const box = document.createElement('div');
    for (let i = 0; i < count; i++) {{
      const span = document.createElement('span');
      span.textContent = 'word' + i + ' ';
      span.style.backgroundColor = 'rgba(230, 126, 16, 0.5)';
      box.append(span);
    }}
    document.body.replaceChildren(box);
  }};
  const colours = () => [...document.querySelectorAll('.nbsal-mark')].map(mark => mark.style.getPropertyValue('--s'));
  const times = {{ nothing: await timed(() => {{}}) }};
  times['first paint'] = await timed(() => ({bench.SHOW})(inputs));
  const before = colours();
  times.update = await timed(() => ({bench.CHANGE})(update));
  const changed = colours().filter((colour, k) => colour !== before[k]).length;
  times['plain spans'] = await timed(plain);
  return [times, changed];
}}"""


def paints(page, count: int, turns: int) -> dict[str, list[float]]:
    """Milliseconds of each task, one value per turn; each update changes the colour of nearly every token."""
    view = Highlight(bench.saliency_of([f"word{i}" for i in range(count)])).wait()
    bench.show(page, view)
    inputs, base_scores = bench.show_arguments(view), view.result.scores
    times_by_name: dict[str, list[float]] = {}
    for turn in range(turns):
        update = bench.plain({"_scores": wire.scores([np.roll(base_scores, turn + 1)])})
        times, changed = page.evaluate(TIMED, [inputs, update, count])
        assert changed > 0.9 * count
        for name, milliseconds in times.items():
            times_by_name.setdefault(name, []).append(milliseconds)
    return times_by_name


def results(rounds: int = 3, quick: bool = False) -> list[Row]:
    """Milliseconds of first paints and updates, with two turns per round."""
    if (chromium := bench.executable()) is None:
        return [missing("Highlight in Chromium", "there is no Chromium on the PATH (apt-get install chromium)")]
    from playwright.sync_api import sync_playwright

    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=bench.FLAGS)
        for count in [1_000] if quick else GOALS:
            times = paints(browser.new_page(), count, 2 * rounds)
            plain = times["plain spans"]
            cells = {"peer": f"plain spans: {spread(plain, 0)} ms"}
            cells["floor"] = f"{spread(times['nothing'], 0)} ms (an empty frame)"
            for name, goal in GOALS[count].items():
                cells["ratio"] = spread([theirs / ours for theirs, ours in zip(plain, times[name], strict=True)])
                work = f"{name} of {count:,} tokens in Chromium"
                rows.append(cost(work, times[name], "ms", goal, digits=0, **cells))
        browser.close()
    return rows


if __name__ == "__main__":
    table.main(results, __doc__)
