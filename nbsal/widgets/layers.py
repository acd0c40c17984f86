"""The Layers view: a heat map of layers by tokens, in which a row chooses the layer."""

from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from nbsal.explainer import Explainer
from nbsal.methods.base import LayerMethod
from nbsal.methods.decoding import Decoded
from nbsal.render import text_lines
from nbsal.saliency import LayerSaliency, Saliency
from nbsal.widgets import jobs, wire
from nbsal.widgets.cached_view import Part, PartJob
from nbsal.widgets.explainer_view import ShadedView, with_settings
from nbsal.widgets.export import asset

if TYPE_CHECKING:
    import pandas

MAX_WIDTH = 60.0  # inches


class Layers(ShadedView):
    """One explanation at every layer, from one forward and one backward pass; or a finished LayerSaliency.

    `layer` is the chosen row, which is also shown as text; link it to the layer of a Highlight. `scale` "own" colours
    each layer up to its own largest score, "shared" all of them up to the largest of all.

    >>> import nbsal
    >>> view = Layers(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A joy.")
    >>> view.wait().to_frame().shape
    (7, 5)
    """

    inputs = ("text", "method", "target", "tau")
    accepts = (LayerSaliency,)
    layer_methods_only = True
    _esm = asset("layers.js")
    _css = asset("layers.css")

    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True, page=True)

    def explain(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> LayerSaliency:
        return explainer.every_layer(inputs["text"], inputs["target"])

    def selected(self) -> "pandas.DataFrame":
        layer = len(self.result.scores) - 1 if self.layer is None else self.layer
        return self._selected_rows(self.result.at(layer).to_frame())

    def render_html(self) -> str:
        return str(self.result._repr_html_())

    def render_png(self) -> bytes:
        return heatmap_png(self.result)


class LayersPart(Part):
    """The scores of every layer as a part of another view, or the reason why there are none."""

    depends_on: ClassVar[tuple[str, ...] | None] = ("text", "method", "target", "tau")

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PartJob) -> LayerSaliency | str:
        explainer = with_settings(self._explainer, inputs)
        if not isinstance(explainer.method, LayerMethod | Decoded):
            method = inputs["method"]
            return f"{method} does not score hidden layers. Choose a method with a layer setting, such as gradcam."
        limit = explainer.subject.max_length
        if len(saliency.row) > limit:
            return f"This text is longer than the model's limit of {limit} tokens, so there is no layer view."
        return explainer.every_layer(inputs["text"], inputs["target"])

    def publish(self, value: LayerSaliency | str | None) -> dict[str, Any]:
        if not isinstance(value, LayerSaliency):
            return {"_layers": {"why": value} if value else {}}
        scores, scales = wire.scores(list(value.scores))
        return {"_layers": {"scores": scores, "scales": scales}}


def heatmap_png(layers: LayerSaliency) -> bytes:
    """A heat map of layers by tokens as PNG."""
    from matplotlib.figure import Figure

    rows, columns = layers.scores.shape
    figure = Figure(figsize=(min(MAX_WIDTH, 0.3 * columns + 2), 0.3 * rows + 1.6), layout="constrained")
    layers.plot(figure.add_subplot())
    return text_lines.png(figure)
