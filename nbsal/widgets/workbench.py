"""The Workbench view: a text with its layers, its heads and its games, which share one selection."""

from collections.abc import Iterable
from typing import Any

import traitlets

from nbsal.explainer import Explainer
from nbsal.heads.statistics import HeadStudy
from nbsal.saliency import LayerSaliency
from nbsal.validation import checked
from nbsal.widgets.cached_view import CachedView
from nbsal.widgets.explainer_view import ShadedView
from nbsal.widgets.export import asset
from nbsal.widgets.games import GamePart, GameTraits, games_png, image_html
from nbsal.widgets.head_grid import SWITCH_INPUTS, HeadGrid
from nbsal.widgets.heads import AttentionPart, GridPart, HeadTraits, grid_png, masked_explainer, switches_of
from nbsal.widgets.layers import LayersPart, heatmap_png
from nbsal.widgets.token_games import TokenGames

PANES = {"layers": ("layers",), "heads": ("grid", "attention"), "games": ("game",)}  # and the parts they show


@checked
class Workbench(CachedView, HeadTraits, GameTraits):
    """A text with a pane below it: `pane` "layers", "heads" or "games". Only the pane on display is computed.

    All other traits are those of Highlight, Layers, Heads and Games. Switching heads changes the scores only
    with a mask-lrp method.

    >>> import nbsal
    >>> view = Workbench(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A joy.", pane="games").wait()
    >>> view.result.prediction, view.token_games.random is not None
    ('positive', True)
    """

    reading_inputs = (*ShadedView.inputs, *SWITCH_INPUTS)
    inputs = (*reading_inputs, "head", "pane")
    accepts = ()
    _esm = asset("workbench.js")
    _css = asset("workbench.css")

    pane = traitlets.Enum(tuple(PANES), "layers").tag(sync=True, page=True)
    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True, page=True)
    _layers = traitlets.Dict().tag(sync=True)

    def __init__(self, source: Any, text: Any = None, *, study: HeadStudy | None = None, **settings: Any) -> None:
        self.study = study
        super().__init__(source, text, **settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        self.switches = switches_of(explainer, self.study)
        self.parts = {
            "layers": LayersPart(explainer),
            "grid": GridPart(self.switches),
            "attention": AttentionPart(explainer.subject),
            "game": GamePart(explainer.subject),
        }
        return super().from_explainer(explainer)

    @property
    def layers(self) -> LayerSaliency | None:
        """The scores of every layer on display, if the method has layers."""
        layers = self.part("layers")
        return layers if isinstance(layers, LayerSaliency) else None

    @property
    def grid(self) -> HeadGrid | None:
        """The grid of heads on display."""
        return self.part("grid")  # type: ignore[no-any-return]

    @property
    def token_games(self) -> TokenGames | None:
        """The games on display."""
        return self.part("game")  # type: ignore[no-any-return]

    @property
    def remaining(self) -> list[int]:
        """The tokens that the model reads at step `at` of the game on display."""
        return [] if self.token_games is None else self.token_games.remaining(self.game, self.at)

    def active_parts(self, inputs: dict[str, Any]) -> Iterable[str]:
        return PANES[inputs["pane"]]

    def explainer_for(self, inputs: dict[str, Any]) -> Explainer:
        return masked_explainer(self.explainer, self.switches, inputs)

    def render_html(self) -> str:
        text = str(self.result.to_html())
        if self.pane == "layers" and self.layers is not None:
            return text + self.layers._repr_html_()
        if self.pane == "heads" and self.grid is not None:
            return text + self.grid.to_html()
        if self.pane == "games" and self.token_games is not None:
            return text + image_html(games_png(self.token_games))
        return text

    def render_png(self) -> bytes:
        if self.pane == "layers" and self.layers is not None:
            return heatmap_png(self.layers)
        if self.pane == "games" and self.token_games is not None:
            return games_png(self.token_games)
        return grid_png(self.result, self.grid)
