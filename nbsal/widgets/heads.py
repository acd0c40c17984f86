"""The Heads view: attention heads that are switched on and off while Mask-LRP explains the text with those left on."""

from dataclasses import replace
from typing import Any

import numpy as np
import traitlets

from nbsal.explain.lazy import Explainer
from nbsal.explain.saliency import Saliency
from nbsal.explain.sentences.statement import Statement
from nbsal.heads.counts import HeadStudy
from nbsal.methods.lazy import MaskLRP, Subject, catalogue
from nbsal.model.head_mask import HeadMask
from nbsal.render import text_lines
from nbsal.support.validation import checked
from nbsal.widgets.cached_view import CachedView, TextResult
from nbsal.widgets.content.head_grid import KINDS, SWITCH_INPUTS, HeadGrid, HeadSwitches
from nbsal.widgets.content.head_parts import (
    MAP_TOO_LONG,
    MAX_TOKENS,
    MAX_WORDS,
    UNMASKED,
    ZEROED,
    AttentionPanel,
    EffectPanel,
    GridPanel,
    HeadAttention,
    HeadEffect,
    effect_traits,
    grid_traits,
    masks_heads,
)
from nbsal.widgets.highlight import scored_text
from nbsal.widgets.page import jobs
from nbsal.widgets.page.choices import offered_methods, view_choices
from nbsal.widgets.page.html_export import asset

SYNT, POS = 0.1, 0.8  # default thresholds of a study's mask
CELL = 0.3  # inches of a head in a picture
WORD = 0.16  # inches of a word in the map of a picture


class HeadView(CachedView):
    """A view that switches heads, and has the parts that show what this does."""

    reading_inputs = (*CachedView.inputs, *SWITCH_INPUTS)
    switches: HeadSwitches

    kind = traitlets.Enum(KINDS, "all").tag(sync=True, page=True)
    synt = traitlets.Float(SYNT, min=0.0, max=1.0).tag(sync=True, page=True)
    pos = traitlets.Float(POS, min=0.0, max=1.0).tag(sync=True, page=True)
    toggled = traitlets.List(traitlets.Any()).tag(sync=True, page=True)
    head = traitlets.List(traitlets.Any(), default_value=None, allow_none=True).tag(sync=True, page=True)
    _heads = traitlets.Dict().tag(sync=True)
    _effect = traitlets.Dict().tag(sync=True)
    _attention = traitlets.Dict().tag(sync=True)
    _attended = traitlets.Dict().tag(sync=True)  # what the selected words attend to

    @checked
    def __init__(self, source: Any, text: Any = None, *, study: HeadStudy | None = None, **settings: Any) -> None:
        self.study = source if isinstance(source, HeadStudy) else study
        super().__init__(source, text, **settings)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        mask = getattr(explainer.method, "mask", None)
        own = model_mask(explainer.subject, self.study)
        self.switches = HeadSwitches(own if mask is None else mask, self.study)
        self.parts = {
            "grid": GridPanel(self.switches),
            "effect": EffectPanel(explainer.subject, self.switches),
            "attention": AttentionPanel(explainer.subject),
        }
        kind = {} if mask is None or mask == own else {"kind": "both"}
        return super().from_explainer(explainer) | kind | {"head": first_named_head(self.switches)}

    @property
    def mask(self) -> HeadMask:
        """The heads that are on."""
        return self.switches.mask({name: getattr(self, name) for name in SWITCH_INPUTS})

    @traitlets.validate("toggled")
    def _valid_toggled(self, proposal: Any) -> Any:
        return [self.switches.check(head, "toggled") for head in proposal["value"]]

    @traitlets.validate("head")
    def _valid_head(self, proposal: Any) -> Any:
        return None if proposal["value"] is None else self.switches.check(proposal["value"], "head")

    @property
    def grid(self) -> HeadGrid | None:
        """The grid on display."""
        return self.result if isinstance(self.result, HeadGrid) else self.part("grid")

    @property
    def effect(self) -> HeadEffect | None:
        """What switching heads off does to the decision, if the method is one of Mask-LRP's."""
        return self.part("effect")  # type: ignore[no-any-return]

    @property
    def attention(self) -> HeadAttention | None:
        """The attention of the chosen head on display."""
        return self.part("attention")  # type: ignore[no-any-return]

    def explainer_for(self, inputs: dict[str, Any]) -> Explainer:
        """The explainer with the current settings and, if its method is one of Mask-LRP's, the heads that are on."""
        own, name = self.explainer, inputs["method"]
        method = own.method if name == own.method.name else catalogue.create(name)
        if isinstance(method, MaskLRP):
            return Explainer(own.subject, replace(method, mask=self.switches.mask(inputs)), long=own.long)
        return super().explainer_for(inputs)

    def preview(self, explainer: Explainer, inputs: dict[str, Any], job: jobs.Job) -> TextResult | None:
        # Heads act on Mask-LRP alone: a preview by another method would hide what switching them does.
        return None if masks_heads(inputs["method"]) else super().preview(explainer, inputs, job)

    def publish(self, result: Any) -> dict[str, Any]:
        traits = super().publish(result)
        effect, grid, attention = (result.parts.get(name) for name in ("effect", "grid", "attention"))
        decision = traits["_result"]
        traits["_effect"] = effect_traits(effect, decision["prediction"], decision["probabilities"])
        if grid is not None:
            masked, measured = masks_heads(decision["method"]), effect is not None and effect.without is not None
            traits["_heads"]["count"] = grid.count(masked, measured)
        if attention is not None and grid is not None:
            traits["_attention"]["heading"] = attention.heading(grid.habit(attention.head))
            traits["_attended"] = self._attended_traits(attention, grid)
        elif len(result.saliency.row) > MAX_TOKENS:
            traits["_attention"] = {"why": MAP_TOO_LONG}
        if effect is not None and effect.without is not None and effect.off:
            traits["_result"]["notes"].append(ZEROED)
            probability = dict(traits["_result"]["probabilities"]).get(result.saliency.target)
            statement = result.saliency.statement(probability, effect.heads_off(result.saliency))
            traits["_statements"] = [statement.to_json()]
        return traits

    @traitlets.observe("selection")
    def _show_attended(self, change: Any) -> None:
        if self.attention is not None and self.grid is not None:
            self._attended = self._attended_traits(self.attention, self.grid)

    def _attended_traits(self, attention: HeadAttention, grid: HeadGrid) -> dict[str, Any]:
        """What the selected words attend to."""
        heading = attention.heading(grid.habit(attention.head), self.selection)
        return {"selection": list(self.selection), "heading": heading}

    def effect_notes(self) -> list[str]:
        """What the numbers before and after are of, or that no head is off in the answer."""
        if not isinstance(self.result, HeadGrid) and not masks_heads(self.method):
            return [UNMASKED]
        return [ZEROED] if self.effect is not None and self.effect.without is not None and self.effect.off else []

    def statements(self, result: Any) -> list[Statement]:
        """What is said of the text, with the effect of the heads that are off."""
        effect = self.effect
        return [result.statement(self.target_probability, effect and effect.heads_off(result))]

    def text_html(self) -> str:
        """The text as HTML without scripts."""
        return str(self.result.render_html(level=self.level, statement=self.statement))

    def heads_html(self) -> str:
        """The grid, and the attention of the chosen head, as HTML without scripts."""
        content = "" if self.grid is None else self.grid.render_html(self.effect_notes())
        if self.attention is None or self.grid is None:
            return content
        return content + self.attention.render_html(self.grid.habit(self.attention.head))


@checked
class Heads(HeadView):
    """Which heads pass relevance on, what each attends to, and what the model decides without those that are off.

    `kind` chooses which heads are on: "all" of the model, those that follow syntax or a position ("both"), only the
    "syntactic" or "positional" ones, or "none". At first all are on, unless the explainer has another mask than the
    model or the study, or a mask is shown without a text. `toggled` lists heads [block, head] that are switched the
    other way, and `mask` is the result of both. With a `study`, `synt` and `pos` are its thresholds. `head` is the one
    whose attention is shown, from the selected tokens or from all. A HeadMask or HeadStudy is shown without a text.

    >>> import nbsal
    >>> view = Heads(nbsal.load("demo/reviews"), text="A warm and funny film.", kind="none", toggled=[[2, 0]])
    >>> view.mask, view.wait().result.prediction
    (HeadMask(1 of 72 heads: nsubj 0, obj 0, amod 0, advmod 0, positional 0), 'positive')
    """

    inputs = (*HeadView.reading_inputs, "head")
    accepts = (HeadStudy, HeadMask)
    omitted_steps = ("heads",)
    _esm = asset("heads.js")
    _css = asset("heads.css")

    def as_explainer(self, source: Any) -> Explainer:
        """The explainer of the view, which uses Mask-LRP whatever the method of `source` is."""
        if isinstance(source, Subject):
            source = Explainer(source, "mask-lrp", mask=model_mask(source, self.study))
        explainer = super().as_explainer(source)
        if isinstance(explainer.method, MaskLRP):
            return explainer
        mask = model_mask(explainer.subject, self.study)
        return Explainer(explainer.subject, "mask-lrp", mask=mask, long=explainer.long)

    def from_explainer(self, explainer: Explainer) -> dict[str, Any]:
        initial = super().from_explainer(explainer)
        own = explainer.method.name
        masking = [
            choice for choice in offered_methods(explainer) if masks_heads(choice["name"]) or choice["name"] == own
        ]
        return initial | {"_choices": view_choices(explainer, masking)}

    def from_result(self, result: Any) -> dict[str, Any]:
        self.switches = HeadSwitches(result if isinstance(result, HeadMask) else None, self.study)
        return {"kind": "both"}

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        return super().compute(inputs, job) if self.plain_result is None else self.switches.grid(inputs)

    def publish(self, result: Any) -> dict[str, Any]:
        return {"_heads": grid_traits(result)} if isinstance(result, HeadGrid) else super().publish(result)

    def render_html(self) -> str:
        return self.heads_html() if isinstance(self.result, HeadGrid) else self.text_html() + self.heads_html()

    def render_png(self) -> bytes:
        return heads_png(self, [] if isinstance(self.result, HeadGrid) else [self.result])


def model_mask(subject: Subject, study: HeadStudy | None) -> HeadMask:
    """The mask to begin with: that of the study, or the subject's own, or an empty one."""
    if study is not None:
        return study.mask()
    if subject.mask is not None:
        return subject.mask  # type: ignore[no-any-return]
    if not subject.heads:
        from nbsal.model import refusals  # imports torch

        raise refusals.no_heads(subject)
    return HeadMask.from_array(np.zeros((subject.depth, subject.heads)))


def first_named_head(switches: HeadSwitches) -> list[int] | None:
    """The first head that follows syntax, or else a position."""
    roles = switches.grid({"kind": "both", "synt": SYNT, "pos": POS, "toggled": []}).roles
    named = np.argwhere(roles.syntactic if roles.syntactic.any() else roles.positional)
    return named[0].tolist() if len(named) else None


def heads_png(view: HeadView, saliencies: list[Saliency], with_heads: bool = True) -> bytes:
    """Texts, and below them the grid of heads and the attention of the chosen one, as PNG."""
    texts = [scored_text(view.statement, saliency.scored_spans(view.level)) for saliency in saliencies]
    grid, attention = view.grid, view.attention
    read = [note for saliency in saliencies for note in [*view.statement.notes, *saliency.notes()]]
    if grid is None or not with_heads:
        return text_lines.png(text_lines.draw(texts, notes=read))
    blocks, heads = grid.roles.shape
    words = 0 if attention is None or len(attention.names) > MAX_WORDS else len(attention.names)
    grid_height, map_height = CELL * (blocks + 1.5), WORD * (words + 8) if words else 0.0
    wide = max(text_lines.WIDTH, CELL * (1.3 * heads + 4), WORD * (words + 8))
    notes = [grid.finding(), " · ".join([*grid.notes(), *view.effect_notes()]), *read]
    figure = text_lines.draw(texts, width=wide, notes=notes, below=grid_height + map_height)
    width, height = figure.get_size_inches()
    place = (3 * CELL / width, map_height / height, 1.3 * heads * CELL / width, blocks * CELL / height)
    grid.plot(figure.add_axes(place))
    if attention is not None and words:
        side = WORD * words
        ax = figure.add_axes((6 * WORD / width, 0.5 * WORD / height, side / width, side / height))
        attention.plot(ax)
        ax.set_title(attention.heading(grid.habit(attention.head)), fontsize=8, loc="left", parse_math=False)
    return text_lines.png(figure)
