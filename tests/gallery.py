"""Draw the pictures of the views for the README and the gallery, in headless Chromium: `python -m tests.gallery`."""

from io import BytesIO
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import nbsal
from nbsal.widgets import Answers, Compare, Highlight, Workbench
from nbsal.widgets.base import View
from tests.browser import bench
from tests.publish import FOLDER

MARGIN = 8  # pixels

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


def views() -> dict[str, tuple[View, int, str]]:
    """The views by the name of their picture, with its width in pixels and its theme."""
    subject = nbsal.load("demo/reviews")
    signed = nbsal.Explainer(subject, "integrated")
    signed_reply = {"documents": NOTES, "method": "gradxact", "selection": [8, 9, 10, 11]}
    return {
        "answers": (Answers(nbsal.load("demo/notes"), KETTLE, **signed_reply), 1200, "light"),
        "quickstart": (Highlight(subject, text=WARM), 760, "light"),
        "highlight": (Highlight(nbsal.Explainer(subject, "gradxact", layer=4), text=BLOATED), 1000, "light"),
        "compare": (Compare(signed, text=WARM, other_method="occlusion"), 1000, "dark"),
        "workbench": (Workbench(signed, text=WARM), 1200, "light"),
    }


def picture(browser: Browser, view: View, width: int, theme: Any) -> bytes:
    """A view as its page draws it."""
    page = browser.new_page(viewport={"width": width, "height": 700}, color_scheme=theme, device_scale_factor=1.5)
    view.wait().request()  # again, since the first result took as long as loading the model
    bench.show(page, view.wait(), live=True)
    page.wait_for_timeout(300)  # colours fade in
    box = page.locator("section.nbsal").bounding_box()
    clip = {"x": 0, "y": 0, "width": width, "height": box["y"] + box["height"] + MARGIN}
    shot = page.screenshot(clip=clip, full_page=True)
    page.close()
    return shot


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=bench.executable(), headless=True, args=bench.FLAGS)
        for name, (view, width, theme) in views().items():
            image = Image.open(BytesIO(picture(browser, view, width, theme))).convert("RGB")
            path = FOLDER / "gallery" / f"{name}.png"
            image.quantize(256, dither=Image.Dither.NONE).save(path, "PNG", optimize=True)
            print(f"{path.name}: {path.stat().st_size // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()
