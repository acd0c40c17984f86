"""The views as pages that work without Python, each made by the Python lines that its page shows; some answer."""

import re
import warnings
from pathlib import Path
from typing import Any

CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FRAME = re.compile(r'<iframe class="view" src="(?:frames/|views/frames/)(\w+)\.html"')
# The frame tells the page how high it is, and the page tells the frame which colour scheme is on.
TALK = """<script>
addEventListener("message", ({ data, source }) => {
  if (source !== parent || !data?.nbsalScheme) return;
  document.documentElement.style.colorScheme = data.nbsalScheme;
  document.body.dataset.jpThemeLight = String(data.nbsalScheme === "light");
});
document.body.style.margin = "4px";
new ResizeObserver(() => {
  parent.postMessage({ nbsalHeight: Math.ceil(document.body.getBoundingClientRect().height) + 8 }, "*");
}).observe(document.body);
</script>"""


def write(pages: Path) -> None:
    """Run the first Python block of every page with a frame, and save the `view` that it makes in that frame."""
    frames = pages / "views" / "frames"
    frames.mkdir()
    for page in sorted([pages / "index.md", *(pages / "views").glob("*.md")]):
        if name := FRAME.search(page.read_text(encoding="utf-8")):
            view, path = view_of(page), frames / f"{name[1]}.html"
            view.to_html(path, interactive=True, live=bool(view.live_name))
            html = path.read_text(encoding="utf-8")
            path.write_text(html.replace("</body>", f"{TALK}</body>"), encoding="utf-8")


def view_of(page: Path) -> Any:
    """The view that the first Python block of a page makes."""
    return run(CODE.search(page.read_text(encoding="utf-8"))[1])  # type: ignore[index]


def run(code: str) -> Any:
    """The view that some lines of Python make, with its result."""
    namespace: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "<a page of the site>", "exec"), namespace)
    return namespace["view"].wait(120)
