"""The Heads view: attention heads that are switched on and off while Mask-LRP explains the text with those left on."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import traitlets
from numpy.typing import NDArray

from nbsal import trace
from nbsal.explainer import Explainer
from nbsal.heads.statistics import HeadStudy
from nbsal.methods import catalogue
from nbsal.methods.relevance import MaskLRP
from nbsal.model.head_mask import HeadMask
from nbsal.model.subject import Subject
from nbsal.render import text_lines
from nbsal.saliency import Saliency
from nbsal.validation import Text, checked
from nbsal.widgets import jobs
from nbsal.widgets.cached_view import CachedView, LastValue, Part, PartJob
from nbsal.widgets.explainer_view import ShadedView, view_choices, with_settings
from nbsal.widgets.export import asset
from nbsal.widgets.head_grid import KINDS, SWITCH_INPUTS, HeadGrid, HeadSwitches
from nbsal.widgets.highlight import scored_text

SYNT, POS = 0.1, 0.8  # default thresholds of a study's mask
MAX_TOKENS = 512  # up to which a head's attention map is sent: its size is the square of this
CELL = 0.25  # inches of a head in a picture


class HeadTraits(traitlets.HasTraits):
    """The traits of a view that switches heads."""

    switches: HeadSwitches

    kind = traitlets.Enum(KINDS, "both").tag(sync=True, page=True)
    synt = traitlets.Float(SYNT, min=0.0, max=1.0).tag(sync=True, page=True)
    pos = traitlets.Float(POS, min=0.0, max=1.0).tag(sync=True, page=True)
    toggled = traitlets.List(traitlets.Any()).tag(sync=True, page=True)
    head = traitlets.List(traitlets.Any(), default_value=None, allow_none=True).tag(sync=True, page=True)
    _heads = traitlets.Dict().tag(sync=True)
    _attention = traitlets.Dict().tag(sync=True)

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


class GridPart(Part):
    """The grid of heads as a part of a view."""

    depends_on: ClassVar[tuple[str, ...] | None] = SWITCH_INPUTS
    keeps_previous = True  # a grid that vanished at every click would lose the keyboard focus

    def __init__(self, switches: HeadSwitches) -> None:
        self._switches = switches

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PartJob) -> HeadGrid:
        return self._switches.grid(inputs)

    def publish(self, value: HeadGrid | None) -> dict[str, Any]:
        return {} if value is None else {"_heads": grid_traits(value)}


class AttentionPart(Part):
    """The attention map of the chosen head, [query, key], one byte each."""

    depends_on: ClassVar[tuple[str, ...] | None] = ("text", "head")

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._maps = LastValue()

    def compute(self, saliency: Saliency, inputs: dict[str, Any], job: PartJob) -> dict[str, Any] | None:
        if inputs["head"] is None or len(saliency.row) > MAX_TOKENS:
            return None
        maps, largest = self._maps.get(inputs["text"], lambda: self._attention_maps(inputs["text"]))
        block, head = inputs["head"]
        attention = maps[block, head]
        return {
            "head": [block, head],
            "size": len(attention),
            "top": float(largest[block, head]),
            "map": attention.tobytes(),
        }

    def publish(self, value: dict[str, Any] | None) -> dict[str, Any]:
        return {"_attention": value or {}}

    def _attention_maps(self, text: Text) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """The maps of all heads as shares of their largest weights, [block, head, query, key], and these weights."""
        record = trace.record(self._subject, self._subject.encode(text), needs={"attention"})
        maps = np.stack([record.attention[block][0].float().cpu().numpy() for block in range(self._subject.depth)])
        largest = maps.max((-1, -2))
        return np.rint(255 * maps / largest[..., None, None]).astype(np.uint8), largest


@checked
class Heads(CachedView, HeadTraits):
    """Which heads pass relevance on, and what each attends to.

    `kind` chooses among the heads selected for syntax or position, `toggled` lists heads [block, head] that are
    switched the other way, and `mask` is the result of both. With a `study`, `synt` and `pos` are its thresholds.
    `head` is the one whose attention is shown, from the selected tokens or from all. A HeadMask or HeadStudy is shown
    without a text.

    >>> import nbsal
    >>> view = Heads(nbsal.load("demo/reviews"), text="A warm and funny film.", kind="none", toggled=[[2, 0]])
    >>> view.mask, view.wait().result.prediction
    (HeadMask(1 of 72 heads: nsubj 0, obj 0, amod 0, advmod 0, positional 0), 'positive')
    """

    reading_inputs = (*ShadedView.inputs, *SWITCH_INPUTS)
    inputs = (*reading_inputs, "head")
    accepts = (HeadStudy, HeadMask)
    _esm = asset("heads.js")
    _css = asset("heads.css")

    def __init__(self, source: Any, text: Any = None, *, study: HeadStudy | None = None, **settings: Any) -> None:
        self.study = source if isinstance(source, HeadStudy) else study
        super().__init__(source, text, **settings)

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
        self.switches = switches_of(explainer, self.study)
        self.parts = {"grid": GridPart(self.switches), "attention": AttentionPart(explainer.subject)}
        return super().from_explainer(explainer) | {"_choices": mask_lrp_choices(explainer)}

    def from_result(self, result: Any) -> dict[str, Any]:
        self.switches = HeadSwitches(result if isinstance(result, HeadMask) else None, self.study)
        return {}

    @property
    def grid(self) -> HeadGrid | None:
        """The grid on display."""
        return self.result if isinstance(self.result, HeadGrid) else self.part("grid")

    def explainer_for(self, inputs: dict[str, Any]) -> Explainer:
        return masked_explainer(self.explainer, self.switches, inputs)

    def compute(self, inputs: dict[str, Any], job: jobs.Job) -> Any:
        return super().compute(inputs, job) if self.plain_result is None else self.switches.grid(inputs)

    def publish(self, result: Any) -> dict[str, Any]:
        return {"_heads": grid_traits(result)} if isinstance(result, HeadGrid) else super().publish(result)

    def render_html(self) -> str:
        text = "" if isinstance(self.result, HeadGrid) else self.result.to_html()
        return text + ("" if self.grid is None else self.grid.to_html())

    def render_png(self) -> bytes:
        return grid_png(self.result, self.grid)


def model_mask(subject: Subject, study: HeadStudy | None) -> HeadMask:
    """The mask to begin with: that of the study, or the subject's own, or an empty one."""
    if study is not None:
        return study.mask()
    if subject.mask is not None:
        return subject.mask  # type: ignore[no-any-return]
    return HeadMask.from_array(np.zeros((subject.depth, subject.heads)))


def switches_of(explainer: Explainer, study: HeadStudy | None) -> HeadSwitches:
    """The switches that begin with the mask of the explainer's method, or with that of its model."""
    mask = getattr(explainer.method, "mask", None) if study is None else None
    return HeadSwitches(mask if mask is not None else model_mask(explainer.subject, study), study)


def masked_explainer(explainer: Explainer, switches: HeadSwitches, inputs: dict[str, Any]) -> Explainer:
    """The explainer with the current settings and, if its method is one of Mask-LRP's, with the heads that are on."""
    method = explainer.method if inputs["method"] == explainer.method.name else catalogue.create(inputs["method"])
    if isinstance(method, MaskLRP):
        return Explainer(explainer.subject, replace(method, mask=switches.mask(inputs)), long=explainer.long)
    return with_settings(explainer, inputs)


def mask_lrp_choices(explainer: Explainer) -> dict[str, Any]:
    """What the page may choose from if it offers only the methods that use a head mask."""
    names = {name for name in catalogue.names() if isinstance(catalogue.create(name), MaskLRP)}
    choices = view_choices(explainer)
    methods = [entry for entry in choices["methods"] if entry[0] in names | {explainer.method.name}]
    return choices | {"methods": methods}


def grid_traits(grid: HeadGrid) -> dict[str, Any]:
    """A grid as the page reads it."""
    return {
        "kinds": grid.kinds(),
        "about": grid.descriptions(),
        "on": grid.initial.selected.astype(int).tolist(),
        "studied": grid.study is not None,
    }


def grid_png(result: Saliency | HeadGrid, grid: HeadGrid | None) -> bytes:
    """A text and the grid of heads below it as PNG."""
    texts = [scored_text(result)] if isinstance(result, Saliency) else []
    if grid is None:
        return text_lines.png(text_lines.draw(texts))
    blocks, heads = grid.roles.shape
    height = CELL * (blocks + 3)
    figure = text_lines.draw(texts, width=max(text_lines.WIDTH, CELL * (heads + 3)), notes=grid.notes(), below=height)
    width, total = figure.get_size_inches()
    cell = CELL / width, CELL / total
    grid.plot(figure.add_axes((3 * cell[0], 2 * cell[1], heads * cell[0], blocks * cell[1])))
    return text_lines.png(figure)
