"""The static picture that a cell keeps beside a live view, for notebooks that are opened again without its kernel.

JupyterLab saves a live view as a reference to its kernel only. So a cell has two outputs: the result as static HTML,
which is updated whenever a new result is on display and is saved in the file, and the live view after it. A style rule
hides the picture while the live view is there, and hides the error that takes its place when there is no kernel.
"""

import os
import sys
from collections.abc import Callable
from threading import Lock, Timer
from time import monotonic
from typing import Any

from IPython.display import display

from nbsal.render import html

INTERVAL = 1.0  # seconds between two updates of a picture
WIDGET = "application/vnd.jupyter.widget-view+json"
# Outputs of a cell are siblings. The widget manager's error is the only output without a MIME type; child combinators
# keep an Output widget around the picture from matching.
_OUTPUT = ".jp-OutputArea-child"
_PICTURE = f"{_OUTPUT}:has(> .jp-OutputArea-output > .nbsal-snapshot)"
STYLE = (
    f"<style>{_PICTURE}:has(+ {_OUTPUT} .nbsal), "
    f"{_PICTURE} + {_OUTPUT}:has(> .jp-OutputArea-output:not([data-mime-type])):not(:has(.nbsal)) "
    "{display: none}</style>"
)


class Snapshots:
    """The pictures of one view in the outputs of cells; `render` draws the current result as HTML."""

    def __init__(self, render: Callable[[], str]) -> None:
        self._render = render
        self._displays: list[Any] = []
        self.above: Snapshots | None = None  # of a view whose picture contains this one
        self._lock = Lock()
        self._timer: Timer | None = None
        self._next = 0.0

    def display(self, view: dict[str, Any]) -> None:
        """Display the picture and then the live view, whose output is the MIME bundle `view`."""
        picture = {"text/html": _picture(view["text/html"]), "text/plain": view["text/plain"]}
        self._displays.append(display(picture, raw=True, display_id=os.urandom(16).hex()))  # type: ignore[no-untyped-call]
        live = {WIDGET: view[WIDGET], "text/plain": ""}  # an empty text takes no room
        display(live, raw=True)  # type: ignore[no-untyped-call]

    def refresh(self) -> None:
        """Draw the pictures again: at once, but at most one a second, and the last result always."""
        if self.above is not None:
            self.above.refresh()
        with self._lock:
            if self._displays and self._timer is None:
                self._timer = Timer(max(0.0, self._next - monotonic()), self._update)
                self._timer.daemon = True
                self._timer.start()

    def _update(self) -> None:
        with self._lock:
            self._timer, self._next = None, monotonic() + INTERVAL
        for output in list(self._displays):
            output.update({"text/html": _picture(self._render())}, raw=True)


def _picture(content: str) -> str:
    """A picture with its date, and the rule that hides it beside the live view."""
    return STYLE + html.snapshot_html(content)


def with_page(picture: str, page: str) -> str:
    """A picture that is hidden by the page after it where the notebook is trusted; elsewhere only the picture stays."""
    style = "<style>.nbsal-frozen:has(+ iframe) {display: none}</style>"
    return f'{style}<div class="nbsal-frozen">{picture}</div>{page}'


def hides_pictures() -> bool:
    """Whether the cell's host follows the style rule; VS Code and Colab lay out outputs differently and show both."""
    return "google.colab" not in sys.modules and not any(name.startswith("VSCODE_") for name in os.environ)
