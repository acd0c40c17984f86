"""What to look at after a view: the steps that it offers, each of which opens another view below it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import traitlets

from nbsal.support import rooms
from nbsal.support.errors import UnknownName
from nbsal.widgets.page.exported import ExportedWidget

MODEL = "IPY_MODEL_"  # how a page names the model of a widget
IN_PYTHON = "This page cannot show the next view. Run view.below in a cell."


class Step(NamedTuple):
    """A step: what its button says, how to open its view with the views of nbsal, and whether it needs a file first."""

    label: str
    open: Callable[..., Any]
    needs_file: bool = False


class LinkedWidget(ExportedWidget):
    """A widget that ends with the line "Next:": a subclass says which `steps` there are from its result."""

    _below = traitlets.Any(None).tag(sync=True, to_json=lambda view, _: view and f"{MODEL}{view.model_id}")
    _next = traitlets.List(traitlets.List()).tag(sync=True)  # of each step its name, its label, whether it needs a file

    @property
    def below(self) -> Any:
        """The view that was opened last from this one, or None."""
        return self._below

    def steps(self) -> dict[str, Step]:
        """What can be looked at next, by name."""
        return {}

    def next(self, name: str, **file: str) -> Any:
        """Open the view of a step below this one, with its text, class and method, and return it.

        >>> import nbsal
        >>> view = nbsal.why(nbsal.load("demo/reviews-small"), "A dull film.").wait()
        >>> sorted(view.steps())
        ['class', 'method', 'texts']
        >>> view.next("method").wait().other_method
        'occlusion'
        """
        steps = self.steps()
        if name not in steps:
            raise UnknownName("name", name, steps, f"{type(self).__name__} has no step {name!r:.40}.")
        view = steps[name].open(rooms.views(), **file)
        previous, self._below = self._below, view
        view._snapshots.above = self._snapshots
        if previous is not None:
            previous.close()
        return view

    def handle_next(self, name: Any, file: Any = None) -> str:
        """Answer a page whose reader goes on; a `file` of texts comes as its name and its content."""
        self.next(str(name), **({} if file is None else {"file": str(file["name"]), "content": str(file["content"])}))
        return IN_PYTHON

    def close(self) -> None:
        """Remove the view, and those that were opened from it, from the page."""
        if self._below is not None:
            self._below.close()
        super().close()

    def _static_html(self) -> str:
        below = self._below
        return super()._static_html() + ("" if below is None else below._static_html())
