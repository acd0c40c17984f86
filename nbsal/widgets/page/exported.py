"""What every view can write: tables, pages, pictures, and the copies of it that a notebook keeps."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from IPython.display import display

from nbsal.render import html, sheet_html
from nbsal.render.exports import Exportable
from nbsal.render.sheet import Note, Sheet
from nbsal.support.errors import UnknownName
from nbsal.support.lazy import pandas
from nbsal.support.validation import checked
from nbsal.widgets.page import html_export, live_page, snapshot
from nbsal.widgets.page.page_messages import CheckedWidget
from nbsal.widgets.page.snapshot import Snapshots

ROWS, WIDTH = 20, 60  # of a table in a terminal


@checked
class ExportedWidget(Exportable, CheckedWidget):
    """A widget whose `result` can be exported; a subclass computes it and says when there is one."""

    live_name: ClassVar[str] = ""  # what a live page calls the view; "" if no page can answer for it

    status: Any

    def __init__(self, **traits: Any) -> None:
        self._snapshots = Snapshots(self._static_html)
        super().__init__(**traits)

    @property
    def result(self) -> Any:
        """The result on display, or None before the first one."""
        raise NotImplementedError

    def _require_result(self, latest: bool = False) -> None:
        """Wait for the first result, or for the one that was requested last."""
        raise NotImplementedError

    def _wait_briefly(self) -> None:
        """Wait for a result that comes soon, so that the static HTML of a cell contains it."""
        raise NotImplementedError

    def sheet(self) -> Sheet:
        """What is shown, for a page without scripts, a picture and a terminal: by default, what a result says."""
        if isinstance(self.result, Exportable):
            return self.result.sheet()
        raise NotImplementedError(f"{type(self).__name__} has no picture. Implement sheet(self) to return a Sheet.")

    def render_html(self) -> str:
        """The result as HTML without scripts that passes the sanitizer of notebooks."""
        try:
            return super().render_html()
        except NotImplementedError:
            return str(self.result._repr_html_())

    def to_frame(self) -> "pandas.DataFrame":
        """The numbers on display as a table."""
        self._require_result()
        return self.result.to_frame()  # type: ignore[no-any-return]

    def shown_frame(self) -> "pandas.DataFrame":
        """The table that the page saves: what it shows."""
        return self.to_frame()

    def to_csv(self, escape_formulas: bool = True) -> str:
        """The table on display as CSV.

        A text that a spreadsheet would run as a formula, since it begins with =, +, -, @ (also full-width) or a control
        character, has an apostrophe before it. Programs that want the exact text set `escape_formulas=False`.
        """
        self._require_result()
        frame = self.shown_frame()
        if escape_formulas:
            frame = frame.map(html_export.escape_formula).rename(columns=html_export.escape_formula)
        return frame.to_csv(index=False)

    def _static_page(self) -> str:
        self._require_result()
        return html.page_html(self._page_title(), html.snapshot_html(self.render_html(), in_cell=False))

    def _view_page(self, place: Path | None) -> str:
        self._require_result()
        if place is None:
            return html_export.interactive(self, self._page_title())
        view = live_page.with_runnable_method(self)
        page = live_page.describe(view, place.parent, place.name, self)
        return html_export.live(view, view._page_title(), page)

    def to_png(self) -> bytes:
        """A picture as PNG."""
        self._require_result()
        return self.render_png()

    def freeze(self, interactive: bool = False) -> html_export.Frozen:
        """A snapshot of the last requested result as the output of a cell; it stays in the notebook file.

        It is visible wherever the notebook is; with `interactive` the page works too if the notebook is trusted.
        """
        self._require_result(latest=True)
        content = html.snapshot_html(self.render_html())
        if interactive:
            page = html_export.interactive(self, self._page_title(), in_cell=True)
            content = snapshot.with_page(content, html_export.iframe(page))
        return html_export.Frozen(content, repr(self))

    def handle_save(self, kind: str) -> dict[str, str]:
        """Answer a page that wants to download an export."""
        exports: dict[str, tuple[str, Callable[[], str | bytes]]] = {
            "html": ("text/html", lambda: self.to_html(interactive=True)),
            "png": ("image/png", self.to_png),
            "csv": ("text/csv", self.to_csv),
        }
        if not isinstance(kind, str) or kind not in exports:
            raise UnknownName("kind", kind, exports)
        mime, write = exports[kind]
        content = write()
        text = content if isinstance(content, str) else base64.b64encode(content).decode("ascii")
        return {"mime": mime, "name": f"{type(self).__name__}.{kind}".lower(), "content": text}

    def _title(self) -> str:
        caption = getattr(self.result, "caption", None)
        return f"{type(self).__name__}: {caption()}" if caption else type(self).__name__

    def _page_title(self) -> str:
        """The name of a page: the view's and what its result says, without names in code."""
        outcome = getattr(self.result, "outcome", None)
        return f"{type(self).__name__}: {outcome()}" if outcome else self._title()

    def _static_html(self) -> str:
        if self.result is None:
            return sheet_html.render(Sheet(repr(self), [Note(repr(self))], [self.error or self.status]))
        return self.render_html()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        self._wait_briefly()
        data, metadata = super()._repr_mimebundle_() or ({}, {})
        return data | {"text/html": self._static_html(), "text/plain": repr(self)}, metadata

    def _ipython_display_(self) -> None:
        data, metadata = self._repr_mimebundle_()
        if snapshot.hides_pictures():
            self._snapshots.display(data)
        else:
            display(data, metadata, raw=True)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return html.visible(f"<{self._title()}>")

    def __str__(self) -> str:
        """What the result says, for a terminal."""
        self._require_result(latest=True)
        try:
            return self.to_terminal(colours=False)
        except NotImplementedError:
            frame = self.shown_frame()
            table = "" if frame.empty else f"\n{frame.to_string(index=False, max_rows=ROWS, max_colwidth=WIDTH)}"
            return html.visible(f"{self._page_title()}{table}")
