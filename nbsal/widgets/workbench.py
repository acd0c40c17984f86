"""The Workbench view: a text with its layers, its hiding curve and its heads, which share one selection."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import traitlets

from nbsal.explain.layer_sheet import layer_blocks
from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import LayerSaliency, Saliency
from nbsal.explain.sentences.decision_facts import TOO_LONG
from nbsal.render.sheet import Block, Note, Sheet
from nbsal.support.errors import UnknownName
from nbsal.support.validation import checked
from nbsal.widgets.cached_view import PanelJob, TextResult
from nbsal.widgets.content.head_parts import masks_heads
from nbsal.widgets.content.token_games import TokenGames
from nbsal.widgets.games import GamePanel, GameView, game_blocks
from nbsal.widgets.heads import HeadView
from nbsal.widgets.layers import LayersPanel
from nbsal.widgets.page import jobs
from nbsal.widgets.page.html_export import asset

PANELS = {"games": ("game",), "layers": ("layers",), "heads": ("attention",)}  # and the parts they show

OF_A_STEP = ("sentences", "hints", "changes")  # what Games says of each; here the sentence stays that of the text
STEP_WORDS = 1600  # a step reads the text again: so many words in all
FEWEST_STEPS, MOST_STEPS = 4, 20


class HidingPanel(GamePanel):
    """The game on display, or the reason why there is none; in fewer steps than in Games, since other panels wait."""

    depends_on: ClassVar[tuple[str, ...] | None] = (*HeadView.reading_inputs, "game")

    def most_steps(self, words: int) -> int:
        return min(max(STEP_WORDS // max(words, 1), FEWEST_STEPS), MOST_STEPS)

    def games(self, inputs: dict[str, Any]) -> Collection[str]:
        return [inputs["game"]]

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PanelJob) -> TokenGames | str:
        return TOO_LONG if len(saliency.row) > self._subject.max_length else super().compute(saliency, inputs, job)

    def publish(self, value: TokenGames | str | None) -> dict[str, Any]:
        games, why = (None, value) if isinstance(value, str) else (value, "")
        shown = super().publish(games)["_game"]
        return {"_game": {name: shown[name] for name in shown if name not in OF_A_STEP}, "_no_games": why}


@traitlets.signature_has_traits
@checked
class Workbench(HeadView, GameView):
    """A text with panels beside it, which unfold: `panels` lists those of "games", "layers" and "heads" that are open.

    Only open panels are computed: first the scores, then one panel after the other. All other traits are those of
    Highlight, Layers, Heads and Games. Heads have an effect if the method is one of Mask-LRP's; their panel opens and
    closes with it.

    >>> import nbsal
    >>> view = Workbench(nbsal.Explainer(nbsal.load("demo/reviews"), "gradcam"), text="A joy.", panels=["games"]).wait()
    >>> view.result.prediction, view.token_games.random is not None, view.layers
    ('positive', True, None)
    """

    inputs = (*HeadView.reading_inputs, "head", "game", "panels")
    accepts = ()
    omitted_steps = ("games", "layers", "heads")
    _esm = asset("workbench.js")
    _css = asset("workbench.css")

    panels = traitlets.List(default_value=["games"]).tag(sync=True, page=True)
    scale = traitlets.Enum(("own", "shared"), "own").tag(sync=True, page=True)
    _layers = traitlets.Dict().tag(sync=True)
    _layer_words = traitlets.Dict().tag(sync=True)
    _no_games = traitlets.Unicode().tag(sync=True)  # why there are none
    _unseen = traitlets.List(traitlets.Unicode()).tag(
        sync=True, page=True
    )  # panels that the page has scrolled out of sight

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        initial = super().from_explainer(explainer)
        self.parts |= {"layers": LayersPanel(explainer), "game": HidingPanel(explainer.subject)}
        return initial | ({"panels": list(PANELS)} if masks_heads(explainer.method.name) else {})

    @property
    def layers(self) -> LayerSaliency | None:
        """The scores of every layer on display, if the method has layers."""
        layers = self.part("layers")
        return layers if isinstance(layers, LayerSaliency) else None

    def active_parts(self, inputs: dict[str, Any]) -> Iterable[str]:
        panels = [name for name in PANELS if name in inputs["panels"] and name not in self._unseen]
        # The heading of a folded panel tells the grid, and the headline of the text the effect.
        return ["grid", "effect", *(part for name in panels for part in PANELS[name])]

    def wait(self, timeout: float | None = None) -> "Workbench":
        """Wait until the current request is done, in panels out of sight too; raise its error if it failed."""
        if not self._worker.here:
            self._unseen = []
        super().wait(timeout)
        return self

    def handle_save(self, kind: str) -> dict[str, str]:
        """Answer a page that wants to download an export, in which no open panel is missing."""
        if self._unseen:
            inputs = {name: getattr(self, name) for name in self.inputs}
            self._unseen = []
            result = self.compute(inputs, jobs.Job("save", lambda job: None))
            with self._lock:
                self._display(result, self.publish(result))
        return super().handle_save(kind)

    def sheet(self) -> Sheet:
        blocks = [block for name in PANELS if name in self.panels for block in self._panel_blocks(name)]
        sheet: Sheet = self.result.sheet(self.level, self.statement, self.classes)
        return replace(sheet, blocks=[*sheet.blocks, *blocks])

    def _start_follow_up(self, result: Any) -> None:
        """Check the sentence in whole beside a curve, which hides far more than that."""
        if self.token_games is not None and self.check is not False:
            self._start_check(self._asked_passes())
        else:
            super()._start_follow_up(result)

    def _require_result(self, latest: bool = False) -> None:
        super()._require_result(latest)
        if self._unseen and not self._worker.here:
            self.wait()

    @traitlets.validate("panels")
    def _valid_panels(self, proposal: Any) -> Any:
        for name in proposal["value"]:
            if not isinstance(name, str) or name not in PANELS:
                raise UnknownName("panels", name, PANELS)
        return list(proposal["value"])

    @traitlets.observe("method")
    def _open_heads(self, change: Any) -> None:
        """Open the panel of heads with a method that heads act on, and close it with others."""
        before, after = masks_heads(change["old"] or ""), masks_heads(change["new"])
        if before != after and change["old"]:
            self.panels = [name for name in PANELS if (after if name == "heads" else name in self.panels)]

    @traitlets.observe("_unseen")
    def _compute_seen(self, change: Any) -> None:
        """Compute what has come into sight, if it is not there yet."""
        seen = set(change["old"] or ()) - set(change["new"])
        parts = {part for name in seen for part in PANELS.get(name, ())}
        if isinstance(self._computed, TextResult) and not parts <= self._computed.parts.keys():
            self.request()

    def _chosen_layer(self, layers: LayerSaliency) -> int:
        return len(layers.scores) - 1 if self.layer is None else self.layer

    def _panel_blocks(self, name: str) -> Sequence[Block]:
        """What an open panel shows."""
        if name == "heads":
            return [*self.change_blocks(), *self.head_blocks()] if self.effect else self.head_blocks()
        why = self._no_games if name == "games" else self._layers.get("why", "")
        if why:
            return [Note(why)]
        if name == "games":
            return [] if self.token_games is None else game_blocks(self.token_games, self.game, self.at)
        if self.layers is None:
            return []
        return layer_blocks(self.layers, self._chosen_layer(self.layers), self.level, self.scale)
