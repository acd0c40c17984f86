"""Exports of a view: an HTML file with its scripts inlined, and cell outputs that stay in the notebook."""

import base64
import json
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from nbsal.render import html
from nbsal.widgets.page import live_page

STATIC = Path(__file__).parents[1] / "static"
_UNSEEN = "position:absolute;clip-path:inset(50%);margin:0"  # but read aloud
FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # of cells that spreadsheets run; the last are full-width
# The static HTML stays until the view has been drawn, which replaces it. Where scripts run, it appears only if that
# takes long, so that it does not flicker.
_STYLE = (
    "@media (scripting:enabled){#nbsal>.nbsal-snapshot{animation:nbsal-wait 1s}}"
    "@keyframes nbsal-wait{from,to{visibility:hidden}}"
)
_NEEDS_SCRIPTS = "The controls of this page need its scripts, which have not run."
# How the modules of built views end.
_EXPORT = re.compile(r"export\{(?:[^{}]*,)?([\w$]+) as default(?:,[^{}]*)?\};?\s*\Z")
_INTERNAL = {"_esm", "_css", "layout", "tabbable", "tooltip"}  # synced traits that a page does not need


@dataclass(frozen=True)
class Frozen:
    """A snapshot of a view, which a notebook saves and shows without Python."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def asset(name: str) -> str:
    """A built file of the front end as text. With a path instead, anywidget would keep every view alive."""
    return (STATIC / name).read_text(encoding="utf-8")


def interactive(view: Any, title: str, in_cell: bool = False) -> str:
    """An HTML page that opens from disk: the script, style and state of a view, and a replacement for Python."""
    return _page(view, title, "offline.js", state(view, in_cell), in_cell=in_cell)


def live(view: Any, title: str, page: dict[str, Any]) -> str:
    """An HTML page that answers with the model that `page` describes."""
    return _page(view, title, "live.js", live_page.live_state(state(view), page), page, style=live_page.STYLE)


def _page(
    view: Any, title: str, script: str, state: dict[str, Any], *more: Any, style: str = "", in_cell: bool = False
) -> str:
    """An HTML page with a view and the script that shows it; `more` are further arguments of the script."""
    arguments = ", ".join([literal(state), "document.getElementById('nbsal')", *map(literal, more)])
    headings = f"<div style='{_UNSEEN}'><h1>{type(view).__name__}</h1><h2>{escape(title)}</h2></div>"
    style = str(getattr(view, "_css", "")).replace("</", "<\\/") + _STYLE + style  # no text in it can end the element
    static = html.snapshot_html(f"{view.render_html()}{html.line_html(_NEEDS_SCRIPTS)}", in_cell)
    return html.page_html(
        title,
        f"<style>{style}</style><main>{headings}<div id='nbsal'>{static}</div></main>"
        f"<script>{asset(script)}</script><script type='module'>{shown(str(view._esm), arguments)}</script>",
    )


def shown(module: str, arguments: str) -> str:
    """A script that shows the view of a module: a built one is part of it, since policies may forbid to import text."""
    built = _EXPORT.search(module)
    if built is None or "</script" in module or "<!--" in module:
        return f"nbsal.show({literal(module)}, {arguments});"
    return f"{module[: built.start()]}nbsal.show({built[1]}, {arguments});"


def state(view: Any, in_cell: bool = False) -> dict[str, Any]:
    """The traits of a view, for a page without Python, which may be the output of a cell."""
    traits = {name: value for name, value in view.get_state().items() if _is_view_trait(name)}
    return traits | {"_live": False, "status": "ready", "error": "", "_saved": html.snapshot_line(in_cell)}


def literal(value: Any) -> str:
    """A value as JavaScript for a script element; no text in the value can end the element."""
    code = json.dumps(value, ensure_ascii=False, default=_bytes)
    return code.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def escape_formula(value: Any) -> Any:
    """A cell of a table, with an apostrophe before a text that spreadsheets would run.

    >>> escape_formula("=1+1"), escape_formula("joy"), escape_formula(-1.0)
    ("'=1+1", 'joy', -1.0)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def iframe(document: str) -> str:
    """A page as the output of a cell, in a sandbox."""
    style = "width:100%;height:30em;border:0;background:Canvas"
    return f'<iframe title="nbsal" sandbox="allow-scripts" style="{style}" srcdoc="{escape(document)}"></iframe>'


def _is_view_trait(name: str) -> bool:
    """Whether a synced trait belongs to the view rather than to ipywidgets or anywidget."""
    return name not in _INTERNAL and not name.startswith(("_model", "_view", "_dom", "_anywidget"))


def _bytes(value: Any) -> dict[str, str]:
    if not isinstance(value, bytes | memoryview):
        raise TypeError(f"{type(value).__name__} cannot be written into a page.")
    return {"$bytes": base64.b64encode(value).decode("ascii")}
