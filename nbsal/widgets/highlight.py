"""The Highlight view: a text whose tokens are coloured by the evidence for and against the decision."""

import traitlets

from nbsal.render.sheet import Sheet
from nbsal.widgets.explainer_view import ExplainerView
from nbsal.widgets.page.html_export import asset

CLASSES, WORDS = 6, 10  # bars of a picture


@traitlets.signature_has_traits
class Highlight(ExplainerView):
    """A text, typed in the view or set from Python, that is explained at once; or a finished Saliency.

    >>> import nbsal
    >>> view = Highlight(nbsal.Explainer(nbsal.load("demo/reviews"), "decoded-gradcam"), text="A warm and funny film.")
    >>> view.wait().result.prediction
    'positive'
    """

    live_name = "highlight"
    _esm = asset("highlight.js")
    _css = asset("highlight.css")

    def sheet(self) -> Sheet:
        return self.result.sheet(self.level, self.statement, self.classes)  # type: ignore[no-any-return]
