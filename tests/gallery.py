"""Draw the pictures of the views for the README and the gallery, in headless Chromium: `python -m tests.gallery`.

Beside each picture lies a text file with the words of its page. With `--check` nothing is written: the pages are drawn
again, and words that differ from those in the file are printed. A test does the same.
"""

import argparse
import difflib
import re
import sys
from io import BytesIO
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import nbsal
from nbsal.widgets import Answers, Compare, Highlight, Workbench
from nbsal.widgets.base import View
from tests.browser import bench
from tests.docs import views as docs
from tests.docs.repository import ROOT
from tests.publish import FOLDER

PICTURES = FOLDER / "gallery"
MARGIN = 8  # pixels
SECONDS = re.compile(r" · [\d.]+\ss$", re.MULTILINE)  # that the result took
# Numbers that processors round differently: with decimals, before %, or alone in a cell. Others count something.
ROUNDED = re.compile(r"[−+]?\d+\.\d+|[−+]?\d+(?=\s?%)|^[−+]?\d+$")

WARM = "A slow start, but the second half is warm, funny and beautifully played."
BLOATED = (
    "There are flashes of brilliance here, though far too few to justify such a bloated running time. Trim an hour, "
    "and a decent short film might yet crawl out of the wreckage."
)
KETTLE = [{"role": "user", "content": "To which city did the kettle go?"}]
NOTES = {
    "Monday": "Minutes: The parcel for Boris goes to Rouen.",
    "Loans": "One more thing: The kettle was borrowed by Boris. Best wishes.",
    "Birthdays": "Reminder: Fiona has a birthday on March 11. Please pass it on.",
    "Keys": "Ursula: To get into the shed, ask Katrin for the key.",
}
CITED = ["Mara lives in Oslo now.", "Boris lives in Rouen.", "The keys to the attic are with Mara."]
CITING = (
    [{"role": "user", "content": "To which city did the keys to the attic go?"}],
    " The keys to the attic are with Mara [3], and Mara lives in Oslo [2].",
)


def views() -> dict[str, tuple[View, int, str]]:
    """The views by the name of their picture, with its width in pixels and its theme.

    They are checked however long that takes, so that a busy machine draws the same.
    """
    subject = nbsal.load("demo/reviews")
    signed = nbsal.Explainer(subject, "integrated")
    signed_reply = {"documents": NOTES, "method": "gradxact", "selection": [8, 9, 10, 11]}
    upper = nbsal.Explainer(subject, "gradxact", layer=4)
    cited = Answers(nbsal.load("demo/notes"), CITING[0], reply=CITING[1], documents=CITED, panels=["citations"])
    return {
        "answers": (Answers(nbsal.load("demo/notes"), KETTLE, **signed_reply), 1200, "light"),
        "audit": (docs.view_of(ROOT / ".docs" / "views" / "audit.md"), 1000, "light"),
        "browse": (docs.view_of(ROOT / ".docs" / "views" / "browse.md"), 1000, "light"),
        "citations": (cited, 1200, "light"),
        "quickstart": (Highlight(subject, text=WARM, check=True), 760, "light"),
        "highlight": (Highlight(upper, text=BLOATED, check=True), 1000, "light"),
        "compare": (Compare(signed, text=WARM, other_method="occlusion", check=True), 1000, "dark"),
        "workbench": (Workbench(signed, text=WARM, check=True), 1200, "light"),
    }


def open_page(browser: Browser, view: View, width: int, theme: Any) -> Page:
    """A page that shows a view, as its picture has it."""
    page = browser.new_page(viewport={"width": width, "height": 700}, color_scheme=theme, device_scale_factor=1.5)
    view.wait().request()  # again, since the first result took as long as loading the model
    bench.show(page, view.wait(), live=True)
    return page


def picture(page: Page, width: int) -> bytes:
    """A view as its page draws it."""
    page.wait_for_timeout(300)  # colours fade in
    box = page.locator("section.nbsal").bounding_box()
    height = min(box["y"] + box["height"] + MARGIN, width)  # a long table goes on
    clip = {"x": 0, "y": 0, "width": width, "height": height}
    return page.screenshot(clip=clip, full_page=True)


def words(page: Page) -> str:
    """What can be read in a view, line by line, without the time that it took."""
    text = SECONDS.sub("", page.locator("section.nbsal").inner_text())
    return "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip())


def is_alike(line: str, other: str) -> bool:
    """Whether two lines have the same words, and rounded numbers that differ by at most one in their last digit."""
    if ROUNDED.sub("#", line) != ROUNDED.sub("#", other):
        return False
    pairs = zip(ROUNDED.findall(line), ROUNDED.findall(other), strict=True)
    return all(abs(_value(one) - _value(two)) < 1.5 * 10 ** -len(one.partition(".")[2]) for one, two in pairs)


def _value(number: str) -> float:
    return float(number.replace("−", "-"))


def changes(stored: str, drawn: str) -> list[str]:
    """The lines that differ, those that were stored with - and those that are drawn with +."""
    old, new = stored.splitlines(), drawn.splitlines()
    if len(old) == len(new):
        new = [line if is_alike(line, other) else other for line, other in zip(old, new, strict=True)]
    return [line for line in difflib.ndiff(old, new) if line[0] in "-+"]


def outdated(browser: Browser, shown: dict[str, tuple[View, int, str]]) -> dict[str, list[str]]:
    """The pictures of views whose pages say something else now, with what differs."""
    differences = {}
    for name, (view, width, theme) in shown.items():
        page, path = open_page(browser, view, width, theme), PICTURES / f"{name}.txt"
        differences[name] = changes(path.read_text(encoding="utf-8") if path.exists() else "", words(page))
        page.close()
    return {name: lines for name, lines in differences.items() if lines}


def draw(browser: Browser) -> None:
    """Write the pictures and their words."""
    for name, (view, width, theme) in views().items():
        page = open_page(browser, view, width, theme)
        image = Image.open(BytesIO(picture(page, width))).convert("RGB")
        path = PICTURES / f"{name}.png"
        image.quantize(256, dither=Image.Dither.NONE).save(path, "PNG", optimize=True)
        path.with_suffix(".txt").write_text(words(page), encoding="utf-8")
        page.close()
        print(f"{path.name}: {path.stat().st_size // 1000} kB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gallery", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare words only; the exit status is 1 if any differ")
    check, changed = parser.parse_args().check, {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=bench.executable(), headless=True, args=bench.FLAGS)
        if check:
            changed = outdated(browser, views())
        else:
            draw(browser)
        browser.close()
    for name, lines in changed.items():
        print(f"{name}.png is outdated; run: python -m tests.gallery", *lines, sep="\n")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
