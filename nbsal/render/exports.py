"""The HTML page of a result, or of a view of one: returned as text, or written into a file."""

from pathlib import Path
from typing import Any, overload

from nbsal.render import html, sheet_html, sheet_png, sheet_terminal
from nbsal.render.sheet import Sheet
from nbsal.support import rooms
from nbsal.support.validation import checked


class PageText(str):
    """The text of a page, which a notebook does not print in full.

    >>> PageText("<p>Hello</p>")
    <HTML page of 12 characters; pass a path to write it>
    """

    def __repr__(self) -> str:
        return f"<HTML page of {len(self):,} characters; pass a path to write it>"


@checked
class Exportable:
    """What has an HTML page: a subclass renders its content, names the page and, of a result, says which view it has.

    >>> class Greeting(Exportable):
    ...     def _page_title(self):
    ...         return "A greeting"
    ...
    ...     def render_html(self):
    ...         return "<p>Hello</p>"
    >>> "<title>A greeting</title>" in Greeting().to_html()
    True
    """

    @overload
    def to_html(self, path: None = None, *, interactive: bool = False, live: bool = False) -> str: ...
    @overload
    def to_html(self, path: str | Path, *, interactive: bool = False, live: bool = False) -> Path: ...
    def to_html(self, path: str | Path | None = None, *, interactive: bool = False, live: bool = False) -> str | Path:
        """A complete HTML page without scripts, or an `interactive` one that needs neither Python nor a network.

        With `path` the page is written there, and the path is returned. A `live` page (of Highlight, Layers and Compare
        with an explainer) also answers: its reader types another text, and chooses the class, the layer and the method,
        and a small copy of the model runs in the page. The files of the copy, about 20 MB for an embedded model, are
        written into the folder nbsal-live beside the page. Without `path`, that is in the current folder, in which what
        is returned must then be saved.
        """
        place = Path("page.html" if path is None else path)
        page = self._view_page(place if live else None) if interactive or live else self._static_page()
        if path is None:
            return PageText(page)
        place.write_text(page, encoding="utf-8")
        return place

    def sheet(self) -> Sheet:
        """What is shown, for a page without scripts, a picture and a terminal."""
        raise NotImplementedError

    def drawn_sheet(self) -> Sheet:
        """The sheet in the colours in which it is drawn."""
        return self.sheet()

    def render_html(self) -> str:
        """The content as HTML without scripts that passes the sanitizer of notebooks."""
        return sheet_html.render(self.drawn_sheet())

    def render_png(self) -> bytes:
        """The content as PNG."""
        return sheet_png.render(self.drawn_sheet())

    def to_terminal(self, colours: bool = True) -> str:
        """The content for a terminal, with escape codes or with large scores in brackets."""
        return sheet_terminal.render(self.drawn_sheet(), colours)

    def _page_title(self) -> str:
        """The title of the page, as plain text."""
        raise NotImplementedError

    def _static_page(self) -> str:
        return html.page_html(self._page_title(), self.render_html())

    def _view_page(self, place: Path | None) -> str:
        """The page of the view, which runs without Python; with a `place`, where the page is to be, a live one."""
        view = self._as_view(rooms.views())
        try:
            return str(view._view_page(place))
        finally:
            view.close()

    def _as_view(self, views: Any) -> Any:
        """The view of a result, one of the `views` in nbsal.widgets."""
        raise NotImplementedError
