"""Highlight: a text with its tokens shaded by what they say for or against the decision."""

from typing import Any

import traitlets

from nbsal.widgets import picture
from nbsal.widgets.bound import Bound
from nbsal.widgets.page import asset


class Highlight(Bound):
    """A text, typed in the view or set from Python, explained at once.

    `level` sums tokens to words; `signed` False colours what speaks for the target alone; `clip` is the share of the
    largest score that has full colour, and `gamma` below 1 brings out small scores. Numbers are never changed by them.

    >>> import nbsal
    >>> view = Highlight(nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam"), text="A warm and funny film.")
    >>> view.wait().result.prediction
    'positive'
    """

    _esm = asset("highlight.js")
    _css = asset("highlight.css")

    level = traitlets.Enum(("token", "word"), "token").tag(sync=True)
    signed = traitlets.Bool(True).tag(sync=True)
    gamma = traitlets.Float(1.0, min=0.2, max=3.0).tag(sync=True)
    clip = traitlets.Float(1.0, min=0.05, max=1.0).tag(sync=True)

    def picture(self) -> bytes:
        found: Any = self.result
        return picture.highlighted(found.caption(), found.stretches(), found.largest, found.notes())
