"""What is measured beside the checks: from key to answer, memory after many edits, sizes of scripts and styles."""

import gzip

import numpy as np

from nbsal.widgets.page.html_export import asset
from tests.bench.lab import SENTENCE, typing
from tests.browser.checklist.session import NAMES, Session

WORDS, KEYS, EDITS = 20, 40, 200
EDIT = """async ([selector, edits]) => {
  const area = document.querySelector(`${selector} textarea`), text = area.value;
  for (let k = 1; k <= edits; k++) {
    area.value = `${text} ${'again '.repeat(k % 5)}`.trim();
    area.dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise((done) => setTimeout(done, 60));
  }
}"""


def keystrokes(session: Session) -> str:
    """Milliseconds from a key to the painted answer."""
    words = (SENTENCE * WORDS).split()[:WORDS]
    with session.having("highlight", text=" ".join(words)) as root:
        times = typing(session.page, KEYS)
        root.get_by_label("Text", exact=True).press("Escape")
        session.settle("highlight")
    median, late = np.percentile(times, [50, 95])
    return f"key to answer, {WORDS} words, {KEYS} keys: median {median:.0f} ms, p95 {late:.0f} ms"


def memory(session: Session) -> str:
    """The heap and the nodes of the page before and after many edits."""
    with session.having("highlight", text=SENTENCE.strip()):
        before = _metrics(session)
        session.view("highlight").get_by_role("button", name="Edit text").click()
        session.page.evaluate(EDIT, [".nbsal-highlight", EDITS])
        session.page.keyboard.press("Escape")
        session.settle("highlight")
        after = _metrics(session)
    heap, nodes = (
        f"{first:{form}} → {last:{form}}" for first, last, form in zip(before, after, [".1f", ",.0f"], strict=True)
    )
    return f"{EDITS} edits: JS heap {heap} MB, DOM nodes {nodes}"


def _metrics(session: Session) -> tuple[float, float]:
    client = session.page.context.new_cdp_session(session.page)
    client.send("Performance.enable")
    for _ in range(2):
        client.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in client.send("Performance.getMetrics")["metrics"]}
    client.detach()
    return metrics["JSHeapUsedSize"] / 1e6, metrics["Nodes"]


def sizes() -> list[str]:
    """Bytes of script and style of each view, plain and compressed."""
    lines = []
    for name in NAMES:
        files = [str(asset(f"{name}.{kind}")).encode() for kind in ("js", "css")]
        packed = sum(len(gzip.compress(file, mtime=0)) for file in files)
        lines.append(f"{name}: script and style {sum(map(len, files)):,} bytes, {packed:,} gzipped")
    return lines
