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
    """The pictures of one view in the outputs of cells; `render` draws the current one as HTML.

    >>> Snapshots(lambda: "<p>positive</p>").bundle()["text/html"].endswith("<p>positive</p></div>")
    True
    """

    def __init__(self, render: Callable[[], str]) -> None:
        self._render = render
        self._handles: list[Any] = []
        self._lock = Lock()
        self._timer: Timer | None = None
        self._next = 0.0

    def bundle(self) -> dict[str, Any]:
        """The picture as the output of a cell."""
        return {"text/html": f'{STYLE}<div class="nbsal-snapshot">{self._render()}</div>'}

    def display(self, view: dict[str, Any]) -> None:
        """Display the picture and then the live view, whose output is the MIME bundle `view`."""
        from IPython.display import display

        if hides_pictures():
            data = self.bundle() | {"text/plain": view["text/plain"]}
            self._handles.append(display(data, raw=True, display_id=os.urandom(16).hex()))
            view = {WIDGET: view[WIDGET], "text/plain": ""}  # an empty text takes no room
        display(view, raw=True)

    def refresh(self) -> None:
        """Draw the pictures again: at once, but at most one a second, and the last result always."""
        with self._lock:
            if self._handles and self._timer is None:
                self._timer = Timer(max(0.0, self._next - monotonic()), self._update)
                self._timer.daemon = True
                self._timer.start()

    def _update(self) -> None:
        with self._lock:
            self._timer, self._next = None, monotonic() + INTERVAL
        for handle in list(self._handles):
            handle.update(self.bundle(), raw=True)


def hides_pictures() -> bool:
    """Whether the front end follows the style rule; VS Code and Colab lay out outputs differently and show both."""
    return "google.colab" not in sys.modules and not any(name.startswith("VSCODE_") for name in os.environ)
