"""Highlight: a text with its tokens shaded by what they say for or against the decision."""

from typing import Any

from nbsal.render import png
from nbsal.widgets.explainer_view import HighlightView
from nbsal.widgets.export import asset


class Highlight(HighlightView):
    """A text, typed in the view or set from Python, explained at once.

    >>> import nbsal
    >>> view = Highlight(nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam"), text="A warm and funny film.")
    >>> view.wait().result.prediction
    'positive'
    """

    _esm = asset("highlight.js")
    _css = asset("highlight.css")

    def picture(self) -> bytes:
        found: Any = self.result
        return png.highlighted(found.caption(), found.scored_spans(), found.largest, found.notes())
