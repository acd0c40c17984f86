"""Workbench: a text with its layers, its heads and its games, in one view with one selection."""

from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from nbsal.explainer import Explainer
from nbsal.methods.base import LayerMethod
from nbsal.methods.decoding import Decoded
from nbsal.saliency import LayerSaliency, Saliency
from nbsal.widgets import jobs, wire
from nbsal.widgets.explainer_view import as_explainer, view_choices
from nbsal.widgets.export import asset
from nbsal.widgets.games import Games, image
from nbsal.widgets.heads import Heads
from nbsal.widgets.layers import heatmap_html

if TYPE_CHECKING:
    import pandas

PANES = {"layers": ("layers",), "heads": ("grid", "attention"), "games": ("game",)}


class Workbench(Games, Heads):
    """Highlight, Layers, Heads and Games of one text and one explainer.

    `pane` is what stands below the text: "layers", "heads" or "games"; it alone is computed. All other traits are those
    of the four views. Heads act where the method is one of Mask-LRP's.

    >>> import nbsal
    >>> view = Workbench(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A joy.", pane="games").wait()
    >>> view.result.prediction, view.played.chance is not None
    ('positive', True)
    """

    inputs: ClassVar[tuple[str, ...]] = (*Heads.inputs, "pane")
    rests: ClassVar[dict[str, tuple[str, ...] | None]] = {
        "layers": ("text", "method", "target", "tau"),
        **Heads.rests,
        **Games.rests,
    }
    _esm = asset("workbench.js")
    _css = asset("workbench.css")

    pane = traitlets.Enum(tuple(PANES), "layers").tag(sync=True)
    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True)
    _layers = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, text: Any = None, **settings: Any) -> None:
        self.layers: LayerSaliency | None = None
        super().__init__(as_explainer(source, self), text, **settings)

    def bound(self, source: Explainer) -> Explainer:
        return source

    def offered(self, source: Explainer) -> dict[str, Any]:
        return view_choices(source)

    def asked(self, wanted: dict[str, Any]) -> list[str]:
        return list(PANES[wanted["pane"]])

    def find_layers(self, reading: Saliency, wanted: dict[str, Any], job: jobs.Job) -> LayerSaliency | str:
        """The explanation at every layer, or why there is none."""
        explainer = self.adjusted(wanted)
        if not isinstance(explainer.method, LayerMethod | Decoded):
            return f"{wanted['method']} does not read one hidden layer: it has no layers to go through."
        if len(reading.row) > self.subject.max_length:
            return "Layers are of one reading, and this text is longer than the model reads."
        return explainer.every_layer(wanted["text"], wanted["target"])

    def show_layers(self, found: LayerSaliency | str | None) -> None:
        """Scores of every layer, or why there are none."""
        self.layers = found if isinstance(found, LayerSaliency) else None
        if self.layers is not None:
            packed, scales = wire.scores(list(self.layers.scores))
            self._layers = {"scores": packed, "scales": scales}
        else:
            self._layers = {"why": found} if found else {}

    def to_frame(self) -> "pandas.DataFrame":
        self._needs_result()
        return self.result.to_frame()  # type: ignore[no-any-return]

    def html(self) -> str:
        below = ""
        if self.pane == "layers" and self.layers is not None:
            below = self.layers._repr_html_()
        elif self.pane == "heads" and self.grid is not None:
            below = self.grid.to_html()
        elif self.pane == "games" and self.played is not None:
            below = image(self.picture())
        return str(self.result.to_html()) + below

    def picture(self) -> bytes:
        if self.pane == "games" and self.played is not None:
            return Games.picture(self)
        if self.pane == "layers" and self.layers is not None:
            return heatmap_html(self.layers)
        return Heads.picture(self)
