"""The Heads view: attention heads that are switched on and off while Mask-LRP explains the text with those left on."""

from dataclasses import replace
from typing import Any

import numpy as np
import traitlets

from nbsal.explain.lazy import Explainer
from nbsal.explain.sentences.statement import Statement
from nbsal.explain.text_sheet import changes_table, share_lines, text_blocks
from nbsal.heads.counts import HeadStudy
from nbsal.methods.lazy import MaskLRP, Subject, catalogue
from nbsal.model.head_mask import HeadMask
from nbsal.render.sheet import Block, Note, Sheet
from nbsal.support.validation import checked
from nbsal.widgets.cached_view import CachedView, TextResult
from nbsal.widgets.content.head_grid import KINDS, SWITCH_INPUTS, HeadGrid, HeadSwitches
from nbsal.widgets.content.head_parts import (
    MAP_TOO_LONG,
    MAX_TOKENS,
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
from nbsal.widgets.page import jobs
from nbsal.widgets.page.choices import offered_methods, view_choices
from nbsal.widgets.page.html_export import asset

SYNT, POS = 0.1, 0.8  # default thresholds of a study's mask


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
        self.parts |= {
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

    def text_blocks(self) -> list[Block]:
        """The text with what is said of it."""
        return text_blocks(self.result, self.result.scored_spans(self.level), self.statement, level=self.level)

    def change_blocks(self) -> list[Block]:
        """The classes without the heads that are off, and with all of them."""
        without = None if self.effect is None or not self.effect.off else self.effect.without
        now = {} if without is None else dict(without.probabilities)
        classes = sorted(self.classes, key=lambda pair: -pair[1])
        return [changes_table([(name, share, now.get(name, share)) for name, share in classes])] if classes else []

    def head_blocks(self) -> list[Block]:
        """The grid, and the attention of the chosen head."""
        if self.grid is None:
            return []
        notes = [Note(" · ".join(notes))] if (notes := [*self.grid.notes(), *self.effect_notes()]) else []
        if self.attention is None:
            return [*self.grid.blocks(), *notes]
        habit = self.grid.habit(self.attention.head)
        return [*self.grid.blocks(), *notes, *self.attention.blocks(habit)]


@traitlets.signature_has_traits
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
    (HeadMask(1 of 72 heads), 'positive')
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

    def sheet(self) -> Sheet:
        if isinstance(self.result, HeadGrid):
            return Sheet(self.result.finding(), self.head_blocks())
        text = self.text_blocks()[:3]  # down to the legend
        blocks = [*text, *self.change_blocks(), *share_lines(self.result), *self.head_blocks()]
        return Sheet(self.statement.text(), blocks, self.result.notes())


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
