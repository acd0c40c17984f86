"""Layers: layers by tokens, shaded; choosing a row chooses the layer."""

from typing import TYPE_CHECKING, Any

import traitlets

from nbsal.explainer import Explainer
from nbsal.render import png
from nbsal.saliency import LayerSaliency
from nbsal.widgets import jobs
from nbsal.widgets.explainer_view import HighlightView
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas


class Layers(HighlightView):
    """One explanation at every layer, from one forward and one backward pass.

    `layer` is the row that is chosen, and is shown as a text below; link it to a Highlight's. `scale` "own" shades each
    layer beside its own largest score, "shared" beside the largest of all.

    >>> import nbsal
    >>> view = Layers(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A joy.")
    >>> view.wait().to_frame().shape
    (7, 5)
    """

    inputs = ("text", "method", "target", "tau")
    gives = LayerSaliency
    layered = True
    _esm = asset("layers.js")
    _css = asset("layers.css")

    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True)

    def explain(self, explainer: Explainer, wanted: dict[str, Any], job: jobs.Job) -> LayerSaliency:
        return explainer.every_layer(wanted["text"], wanted["target"])

    def selected(self) -> "pandas.DataFrame":
        layer = len(self.result.scores) - 1 if self.layer is None else self.layer
        return self._chosen(self.result.at(layer).to_frame())

    def html(self) -> str:
        return str(self.result._repr_html_())

    def picture(self) -> bytes:
        return heatmap_html(self.result)


def heatmap_html(found: LayerSaliency) -> bytes:
    """Layers by tokens as PNG."""
    from matplotlib.figure import Figure

    rows, columns = found.scores.shape
    figure = Figure(figsize=(min(60.0, 0.3 * columns + 2), 0.3 * rows + 1.6), layout="constrained")
    return png.draw_axes(found.plot(figure.add_subplot()))
