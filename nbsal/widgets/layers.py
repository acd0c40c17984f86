"""The Layers view: a text at one layer beside a heat map of all layers by words, in which a row chooses the layer."""

from typing import Any, ClassVar

import traitlets

from nbsal.explain.layer_sheet import LayerWords, layer_words
from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import LayerSaliency, Saliency
from nbsal.explain.scoring.running import SpanSaliency
from nbsal.render.sheet import Sheet
from nbsal.support.errors import InputError
from nbsal.support.lazy import pandas
from nbsal.widgets.cached_view import Panel, PanelJob
from nbsal.widgets.content.legends import legends
from nbsal.widgets.explainer_view import ExplainerView, with_settings
from nbsal.widgets.page import jobs, wire
from nbsal.widgets.page.html_export import asset

TOO_LONG = "The text is longer than the model reads at once; layers need a shorter one."


@traitlets.signature_has_traits
class Layers(ExplainerView):
    """One explanation at every layer, from one forward and one backward pass; or a finished LayerSaliency.

    The explanation of a part of a reply, `answer.of(...)`, is explained at every layer.

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
    live_name = "layers"
    omitted_steps = ("layers",)
    _esm = asset("layers.js")
    _css = asset("layers.css")

    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True, page=True)
    _layer_words = traitlets.Dict().tag(sync=True)  # what the page says of the layers

    def __init__(self, source: Any, text: Any = None, **settings: Any) -> None:
        if isinstance(source, SpanSaliency):
            layer = source.provenance["parameters"].get("layer")
            settings = {"layer": layer if isinstance(layer, int) else None} | settings
            source = source.every_layer()
        super().__init__(source, text, **settings)

    def as_explainer(self, source: Any) -> Explainer:
        explainer = super().as_explainer(source)
        return explainer.for_layers if explainer.is_default else explainer

    @property
    def chosen(self) -> int:
        """The layer on display; of a finished result the last one, unless another is chosen."""
        return self.row_of(self.result)

    def row_of(self, result: Any) -> int:
        last = len(result.scores) - 1
        return last if self.layer is None else min(int(self.layer), last)

    @traitlets.observe("layer")
    def _check_layer(self, change: Any) -> None:
        """Check what is said of another layer, once it is chosen."""
        if self.status == "ready" and self.result is not None:
            self._start_follow_up(self.result)

    def explain(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> LayerSaliency:
        if explainer.windowed(explainer.subject.encode(inputs["text"])[0]):
            raise InputError(TOO_LONG, argument="text", value=inputs["text"])
        return explainer.every_layer(inputs["text"], inputs["target"])

    def preview(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> Any:
        return self.with_first_check(self.explain(explainer, inputs, job), explainer, inputs, job)

    def selected(self) -> "pandas.DataFrame":
        return self._selected_rows(self.result.at(self.chosen).to_frame())

    def shown_frame(self) -> "pandas.DataFrame":
        words = LayerWords(self.result, self.level)
        return pandas.DataFrame(words.scores, columns=words.names).rename_axis("layer").reset_index()

    def publish(self, result: LayerSaliency) -> dict[str, Any]:
        return super().publish(result) | {"_layer_words": layer_words(result)}

    def sheet(self) -> Sheet:
        return self.result.sheet(self.chosen, self.level, self.scale, self.statement, self.classes)  # type: ignore[no-any-return]


class LayersPanel(Panel):
    """The scores of every layer as a part of another view, or the reason why there are none."""

    depends_on: ClassVar[tuple[str, ...] | None] = ("text", "method", "target", "tau")

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> LayerSaliency | str:
        explainer = with_settings(self._explainer, inputs)
        explainer = explainer.for_layers
        if len(saliency.row) > explainer.subject.max_length:
            return TOO_LONG
        return explainer.every_layer(inputs["text"], inputs["target"])

    def publish(self, value: LayerSaliency | str | None) -> dict[str, Any]:
        if not isinstance(value, LayerSaliency):
            return {"_layers": {"why": value} if value else {}}
        statements = [saliency.statement().to_json() for saliency in value.rows()]
        notes = [saliency.notes()[0] for saliency in value.rows()]
        layers = {"scores": wire.scores(list(value.scores)), "statements": statements, "notes": notes}
        layers["legends"] = legends(value.row, value.scores)
        return {"_layers": layers, "_layer_words": layer_words(value)}
