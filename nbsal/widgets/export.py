"""Pages: a view as a file of its own, with its scripts inlined, and as a cell output that stays in the notebook."""

import base64
import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from nbsal.render import html

STATIC = Path(__file__).parent / "static"
_CONTAINER = {"_esm", "_css", "layout", "tabbable", "tooltip"}


@dataclass(frozen=True)
class Frozen:
    """A view as it stood; a notebook keeps and shows it without Python."""

    html: str
    said: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.said


def asset(name: str) -> str:
    """A built file of the front end, as text: given a path, anywidget would keep every view alive for ever."""
    return (STATIC / name).read_text(encoding="utf-8")


def interactive(view: Any, title: str) -> str:
    """The view in a page that opens from disk: its script, its style, its state, and a stand-in for Python."""
    return html.page_html(
        title,
        f"<style>{_style(view._css)}</style><div id='nbsal'></div>"
        f"<script type='module'>{asset('offline.js')}\n"
        f"nbsal.show({literal(str(view._esm))}, {literal(state(view))}, document.getElementById('nbsal'));</script>",
    )


def state(view: Any) -> dict[str, Any]:
    """What the view shows, for a page that has no Python."""
    kept = {name: value for name, value in view.get_state().items() if name not in _CONTAINER and _own(name)}
    return kept | {"_live": False, "status": "ready", "error": ""}


def literal(value: Any) -> str:
    """A value as a literal in a script element, which no text in it can end."""
    said = json.dumps(value, ensure_ascii=False, default=_bytes)
    return said.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def iframe(document: str) -> str:
    """A page inside a cell's output, sealed off from the notebook."""
    style = "width:100%;height:30em;border:0;background:Canvas"
    return f'<iframe title="nbsal" sandbox="allow-scripts" style="{style}" srcdoc="{escape(document)}"></iframe>'


def text_or_base64(content: str | bytes) -> str:
    """Bytes as base64, text as it is."""
    return content if isinstance(content, str) else base64.b64encode(content).decode("ascii")


def _own(name: str) -> bool:
    """Whether a synced trait is the view's, not the widget machinery's."""
    return not name.startswith(("_model", "_view", "_dom", "_anywidget"))


def _style(css: Any) -> str:
    """A style sheet as it may stand in a page."""
    return str(css).replace("</", "<\\/")


def _bytes(value: Any) -> dict[str, str]:
    if not isinstance(value, bytes | memoryview):
        raise TypeError(f"{type(value).__name__} cannot be written into a page.")
    return {"$bytes": base64.b64encode(value).decode("ascii")}
